//! Floor 13: the embedded backend: performs step programs on ranks of this machine.

pub mod comm;
pub mod data;
pub mod element;
pub mod kernels;
pub mod pool;
