//! `libnccl`: how communicators begin, by an id that one member makes and all pass.

use super::give;
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
        give(id, UniqueId(bytes))
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
        unsafe { give(to, std::ptr::null_mut()) }
            .or_else(|_| invalid("no place for a communicator".into()))?;
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
        if !self.nccl.members.insert((key, seat.rank)) {
            return refuse(
                Code::InvalidUsage,
                format!("this process has been rank {rank} of this communicator already"),
            );
        }
        let nccl = &self.settings.nccl;
        let (folder, version, slow) = (&nccl.folder, nccl.version, nccl.slow);
        let communicator = Communicator::join(Arrival { folder, id: key, seat, version, blocking, slow })?;
        let name = &communicator.name;
        let others = self.nccl.communicators.values();
        if others.filter(|other| other.name == *name).any(|other| other.seat.device == device) {
            let text = format!("communicator {name} has two ranks on device {device}");
            return refuse(Code::InvalidUsage, text);
        }
        let handle = self.handle();
        self.nccl.communicators.insert(handle, communicator);
        users::know(handle, device);
        background::start();
        unsafe { give(to, handle as Handle) }?;
        self.come_or_keep(handle)
    }
}

unsafe fn is_blocking(config: *const Config) -> Answer<bool> {
    const UNSET: c_int = c_int::MIN;
    let Some(first) = (unsafe { config.cast::<(usize, u32, u32)>().as_ref() }) else {
        return Ok(true);
    };
    let &(size, magic, version) = first;
    if magic != MAGIC || size < size_of::<(usize, u32, u32)>() {
        return refuse(Code::InvalidArgument, "the configuration doesn't begin as one");
    }
    if version < BLOCKING_SINCE || size < size_of::<Config>() {
        return Ok(true);
    }
    match unsafe { (&raw const (*config).blocking).read() } {
        UNSET | 1 => Ok(true),
        0 => Ok(false),
        other => refuse(Code::InvalidArgument, format!("{other} for `blocking` of a configuration")),
    }
}
