//! Runs the CUDA kernels of Meshwright for their tests: on an emulator that checks every access, or on a real GPU.

mod arguments;
mod cache;
pub mod cases;
pub mod compare;
/// The compiler that ships with the kernels.
#[path = "../../../src/execute/device/cuda/compile/mod.rs"]
#[expect(dead_code, reason = "the runner finds caches and sources otherwise")]
mod compile;
mod compiler;
mod emulator;
mod fault;
mod gpu;
/// The launch geometry that ships with the kernels.
#[path = "../../../src/execute/device/cuda/launch/mod.rs"]
pub mod launch;
pub mod listed;
mod plain;
mod ptx;
mod real;
pub mod roofline;
pub mod run;
mod translate;

pub use cases::Case;
pub use compile::{cache as kept, nvrtc, search, sources};
pub use emulator::{Access, Counted, Emulator, Flops, Permits, Traffic};
pub use fault::Fault;
pub use gpu::{Argument, Buffer, Gpu, Module, Order};
pub use launch::{Launch, Source};
pub use plain::Plain;
pub use ptx::Parameter;
pub use translate::Frame;
