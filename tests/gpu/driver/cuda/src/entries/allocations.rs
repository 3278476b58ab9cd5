//! Device memory and pinned memory of the host.

use super::give;
use crate::call::{Session, entries};
use crate::driver::Handle;
use crate::failure::{Answer, Error, refuse};
use crate::memory::Pinned;
use crate::work::Work;

/// `CU_MEMHOSTALLOC_PORTABLE`, which all pinned memory is anyway; `CU_MEMHOSTALLOC_WRITECOMBINED` changes nothing here.
const ALLOWED: u32 = 1 | 4;

entries! {
    Context fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) |session| {
        let device = session.current()?;
        give(free, session.free_memory(device))?;
        give(total, session.settings.memory)
    }

    Context fn cuMemAlloc_v2(address: *mut u64, bytes: usize) |session| {
        session.refuse_unsafe_call()?;
        let device = session.current()?;
        give(address, session.allocate(device, bytes)?)
    }

    Context fn cuMemFree_v2(address: u64) |session| {
        session.refuse_unsafe_call()?;
        if address == 0 {
            return Ok(());
        }
        let plain = session.memory.allocations.get(&address).filter(|allocation| !allocation.is_mapped);
        let Some(device) = plain.map(|allocation| allocation.device) else {
            return refuse(Error::CUDA_ERROR_INVALID_VALUE, format!("a free of {address:#x}, where no allocation begins"));
        };
        // The documentation has it wait for all that the device does.
        let streams = session.streams_of(device);
        session.synchronize(&streams)?;
        session.free(address);
        Ok(())
    }

    Context fn cuMemAllocAsync(address: *mut u64, bytes: usize, stream: Handle) |session| {
        let stream = session.stream(stream)?;
        session.refuse_captured(stream, "memory is allocated on a stream that is captured")?;
        let device = session.streams[&stream].device;
        give(address, session.allocate(device, bytes)?)
    }

    Context fn cuMemFreeAsync(address: u64, stream: Handle) |session| {
        let stream = session.stream(stream)?;
        session.refuse_captured(stream, "memory is freed on a stream that is captured")?;
        if !session.memory.allocations.contains_key(&address) {
            return refuse(Error::CUDA_ERROR_INVALID_VALUE, format!("a free of {address:#x}, where no allocation begins"));
        }
        session.submit(stream, Work::Free(address))
    }

    Context fn cuMemAllocHost_v2(address: *mut Handle, bytes: usize) |session| {
        session.refuse_unsafe_call()?;
        give(address, session.allocate_pinned(bytes)? as Handle)
    }

    Context fn cuMemHostAlloc(address: *mut Handle, bytes: usize, flags: u32) |session| {
        session.refuse_unsafe_call()?;
        if flags & !ALLOWED != 0 {
            return refuse(Error::CUDA_ERROR_NOT_SUPPORTED, format!("pinned memory with flags {flags:#x}"));
        }
        give(address, session.allocate_pinned(bytes)? as Handle)
    }

    Context fn cuMemFreeHost(address: Handle) |session| {
        session.refuse_unsafe_call()?;
        let pinned = session.release(address as u64, true)?;
        if let Some(layout) = pinned.layout {
            std::alloc::dealloc(address.cast(), layout);
        }
        Ok(())
    }

    Context fn cuMemHostRegister_v2(address: Handle, bytes: usize, flags: u32) |session| {
        session.refuse_unsafe_call()?;
        if flags & !1 != 0 {
            return refuse(Error::CUDA_ERROR_NOT_SUPPORTED, format!("registered memory with flags {flags:#x}"));
        }
        if address.is_null() || bytes == 0 {
            return Err(Error::CUDA_ERROR_INVALID_VALUE.into());
        }
        let end = (address as u64).saturating_add(bytes as u64);
        let over = session.memory.pinned.range(..end).next_back();
        if over.is_some_and(|(start, pinned)| start + pinned.bytes as u64 > address as u64) {
            return Err(Error::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED.into());
        }
        session.memory.pinned.insert(address as u64, Pinned { bytes, layout: None });
        Ok(())
    }

    Context fn cuMemHostUnregister(address: Handle) |session| {
        session.refuse_unsafe_call()?;
        session.release(address as u64, false).map(drop)
    }
}

impl Session {
    /// Pinned memory is given back: whatever was done with it must be over, as far as the host knows.
    fn release(&mut self, address: u64, allocated: bool) -> Answer<Pinned> {
        let known =
            self.memory.pinned.get(&address).is_some_and(|pinned| pinned.layout.is_some() == allocated);
        if !known {
            let error = if allocated {
                Error::CUDA_ERROR_INVALID_VALUE
            } else {
                Error::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED
            };
            return refuse(error, format!("{address:#x} isn't where such pinned memory begins"));
        }
        // What is still to come would touch it later.
        self.settle()?;
        let bytes = self.memory.pinned[&address].bytes as u64;
        let mut clock = (*self.host).clone();
        let lane = self.host_lane;
        let stamp = clock.tick(lane, "the host, which gives it back,".into());
        let access = gpu::Access { start: address, end: address + bytes, write: true };
        self.note(access, &clock, &stamp)?;
        self.history.forget(address, address + bytes);
        self.memory.pinned.remove(&address).ok_or_else(|| Error::CUDA_ERROR_INVALID_VALUE.into())
    }
}
