//! The operators on the CPU: pure functions over slices, one file an operator, forward and backward by hand.

pub mod attention;
pub mod rotary;
pub mod routing;
pub mod activation;
pub mod dropout;
pub mod gemm;
pub mod linear;
pub mod norm;
pub mod residual;
#[cfg(test)]
mod trial;
