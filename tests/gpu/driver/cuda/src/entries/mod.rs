//! The entry points, by what they are about. What isn't here is missing from the library, so that a program that asks
//! for it fails with its name.

// The macro around entry points makes each body unsafe, whether or not it writes through a pointer of the program.
#![allow(unused_unsafe, reason = "not every entry point writes through a pointer")]

mod allocations;
mod arrivals;
mod contexts;
mod copies;
mod devices;
mod errors;
mod events;
mod functions;
mod graphs;
mod launches;
mod library;
mod mapping;
mod nccl;
mod operations;
mod ours;
mod sets;
mod streams;

use crate::failure::{Answer, Error};

/// Writes an answer to where the program wants it.
unsafe fn give<T>(to: *mut T, value: T) -> Answer {
    if to.is_null() {
        return Err(Error::CUDA_ERROR_INVALID_VALUE.into());
    }
    unsafe { to.write(value) };
    Ok(())
}

/// Writes a text with its zero, cut to the program's room.
unsafe fn give_text(to: *mut std::ffi::c_char, room: i32, text: &str) -> Answer {
    if to.is_null() || room < 1 {
        return Err(Error::CUDA_ERROR_INVALID_VALUE.into());
    }
    let bytes = &text.as_bytes()[..text.len().min(room as usize - 1)];
    unsafe {
        to.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len());
        to.add(bytes.len()).write(0);
    }
    Ok(())
}
