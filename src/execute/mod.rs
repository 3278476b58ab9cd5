//! Floor 13: the embedded backend: performs step programs on ranks of this machine.

pub mod comm;
pub mod element;
pub mod kernels;
pub mod matrix;
pub mod pool;
pub mod vector;
