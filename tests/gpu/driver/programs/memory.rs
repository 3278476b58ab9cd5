//! Memory: pinned and pageable, rows and patterns, its end.

use crate::setup::{COUNT, Setup, expect, numbers, text};
use cudarc::driver::{result, sys};
use std::ptr::null_mut;

/// A copy of pinned memory reads it when it runs, and one of pageable memory when it's submitted.
pub fn pinned() -> Result<(), String> {
    let setup = Setup::new(0)?;
    let stream = setup.stream()?;
    let start = unsafe { result::malloc_host(COUNT * 4, 0) }.map_err(text)?.cast::<f32>();
    let host = unsafe { std::slice::from_raw_parts_mut(start, COUNT) };
    let mut pageable = numbers();
    host.copy_from_slice(&numbers());
    let (late, early) = (setup.allocate(COUNT)?, setup.allocate(COUNT)?);
    unsafe {
        result::memcpy_htod_async(late, host, stream.cu_stream()).map_err(text)?;
        result::memcpy_htod_async(early, &pageable, stream.cu_stream()).map_err(text)?;
    }
    host.iter_mut().for_each(|number| *number *= 2.0);
    pageable.fill(-1.0);
    stream.synchronize().map_err(text)?;
    expect(&setup.download(early)?, 1.0)?;
    let seen = expect(&setup.download(late)?, 2.0);
    unsafe { result::free_host(start.cast()) }.map_err(text)?;
    seen
}

pub fn out_of_memory() -> Result<(), String> {
    let setup = Setup::new(0)?;
    let (free, total) = result::mem_get_info().map_err(text)?;
    let most = setup.allocate(total / 4)?;
    let (left, _) = result::mem_get_info().map_err(text)?;
    if (free, left) != (total, 0) {
        return Err(format!("{free} of {total} bytes were free, and {left} are left"));
    }
    let refused = setup.allocate(1).err();
    unsafe { result::free_sync(most) }.map_err(text)?;
    setup.allocate(1)?;
    Err(refused.unwrap_or_default())
}

/// A column of a matrix of two columns, filled with a pattern.
pub fn rows_and_sets() -> Result<(), String> {
    let setup = Setup::new(0)?;
    let matrix = setup.allocate(2 * COUNT)?;
    let column = setup.allocate(COUNT)?;
    let host = numbers();
    let rows = sys::CUDA_MEMCPY2D_st {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: sys::CUmemorytype_enum::CU_MEMORYTYPE_HOST,
        srcHost: host.as_ptr().cast(),
        srcDevice: 0,
        srcArray: null_mut(),
        srcPitch: 4,
        dstXInBytes: 4,
        dstY: 0,
        dstMemoryType: sys::CUmemorytype_enum::CU_MEMORYTYPE_DEVICE,
        dstHost: null_mut(),
        dstDevice: matrix,
        dstArray: null_mut(),
        dstPitch: 8,
        WidthInBytes: 4,
        Height: COUNT,
    };
    let back = sys::CUDA_MEMCPY2D_st {
        srcXInBytes: 4,
        srcMemoryType: sys::CUmemorytype_enum::CU_MEMORYTYPE_DEVICE,
        srcDevice: matrix,
        srcPitch: 8,
        dstXInBytes: 0,
        dstDevice: column,
        dstPitch: 4,
        ..rows
    };
    unsafe {
        sys::cuMemsetD32_v2(matrix, 0x3f80_0000, 2 * COUNT).result().map_err(text)?;
        sys::cuMemcpy2D_v2(&rows).result().map_err(text)?;
        sys::cuMemcpy2D_v2(&back).result().map_err(text)?;
    }
    expect(&setup.download(column)?, 1.0)?;
    let first = setup.download(matrix)?;
    let ones = first.iter().step_by(2).all(|number| *number == 1.0);
    if ones { Ok(()) } else { Err(format!("the other column begins with {:?}", &first[..4])) }
}

/// Bytes that nothing has written are downloaded.
pub fn unwritten() -> Result<(), String> {
    let setup = Setup::new(0)?;
    let memory = setup.allocate(COUNT)?;
    setup.download(memory).map(drop)
}
