//! Floor 8: from a problem to the strategies worth running: all legal ones counted, bounded, priced, the best played.

mod problem;
pub mod request;

pub use problem::{Candidate, Problem};
pub use request::{Failure, Objective, Outcome, Progress, Request};
