//! How a stream of a rank sends and receives messages: into the memory of other ranks of this process, or to other
//! processes.

use super::memory::Memory;
use crate::execute::comm::{Mailbox, Post};

/// What a stream of a rank sends and receives messages with.
pub enum Messages<'r> {
    Threads {
        mailbox: Mailbox,
        /// By rank, memory that messages are put into.
        peers: &'r [Memory<'r>],
    },
    Processes(Box<dyn Post>),
}
