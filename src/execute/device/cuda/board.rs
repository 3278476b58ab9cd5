//! Which instruction each stream is at, told by the GPU itself: its streams write numbers to memory of the host, which can
//! be read even when the GPU has ended the run and answers nothing any more.

#![expect(unsafe_code, reason = "the driver is a C library")]

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use cudarc::driver::sys::{self, CUresult};

use super::error::{CudaError, Doing, is_lack_of_memory};
use super::stream::Stream as GpuStream;
use crate::execute::error::ExecuteError;
use crate::units::Bytes;

/// Answers of the driver after which it does nothing any more: an illegal address, a trap, and the like.
const ENDS: [CUresult; 12] = [
    CUresult::CUDA_ERROR_ECC_UNCORRECTABLE,
    CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE,
    CUresult::CUDA_ERROR_CONTAINED,
    CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
    CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
    CUresult::CUDA_ERROR_ASSERT,
    CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR,
    CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION,
    CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
    CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE,
    CUresult::CUDA_ERROR_INVALID_PC,
    CUresult::CUDA_ERROR_LAUNCH_FAILED,
];

/// Streams that there is room for.
const STREAMS: usize = 64 << 10;

/// What all streams are at.
#[derive(Debug)]
pub struct Board {
    /// A number for each stream: 0 in a step that tells nothing, 2i + 1 in its instruction i, 2i + 2 behind it.
    numbers: *const AtomicU32,
    streams: Mutex<Vec<Box<[String]>>>,
}

// SAFETY: the numbers are atomic, and stay until the board is dropped.
unsafe impl Send for Board {}
// SAFETY: as above.
unsafe impl Sync for Board {}

/// The place of a stream on the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(usize);

impl Board {
    /// Takes memory of the host for the GPU that is current.
    ///
    /// # Errors
    /// If the driver gives none.
    pub fn new() -> Result<Self, CudaError> {
        const PORTABLE: u32 = 1;
        let mut address: *mut c_void = std::ptr::null_mut();
        let bytes = STREAMS * size_of::<AtomicU32>();
        // SAFETY: a place for the address; given back when this is dropped.
        match unsafe { sys::cuMemHostAlloc(&raw mut address, bytes, PORTABLE) }.result() {
            Err(error) if is_lack_of_memory(error) => {
                return Err(CudaError::Unpinned { asked: Bytes(bytes as u64) });
            }
            other => other.doing("host memory for where streams are")?,
        }
        // SAFETY: as many bytes as were just taken.
        unsafe { std::ptr::write_bytes(address.cast::<u8>(), 0, bytes) };
        Ok(Self { numbers: address.cast(), streams: Mutex::default() })
    }

    /// A place for a stream whose instructions have these names; none if all are taken.
    pub fn enter(&self, names: Box<[String]>) -> Option<Place> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        (streams.len() < STREAMS).then(|| {
            streams.push(names);
            Place(streams.len() - 1)
        })
    }

    fn number(&self, place: Place) -> &AtomicU32 {
        // SAFETY: places are below the count of numbers, which live as long as the board.
        unsafe { &*self.numbers.add(place.0) }
    }

    /// The stream at `place` tells nothing until it comes to a mark.
    pub fn clear(&self, place: Place) {
        self.number(place).store(0, Ordering::Release);
    }

    /// Has `stream`, which is at `place`, tell that it is at `mark`: 2i before its instruction i, 2i + 1 behind it. A driver
    /// that cannot do so tells nothing.
    ///
    /// # Errors
    /// What the driver says.
    pub fn tell(&self, place: Place, mark: usize, stream: &GpuStream) -> Result<(), CudaError> {
        let address = std::ptr::from_ref(self.number(place)) as u64;
        // SAFETY: the number lies in memory of the host that the GPU can write to, and lives as long as the board.
        let told = unsafe { sys::cuStreamWriteValue32_v2(stream.handle, address, mark as u32 + 1, 0) };
        match told {
            CUresult::CUDA_ERROR_NOT_SUPPORTED => Ok(()),
            told => told.result().doing("a note of where a stream is"),
        }
    }

    /// `error`, with what the streams were at if it is one after which the GPU does nothing any more.
    pub fn explain(&self, error: ExecuteError) -> ExecuteError {
        let ExecuteError::Cuda(cause) = &error else { return error };
        let CudaError::Driver { code, meaning, .. } = &**cause else { return error };
        if !ENDS.iter().any(|end| *end as u32 == *code) {
            return error;
        }
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let at = streams.iter().enumerate().filter_map(|(place, names)| {
            let number = self.number(Place(place)).load(Ordering::Acquire) as usize;
            (number % 2 == 1).then(|| names.get(number / 2).cloned()).flatten()
        });
        CudaError::Ended { code: *code, meaning: meaning.clone(), at: at.collect() }.into()
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // SAFETY: taken by `new`. That it fails is of no use to anyone.
        let _ = unsafe { sys::cuMemFreeHost(self.numbers.cast_mut().cast()) };
    }
}
