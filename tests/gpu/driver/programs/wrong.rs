//! What the real driver would let pass, or answer with a code only.

use crate::setup::{COUNT, Setup, numbers, pointer, text};
use cudarc::driver::{CudaStream, sys};
use std::ffi::c_void;
use std::ptr::null_mut;

/// The kernel reads and writes more numbers than there are.
pub fn out_of_bounds() -> Result<(), String> {
    let setup = Setup::new(0)?;
    let stream = setup.stream()?;
    let (from, to) = (setup.upload(&numbers())?, setup.upload(&numbers())?);
    setup.add(&stream, from, to, COUNT + 1)?;
    let first = setup.context.synchronize().map_err(text);
    // The error stays.
    let then = setup.allocate(1).map(drop);
    if first.is_ok() || then.is_ok() { Err("nothing was found".into()) } else { first }
}

#[repr(C)]
struct Range {
    address: u64,
    bytes: u64,
    access: u32,
    padding: u32,
}

/// Two halves of one allocation, of which the program declares one number too few.
pub fn outside_ranges() -> Result<(), String> {
    let setup = Setup::new(0)?;
    let stream = setup.stream()?;
    let both = setup.upload(&[numbers(), numbers()].concat())?;
    let bytes = COUNT as u64 * 4;
    for short in [0, 4] {
        tell_ranges(&stream, &[(both, bytes, 1), (both + bytes, bytes - short, 3)])?;
        setup.add(&stream, both, both + bytes, COUNT)?;
        let result = setup.context.synchronize().map_err(text);
        if short == 0 && result.is_err() {
            return result.map_err(|error| format!("with the right ranges: {error}"));
        }
        result?;
    }
    Ok(())
}

/// Addresses, bytes and accesses of what comes next.
pub fn tell_ranges(stream: &CudaStream, ranges: &[(u64, u64, u32)]) -> Result<(), String> {
    let tell: unsafe extern "C" fn(sys::CUstream, usize, *const Range) -> u32 = ours("meshwright_ranges")?;
    let range = |&(address, bytes, access)| Range { address, bytes, access, padding: 0 };
    let ranges: Vec<Range> = ranges.iter().map(range).collect();
    match unsafe { tell(stream.cu_stream(), ranges.len(), ranges.as_ptr()) } {
        0 => Ok(()),
        _ => Err("the ranges are refused".into()),
    }
}

pub fn too_few_arguments() -> Result<(), String> {
    let setup = Setup::new(0)?;
    let (from, to) = (setup.upload(&numbers())?, setup.upload(&numbers())?);
    setup.launch(null_mut(), &mut [pointer(&from), pointer(&to), null_mut()])
}

/// The program says that it passes a count of 4 bytes.
pub fn arguments_told() -> Result<(), String> {
    let setup = Setup::new(0)?;
    let (from, to, count) = (setup.upload(&numbers())?, setup.upload(&numbers())?, COUNT as u64);
    let mut arguments: [*mut c_void; 3] = [pointer(&from), pointer(&to), pointer(&count)];
    let tell: unsafe extern "C" fn(sys::CUstream, usize, *const u32) -> u32 = ours("meshwright_arguments")?;
    for sizes in [[8, 8, 8], [8, 8, 4]] {
        unsafe { tell(null_mut(), sizes.len(), sizes.as_ptr()) };
        setup.launch(null_mut(), &mut arguments)?;
    }
    setup.context.synchronize().map_err(text)
}

pub fn no_such_entry() -> Result<(), String> {
    Setup::new(0)?;
    unsafe { sys::cuTexRefCreate(&mut null_mut()) }.result().map_err(text)
}

/// What only this driver exports.
fn ours<T: Copy>(name: &str) -> Result<T, String> {
    Ok(*unsafe { sys::culib().get::<T>(name.as_bytes()) }.map_err(text)?)
}
