//! Physical memory that is mapped to addresses: used, and used wrongly.

use crate::setup::{Setup, expect, numbers, text};
use cudarc::driver::{result, sys};
use std::ptr::null_mut;

const GRANULARITY: usize = 2 << 20;

/// Memory of the first device with a file to its name.
fn properties() -> sys::CUmemAllocationProp {
    sys::CUmemAllocationProp {
        type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        location: device(),
        win32HandleMetaData: null_mut(),
        allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    }
}

fn device() -> sys::CUmemLocation {
    sys::CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: 0 }
}

fn create(bytes: usize) -> Result<u64, String> {
    let mut handle = 0;
    unsafe { sys::cuMemCreate(&mut handle, bytes, &properties(), 0) }.result().map_err(text)?;
    Ok(handle)
}

/// Physical memory and the addresses that it is mapped to, which nobody may use yet.
pub fn map(bytes: usize) -> Result<(u64, u64), String> {
    let (handle, mut address) = (create(bytes)?, 0);
    unsafe {
        sys::cuMemAddressReserve(&mut address, bytes, 0, 0, 0).result().map_err(text)?;
        sys::cuMemMap(address, bytes, 0, handle, 0).result().map_err(text)?;
    }
    Ok((handle, address))
}

pub fn allow(address: u64, bytes: usize) -> Result<(), String> {
    let flags = sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    let access = sys::CUmemAccessDesc { location: device(), flags };
    unsafe { sys::cuMemSetAccess(address, bytes, &access, 1) }.result().map_err(text)
}

fn refused(what: &str, result: Result<(), String>) -> Result<(), String> {
    if result.is_ok() { Err(format!("{what} is not refused")) } else { Ok(()) }
}

/// It holds what is put there, counts as taken until nothing has it any more, and is refused where a step is left out.
pub fn whole() -> Result<(), String> {
    let setup = Setup::new(0)?;
    let free = || result::mem_get_info().map(|(free, _)| free).map_err(text);
    let before = free()?;
    let put = |address| unsafe { result::memcpy_htod_sync(address, &numbers()) }.map_err(text);
    refused("half a granularity", create(GRANULARITY / 2).map(drop))?;
    let (handle, address) = map(GRANULARITY)?;
    refused("memory without access", put(address))?;
    allow(address, GRANULARITY)?;
    put(address)?;
    expect(&setup.download(address)?, 1.0)?;
    assert_eq!(free()?, before - GRANULARITY);
    refused("a free of mapped memory", unsafe { result::free_sync(address) }.map_err(text))?;
    let give_back = || unsafe { sys::cuMemAddressFree(address, GRANULARITY) }.result().map_err(text);
    refused("addresses with memory", give_back())?;
    unsafe { sys::cuMemRelease(handle) }.result().map_err(text)?;
    expect(&setup.download(address)?, 1.0)?;
    assert_eq!(free()?, before - GRANULARITY, "it is mapped still");
    unsafe { sys::cuMemUnmap(address, GRANULARITY) }.result().map_err(text)?;
    assert_eq!(free()?, before);
    refused("memory that is mapped no more", put(address))?;
    give_back()?;
    refused("addresses that were given back", give_back())?;
    refused("physical memory that is gone", unsafe { sys::cuMemRelease(handle) }.result().map_err(text))?;
    create(1 << 40).map(drop)
}
