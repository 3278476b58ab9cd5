//! `libnccl`: how communicators begin, by an id that one member makes and all pass.

use super::nccl::tell;
use crate::background;
use crate::call::{Session, entries};
use crate::driver::Handle;
use crate::failure::Answer;
use crate::nccl::communicator::{Arrival, Communicator, MARK};
use crate::nccl::operation::Seat;
use crate::nccl::{Code, group, refuse, users};
use std::ffi::c_int;

/// `ncclUniqueId`, which is passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct UniqueId([u8; 128]);

/// The beginning of `ncclConfig_t`.
#[repr(C)]
pub struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: c_int,
}

const MAGIC: u32 = 0xcafe_beef;
/// The first version whose configurations say whether calls block.
const BLOCKING_SINCE: u32 = 21_400;

entries! {
    Nothing fn ncclGetUniqueId(id: *mut UniqueId) |session| {
        let mut random = [0u8; 16];
        let read = libc::getrandom(random.as_mut_ptr().cast(), random.len(), 0);
        let result = if read == 16 { Ok(()) } else { refuse(Code::SystemError, "no random bytes") };
        session.remember(result)?;
        let mut bytes = [0; 128];
        bytes[..8].copy_from_slice(&MARK);
        bytes[8..24].copy_from_slice(&random);
        tell(id, UniqueId(bytes))
    }

    Nothing fn ncclCommInitRankConfig(
        communicator: *mut Handle,
        size: c_int,
        id: UniqueId,
        rank: c_int,
        config: *const Config,
    ) |session| {
        let result = session.come_to(communicator, (size, rank), id, config);
        if let Err(failure) = &result && failure.code != Code::InProgress as u32 && group::is_open() {
            group::spoil(failure.code);
        }
        session.remember(result)
    }
}

impl Session {
    unsafe fn come_to(
        &mut self,
        to: *mut Handle,
        (size, rank): (c_int, c_int),
        id: UniqueId,
        config: *const Config,
    ) -> Answer {
        let invalid = |text: String| refuse(Code::InvalidArgument, text);
        unsafe { tell(to, std::ptr::null_mut()) }?;
        let blocking = unsafe { is_blocking(config) }?;
        let device = self.current().map_err(|failure| self.nccl_failed(failure))?;
        if id.0[..8] != MARK {
            return invalid("the id isn't one that `ncclGetUniqueId` gave".into());
        }
        let mut key = [0; 16];
        key.copy_from_slice(&id.0[8..24]);
        let seat = match (usize::try_from(size), usize::try_from(rank)) {
            (Ok(size), Ok(rank)) if rank < size => Seat { rank, size, device },
            _ => return invalid(format!("rank {rank} of {size}")),
        };
        self.nccl.sit(key, seat)?;
        let nccl = &self.settings.nccl;
        let (folder, version, slow) = (&nccl.folder, nccl.version, nccl.slow);
        let communicator = Communicator::join(Arrival { folder, id: key, seat, version, blocking, slow })?;
        let handle = self.handle();
        self.nccl.communicators.insert(handle, communicator);
        users::know(handle, device);
        background::start();
        unsafe { tell(to, handle as Handle) }?;
        self.come_or_keep(handle)
    }
}

unsafe fn is_blocking(config: *const Config) -> Answer<bool> {
    const UNSET: c_int = c_int::MIN;
    /// Size, mark and version.
    const FIRST: usize = 16;
    if config.is_null() {
        return Ok(true);
    }
    let (size, magic) = unsafe { ((&raw const (*config).size).read(), (&raw const (*config).magic).read()) };
    if magic != MAGIC || size < FIRST {
        return refuse(Code::InvalidArgument, "the configuration doesn't begin as one");
    }
    let version = unsafe { (&raw const (*config).version).read() };
    if version < BLOCKING_SINCE || size < size_of::<Config>() {
        return Ok(true);
    }
    match unsafe { (&raw const (*config).blocking).read() } {
        UNSET | 1 => Ok(true),
        0 => Ok(false),
        other => refuse(Code::InvalidArgument, format!("{other} for `blocking` of a configuration")),
    }
}
