//! Messages between pipeline ranks that share a GPU: copies to the receiver's inbox and out of it.

use super::queue::{CudaQueue, Done, Reach};
use super::work::Work;
use crate::execute::call::View;
use crate::execute::comm::Tag;
use crate::program::instruction::Message;

impl CudaQueue<'_> {
    /// Into the receiver's inbox. The threads of both ranks agree on whose turn it is; the events make their streams
    /// keep to it.
    pub(super) fn send(&self, to: usize, (message, micro): (Message, u32), from: View, inbox: View) -> Done {
        let (mailbox, memories) = match &self.reach {
            Reach::Joined(links) => return self.send_to(links, to, from, inbox),
            Reach::Shared { mailbox, memories } => (mailbox, memories),
        };
        let from_at = self.encoder.memory.at(from);
        let mut filled = Ok(());
        // Nobody calls it where the receiver is absent.
        let fill = || {
            filled = (|| {
                let to_at = memories[to].at(inbox);
                let state = self.inboxes.at(to_at.address)?;
                state.empty.wait(&self.on, self.pass)?;
                self.perform_now(Work::Copy { from: from_at, to: to_at })?;
                state.full.record(&self.on, self.pass)
            })();
        };
        mailbox.send(to, Tag::new((message, micro), self.step), from.message(), fill)?;
        Ok(filled?)
    }

    /// Out of this rank's inbox.
    pub(super) fn receive(
        &self,
        from: usize,
        (message, micro): (Message, u32),
        inbox: View,
        to: View,
    ) -> Done {
        let mailbox = match &self.reach {
            Reach::Joined(_) => return self.take(inbox, to),
            Reach::Shared { mailbox, .. } => mailbox,
        };
        let (from_at, to_at) = (self.encoder.memory.at(inbox), self.encoder.memory.at(to));
        let state = self.inboxes.at(from_at.address)?;
        let mut taken = Ok(());
        let take = || {
            taken = (|| {
                state.full.wait(&self.on, self.pass)?;
                self.perform_now(Work::Copy { from: from_at, to: to_at })?;
                state.empty.record(&self.on, self.pass)
            })();
        };
        mailbox.receive(from, Tag::new((message, micro), self.step), to.message(), take)?;
        Ok(taken?)
    }
}
