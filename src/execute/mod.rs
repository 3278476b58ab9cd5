//! The embedded backend: performs step programs on ranks of this machine.

mod access;
mod bind;
mod call;
pub mod comm;
pub mod contents;
mod control;
pub mod data;
pub mod device;
pub mod element;
pub mod error;
pub mod fixed_kernel;
pub mod fleet;
pub mod gradients;
pub mod kernels;
pub mod matrix;
pub mod observe;
pub mod pool;
pub mod ranks;
mod room;
pub mod run;
pub mod session;
pub mod slice;
mod storage;
pub mod vector;
pub mod weights;
pub mod worker;
