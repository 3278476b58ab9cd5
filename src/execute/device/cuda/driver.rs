//! The CUDA driver: one GPU, its streams and its events, each given back when it is dropped.
//!
//! Every thread that uses them must have called [`Gpu::bind`].

#![expect(unsafe_code, reason = "the driver is a C library")]

use std::ffi::c_void;

use cudarc::driver::result;
use cudarc::driver::sys::{
    self, CUdevice_attribute as Attribute, CUevent, CUevent_flags, CUstream, CUstream_flags,
};

use super::error::{CudaError, Doing, is_lack_of_memory};
use crate::units::Bytes;

/// The oldest driver whose functions are used.
const OLDEST: (i32, &str) = (12_000, "12.0");

/// What a GPU is, before anything is made on it.
#[derive(Clone, Debug)]
pub struct Facts {
    pub name: String,
    pub total: Bytes,
    pub multiprocessors: u32,
    /// Compute capability.
    pub capability: (i32, i32),
}

/// A GPU with its primary context.
#[derive(Debug)]
pub struct Gpu {
    device: sys::CUdevice,
    context: sys::CUcontext,
    pub facts: Facts,
    /// Version of the driver, as 13000.
    pub driver: i32,
}

// SAFETY: the driver is safe for threads; handles are numbers to it.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

/// How many GPUs there are.
///
/// # Errors
/// Without a driver, or with one that is too old.
pub fn count() -> Result<usize, CudaError> {
    // SAFETY: the driver's library may be opened at any time.
    if !unsafe { sys::is_culib_present() } {
        return Err(CudaError::NoDriver);
    }
    let found = ask_version()?;
    if found < OLDEST.0 {
        return Err(CudaError::OldDriver { found: written(found), needed: OLDEST.1 });
    }
    match result::init() {
        Err(error) if error.0 == sys::CUresult::CUDA_ERROR_NO_DEVICE => return Ok(0),
        Err(error) if error.0 == sys::CUresult::CUDA_ERROR_STUB_LIBRARY => return Err(CudaError::Stub),
        other => other.doing("the start of CUDA")?,
    }
    let count = result::device::get_count().doing("counting GPUs")?;
    Ok(usize::try_from(count).unwrap_or_default())
}

fn ask_version() -> Result<i32, CudaError> {
    let mut version = 0;
    // SAFETY: a place for a number.
    match unsafe { sys::cuDriverGetVersion(&raw mut version) } {
        sys::CUresult::CUDA_ERROR_STUB_LIBRARY => Err(CudaError::Stub),
        other => other.result().doing("the driver's version").map(|()| version),
    }
}

/// A version as it is spoken of: 12040 is 12.4.
pub fn written(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// The newest CUDA that the driver knows, as 13000; none without a driver.
pub fn version() -> Option<i32> {
    // SAFETY: the driver's library may be opened at any time.
    let is_there = unsafe { sys::is_culib_present() };
    is_there.then(ask_version)?.ok()
}

/// Whether the kernels run on GPUs of this compute capability.
pub const fn is_capable(capability: (i32, i32)) -> bool {
    capability.0 >= 8
}

/// What the GPU number `ordinal` is, which must be one of those that were counted.
///
/// # Errors
/// What the driver says.
pub fn facts(ordinal: usize) -> Result<Facts, CudaError> {
    let device = result::device::get(ordinal as i32).doing("opening a GPU")?;
    let attribute = |attribute| {
        // SAFETY: a device of the driver's.
        unsafe { result::device::get_attribute(device, attribute) }.doing("what a GPU is like")
    };
    // SAFETY: as above.
    let total = unsafe { result::device::total_mem(device) }.doing("the memory of a GPU")?;
    Ok(Facts {
        name: result::device::get_name(device).doing("the name of a GPU")?,
        total: Bytes(total as u64),
        multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32,
        capability: (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
    })
}

impl Gpu {
    /// The GPU number `ordinal`, with its context current on this thread.
    ///
    /// # Errors
    /// If there is none, or it cannot run the kernels.
    pub fn open(ordinal: usize) -> Result<Self, CudaError> {
        if ordinal >= count()? {
            return Err(CudaError::NoDevice);
        }
        let facts = facts(ordinal)?;
        if !is_capable(facts.capability) {
            let found = format!("{}.{}", facts.capability.0, facts.capability.1);
            return Err(CudaError::OldDevice { name: facts.name, found });
        }
        let device = result::device::get(ordinal as i32).doing("opening a GPU")?;
        // Threads that wait would otherwise spin, one a stream, on the cores that update what is offloaded.
        let waiting = sys::CUctx_flags_enum::CU_CTX_SCHED_BLOCKING_SYNC as u32;
        // SAFETY: a device of the driver's.
        unsafe { sys::cuDevicePrimaryCtxSetFlags_v2(device, waiting) }.result().doing("how threads wait")?;
        // SAFETY: as above; released when this is dropped.
        let context = unsafe { result::primary_ctx::retain(device) }.doing("a context on a GPU")?;
        let gpu = Self { device, context, facts, driver: ask_version()? };
        gpu.bind()?;
        Ok(gpu)
    }

    /// Makes this GPU the calling thread's.
    ///
    /// # Errors
    /// What the driver says.
    pub fn bind(&self) -> Result<(), CudaError> {
        // SAFETY: the context lives as long as `self`.
        unsafe { result::ctx::set_current(self.context) }.doing("taking a GPU for a thread")
    }

    /// Memory that is free.
    ///
    /// # Errors
    /// What the driver says.
    pub fn free(&self) -> Result<Bytes, CudaError> {
        self.bind()?;
        let (free, _) = result::mem_get_info().doing("the free memory of a GPU")?;
        Ok(Bytes(free as u64))
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: retained once by `open`. That it fails is of no use to anyone.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

/// A block of the GPU's memory.
#[derive(Debug)]
pub struct Block {
    pub address: u64,
    pub bytes: usize,
}

impl Block {
    /// `bytes` bytes of `gpu`, all zero.
    ///
    /// # Errors
    /// If there are not so many.
    pub fn zeroed(gpu: &Gpu, bytes: usize) -> Result<Self, CudaError> {
        if bytes == 0 {
            return Ok(Self { address: 0, bytes });
        }
        gpu.bind()?;
        // SAFETY: freed when this is dropped.
        let address = match unsafe { result::malloc_sync(bytes) } {
            Err(error) if is_lack_of_memory(error) => {
                let (name, asked) = (gpu.facts.name.clone(), Bytes(bytes as u64));
                return Err(CudaError::Memory { name, asked, free: gpu.free().unwrap_or(Bytes::ZERO) });
            }
            other => other.doing("taking memory of a GPU")?,
        };
        let block = Self { address, bytes };
        // SAFETY: the block was just made.
        unsafe { result::memset_d8_sync(address, 0, bytes) }.doing("clearing memory of a GPU")?;
        // The driver may return before it is done, and no stream of ours waits for it.
        result::ctx::synchronize().doing("waiting for cleared memory of a GPU")?;
        Ok(block)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.bytes > 0 {
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
