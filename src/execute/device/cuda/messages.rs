//! Messages between pipeline ranks that share a GPU: copies to the receiver's inbox and out of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::driver::{Event, Timing};
use super::error::CudaError;
use super::queue::{CudaQueue, Done};
use super::work::Work;
use crate::execute::call::View;
use crate::execute::comm::Tag;
use crate::execute::storage::Storage;
use crate::program::instruction::Message;
use crate::units::ElementType;

/// When an inbox was last filled, and last emptied.
pub struct Inbox {
    full: Event,
    empty: Event,
}

/// The inboxes of all ranks, by where they lie.
#[derive(Default)]
pub struct Inboxes(Mutex<HashMap<u64, Arc<Inbox>>>);

impl Inboxes {
    fn at(&self, address: u64) -> Result<Arc<Inbox>, CudaError> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(inbox) = all.get(&address) {
            return Ok(Arc::clone(inbox));
        }
        let inbox = Inbox { full: Event::new(Timing::None)?, empty: Event::new(Timing::None)? };
        Ok(Arc::clone(all.entry(address).or_insert(Arc::new(inbox))))
    }
}

impl CudaQueue<'_> {
    /// Into the receiver's inbox. The threads of both ranks agree on whose turn it is; the events make their streams
    /// keep to it.
    pub(super) fn send(&self, to: usize, (message, micro): (Message, u32), from: View, inbox: View) -> Done {
        let (from_at, to_at) = (self.encoder.memory.at(from), self.peers[to].at(inbox));
        let state = self.inboxes.at(to_at.address)?;
        let mut filled = Ok(());
        let fill = || {
            filled = (|| {
                self.on.wait(&state.empty)?;
                self.perform_now(Work::Copy { from: from_at, to: to_at })?;
                state.full.record(&self.on)
            })();
        };
        self.mailbox.send(to, Tag::new((message, micro), self.step), elements(from), fill)?;
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
        let (from_at, to_at) = (self.encoder.memory.at(inbox), self.encoder.memory.at(to));
        let state = self.inboxes.at(from_at.address)?;
        let mut taken = Ok(());
        let take = || {
            taken = (|| {
                self.on.wait(&state.full)?;
                self.perform_now(Work::Copy { from: from_at, to: to_at })?;
                state.empty.record(&self.on)
            })();
        };
        self.mailbox.receive(from, Tag::new((message, micro), self.step), elements(to), take)?;
        Ok(taken?)
    }
}

/// How many elements a message has, and of which type.
fn elements(view: View) -> (usize, ElementType) {
    match view.storage {
        Storage::Number(element) => (view.len(), element),
        Storage::Byte | Storage::Index => unreachable!("messages are of numbers"),
    }
}
