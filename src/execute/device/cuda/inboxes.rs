//! When messages between ranks that share a GPU were put into their places and taken out of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::error::CudaError;
use super::stream::{Event, Timing};

/// When an inbox was last filled, and last emptied.
pub struct Inbox {
    pub full: Event,
    pub empty: Event,
}

/// The inboxes of all ranks, by where they lie.
#[derive(Default)]
pub struct Inboxes(Mutex<HashMap<u64, Arc<Inbox>>>);

impl Inboxes {
    /// The inbox at an address.
    ///
    /// # Errors
    /// What the driver says.
    pub fn at(&self, address: u64) -> Result<Arc<Inbox>, CudaError> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(inbox) = all.get(&address) {
            return Ok(Arc::clone(inbox));
        }
        let inbox = Inbox { full: Event::new(Timing::None)?, empty: Event::new(Timing::None)? };
        Ok(Arc::clone(all.entry(address).or_insert(Arc::new(inbox))))
    }
}
