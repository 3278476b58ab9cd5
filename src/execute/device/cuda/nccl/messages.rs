//! Messages between pipeline ranks that have a GPU each: the receiver posts room for each, in the order in which they are
//! sent.

use super::super::error::CudaError;
use super::super::queue::{CudaQueue, Done};
use super::super::work::Work;
use super::links::Links;
use crate::execute::call::View;

fn no_link(rank: usize) -> CudaError {
    CudaError::Unsupported(format!("messages of rank {rank}, which the plan does not name,"))
}

impl CudaQueue<'_> {
    /// Sends `from`, once `to` has room for it: its `inbox`, where that is this rank itself.
    pub(in super::super) fn send_to(&self, links: &Links, to: usize, from: View, inbox: View) -> Done {
        if to == links.rank {
            return self.keep_for_itself(from, inbox);
        }
        links.to(to).ok_or_else(|| no_link(to))?.send(&self.on, 1, self.encoder.memory.at(from))
    }

    /// Puts `from` into an inbox of this rank, once it is empty: the instruction that last emptied it was submitted before.
    fn keep_for_itself(&self, from: View, inbox: View) -> Done {
        let (from, to) = (self.encoder.memory.at(from), self.encoder.memory.at(inbox));
        let state = self.inboxes.at(to.address)?;
        state.empty.wait(&self.on, self.pass)?;
        self.perform_now(Work::Copy { from, to })?;
        Ok(state.full.record(&self.on, self.pass)?)
    }

    /// Receives the next message of `from` to `inbox`, once it is empty.
    pub(in super::super) fn post_to(&self, links: &Links, from: usize, inbox: View) -> Done {
        let incoming = links.from(from).ok_or_else(|| no_link(from))?;
        let at = self.encoder.memory.at(inbox);
        let state = self.inboxes.at(at.address)?;
        state.empty.wait(&incoming.stream, self.pass)?;
        incoming.communicator.receive(&incoming.stream, 0, at)?;
        Ok(state.full.record(&incoming.stream, self.pass)?)
    }

    /// Takes a message that was posted out of `inbox`.
    pub(in super::super) fn take(&self, inbox: View, to: View) -> Done {
        let (from_at, to_at) = (self.encoder.memory.at(inbox), self.encoder.memory.at(to));
        let state = self.inboxes.at(from_at.address)?;
        state.full.wait(&self.on, self.pass)?;
        self.perform_now(Work::Copy { from: from_at, to: to_at })?;
        Ok(state.empty.record(&self.on, self.pass)?)
    }
}
