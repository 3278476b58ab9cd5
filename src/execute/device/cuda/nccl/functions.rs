//! The functions of NCCL, looked up in the very library that was found.
//!
//! cudarc's own table looks a function up at its first call and panics where it is missing, and its functions answer with an
//! enumeration, which must not hold a code that is newer than it.

#![expect(unsafe_code, reason = "NCCL is a C library")]

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};

use cudarc::driver::sys::CUstream;
use cudarc::nccl::sys::{ncclComm_t, ncclConfig_t, ncclUniqueId};

use super::super::compile::library::Library;
use super::super::compile::search::{Search, Wanted};

pub const NCCL: Wanted = Wanted {
    variable: "MESHWRIGHT_NCCL",
    folder: "nccl",
    wheels: ["nvidia-nccl-cu13", "nvidia-nccl-cu12"],
    files: &["libnccl.so.2", "libnccl.so"],
};

/// The oldest release that is used, and as it is written: the first that has a GPU keep to the order in which its host issues
/// collectives of several communicators, which `NCCL_LAUNCH_ORDER_IMPLICIT` asks for.
const OLDEST: (c_int, &str) = (22_602, "2.26.2");

/// `ncclResult_t`, whatever number it is.
pub type Status = c_int;

pub const SUCCESS: Status = 0;
/// A communicator that does not block has begun what it was asked for.
pub const IN_PROGRESS: Status = 7;

type Reduce =
    unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, c_int, ncclComm_t, CUstream) -> Status;

/// The functions themselves, with the types of NCCL's header.
#[derive(Clone, Copy, Debug)]
pub struct Functions {
    /// As 23203 for 2.32.3.
    pub version: c_int,
    pub unique_id: unsafe extern "C" fn(*mut ncclUniqueId) -> Status,
    pub init: unsafe extern "C" fn(*mut ncclComm_t, c_int, ncclUniqueId, c_int, *mut ncclConfig_t) -> Status,
    pub finalize: unsafe extern "C" fn(ncclComm_t) -> Status,
    pub destroy: unsafe extern "C" fn(ncclComm_t) -> Status,
    pub abort: unsafe extern "C" fn(ncclComm_t) -> Status,
    pub state: unsafe extern "C" fn(ncclComm_t, *mut Status) -> Status,
    error_string: unsafe extern "C" fn(Status) -> *const c_char,
    last_error: unsafe extern "C" fn(ncclComm_t) -> *const c_char,
    pub group_start: unsafe extern "C" fn() -> Status,
    pub group_end: unsafe extern "C" fn() -> Status,
    pub all_reduce: Reduce,
    pub reduce_scatter: Reduce,
    pub reduce: unsafe extern "C" fn(
        *const c_void,
        *mut c_void,
        usize,
        c_int,
        c_int,
        c_int,
        ncclComm_t,
        CUstream,
    ) -> Status,
    pub all_gather:
        unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, ncclComm_t, CUstream) -> Status,
    pub broadcast:
        unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, c_int, ncclComm_t, CUstream) -> Status,
    pub send: unsafe extern "C" fn(*const c_void, usize, c_int, c_int, ncclComm_t, CUstream) -> Status,
    pub receive: unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, ncclComm_t, CUstream) -> Status,
    pub register: Option<unsafe extern "C" fn(ncclComm_t, *mut c_void, usize, *mut *mut c_void) -> Status>,
    pub deregister: Option<unsafe extern "C" fn(ncclComm_t, *mut c_void) -> Status>,
}

impl Functions {
    /// Those of the first library of `search` that is not too old.
    ///
    /// # Errors
    /// All places, and what was wrong with what lay there.
    pub fn find(search: &Search) -> Result<Self, String> {
        search.first(&NCCL, |_| Ok(()), Self::open)
    }

    fn open(name: &OsStr) -> Result<Self, String> {
        // SAFETY: the library may be initialised at any time, and the types are those of its header.
        unsafe {
            let library = Library::open(name)?;
            let ask: unsafe extern "C" fn(*mut c_int) -> Status = library.function(c"ncclGetVersion")?;
            let mut version = 0;
            let status = ask(&raw mut version);
            if status != SUCCESS {
                return Err(format!("it answers {status} to the question for its version"));
            }
            if version < OLDEST.0 {
                return Err(format!("it is {}, and {} or newer is needed", written(version), OLDEST.1));
            }
            Ok(Self {
                version,
                unique_id: library.function(c"ncclGetUniqueId")?,
                init: library.function(c"ncclCommInitRankConfig")?,
                finalize: library.function(c"ncclCommFinalize")?,
                destroy: library.function(c"ncclCommDestroy")?,
                abort: library.function(c"ncclCommAbort")?,
                state: library.function(c"ncclCommGetAsyncError")?,
                error_string: library.function(c"ncclGetErrorString")?,
                last_error: library.function(c"ncclGetLastError")?,
                group_start: library.function(c"ncclGroupStart")?,
                group_end: library.function(c"ncclGroupEnd")?,
                all_reduce: library.function(c"ncclAllReduce")?,
                reduce_scatter: library.function(c"ncclReduceScatter")?,
                reduce: library.function(c"ncclReduce")?,
                all_gather: library.function(c"ncclAllGather")?,
                broadcast: library.function(c"ncclBroadcast")?,
                send: library.function(c"ncclSend")?,
                receive: library.function(c"ncclRecv")?,
                register: library.function(c"ncclCommRegister").ok(),
                deregister: library.function(c"ncclCommDeregister").ok(),
            })
        }
    }

    /// What the library says of `status`, and of the last error of this thread on a communicator, which may be null.
    pub fn meaning(&self, status: Status, communicator: ncclComm_t) -> String {
        // SAFETY: both answer with C strings of theirs, or with null.
        let [general, last] = unsafe {
            [(self.error_string)(status), (self.last_error)(communicator)].map(|text| spoken(text))
        };
        match (general, last) {
            (general, last) if last.is_empty() || last == general => general,
            (general, last) => format!("{general}: {last}"),
        }
    }
}

/// # Safety
/// `text` is null or a C string.
unsafe fn spoken(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as the caller vouches.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().trim().to_owned()
}

/// 23203 is 2.32.3.
pub fn written(version: c_int) -> String {
    format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
}
