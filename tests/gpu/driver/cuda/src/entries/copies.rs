//! Copies: between host and device, within a device, between devices; whole and in rows; and numbers that streams write.

use crate::call::{Session, entries};
use crate::counts::{self, Planted};
use crate::driver::Handle;
use crate::failure::{Answer, Error, refuse};
use crate::spoil::{FAR, Spoil};
use crate::work::{Copy, Place};
use cudarc::driver::sys::{CUDA_MEMCPY2D_st as Rows, CUmemorytype_enum as Memory};

entries! {
    Context fn cuMemcpyHtoD_v2(to: u64, from: Handle, bytes: usize) |session| {
        let from = session.host_place(from as u64, bytes)?;
        session.copy_now(whole(Place::Device(to), from, bytes))
    }

    Context fn cuMemcpyDtoH_v2(to: Handle, from: u64, bytes: usize) |session| {
        let to = session.host_place(to as u64, bytes)?;
        session.copy_now(whole(to, Place::Device(from), bytes))
    }

    Context fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) |session| {
        session.copy_now(whole(Place::Device(to), Place::Device(from), bytes))
    }

    Context fn cuMemcpyHtoDAsync_v2(to: u64, from: Handle, bytes: usize, stream: Handle) |session| {
        let (stream, from) = (session.stream(stream)?, session.host_place(from as u64, bytes)?);
        session.copy(stream, whole(Place::Device(to), from, bytes))
    }

    Context fn cuMemcpyDtoHAsync_v2(to: Handle, from: u64, bytes: usize, stream: Handle) |session| {
        let (stream, to) = (session.stream(stream)?, session.host_place(to as u64, bytes)?);
        session.copy(stream, whole(to, Place::Device(from), bytes))
    }

    Context fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Handle) |session| {
        let stream = session.stream(stream)?;
        session.copy(stream, whole(Place::Device(to), Place::Device(from), bytes))
    }

    Context fn cuMemcpy(to: u64, from: u64, bytes: usize) |session| {
        let (to, from) = (session.any_place(to, bytes)?, session.any_place(from, bytes)?);
        session.copy_now(whole(to, from, bytes))
    }

    Context fn cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: Handle) |session| {
        let stream = session.stream(stream)?;
        let mut place = session.any_place(to, bytes)?;
        // Elsewhere a wrong copy would write over this process's own memory.
        if !matches!(place, Place::Pageable(_)) && is_moved() {
            place = session.any_place(to + FAR, bytes)?;
        }
        let from = session.any_place(from, bytes)?;
        session.copy(stream, whole(place, from, bytes))
    }

    Context fn cuStreamWriteValue32_v2(stream: Handle, to: u64, value: u32, _flags: u32) |session| {
        let stream = session.stream(stream)?;
        let to = session.any_place(to, size_of::<u32>())?;
        session.copy(stream, whole(to, Place::Staged(value.to_le_bytes().into()), size_of::<u32>()))
    }

    Context fn cuMemcpyPeer(to: u64, to_context: Handle, from: u64, from_context: Handle, bytes: usize) |session| {
        session.check_peer(to, to_context)?;
        session.check_peer(from, from_context)?;
        session.copy_now(whole(Place::Device(to), Place::Device(from), bytes))
    }

    Context fn cuMemcpyPeerAsync(
        to: u64,
        to_context: Handle,
        from: u64,
        from_context: Handle,
        bytes: usize,
        stream: Handle,
    ) |session| {
        let stream = session.stream(stream)?;
        session.check_peer(to, to_context)?;
        session.check_peer(from, from_context)?;
        session.copy(stream, whole(Place::Device(to), Place::Device(from), bytes))
    }

    Context fn cuMemcpy2D_v2(rows: *const Rows) |session| {
        let copy = session.rows(rows)?;
        session.copy_now(copy)
    }

    Context fn cuMemcpy2DUnaligned_v2(rows: *const Rows) |session| {
        let copy = session.rows(rows)?;
        session.copy_now(copy)
    }

    Context fn cuMemcpy2DAsync_v2(rows: *const Rows, stream: Handle) |session| {
        let (stream, copy) = (session.stream(stream)?, session.rows(rows)?);
        session.copy(stream, copy)
    }
}

/// Whether the next copy to memory that the device knows is told to go astray.
fn is_moved() -> bool {
    matches!(counts::count("known_copy"), Some(Planted::Spoil(Spoil::Moved)))
}

fn whole(to: Place, from: Place, bytes: usize) -> Copy {
    Copy { to, from, width: bytes, height: 1, to_pitch: bytes, from_pitch: bytes }
}

impl Session {
    fn any_place(&self, address: u64, bytes: usize) -> Answer<Place> {
        match self.memory.allocation(address, 0) {
            Some(_) => Ok(Place::Device(address)),
            None => self.host_place(address, bytes),
        }
    }

    fn check_peer(&self, address: u64, context: Handle) -> Answer {
        let device = self.context(context)?;
        match self.memory.allocation(address, 0) {
            Some((_, allocation)) if Some(allocation.device) != device => {
                let text = format!("{} isn't of the context that the copy names", allocation.name);
                refuse(Error::CUDA_ERROR_INVALID_VALUE, text)
            }
            _ => Ok(()),
        }
    }

    unsafe fn rows(&self, rows: *const Rows) -> Answer<Copy> {
        let Some(rows) = (unsafe { rows.as_ref() }) else {
            return Err(Error::CUDA_ERROR_INVALID_VALUE.into());
        };
        let (width, height) = (rows.WidthInBytes, rows.Height);
        let place = |kind: Memory, host: u64, device: u64, pitch: usize, x: usize, y: usize| {
            let pitch = if pitch == 0 { width } else { pitch };
            let offset = (y * pitch + x) as u64;
            let bytes = height.saturating_sub(1) * pitch + width;
            let place = match kind {
                Memory::CU_MEMORYTYPE_HOST => self.host_place(host + offset, bytes)?,
                Memory::CU_MEMORYTYPE_DEVICE => Place::Device(device + offset),
                Memory::CU_MEMORYTYPE_UNIFIED => self.any_place(device + offset, bytes)?,
                Memory::CU_MEMORYTYPE_ARRAY => {
                    return refuse(Error::CUDA_ERROR_NOT_SUPPORTED, "a copy of an array");
                }
            };
            Ok((place, pitch))
        };
        let r = rows;
        let (to, to_pitch) =
            place(r.dstMemoryType, r.dstHost as u64, r.dstDevice, r.dstPitch, r.dstXInBytes, r.dstY)?;
        let (from, from_pitch) =
            place(r.srcMemoryType, r.srcHost as u64, r.srcDevice, r.srcPitch, r.srcXInBytes, r.srcY)?;
        Ok(Copy { to, from, width, height, to_pitch, from_pitch })
    }
}
