//! The operators on the CPU: pure functions over slices, one file an operator, forward and backward by hand.

pub mod activation;
pub mod adamw;
pub mod attention;
mod blocks;
pub mod cross_entropy;
pub mod dropout;
mod each;
pub mod embedding;
pub mod gemm;
pub mod gradient_norm;
pub mod linear;
mod multiply;
pub mod norm;
mod packing;
pub mod quantise;
pub mod residual;
pub mod rotary;
pub mod routing;
mod shared;
pub mod tile;
#[cfg(test)]
mod trial;
