//! Streams and events of the GPU that is current, each given back when it is dropped.

#![expect(unsafe_code, reason = "the driver is a C library")]

use cudarc::driver::result;
use cudarc::driver::sys::{self, CUevent, CUevent_flags, CUstream, CUstream_flags};

use super::error::{CudaError, Doing};

/// A stream, which no other stream waits for by itself.
#[derive(Debug)]
pub struct Stream {
    pub handle: CUstream,
}

// SAFETY: only a number to the driver.
unsafe impl Send for Stream {}
// SAFETY: the driver is safe for threads.
unsafe impl Sync for Stream {}

impl Stream {
    /// # Errors
    /// What the driver says.
    pub fn new() -> Result<Self, CudaError> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: a place for the handle.
        unsafe { sys::cuStreamCreate(&raw mut handle, CUstream_flags::CU_STREAM_NON_BLOCKING as u32) }
            .result()
            .doing("a stream")?;
        Ok(Self { handle })
    }

    /// One whose work the GPU begins before that of others: for messages and collectives, for which other GPUs wait.
    ///
    /// # Errors
    /// What the driver says.
    pub fn urgent() -> Result<Self, CudaError> {
        /// The driver takes the most urgent that it has.
        const FIRST: i32 = -1000;
        let (mut handle, flags) = (std::ptr::null_mut(), CUstream_flags::CU_STREAM_NON_BLOCKING as u32);
        // SAFETY: a place for the handle.
        unsafe { sys::cuStreamCreateWithPriority(&raw mut handle, flags, FIRST) }
            .result()
            .doing("a stream")?;
        Ok(Self { handle })
    }

    /// What comes now waits for `event`.
    ///
    /// # Errors
    /// What the driver says.
    pub fn wait(&self, event: &Event) -> Result<(), CudaError> {
        // SAFETY: both live.
        unsafe { sys::cuStreamWaitEvent(self.handle, event.0, 0) }.result().doing("a wait for an event")
    }

    /// Copies between any two places behind all that was submitted; done when it returns.
    ///
    /// # Safety
    /// Both places exist and hold so many bytes, and nobody else uses them meanwhile.
    ///
    /// # Errors
    /// What the driver says.
    pub unsafe fn copy_now(&self, to: u64, from: u64, bytes: usize) -> Result<(), CudaError> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: as the caller vouches.
        unsafe { sys::cuMemcpyAsync(to, from, bytes, self.handle) }.result().doing("a copy")?;
        self.synchronize()
    }

    /// Whether all that was submitted is done.
    ///
    /// # Errors
    /// What went wrong with it.
    pub fn is_idle(&self) -> Result<bool, CudaError> {
        // SAFETY: it lives.
        match unsafe { sys::cuStreamQuery(self.handle) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            other => other.result().doing("asking for a stream").map(|()| true),
        }
    }

    /// Waits until all that was submitted is done.
    ///
    /// # Errors
    /// What went wrong with it.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        // SAFETY: it lives.
        unsafe { sys::cuStreamSynchronize(self.handle) }.result().doing("waiting for a stream")
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: made by `new`.
        let _ = unsafe { sys::cuStreamDestroy_v2(self.handle) };
    }
}

/// A point of a stream.
#[derive(Debug)]
pub struct Event(CUevent);

// SAFETY: only a number to the driver, which is safe for threads.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

/// Whether an event knows its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    Kept,
    None,
}

impl Event {
    /// # Errors
    /// What the driver says.
    pub fn new(timing: Timing) -> Result<Self, CudaError> {
        let flags = match timing {
            Timing::Kept => CUevent_flags::CU_EVENT_DEFAULT,
            Timing::None => CUevent_flags::CU_EVENT_DISABLE_TIMING,
        };
        let mut handle = std::ptr::null_mut();
        // SAFETY: a place for the handle.
        unsafe { sys::cuEventCreate(&raw mut handle, flags as u32) }.result().doing("an event")?;
        Ok(Self(handle))
    }

    /// Becomes the end of what was submitted to `stream`.
    ///
    /// # Errors
    /// What the driver says.
    pub fn record(&self, stream: &Stream) -> Result<(), CudaError> {
        // SAFETY: both live.
        unsafe { sys::cuEventRecord(self.0, stream.handle) }.result().doing("recording an event")
    }

    /// Whether the stream has come there.
    ///
    /// # Errors
    /// What went wrong before.
    pub fn is_past(&self) -> Result<bool, CudaError> {
        // SAFETY: it lives.
        match unsafe { sys::cuEventQuery(self.0) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            other => other.result().doing("asking for an event").map(|()| true),
        }
    }

    /// Seconds from `start` to here, both over.
    ///
    /// # Errors
    /// What the driver says.
    pub fn seconds_since(&self, start: &Self) -> Result<f64, CudaError> {
        // SAFETY: both live.
        let milliseconds =
            unsafe { result::event::elapsed(start.0, self.0) }.doing("the time between events")?;
        Ok(f64::from(milliseconds) / 1e3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: made by `new`.
        let _ = unsafe { sys::cuEventDestroy_v2(self.0) };
    }
}
