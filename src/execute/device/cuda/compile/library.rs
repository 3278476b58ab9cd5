//! A shared library of the machine, opened by name and never closed.

#![expect(unsafe_code, reason = "opening a library runs its code; its functions are C")]

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr::null_mut;

/// All symbols are bound when the library is opened, so that what it lacks is found out then.
const RTLD_NOW: c_int = 2;

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
    fn dladdr(address: *const c_void, place: *mut Place) -> c_int;
}

/// `Dl_info`: whose an address is.
#[repr(C)]
struct Place {
    file: *const c_char,
    base: *mut c_void,
    symbol: *const c_char,
    start: *mut c_void,
}

#[derive(Clone, Copy, Debug)]
pub struct Library {
    handle: *mut c_void,
}

impl Library {
    /// Opens `name`: a path, or a plain name that the system's loader looks for.
    ///
    /// # Errors
    /// What the loader says.
    ///
    /// # Safety
    /// The library's initialisers may be run.
    pub unsafe fn open(name: &OsStr) -> Result<Self, String> {
        let name = CString::new(name.as_bytes()).map_err(|_| String::from("a zero byte in the name"))?;
        // SAFETY: a C string; the initialisers are the caller's care.
        let handle = unsafe { dlopen(name.as_ptr(), RTLD_NOW) };
        if handle.is_null() { Err(last_error()) } else { Ok(Self { handle }) }
    }

    /// The function called `name`.
    ///
    /// # Errors
    /// If the library has none.
    ///
    /// # Safety
    /// `F` is a pointer to functions of that one's type.
    pub unsafe fn function<F: Copy>(self, name: &CStr) -> Result<F, String> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: the library stays open, the name is a C string.
        let address = unsafe { dlsym(self.handle, name.as_ptr()) };
        if address.is_null() {
            return Err(last_error());
        }
        // SAFETY: as large as a pointer, and of the function's type, says the caller.
        Ok(unsafe { std::mem::transmute_copy(&address) })
    }
}

/// The file of the library that the function at `address` is of, as the loader found it.
pub fn file_of(address: *const c_void) -> Option<PathBuf> {
    let mut place = Place { file: null_mut(), base: null_mut(), symbol: null_mut(), start: null_mut() };
    // SAFETY: any address may be asked for; the file's name, where there is one, is the loader's C string.
    unsafe {
        if dladdr(address, &raw mut place) == 0 || place.file.is_null() {
            return None;
        }
        Some(PathBuf::from(OsStr::from_bytes(CStr::from_ptr(place.file).to_bytes())))
    }
}

fn last_error() -> String {
    // SAFETY: the text, where there is one, is a C string of this thread's until its next call of the loader.
    unsafe {
        let text = dlerror();
        if text.is_null() {
            return String::from("not found");
        }
        CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}
