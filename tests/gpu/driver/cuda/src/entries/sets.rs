//! Memory filled with a pattern. Those without a stream don't wait either, as CUDA documents.

use crate::call::{Session, entries};
use crate::driver::Handle;
use crate::failure::{Answer, Error, refuse};
use crate::work::{Set, Work};

entries! {
    Context fn cuMemsetD8_v2(to: u64, value: u8, count: usize) |session| {
        session.set(std::ptr::null_mut(), to, &value.to_le_bytes(), count)
    }

    Context fn cuMemsetD16_v2(to: u64, value: u16, count: usize) |session| {
        session.set(std::ptr::null_mut(), to, &value.to_le_bytes(), count)
    }

    Context fn cuMemsetD32_v2(to: u64, value: u32, count: usize) |session| {
        session.set(std::ptr::null_mut(), to, &value.to_le_bytes(), count)
    }

    Context fn cuMemsetD8Async(to: u64, value: u8, count: usize, stream: Handle) |session| {
        session.set(stream, to, &value.to_le_bytes(), count)
    }

    Context fn cuMemsetD16Async(to: u64, value: u16, count: usize, stream: Handle) |session| {
        session.set(stream, to, &value.to_le_bytes(), count)
    }

    Context fn cuMemsetD32Async(to: u64, value: u32, count: usize, stream: Handle) |session| {
        session.set(stream, to, &value.to_le_bytes(), count)
    }

    Context fn cuMemsetD2D8_v2(to: u64, pitch: usize, value: u8, width: usize, height: usize) |session| {
        session.set_rows_of(std::ptr::null_mut(), Set { to, pattern: vec![value], width, height, pitch })
    }

    Context fn cuMemsetD2D8Async(to: u64, pitch: usize, value: u8, width: usize, height: usize, stream: Handle) |session| {
        session.set_rows_of(stream, Set { to, pattern: vec![value], width, height, pitch })
    }
}

impl Session {
    fn set(&mut self, stream: Handle, to: u64, pattern: &[u8], count: usize) -> Answer {
        let width = pattern.len().saturating_mul(count);
        self.set_rows_of(stream, Set { to, pattern: pattern.to_vec(), width, height: 1, pitch: width })
    }

    fn set_rows_of(&mut self, stream: Handle, set: Set) -> Answer {
        let stream = self.stream(stream)?;
        if set.width == 0 || set.height == 0 {
            return Ok(());
        }
        let bytes = (set.height - 1).saturating_mul(set.pitch).saturating_add(set.width);
        if self.memory.allocation(set.to, bytes).is_none() {
            let place = self.memory.describe(set.to);
            return refuse(
                Error::CUDA_ERROR_INVALID_VALUE,
                format!("a memset of {bytes} bytes at {place}, which no allocation has"),
            );
        }
        if !set.to.is_multiple_of(set.pattern.len() as u64) || (set.height > 1 && set.pitch < set.width) {
            return Err(Error::CUDA_ERROR_INVALID_VALUE.into());
        }
        self.submit(stream, Work::Set(set))
    }
}
