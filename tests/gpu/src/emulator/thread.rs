//! The structures that the emulator shares with translated kernels; `runtime/machine.hpp` has the same layouts.

use super::machine::Machine;
use std::ffi::c_void;

/// A thread's numbers.
#[repr(C)]
pub struct Thread {
    pub thread: [u32; 3],
    pub block_size: [u32; 3],
    pub block: [u32; 3],
    pub grid_size: [u32; 3],
    pub lane: u32,
    pub warp: u32,
    pub dynamic_shared: u32,
    pub total_shared: u32,
    pub machine: *mut Machine,
    /// What it has computed, where that is counted: by the tensor cores, in f32 and in f64.
    pub flops: [u64; 3],
}

/// What a lane brings to an instruction of the whole warp, and takes away.
#[repr(C)]
pub struct Collective {
    pub kind: u32,
    pub mode: u32,
    pub mask: u32,
    pub line: u32,
    pub input: [u32; 12],
    pub output: [u32; 4],
    pub address: u64,
}

/// The calls that a kernel makes.
#[repr(C)]
pub struct Host {
    pub access: unsafe extern "C" fn(*mut Thread, u64, u32, u32, u32) -> *mut c_void,
    pub barrier: unsafe extern "C" fn(*mut Thread, u32, u32, u32, u32) -> u64,
    pub collective: unsafe extern "C" fn(*mut Thread, *mut Collective),
    pub copy: unsafe extern "C" fn(*mut Thread, u64, u64, u32, u32, u32),
    pub commit: unsafe extern "C" fn(*mut Thread),
    pub wait: unsafe extern "C" fn(*mut Thread, u32, u32),
    pub trap: unsafe extern "C" fn(*mut Thread, u32, u32),
}

/// A translated kernel.
pub type Entry = unsafe extern "C" fn(*mut Thread, *const u8);
