//! Memory of a GPU that other GPUs may be given access to: physical memory that is mapped to a range of addresses. NCCL
//! registers no other.

#![expect(unsafe_code, reason = "the driver is a C library")]

use std::ptr::null_mut;

use cudarc::driver::DriverError;
use cudarc::driver::sys::{
    self, CUdevice, CUdevice_attribute as Attribute, CUmemAllocationProp, CUmemLocation, CUresult,
};

use super::error::{CudaError, Doing, is_lack_of_memory};

type Handles = sys::CUmemAllocationHandleType;

/// How a GPU maps memory.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// From what the GPU says that it can to the least that will do: a network of GPUs may be there and not be set up.
    kinds: Vec<CUmemAllocationProp>,
    /// Bytes are multiples of it.
    granularity: usize,
}

// SAFETY: its pointers are null.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Of `device`; none if it maps no memory.
    ///
    /// # Errors
    /// What the driver says.
    pub fn of(device: CUdevice) -> Result<Option<Self>, CudaError> {
        let can = |attribute| {
            let mut answer = 0;
            // SAFETY: a place for the answer.
            match unsafe { sys::cuDeviceGetAttribute(&raw mut answer, attribute, device) } {
                // What a driver does not know of, it cannot do.
                CUresult::CUDA_ERROR_INVALID_VALUE => Ok(false),
                asked => asked.result().doing("how a GPU maps memory").map(|()| answer != 0),
            }
        };
        if !can(Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)?
            || !can(Attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)?
        {
            return Ok(None);
        }
        let least = CUmemAllocationProp {
            type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            requestedHandleTypes: Handles::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
            location: CUmemLocation {
                type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
                id: device,
            },
            win32HandleMetaData: null_mut(),
            allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
                compressionType: 0,
                gpuDirectRDMACapable: 0,
                usage: 0,
                reserved: [0; 4],
            },
        };
        let mut without_fabric = least;
        without_fabric.allocFlags.gpuDirectRDMACapable =
            u8::from(can(Attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED)?);
        let mut most = without_fabric;
        if can(Attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED)? {
            most.requestedHandleTypes |= Handles::CU_MEM_HANDLE_TYPE_FABRIC;
        }
        let mut kinds = vec![most, without_fabric, least];
        kinds.dedup();
        let mut granularity = 0;
        let recommended = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
        // SAFETY: a place for the answer, and properties that live.
        unsafe { sys::cuMemGetAllocationGranularity(&raw mut granularity, &raw const most, recommended) }
            .result()
            .doing("how a GPU maps memory")?;
        Ok(Some(Self { kinds, granularity: granularity.max(1) }))
    }

    /// Bytes that are taken for `bytes` bytes.
    pub const fn rounded(&self, bytes: usize) -> usize {
        bytes.next_multiple_of(self.granularity)
    }

    /// Physical memory of the first kind that the driver gives.
    fn create(&self, bytes: usize) -> Result<(u64, CUmemLocation), DriverError> {
        let mut refused = DriverError(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        for kind in &self.kinds {
            let mut handle = 0;
            // SAFETY: a place for the handle, and properties that live.
            let created = unsafe { sys::cuMemCreate(&raw mut handle, bytes, std::ptr::from_ref(kind), 0) };
            match created.result() {
                Ok(()) => return Ok((handle, kind.location)),
                Err(error) if is_lack_of_memory(error) => return Err(error),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }
}

/// Mapped memory, given back when it is dropped.
#[derive(Debug)]
pub struct Mapped {
    pub address: u64,
    pub bytes: usize,
    handle: u64,
    is_mapped: bool,
}

impl Mapped {
    /// At least `bytes` bytes, for the GPU itself to read and write.
    ///
    /// # Errors
    /// What the driver says.
    pub fn new(mapping: &Mapping, bytes: usize) -> Result<Self, DriverError> {
        let bytes = mapping.rounded(bytes);
        let (handle, location) = mapping.create(bytes)?;
        // From here on it gives back as much as was taken.
        let mut mapped = Self { address: 0, bytes, handle, is_mapped: false };
        let access = sys::CUmemAccessDesc {
            location,
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: a place for the address; the range and the memory are as long, and of nobody else.
        unsafe {
            sys::cuMemAddressReserve(&raw mut mapped.address, bytes, 0, 0, 0).result()?;
            sys::cuMemMap(mapped.address, bytes, 0, handle, 0).result()?;
            mapped.is_mapped = true;
            sys::cuMemSetAccess(mapped.address, bytes, &raw const access, 1).result()?;
        }
        Ok(mapped)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: each was taken by `new`, and is given back once, what was taken last first.
        unsafe {
            if self.is_mapped {
                let _ = sys::cuMemUnmap(self.address, self.bytes);
            }
            let _ = sys::cuMemRelease(self.handle);
            if self.address != 0 {
                let _ = sys::cuMemAddressFree(self.address, self.bytes);
            }
        }
    }
}
