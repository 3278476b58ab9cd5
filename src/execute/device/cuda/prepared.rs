//! Work that is ready to be submitted to a stream.

#![expect(unsafe_code, reason = "the driver is a C library")]

use cudarc::driver::sys;

use super::driver::Gpu;
use super::error::{CudaError, Doing};
use super::kernels::{Function, Kernels};
use super::ranges;
use super::stream::Stream;
use super::work::{Access, Work};

/// Work with the function of its kernel, if it is one.
#[derive(Debug)]
pub struct Prepared {
    work: Work,
    function: Option<Function>,
}

impl Prepared {
    /// `work`, whose kernel is one of `kernels`.
    ///
    /// # Errors
    /// If the kernel cannot be made.
    pub fn new(work: Work, kernels: &Kernels) -> Result<Self, CudaError> {
        let function = match &work {
            Work::Kernel(kernel) => Some(kernels.function(kernel)?),
            Work::Product(_) | Work::Copy { .. } | Work::Fill { .. } => None,
        };
        Ok(Self { work, function })
    }

    /// The name of its kernel, if it has one.
    pub fn kernel(&self) -> Option<&'static str> {
        match &self.work {
            Work::Kernel(kernel) => Some(kernel.launch.kernel),
            Work::Product(_) => Some("cublasLt"),
            Work::Copy { .. } | Work::Fill { .. } => None,
        }
    }

    /// Is done on `gpu` after all that was submitted to `stream` before.
    ///
    /// # Errors
    /// What the driver says.
    pub fn submit(&self, stream: &Stream, gpu: &Gpu) -> Result<(), CudaError> {
        let stream = stream.handle;
        match &self.work {
            Work::Copy { from, to } => {
                debug_assert_eq!(from.bytes, to.bytes, "a copy's sides");
                ranges::tell(stream, &[(*from, Access::Read), (*to, Access::Write)]);
                // SAFETY: both lie in memory of ranks, and the program keeps their users apart.
                unsafe { sys::cuMemcpyAsync(to.address, from.address, to.bytes as usize, stream) }
                    .result()
                    .doing("a copy")
            }
            Work::Fill { to, value } => {
                ranges::tell(stream, &[(*to, Access::Write)]);
                // SAFETY: as above.
                unsafe { sys::cuMemsetD8Async(to.address, *value, to.bytes as usize, stream) }
                    .result()
                    .doing("a fill")
            }
            Work::Product(product) => {
                ranges::tell(stream, &product.touches());
                // SAFETY: its operands lie in memory of ranks, as above.
                let submitted = unsafe { product.submit(stream) };
                // Where the GPU has ended the run, the driver says why and the library does not.
                submitted.map_err(|error| gpu.free().err().unwrap_or(error))
            }
            Work::Kernel(kernel) => {
                let Some(function) = &self.function else { unreachable!("kernels are prepared with theirs") };
                // SAFETY: as above.
                unsafe { function.launch(kernel, stream) }
            }
        }
    }
}
