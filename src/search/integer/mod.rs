//! Choices of how many blocks keep which checkpoint mode, as integer programs with exact answers.
//!
//! - [`modes()`]: the like blocks of one pipeline rank, whose number is known
//! - [`joint()`]: cuts and modes of all ranks at once, for blocks that are all alike
//! - [`table()`]: the same without a solver
//!
//! The first two hand small mixed-integer programs to a solver, in numbers of about 1, and trust nothing that it says
//! but which counts to look at: room and time are reckoned anew from whole counts (`exact`). So what is returned always
//! fits, and takes the least time to about a millionth, which is what a solver can tell apart.
//!
//! What the solver cannot settle is [`Refused`] with its reason. Its patience is wall-clock time, the one limit that
//! the solvers share: a case at the edge of it may be answered on one machine and refused on another.

mod exact;
mod joint;
mod modes;
mod table;
#[cfg(test)]
mod tests;

pub use joint::{Joint, JointRank, joint};
pub use modes::{Kind, modes};
pub use table::table;

/// What one block costs in one checkpoint mode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mode {
    /// Bytes that it keeps on the device while its micro-batches are in flight.
    pub bytes: f64,
    /// Seconds that it takes in a step.
    pub seconds: f64,
}

/// How many blocks keep which mode: by kind or rank, then by mode.
pub type Counts = Vec<Vec<u32>>;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refused {
    /// A number is negative, infinite or none at all; a room may be negative or infinite.
    #[error("{field} is {value}, which it cannot be")]
    Number { field: &'static str, value: f64 },
    /// More than the solver can be trusted to end on.
    #[error("ranks x modes x blocks are {size}; the solver settles {most} at most")]
    Size { size: usize, most: usize },
    /// The solver did not end in this many seconds.
    #[error("the solver did not end in {seconds} s")]
    Late { seconds: f64 },
    /// The solver's answers overran the room within its tolerance, and this many parts did not settle it.
    #[error("the solver overran the room in each of {parts} parts")]
    Unsettled { parts: usize },
    /// The solver failed, in its own words.
    #[error("the solver failed: {0}")]
    Solver(String),
}

/// Refuses a number that no formula here is meant for.
fn legal(field: &'static str, value: f64) -> Result<(), Refused> {
    if value.is_finite() && value >= 0.0 { Ok(()) } else { Err(Refused::Number { field, value }) }
}

/// Refuses a room that is no number. One below nothing is a number: nothing fits there.
fn ordered(field: &'static str, value: f64) -> Result<(), Refused> {
    if value.is_nan() { Err(Refused::Number { field, value }) } else { Ok(()) }
}
