//! What a machine has of CUDA: the driver, the compiler of kernels, the library of products, the GPUs, and which of them
//! reach one another.

use std::path::PathBuf;

use cudarc::driver::{result, sys};
use serde::Serialize;

use super::compile::Compiler;
use super::cublas_lt::{self, Installed};
use super::driver::{self, Gpu, is_capable};
use super::error::{CudaError, Doing};
use super::nccl::Nccl;
use crate::units::Bytes;

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Survey {
    pub libraries: Vec<LibraryFacts>,
    pub devices: Vec<DeviceFacts>,
    pub links: Vec<LinkFacts>,
}

/// A library that CUDA ranks need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LibraryFacts {
    pub name: &'static str,
    pub needed_for: &'static str,
    /// Ranks run without it.
    pub optional: bool,
    /// None where it is missing or cannot be used.
    pub version: Option<String>,
    /// The file that it was opened from.
    pub file: Option<PathBuf>,
    /// What is wrong, and where it was looked for.
    pub problem: Option<String>,
}

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceFacts {
    pub index: usize,
    pub name: String,
    pub compute_capability: String,
    pub multiprocessors: u32,
    pub memory_bytes: Bytes,
    /// None where no context can be made on it.
    pub free_bytes: Option<Bytes>,
    /// Why ranks cannot run on it; none if they can.
    pub problem: Option<String>,
}

/// Two GPUs and how one reads the other's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LinkFacts {
    pub from: usize,
    pub to: usize,
    pub peer_access: bool,
    /// As the driver ranks links; 0 is the fastest of this machine.
    pub performance_rank: i32,
}

impl Survey {
    /// Of this machine. What is missing is part of it, not an error.
    pub fn take() -> Self {
        let version = driver::version();
        let compiler = Compiler::from_environment(version);
        let nvrtc = compiler.nvrtc();
        let compiles = nvrtc.is_ok() || compiler.has_kept();
        let nvrtc = LibraryFacts {
            name: "NVRTC",
            needed_for: "compiling kernels that are not in the cache yet",
            optional: false,
            version: nvrtc.as_ref().ok().map(|nvrtc| nvrtc.version().to_string()),
            file: nvrtc.as_ref().ok().and_then(|nvrtc| nvrtc.file()),
            problem: nvrtc.err().map(|error| error.to_string()),
        };
        let installed = cublas_lt::installed(version);
        let cublas_lt = LibraryFacts {
            name: "cublasLt",
            needed_for: "products of matrices, which are slower without",
            optional: true,
            version: installed.as_ref().ok().map(Installed::version),
            file: installed.as_ref().ok().and_then(Installed::file),
            problem: installed.err(),
        };
        let nccl = Nccl::find();
        let nccl = LibraryFacts {
            name: "NCCL",
            needed_for: "several GPUs, each with a rank",
            optional: true,
            version: nccl.as_ref().ok().map(Nccl::version),
            file: nccl.as_ref().ok().and_then(Nccl::file),
            problem: nccl.err().map(|error| error.to_string()),
        };
        let counted = driver::count();
        let driver = LibraryFacts {
            name: "libcuda",
            needed_for: "all that runs on a GPU",
            optional: false,
            version: version.map(driver::written),
            file: None,
            problem: counted.as_ref().err().map(ToString::to_string),
        };
        let devices: Vec<DeviceFacts> =
            (0..counted.unwrap_or_default()).filter_map(|index| device(index, compiles).ok()).collect();
        let links = links(devices.len()).unwrap_or_default();
        Self { libraries: vec![driver, nvrtc, cublas_lt, nccl], devices, links }
    }
}

/// The names that the driver gives the GPUs.
pub fn cards() -> Vec<String> {
    let count = driver::count().unwrap_or_default();
    (0..count).filter_map(|index| driver::facts(index).ok()).map(|facts| facts.name).collect()
}

fn device(index: usize, has_kernels: bool) -> Result<DeviceFacts, CudaError> {
    let facts = driver::facts(index)?;
    let free = Gpu::open(index).and_then(|gpu| gpu.free());
    let lacks_kernels = "there is neither NVRTC nor a cache of compiled kernels";
    let problem = match &free {
        Err(error) => Some(error.to_string()),
        Ok(_) if !is_capable(facts.capability) => Some("its compute capability is below 8.0".to_owned()),
        Ok(_) if !has_kernels => Some(lacks_kernels.to_owned()),
        Ok(_) => None,
    };
    Ok(DeviceFacts {
        index,
        name: facts.name,
        compute_capability: format!("{}.{}", facts.capability.0, facts.capability.1),
        multiprocessors: facts.multiprocessors,
        memory_bytes: facts.total,
        free_bytes: free.ok(),
        problem,
    })
}

/// Between each two of `count` GPUs.
fn links(count: usize) -> Result<Vec<LinkFacts>, CudaError> {
    let mut links = Vec::new();
    for from in 0..count {
        for to in (0..count).filter(|to| *to != from) {
            use sys::CUdevice_P2PAttribute as Attribute;
            let [one, other] =
                [from, to].map(|index| result::device::get(index as i32).doing("opening a GPU"));
            let (one, other) = (one?, other?);
            let ask = |attribute| {
                let mut value = 0;
                // SAFETY: two devices of the driver's, and a place for a number.
                #[expect(unsafe_code, reason = "the driver is a C library")]
                unsafe { sys::cuDeviceGetP2PAttribute(&raw mut value, attribute, one, other) }
                    .result()
                    .doing("a link between GPUs")?;
                Ok::<i32, CudaError>(value)
            };
            links.push(LinkFacts {
                from,
                to,
                peer_access: ask(Attribute::CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED)? != 0,
                performance_rank: ask(Attribute::CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK)?,
            });
        }
    }
    Ok(links)
}
