//! Communication between ranks: what a group of ranks can do together, and the form in which ranks are threads of
//! this process.
//!
//! A rank has several streams, each a thread of its own, and two of them may be inside collectives at once. So an
//! [`Endpoint`] belongs to one rank, group and stream; a [`Mailbox`] sends and receives for one rank. [`Hub`] hands
//! both out. Members call the same operations in the same order; who does otherwise is told so.
//!
//! Where ranks are processes of their own, a [`Network`] carries bytes between them, and a [`ProcessEndpoint`] does the
//! same as an [`Endpoint`], to the bit.
//!
//! A rank may also be [alone](Hub::alone): its operations are the same, on its own data in place of its peers'.

mod absent;
mod call;
mod error;
mod gathering;
mod hub;
mod mailbox;
#[cfg(feature = "mpi")]
pub mod mpi;
mod network;
mod processes;
mod rendezvous;
mod sum;
mod threads;

#[cfg(test)]
mod tests;

use std::ops::Range;

pub use absent::{Peers, small_numbers};
pub use call::{Call, Channel, Operation, Place, Tag, View};
pub use error::{CommError, Mismatch};
pub use gathering::{receive_at_first, send_to_first};
pub use hub::Hub;
pub use mailbox::Mailbox;
pub use network::{Alarm, Carrier, Network, Post, Received, Sent, Wire};
pub use processes::{ProcessEndpoint, SCRATCH};
pub use threads::Endpoint;

use crate::units::ElementType;

/// How contributions are summed: in member order, 0 first, so that every member and every collective gets the
/// same sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reduction {
    /// The type that travels. Where it is narrower than the slices' own, each contribution is rounded to it, the
    /// sum is taken in the wide type of the slices, and the result is rounded to it again.
    pub wire: ElementType,
    /// A factor on the sum, before the result is rounded.
    pub scale: Option<f64>,
}

impl Reduction {
    /// A plain sum that travels as `wire`.
    pub const fn sum(wire: ElementType) -> Self {
        Self { wire, scale: None }
    }
}

/// The elements of a slice of `elements` that member `member` of `members` owns: shards of ⌈elements/members⌉, the
/// last ones shorter or empty.
pub fn shard(elements: usize, members: usize, member: usize) -> Range<usize> {
    let share = elements.div_ceil(members);
    (member * share).min(elements)..((member + 1) * share).min(elements)
}
