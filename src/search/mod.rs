//! Floor 8: from a problem to the strategies worth running: all legal ones counted, bounded, priced, the best played.

mod advice;
mod ample;
pub mod axes;
mod bounding;
mod capacity;
pub mod closed;
pub mod explain;
mod floor;
mod forced;
mod forms;
mod inner;
pub mod integer;
mod ladder;
mod leanest;
mod links;
mod load;
pub mod map;
mod modes;
mod occupancy;
mod orders;
mod passes;
mod picks;
mod problem;
mod proof;
mod rank;
pub mod request;
mod run;
mod shares;
mod solve;
mod space;
mod state_floor;
mod state_prices;
mod waves;

pub use problem::{Candidate, HalfWidths, Problem, ProcessMemory};
pub use request::{Account, Failure, Objective, Outcome, Progress, Request};
pub use run::{bound_all, search};
