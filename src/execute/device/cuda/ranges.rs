//! Tells a driver that asks for it which memory is about to be touched.
//!
//! An arena is one allocation, so a kernel that writes past its tensor is seen by nobody. Drivers that stand in for
//! NVIDIA's in tests export `meshwright_ranges` and refuse every access outside of what they are told; NVIDIA's does not.

#![expect(unsafe_code, reason = "a function of a C library")]

use std::sync::OnceLock;

use cudarc::driver::sys::CUstream;
use smallvec::SmallVec;

use super::compile::library::Library;
use super::work::{Access, Span};
use crate::execute::call::Space;

#[repr(C)]
struct Range {
    address: u64,
    bytes: u64,
    /// 1 is read, 2 written, 3 both.
    access: u32,
    padding: u32,
}

type Told = unsafe extern "C" fn(CUstream, usize, *const Range) -> u32;

fn told() -> Option<Told> {
    static FUNCTION: OnceLock<Option<Told>> = OnceLock::new();
    *FUNCTION.get_or_init(|| {
        // SAFETY: the driver is open already, and the function's type is that of the stand-in's.
        unsafe { Library::open("libcuda.so.1".as_ref()).ok()?.function(c"meshwright_ranges").ok() }
    })
}

/// Says what the next operation on `stream` touches.
pub fn tell(stream: CUstream, touches: &[(Span, Access)]) {
    let Some(told) = told() else { return };
    let ranges: SmallVec<[Range; 8]> = touches
        .iter()
        .filter(|(span, _)| span.space == Space::Device)
        .map(|(span, access)| Range {
            address: span.address,
            bytes: span.bytes,
            access: match access {
                Access::Read => 1,
                Access::Write => 2,
                Access::Both => 3,
            },
            padding: 0,
        })
        .collect();
    // SAFETY: as many ranges as are said.
    unsafe { told(stream, ranges.len(), ranges.as_ptr()) };
}
