//! Floor 13: the embedded backend: performs step programs on ranks of this machine.

pub mod element;
pub mod kernels;
pub mod pool;
pub mod weights;
