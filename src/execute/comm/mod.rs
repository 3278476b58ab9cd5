//! Communication between ranks: what a group of ranks can do together, and the form in which ranks are threads of
//! this process.
//!
//! A rank has several streams, each a thread of its own, and two of them may be inside collectives at once. So an
//! [`Endpoint`] belongs to one rank, group and stream; a [`Mailbox`] sends and receives for one rank. [`Hub`] hands
//! both out. Members call the same operations in the same order; who does otherwise is told so.

mod call;
mod error;
mod hub;
mod mailbox;
mod rendezvous;
mod sum;
mod threads;

#[cfg(test)]
mod tests;

use std::ops::Range;

pub use call::{Call, Channel, Operation, Place, Tag, View};
pub use error::{CommError, Mismatch};
pub use hub::Hub;
pub use mailbox::Mailbox;
pub use threads::Endpoint;

use super::element::Element;
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

    pub const fn scaled(wire: ElementType, scale: f64) -> Self {
        Self { wire, scale: Some(scale) }
    }
}

/// The elements of a slice of `elements` that member `member` of `members` owns: shards of ⌈elements/members⌉, the
/// last ones shorter or empty.
pub fn shard(elements: usize, members: usize, member: usize) -> Range<usize> {
    let share = elements.div_ceil(members);
    (member * share).min(elements)..((member + 1) * share).min(elements)
}

/// The collectives of one group of ranks, called from one stream of one of them.
///
/// Every method blocks until this member's part is done. Errors: [`CommError::Length`] before anybody is told,
/// [`CommError::Mismatch`] where members disagree, [`CommError::Aborted`] once any rank gave up. After a mismatch or
/// an abort the group cannot be used again.
pub trait Communicator {
    /// The ranks of the group; a member's index is its place here.
    fn members(&self) -> &[usize];

    /// The index of the caller.
    fn member(&self) -> usize;

    /// `data` becomes the sum of all members' `data`.
    fn all_reduce<T: Element>(&mut self, data: &mut [T], reduction: Reduction) -> Result<(), CommError>;

    /// The caller's [`shard`] of `data` becomes the sum of all members' `data` there; the rest stays as it was.
    fn reduce_scatter<T: Element>(&mut self, data: &mut [T], reduction: Reduction) -> Result<(), CommError>;

    /// `own` becomes the caller's [`shard`] of the sum of all members' `whole`.
    fn reduce_scatter_into<T: Element>(
        &mut self,
        whole: &[T],
        own: &mut [T],
        reduction: Reduction,
    ) -> Result<(), CommError>;

    /// Each member's [`shard`] of `data` is copied to all members' `data`.
    fn all_gather<T: Element>(&mut self, data: &mut [T]) -> Result<(), CommError>;

    /// `whole` becomes all members' `own`, each at its [`shard`].
    fn all_gather_from<T: Element>(&mut self, own: &[T], whole: &mut [T]) -> Result<(), CommError>;

    /// Block j of member i's `send` becomes block i of member j's `receive`, blocks being equal.
    fn all_to_all<T: Element>(&mut self, send: &[T], receive: &mut [T]) -> Result<(), CommError>;

    /// `receive` becomes the `send` of the member before; the first comes after the last.
    fn shift<T: Element>(&mut self, send: &[T], receive: &mut [T]) -> Result<(), CommError>;

    /// `data` becomes the `data` of member `root`.
    fn broadcast<T: Element>(&mut self, root: usize, data: &mut [T]) -> Result<(), CommError>;

    /// Nobody returns before all have called.
    fn barrier(&mut self) -> Result<(), CommError>;

    /// Calls `take(member, its send)` for every member in order while all slices hold still. `take` must not
    /// communicate.
    fn exchange<T: Element>(&mut self, send: &[T], take: impl FnMut(usize, &[T])) -> Result<(), CommError>;
}
