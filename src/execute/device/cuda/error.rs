//! What can go wrong with a GPU.

use std::ffi::CStr;

use cudarc::driver::sys::CUresult;
use cudarc::driver::{DriverError, result};
use thiserror::Error;

use super::compile::error::CompileError;
use crate::units::Bytes;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CudaError {
    #[error(
        "no CUDA driver: the loader finds no libcuda.so.1, which NVIDIA's driver brings; on a machine without a GPU, \
         --device cpu takes its cores"
    )]
    NoDriver,
    #[error(
        "libcuda is the stub that CUDA toolkits bring to link against, and no driver: leave the folder `stubs` out of \
         LD_LIBRARY_PATH"
    )]
    Stub,
    #[error("the CUDA driver is of version {found}, and {needed} or newer is needed")]
    OldDriver { found: String, needed: &'static str },
    #[error("the CUDA driver finds no GPU")]
    NoDevice,
    #[error("{name} has compute capability {found}; the kernels need 8.0 or newer")]
    OldDevice { name: String, found: String },
    #[error(
        "the plan has {ranks} ranks, a GPU each, and {found}; `--launch` prints the script that starts a process for each \
         GPU of several machines, and --share-device runs all ranks on one GPU"
    )]
    FewDevices { ranks: u64, found: String },
    /// A call of the driver that failed; `action` says what for.
    #[error("{action}: the CUDA driver answers {code} ({meaning})")]
    Driver { action: String, code: u32, meaning: String },
    #[error("{action}: cublasLt answers {code} ({meaning})")]
    CublasLt { action: &'static str, code: i32, meaning: &'static str },
    /// Why the library that joins GPUs cannot be used, and what to do.
    #[error("{0}")]
    NoNccl(String),
    #[error("{action}: NCCL answers {code} ({meaning})")]
    Nccl { action: String, code: i32, meaning: String },
    #[error(
        "NCCL is {} at rank {} and {} at rank {}: all ranks need the same release",
        versions[0], ranks[0], versions[1], ranks[1]
    )]
    OtherNccl { ranks: [usize; 2], versions: [String; 2] },
    #[error(
        "ranks {} and {} are on one GPU: each rank needs a GPU of its own. Start as many processes on a host as it has GPUs, \
         and let each see all of them (`--gpus-per-node`, not `--gpus-per-task`)",
        ranks[0], ranks[1]
    )]
    SameGpu { ranks: [usize; 2] },
    /// Nothing can be done on the GPU any more.
    #[error("the GPU has ended the run with {code} ({meaning}) {}", places(at))]
    Ended { code: u32, meaning: String, at: Vec<String> },
    #[error("{asked} of memory of {name} cannot be had: {free} are free; another process may hold the rest")]
    Memory { name: String, asked: Bytes, free: Bytes },
    /// Memory that no arena is: kernels' code, graphs, what the libraries keep.
    #[error(
        "{action}: no memory is left. Beside the ranks' arenas the driver takes some for kernels, graphs and cublasLt, so \
         a plan must leave room{}",
        free.map_or_else(String::new, |free| format!("; {free} of the GPU's memory is free"))
    )]
    Full { action: String, free: Option<Bytes> },
    /// Of the host, for the GPU to copy from and to by itself.
    #[error(
        "{asked} of the host's memory cannot be pinned: there is not so much, or a process may not lock so much of it \
         (`ulimit -l`)"
    )]
    Unpinned { asked: Bytes },
    #[error("{0}")]
    Compile(#[from] CompileError),
    #[error("kernel {kernel} takes {found} arguments and is given {given}; this is a bug of meshwright")]
    Arguments { kernel: String, found: usize, given: usize },
    #[error(
        "argument {index} of kernel {kernel} has {found} bytes and is given {given}; this is a bug of meshwright"
    )]
    ArgumentSize { kernel: String, index: usize, found: usize, given: usize },
    #[error("{0} on CUDA")]
    Unsupported(String),
    #[error("{what} needs {needed} of scratch, and programs have {scratch}")]
    Scratch { what: &'static str, needed: Bytes, scratch: Bytes },
    #[error(
        "kernel {kernel} would run on {blocks:?} blocks; {most} in the second and third dimension at most"
    )]
    Grid { kernel: String, blocks: [u32; 3], most: u32 },
    #[error("{what} has {count} elements, and kernels count to {}", u32::MAX)]
    Size { what: &'static str, count: usize },
}

fn places(at: &[String]) -> String {
    match at {
        [] => "in a step whose instructions were not told apart; a run of one step tells them".to_owned(),
        [one] => format!("in {one}"),
        several => format!("in one of these: {}", several.join("; ")),
    }
}

/// What the driver answered to `action`.
pub fn failure(error: DriverError, action: impl FnOnce() -> String) -> CudaError {
    if is_lack_of_memory(error) {
        return full(action());
    }
    let text = |text: Result<&CStr, DriverError>| {
        text.map_or_else(|_| String::from("unknown"), |text| text.to_string_lossy().into_owned())
    };
    let meaning = format!("{}: {}", text(error.error_name()), text(error.error_string()));
    CudaError::Driver { action: action(), code: error.0 as u32, meaning }
}

/// Whether the driver finds no memory, of the GPU or of the host.
pub fn is_lack_of_memory(error: DriverError) -> bool {
    error.0 == CUresult::CUDA_ERROR_OUT_OF_MEMORY
}

/// There was no memory left for `action`.
pub fn full(action: String) -> CudaError {
    let free = result::mem_get_info().ok().map(|(free, _)| Bytes(free as u64));
    CudaError::Full { action, free }
}

/// Names what was done when the driver said no.
pub trait Doing<T> {
    fn doing(self, action: &str) -> Result<T, CudaError>;
}

impl<T> Doing<T> for Result<T, DriverError> {
    fn doing(self, action: &str) -> Result<T, CudaError> {
        self.map_err(|error| failure(error, || action.to_owned()))
    }
}
