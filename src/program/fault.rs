//! What may be wrong with a program.

use thiserror::Error;

use crate::program::instruction::{Message, Task};

/// An instruction in a message: rank, call, number in the call's template, and what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub rank: u32,
    pub call: u32,
    pub index: u32,
    pub task: Task,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { rank, call, index, task } = self;
        write!(f, "rank {rank}, call {call}, instruction {index} ({task:?})")
    }
}

/// What is wrong with a program.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    #[error("rank {rank} sends {message:?} for micro-batch {micro} and nobody receives it")]
    Unreceived { rank: u32, message: Message, micro: u32 },
    #[error("rank {rank} waits for {message:?} for micro-batch {micro}, which nobody sends")]
    Unsent { rank: u32, message: Message, micro: u32 },
    #[error("{at} waits for instruction {waits}, which is not before it")]
    WaitsForward { at: Place, waits: u32 },
    #[error("{at}: {buffer} is {what}")]
    Buffer { at: Place, buffer: &'static str, what: &'static str },
    #[error("{later} does not wait for {earlier}: {why}")]
    Unordered { earlier: Box<Place>, later: Box<Place>, why: String },
    #[error("rank {rank}: {count} buffers are never freed, {buffer} among them")]
    Leak { rank: u32, count: usize, buffer: &'static str },
    #[error(
        "rank {rank} stops at call {call}, instruction {index}: the ranks wait for each other in a circle"
    )]
    Deadlock { rank: u32, call: u32, index: u32 },
}
