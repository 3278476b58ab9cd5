//! The operators on the CPU: pure functions over slices, one file an operator, forward and backward by hand.

pub mod gemm;
pub mod linear;
#[cfg(test)]
mod trial;
