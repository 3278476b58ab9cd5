//! Floor 8: from a problem to the strategies worth running: all legal ones counted, bounded, priced, the best played.

mod advice;
mod bounding;
mod floor;
mod forms;
mod load;
mod state_floor;
pub mod axes;
pub mod closed;
mod inner;
mod ladder;
mod map;
mod problem;
mod rank;
pub mod request;
mod run;
mod solve;
mod space;
mod waves;

pub use problem::{Candidate, HalfWidths, Problem, ProcessMemory};
pub use request::{Account, Failure, Objective, Outcome, Progress, Request};
pub use run::search;
