//! Physical memory, ranges of addresses, and what of the one is mapped to the other: all of a range at a time.

use super::give;
use crate::call::{Session, entries};
use crate::failure::{Answer, Error, refuse};
use crate::memory::{Allocation, Physical, Reserved};
use cudarc::driver::sys::{
    CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationHandleType as Handles, CUmemAllocationProp,
    CUmemAllocationType, CUmemLocationType,
};

/// Sizes are multiples of it.
const GRANULARITY: usize = 2 << 20;

entries! {
    Initialised fn cuMemGetAllocationGranularity(bytes: *mut usize, properties: *const CUmemAllocationProp, _option: u32) |session| {
        session.place_of(properties)?;
        give(bytes, GRANULARITY)
    }

    Context fn cuMemCreate(handle: *mut u64, bytes: usize, properties: *const CUmemAllocationProp, flags: u64) |session| {
        session.refuse_unsafe_call()?;
        let device = session.place_of(properties)?;
        if flags != 0 || bytes == 0 || !bytes.is_multiple_of(GRANULARITY) {
            return refuse(Error::CUDA_ERROR_INVALID_VALUE, format!("physical memory of {bytes} bytes, flags {flags}"));
        }
        if (*properties).requestedHandleTypes != Handles::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR {
            return refuse(Error::CUDA_ERROR_NOT_PERMITTED, "the network of GPUs is not set up");
        }
        if bytes > session.free_memory(device) {
            return Err(Error::CUDA_ERROR_OUT_OF_MEMORY.into());
        }
        let number = session.handle();
        session.memory.physical.insert(number, Physical { device, bytes, is_released: false });
        give(handle, number)
    }

    Context fn cuMemRelease(handle: u64) |session| {
        session.refuse_unsafe_call()?;
        session.physical(handle)?.is_released = true;
        session.forget_physical(handle);
        Ok(())
    }

    Context fn cuMemAddressReserve(address: *mut u64, bytes: usize, alignment: usize, wanted: u64, flags: u64) |session| {
        session.refuse_unsafe_call()?;
        if bytes == 0 || !bytes.is_multiple_of(GRANULARITY) || (alignment, wanted, flags) != (0, 0, 0) {
            return refuse(Error::CUDA_ERROR_INVALID_VALUE, format!("a range of {bytes} bytes"));
        }
        let start = session.device.0.allocate("a range of addresses", bytes);
        session.memory.reserved.insert(start, Reserved { bytes, physical: None });
        give(address, start)
    }

    Context fn cuMemAddressFree(address: u64, bytes: usize) |session| {
        session.refuse_unsafe_call()?;
        if session.reserved(address, bytes)?.physical.is_some() {
            return refuse(Error::CUDA_ERROR_INVALID_VALUE, "addresses are given back that memory is mapped to");
        }
        session.memory.reserved.remove(&address);
        session.device.0.free(address);
        Ok(())
    }

    Context fn cuMemMap(address: u64, bytes: usize, offset: usize, handle: u64, flags: u64) |session| {
        session.refuse_unsafe_call()?;
        let physical = session.physical(handle)?;
        if (physical.bytes, offset, flags) != (bytes, 0, 0) || physical.is_released {
            return refuse(Error::CUDA_ERROR_INVALID_VALUE, format!("{bytes} of {} physical bytes are mapped", physical.bytes));
        }
        let reserved = session.reserved(address, bytes)?;
        if reserved.physical.is_some() {
            return refuse(Error::CUDA_ERROR_INVALID_VALUE, "memory is mapped to these addresses already");
        }
        reserved.physical = Some(handle);
        Ok(())
    }

    // From here on it may be used.
    Context fn cuMemSetAccess(address: u64, bytes: usize, wanted: *const CUmemAccessDesc, count: usize) |session| {
        session.refuse_unsafe_call()?;
        let handle = session.mapped(address, bytes)?;
        let device = session.physical(handle)?.device;
        let wanted = wanted.as_ref().ok_or(Error::CUDA_ERROR_INVALID_VALUE)?;
        let is_own = wanted.location.type_ == CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE
            && wanted.location.id == device as i32
            && wanted.flags == CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        if !is_own || count != 1 {
            return refuse(Error::CUDA_ERROR_NOT_SUPPORTED, "access of others than the device, or to read only");
        }
        let name = session.name_of_next(device, bytes);
        session.memory.allocations.insert(address, Allocation { device, bytes, name, is_mapped: true });
        Ok(())
    }

    Context fn cuMemUnmap(address: u64, bytes: usize) |session| {
        session.refuse_unsafe_call()?;
        let handle = session.mapped(address, bytes)?;
        let device = session.physical(handle)?.device;
        let streams = session.streams_of(device);
        session.synchronize(&streams)?;
        session.reserved(address, bytes)?.physical = None;
        session.memory.allocations.remove(&address);
        session.history.forget(address, address + bytes as u64);
        session.forget_physical(handle);
        Ok(())
    }
}

impl Session {
    /// The device that memory with these properties lies on.
    fn place_of(&self, properties: *const CUmemAllocationProp) -> Answer<usize> {
        // SAFETY: null, or properties of the program.
        let properties = unsafe { properties.as_ref() }.ok_or(Error::CUDA_ERROR_INVALID_VALUE)?;
        let (kind, place) = (properties.type_, properties.location);
        if kind != CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED
            || place.type_ != CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE
        {
            return refuse(
                Error::CUDA_ERROR_INVALID_VALUE,
                "physical memory that is of no device, or not pinned",
            );
        }
        if !self.settings.mapping {
            return refuse(Error::CUDA_ERROR_NOT_SUPPORTED, "the device maps no memory");
        }
        self.ordinal(place.id)
    }

    fn physical(&mut self, handle: u64) -> Answer<&mut Physical> {
        let found = self.memory.physical.get_mut(&handle);
        found.map_or_else(|| refuse(Error::CUDA_ERROR_INVALID_VALUE, "no physical memory"), Ok)
    }

    /// A range that begins there and is as long.
    fn reserved(&mut self, address: u64, bytes: usize) -> Answer<&mut Reserved> {
        let found = self.memory.reserved.get_mut(&address).filter(|reserved| reserved.bytes == bytes);
        found
            .map_or_else(|| refuse(Error::CUDA_ERROR_INVALID_VALUE, format!("no range of {bytes} bytes")), Ok)
    }

    /// What is mapped to a range.
    fn mapped(&mut self, address: u64, bytes: usize) -> Answer<u64> {
        let physical = self.reserved(address, bytes)?.physical;
        physical.map_or_else(|| refuse(Error::CUDA_ERROR_INVALID_VALUE, "nothing is mapped there"), Ok)
    }

    /// Gives back physical memory that has no handle and no addresses any more.
    fn forget_physical(&mut self, handle: u64) {
        let is_mapped = self.memory.reserved.values().any(|reserved| reserved.physical == Some(handle));
        self.memory.physical.retain(|known, physical| *known != handle || is_mapped || !physical.is_released);
    }
}
