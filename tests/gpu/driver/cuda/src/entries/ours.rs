//! What NVIDIA's driver doesn't export: a program that finds these tells what its next work on a stream is about.

use crate::call::{Need, call};
use crate::driver::Handle;
use crate::submit::Range;

/// The ranges of device memory that the next launch, copy or memset on this stream may touch. Everything else of it is
/// refused, even within the same allocation.
///
/// # Safety
/// There are `count` ranges.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn meshwright_ranges(stream: Handle, count: usize, ranges: *const Range) -> u32 {
    call("meshwright_ranges", Need::Context, |session| {
        let stream = session.stream(stream)?;
        let ranges: &[Range] =
            if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(ranges, count) } };
        session.check_ranges(ranges)?;
        session.declared.entry(stream).or_default().ranges = Some(ranges.into());
        Ok(())
    })
}

/// The bytes of each argument of the next launch on this stream, which `cuLaunchKernel` can't see.
///
/// # Safety
/// There are `count` sizes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn meshwright_arguments(stream: Handle, count: usize, bytes: *const u32) -> u32 {
    call("meshwright_arguments", Need::Context, |session| {
        let stream = session.stream(stream)?;
        let bytes: &[u32] =
            if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(bytes, count) } };
        session.declared.entry(stream).or_default().arguments = Some(bytes.into());
        Ok(())
    })
}
