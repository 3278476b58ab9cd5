//! Memory: blocks of a GPU's, and the host's that is pinned, each given back when it is dropped.

#![expect(unsafe_code, reason = "the driver is a C library")]

use std::ffi::c_void;

use cudarc::driver::{DriverError, result, sys};

use super::driver::Gpu;
use super::error::{CudaError, Doing, is_lack_of_memory};
use super::mapped::Mapped;
use super::stream::Stream;
use crate::units::Bytes;

/// A block of the GPU's memory.
#[derive(Debug)]
pub struct Block {
    pub address: u64,
    pub bytes: usize,
    /// `None` if it is a plain allocation, which NCCL does not register.
    mapped: Option<Mapped>,
}

impl Block {
    /// `bytes` bytes of `gpu`, all zero.
    ///
    /// # Errors
    /// If there are not so many.
    pub fn zeroed(gpu: &Gpu, bytes: usize) -> Result<Self, CudaError> {
        // SAFETY: freed when the block is dropped.
        Self::new(gpu, bytes, || Ok((unsafe { result::malloc_sync(bytes) }?, None)))
    }

    /// The same in memory that may be registered with NCCL, where the GPU has such memory.
    ///
    /// # Errors
    /// As [`Self::zeroed`].
    pub fn shareable(gpu: &Gpu, bytes: usize) -> Result<Self, CudaError> {
        let Some(mapping) = &gpu.mapping else { return Self::zeroed(gpu, bytes) };
        Self::new(gpu, bytes, || {
            let mapped = Mapped::new(mapping, bytes)?;
            Ok((mapped.address, Some(mapped)))
        })
    }

    /// Bytes that [`Self::shareable`] takes for `bytes` bytes of `gpu`.
    pub fn shareable_bytes(gpu: &Gpu, bytes: usize) -> usize {
        gpu.mapping.as_ref().map_or(bytes, |mapping| mapping.rounded(bytes))
    }

    /// Where its memory lies and how much of it there is, if it may be registered.
    pub fn registrable(&self) -> Option<(u64, usize)> {
        self.mapped.as_ref().map(|mapped| (mapped.address, mapped.bytes))
    }

    fn new(
        gpu: &Gpu,
        bytes: usize,
        take: impl FnOnce() -> Result<(u64, Option<Mapped>), DriverError>,
    ) -> Result<Self, CudaError> {
        if bytes == 0 {
            return Ok(Self { address: 0, bytes, mapped: None });
        }
        gpu.bind()?;
        let (address, mapped) = match take() {
            Err(error) if is_lack_of_memory(error) => {
                let (name, asked) = (gpu.facts.name.clone(), Bytes(bytes as u64));
                return Err(CudaError::Memory { name, asked, free: gpu.free().unwrap_or(Bytes::ZERO) });
            }
            other => other.doing("taking memory of a GPU")?,
        };
        let block = Self { address, bytes, mapped };
        // On a stream of its own: to wait for the whole context is an error while another thread captures a graph, and
        // spoils its capture.
        let stream = Stream::new()?;
        // SAFETY: the block was just made, and the stream lives.
        unsafe { result::memset_d8_async(address, 0, bytes, stream.handle) }
            .doing("clearing memory of a GPU")?;
        stream.synchronize()?;
        Ok(block)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.bytes > 0 && self.mapped.is_none() {
            // SAFETY: allocated by `zeroed`, freed once.
            let _ = unsafe { result::free_sync(self.address) };
        }
    }
}

/// Host memory that the GPU copies to and from by itself.
#[derive(Debug)]
pub struct Pinned {
    address: *mut c_void,
}

// SAFETY: only a number to the driver.
unsafe impl Send for Pinned {}
// SAFETY: as above.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// Pins memory of this process.
    ///
    /// # Safety
    /// It stays allocated until this is dropped.
    ///
    /// # Errors
    /// If the system does not allow so much of it.
    pub unsafe fn new(address: *mut u8, bytes: usize) -> Result<Self, CudaError> {
        const PORTABLE: u32 = 1;
        let address = address.cast();
        // SAFETY: as the caller vouches.
        match unsafe { sys::cuMemHostRegister_v2(address, bytes, PORTABLE) }.result() {
            Err(error) if is_lack_of_memory(error) => Err(CudaError::Unpinned { asked: Bytes(bytes as u64) }),
            other => other.doing("pinning host memory").map(|()| Self { address }),
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: registered by `new`.
        let _ = unsafe { sys::cuMemHostUnregister(self.address) };
    }
}
