//! What carries bytes between ranks that are processes of their own, on one host or many.

#![expect(unsafe_code, reason = "bytes go from and to memory that calls name")]

use std::sync::{Arc, OnceLock};

use super::{Channel, CommError};

/// Bytes that go to a member of a group.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub member: usize,
    pub from: *const u8,
    pub bytes: usize,
}

/// Room for the bytes that a member of a group sends.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    pub member: usize,
    pub to: *mut u8,
    pub bytes: usize,
}

/// The processes of a job, as groups of them reach one another.
pub trait Carrier: Send + Sync {
    /// A channel among the ranks `members`, of which this process is one. All members ask for it, and whoever asks for
    /// several asks in one order: that of streams, then of groups.
    ///
    /// # Errors
    /// If the network cannot make it.
    fn wire(&self, channel: Channel, members: &[usize]) -> Result<Box<dyn Wire>, CommError>;
}

/// The processes of a job, as they reach one another, with messages between any two.
pub trait Network: Carrier {
    /// A channel of one stream for the messages of this rank.
    ///
    /// # Errors
    /// If the network cannot make it.
    fn post(&self) -> Result<Box<dyn Post>, CommError>;
}

/// A channel among the members of a group, for one stream of each.
pub trait Wire: Send {
    /// Blocks until all that is `sent` has left its memory and all that is `received` has come. Members that send and
    /// receive agree on how many bytes these are.
    ///
    /// # Safety
    /// Until it returns, nobody else uses the memory that is received to, and nobody writes to what is sent. If it fails,
    /// the memory stays for as long as the process does.
    ///
    /// # Errors
    /// If the network fails, or a rank of the job has.
    unsafe fn exchange(&mut self, sent: &[Sent], received: &[Received]) -> Result<(), CommError>;
}

/// What one stream of a rank sends and receives messages with. A kind of message has one inbox, so a sender waits until
/// its last message of that kind was taken.
pub trait Post: Send {
    /// Blocks until the inbox for this kind of message at rank `to` has room, and the bytes have left.
    ///
    /// # Safety
    /// As for [`Wire::exchange`].
    ///
    /// # Errors
    /// If the network fails, or a rank of the job has.
    unsafe fn send(&mut self, to: usize, kind: u32, bytes: &[u8]) -> Result<(), CommError>;

    /// Opens `inbox` for the next message of this kind from rank `from`.
    ///
    /// # Safety
    /// Nobody else uses the inbox until [`Self::receive`] has returned, or the post is gone.
    ///
    /// # Errors
    /// If the network fails.
    unsafe fn open(&mut self, from: usize, kind: u32, inbox: &mut [u8]) -> Result<(), CommError>;

    /// Blocks until a message is in the open inbox for this kind from rank `from`, and closes it.
    ///
    /// # Errors
    /// If the network fails, or a rank of the job has.
    fn receive(&mut self, from: usize, kind: u32) -> Result<(), CommError>;
}

/// Why all ranks of a job end, once one has failed. Clones are the same alarm.
#[derive(Clone, Debug, Default)]
pub struct Alarm(Arc<OnceLock<CommError>>);

impl Alarm {
    /// Rings, unless it has: whoever waits for another rank is told.
    pub fn ring(&self, rank: usize, message: String) {
        self.0.get_or_init(|| CommError::Aborted { rank, message });
    }

    /// # Errors
    /// Why it rang, if it did.
    pub fn check(&self) -> Result<(), CommError> {
        self.0.get().map_or(Ok(()), |failure| Err(failure.clone()))
    }
}
