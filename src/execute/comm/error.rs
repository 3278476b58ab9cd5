//! Why ranks could not communicate.

use thiserror::Error;

use super::{Channel, Operation, Place, View};
use crate::units::ElementType;

/// Two ranks that do not do the same.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{place}: ranks disagree: {first}; {second}")]
pub struct Mismatch {
    pub place: Place,
    pub first: View,
    pub second: View,
}

/// Why an operation did not happen.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum CommError {
    #[error(transparent)]
    Mismatch(Box<Mismatch>),
    /// A rank gave up; all that wait are told.
    #[error("rank {rank} stopped the run: {message}")]
    Aborted { rank: usize, message: String },
    /// A slice of the caller has not the length that the other one asks for.
    #[error("{operation}: {slice} has {elements} elements; {expected} would do")]
    Length { operation: Operation, slice: &'static str, elements: usize, expected: usize },
    #[error("elements cannot travel as {wire}; fp64, fp32, bf16 and fp16 can")]
    Wire { wire: ElementType },
    #[error("rank {rank} is not in the run; ranks are 0 to {}", ranks.saturating_sub(1))]
    Rank { rank: usize, ranks: usize },
    /// An endpoint was asked for by a rank outside its members, or members are named twice.
    #[error("{channel}: rank {rank} must be once among the members {members:?}")]
    Members { channel: Channel, rank: usize, members: Vec<usize> },
    /// On one channel a rank is in one group, and has one endpoint to it.
    #[error("{channel}: rank {rank} already has a group there, {taken:?}, and asks for {members:?}")]
    Taken { channel: Channel, rank: usize, taken: Vec<usize>, members: Vec<usize> },
    /// What carries bytes between processes did not.
    #[error("{what}: {reason}")]
    Network { what: String, reason: String },
    /// A message was sent twice before it was received once.
    #[error("{place}: sent a second time before it was received")]
    Duplicate { place: Place },
}

/// That a slice of the caller has as many elements as the operation asks for.
///
/// # Errors
/// [`CommError::Length`] if it has not.
pub(super) fn fits(
    operation: Operation,
    slice: &'static str,
    elements: usize,
    expected: usize,
) -> Result<(), CommError> {
    if elements == expected {
        return Ok(());
    }
    Err(CommError::Length { operation, slice, elements, expected })
}
