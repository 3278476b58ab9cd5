//! Floor 13: the embedded backend: performs step programs on ranks of this machine.

pub mod arena;
pub mod comm;
pub mod counters;
pub mod element;
pub mod error;
pub mod fleet;
pub mod kernels;
pub mod layout;
pub mod mapping;
pub mod matrix;
mod perform;
pub mod placement;
pub mod pool;
pub mod progress;
pub mod rank;
pub mod run;
pub mod state;
pub mod vector;
pub mod weights;
pub mod worker;
