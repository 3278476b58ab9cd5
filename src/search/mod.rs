//! Floor 8: from a problem to the strategies worth running: all legal ones counted, bounded, priced, the best played.

mod advice;
pub mod axes;
pub mod closed;
mod finalists;
mod frame;
mod inner;
mod ladder;
pub mod map;
mod problem;
pub mod request;
mod run;

pub use problem::{Candidate, HalfWidths, Problem, ProcessMemory};
pub use request::{Account, Failure, Objective, Outcome, Progress, Request};
pub use run::search;
