//! When messages between ranks that share a GPU were put into their places and taken out of them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::error::CudaError;
use super::stream::{Event, Stream, Timing};

/// A place in a stream, for those who wait for it in the same pass. What an earlier pass has done is over, and a stream that is
/// captured may not wait for it.
pub struct Turn {
    event: Event,
    pass: AtomicU64,
}

impl Turn {
    fn new() -> Result<Self, CudaError> {
        Ok(Self { event: Event::new(Timing::None)?, pass: AtomicU64::new(0) })
    }

    /// Becomes the end of what was submitted to `stream` in pass `pass`.
    ///
    /// # Errors
    /// What the driver says.
    pub fn record(&self, stream: &Stream, pass: u64) -> Result<(), CudaError> {
        self.event.record(stream)?;
        self.pass.store(pass, Ordering::Release);
        Ok(())
    }

    /// What `stream` is given from now on waits for it, in pass `pass`.
    ///
    /// # Errors
    /// What the driver says.
    pub fn wait(&self, stream: &Stream, pass: u64) -> Result<(), CudaError> {
        if self.pass.load(Ordering::Acquire) == pass { stream.wait(&self.event) } else { Ok(()) }
    }
}

/// When an inbox was last filled, and last emptied.
pub struct Inbox {
    pub full: Turn,
    pub empty: Turn,
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
        let inbox = Inbox { full: Turn::new()?, empty: Turn::new()? };
        Ok(Arc::clone(all.entry(address).or_insert(Arc::new(inbox))))
    }
}
