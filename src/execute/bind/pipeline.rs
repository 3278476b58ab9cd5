//! Messages between pipeline ranks, and copies between device and host.

use super::{Binder, Done};
use crate::execute::call::{Call, View};
use crate::execute::error::ExecuteError;
use crate::execute::ranks::placement::{Issue, Stages};
use crate::execute::storage::Storage;
use crate::program::instruction::{Holds, Message, Task};
use crate::program::placing::Region;
use crate::strategy::Axis;

impl Binder<'_> {
    /// The peer on whose stage chunk `chunk` is, and the inbox of `message` on rank `at`.
    fn peer(&self, chunk: u32) -> usize {
        self.run.rank_at_stage(self.rank.index, self.run.stage_of_chunk(chunk))
    }

    fn inbox(&self, issue: &Issue, message: Message, at: usize) -> Result<View, ExecuteError> {
        let stage = self.run.mesh.coordinate(at as u64, Axis::Pipeline) as usize;
        let state = self.stages.own(stage).state(Holds::Inbox(message), None);
        let state = self.need(issue, "the inbox of its message", state)?;
        Ok(self.activations(state.device))
    }

    /// Into the receiver's inbox.
    pub(super) fn send(&mut self, issue: &Issue) -> Done {
        let message = self.need(issue, "its message", issue.message)?;
        let to = self.peer(message.to);
        let from = self.activations(self.read(issue, 0)?);
        let inbox = match self.stages {
            Stages::All(_) => self.inbox(issue, message, to)?,
            // It is in the receiver's process, which alone knows where.
            Stages::Own(_) => from,
        };
        self.push(Call::Send { to, message, micro: issue.micro, from, inbox });
        Ok(())
    }

    /// Out of this rank's inbox.
    pub(super) fn receive(&mut self, issue: &Issue) -> Done {
        let message = self.need(issue, "its message", issue.message)?;
        let from = self.peer(message.from);
        let inbox = self.inbox(issue, message, self.rank.index)?;
        let to = self.activations(self.written(issue, 0)?);
        self.push(Call::Receive { from, message, micro: issue.micro, inbox, to });
        Ok(())
    }

    /// The unit's parameters from the host.
    pub(super) fn fetch_parameters(&mut self, issue: &Issue) -> Done {
        let from = View::new(true, self.unit(issue)?.state.parameters, Storage::Byte);
        let to = self.bytes(self.written(issue, 0)?);
        self.push(Call::Copy { from, to });
        Ok(())
    }

    /// What a unit keeps for its backward, to the host; and back.
    pub(super) fn stash(&mut self, issue: &Issue) -> Done {
        let mut offset = issue.host.offset;
        for &region in issue.reads.iter().chain(&issue.writes) {
            let here = self.bytes(region);
            let away = View::new(true, Region { offset, bytes: region.bytes }, Storage::Byte);
            self.push(match issue.task {
                Task::StashActivations => Call::Copy { from: here, to: away },
                _ => Call::Copy { from: away, to: here },
            });
            offset += region.bytes;
        }
        Ok(())
    }
}
