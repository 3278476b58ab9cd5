//! Programs of several processes that communicate by NCCL, whose functions are looked up by their names.

pub mod devices;
pub mod graphs;
pub mod members;
pub mod messages;
pub mod numbers;
pub mod operations;
pub mod order;
pub mod slow;
pub mod threads;
pub mod wrong;

use libloading::{Library, Symbol};
use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;

pub type Handle = *mut c_void;

pub const OK: u32 = 0;
pub const INVALID_ARGUMENT: u32 = 4;
pub const INVALID_USAGE: u32 = 5;
pub const IN_PROGRESS: u32 = 7;

pub const INT8: u32 = 0;
pub const FLOAT: u32 = 7;
pub const DOUBLE: u32 = 8;
pub const BFLOAT: u32 = 9;
pub const SUM: u32 = 0;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Id(pub [u8; 128]);

#[repr(C)]
pub struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: i32,
    others: [i32; 13],
}

impl Config {
    pub fn new(blocking: i32) -> Config {
        let others = [i32::MIN; 13];
        Config { size: size_of::<Config>(), magic: 0xcafe_beef, version: 23_007, blocking, others }
    }
}

type Reduction = unsafe extern "C" fn(u64, u64, usize, u32, u32, Handle, Handle) -> u32;
type Message = unsafe extern "C" fn(u64, usize, u32, i32, Handle, Handle) -> u32;
type OfCommunicator = unsafe extern "C" fn(Handle) -> u32;

macro_rules! functions {
    ($($name:ident: $symbol:literal, $kind:ty;)*) => {
        pub struct Nccl { $(pub $name: $kind,)* }

        /// The library's functions.
        pub fn nccl() -> &'static Nccl {
            static FUNCTIONS: OnceLock<Nccl> = OnceLock::new();
            FUNCTIONS.get_or_init(|| {
                let library = unsafe { Library::new("libnccl.so.2") }.expect("libnccl.so.2 on the loader's path");
                let library: &'static Library = Box::leak(Box::new(library));
                Nccl { $($name: {
                    let symbol: Symbol<$kind> = unsafe { library.get($symbol) }.expect($symbol);
                    *symbol
                },)* }
            })
        }
    };
}

functions! {
    version: "ncclGetVersion", unsafe extern "C" fn(*mut i32) -> u32;
    unique_id: "ncclGetUniqueId", unsafe extern "C" fn(*mut Id) -> u32;
    init: "ncclCommInitRankConfig", unsafe extern "C" fn(*mut Handle, i32, Id, i32, *const Config) -> u32;
    finalise: "ncclCommFinalize", OfCommunicator;
    destroy: "ncclCommDestroy", OfCommunicator;
    abort: "ncclCommAbort", OfCommunicator;
    async_error: "ncclCommGetAsyncError", unsafe extern "C" fn(Handle, *mut u32) -> u32;
    error_string: "ncclGetErrorString", unsafe extern "C" fn(u32) -> *const c_char;
    last_error: "ncclGetLastError", unsafe extern "C" fn(Handle) -> *const c_char;
    count: "ncclCommCount", unsafe extern "C" fn(Handle, *mut i32) -> u32;
    rank: "ncclCommUserRank", unsafe extern "C" fn(Handle, *mut i32) -> u32;
    group_start: "ncclGroupStart", unsafe extern "C" fn() -> u32;
    group_end: "ncclGroupEnd", unsafe extern "C" fn() -> u32;
    all_reduce: "ncclAllReduce", Reduction;
    reduce_scatter: "ncclReduceScatter", Reduction;
    all_gather: "ncclAllGather", unsafe extern "C" fn(u64, u64, usize, u32, Handle, Handle) -> u32;
    broadcast: "ncclBroadcast", unsafe extern "C" fn(u64, u64, usize, u32, i32, Handle, Handle) -> u32;
    reduce: "ncclReduce", unsafe extern "C" fn(u64, u64, usize, u32, u32, i32, Handle, Handle) -> u32;
    send: "ncclSend", Message;
    receive: "ncclRecv", Message;
    register: "ncclCommRegister", unsafe extern "C" fn(Handle, u64, usize, *mut Handle) -> u32;
    deregister: "ncclCommDeregister", unsafe extern "C" fn(Handle, Handle) -> u32;
}

/// The words of the latest error.
pub fn words(communicator: Handle) -> String {
    unsafe { CStr::from_ptr((nccl().last_error)(communicator)) }.to_string_lossy().into_owned()
}

/// An answer that must be this one.
pub fn expect_code(what: &str, code: u32, expected: u32) -> Result<(), String> {
    if code == expected {
        return Ok(());
    }
    let text = unsafe { CStr::from_ptr((nccl().error_string)(code)) }.to_string_lossy();
    Err(format!("{what} answers {code} ({text}), not {expected}: {}", words(std::ptr::null_mut())))
}

pub fn ok(what: &str, code: u32) -> Result<(), String> {
    expect_code(what, code, OK)
}

/// What a communicator answers about itself.
pub fn asked(communicator: Handle) -> Result<u32, String> {
    let mut code = OK;
    ok("ncclCommGetAsyncError", unsafe { (nccl().async_error)(communicator, &mut code) })?;
    Ok(code)
}

/// What a communicator answers once nothing is in progress.
pub fn settled(communicator: Handle) -> Result<u32, String> {
    loop {
        match asked(communicator)? {
            IN_PROGRESS => std::thread::sleep(std::time::Duration::from_millis(1)),
            code => return Ok(code),
        }
    }
}

/// The words of the latest error must have these in them.
pub fn expect_words(communicator: Handle, expected: &[&str]) -> Result<(), String> {
    let said = words(communicator);
    match expected.iter().find(|words| !said.contains(**words)) {
        None => Ok(()),
        Some(words) => Err(format!("`{words}` isn't in: {said}")),
    }
}
