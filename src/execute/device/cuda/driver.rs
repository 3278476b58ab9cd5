//! The CUDA driver, and one GPU with its context, which is given back when it is dropped.
//!
//! Every thread that uses it must have called [`Gpu::bind`].

#![expect(unsafe_code, reason = "the driver is a C library")]

use cudarc::driver::result;
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};

use super::error::{CudaError, Doing};
use super::mapped::Mapping;
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
    /// How it maps memory, if it does.
    pub mapping: Option<Mapping>,
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
        let gpu = Self { device, context, facts, mapping: Mapping::of(device)?, driver: ask_version()? };
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

    /// The number that this GPU has and no other, as its driver writes it.
    ///
    /// # Errors
    /// What the driver says.
    pub fn uuid(&self) -> Result<String, CudaError> {
        let uuid = result::device::get_uuid(self.device).doing("the identity of a GPU")?;
        Ok(uuid.bytes.iter().map(|byte| format!("{:02x}", *byte as u8)).collect())
    }

    /// Where this GPU is on the PCI bus, as Linux writes it: `0000:1b:00.0`.
    ///
    /// # Errors
    /// What the driver says.
    pub fn address(&self) -> Result<String, CudaError> {
        let mut text = [0_u8; 16];
        // SAFETY: the call writes at most as many bytes as it is told there is room for.
        unsafe {
            sys::cuDeviceGetPCIBusId(text.as_mut_ptr().cast(), text.len() as i32, self.device)
                .result()
                .doing("where a GPU is on the bus")?;
        }
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        Ok(String::from_utf8_lossy(&text[..end]).to_lowercase())
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
