//! Threads of one communicator and of one device, and who ends a wait: another thread, and never a dead member.

use super::members::{Member, in_members};
use super::numbers::numbers;
use super::{
    FLOAT, Handle, INVALID_ARGUMENT, INVALID_USAGE, SUM, asked, expect_code, expect_words, nccl, ok,
};
use crate::setup::text;
use std::ptr::null_mut;
use std::time::Duration;

const COUNT: usize = 1000;

struct Shared(Handle, Handle);
// SAFETY: the library must refuse what threads do at once with the handles.
unsafe impl Sync for Shared {}

impl Shared {
    fn both(&self) -> (Handle, Handle) {
        (self.0, self.1)
    }
}

fn reduce(member: &Member, communicator: Handle, memory: u64) -> u32 {
    unsafe { (nccl().all_reduce)(memory, memory, COUNT, FLOAT, SUM, communicator, member.stream()) }
}

/// A thread uses a communicator, and then another one of the same device, while a second thread's group is open.
pub fn at_once() -> Result<(), String> {
    in_members(&[1], |member| {
        let shared = Shared(member.come(0)?, member.come(1)?);
        let (first, second) = shared.both();
        let memory = member.upload(&numbers(FLOAT, 0, COUNT))?;
        ok("ncclGroupStart", unsafe { (nccl().group_start)() })?;
        ok("ncclAllReduce", reduce(member, first, memory))?;
        let other = || {
            let (first, second) = shared.both();
            expect_code("ncclAllReduce", reduce(member, first, memory), INVALID_USAGE)?;
            expect_words(null_mut(), &["two threads use one communicator at once"])?;
            expect_code("ncclAllReduce", reduce(member, second, memory), INVALID_USAGE)?;
            expect_words(null_mut(), &["two threads use communicators of device 0 at once"])?;
            // Any thread may ask, and a group is the other thread's.
            ok("the communicator", asked(first)?)?;
            expect_code("ncclGroupEnd", unsafe { (nccl().group_end)() }, INVALID_USAGE)
        };
        std::thread::scope(|scope| {
            scope.spawn(other).join().map_err(|_| "a thread has panicked".to_owned())
        })??;
        ok("ncclGroupEnd", unsafe { (nccl().group_end)() })?;
        let after = || reduce(member, shared.both().0, memory);
        let code = std::thread::scope(|scope| scope.spawn(after).join().map_err(text))?;
        ok("ncclAllReduce after the group", code)?;
        member.synchronise()?;
        [first, second].iter().try_for_each(|each| ok("ncclCommDestroy", unsafe { (nccl().destroy)(*each) }))
    })
}

/// Rank 1 never sums. A thread of rank 0 waits for its stream, which another one sets free.
pub fn abort() -> Result<(), String> {
    in_members(&[2], |member| {
        let shared = Shared(member.come(0)?, null_mut());
        let communicator = shared.both().0;
        let memory = member.upload(&numbers(FLOAT, 0, COUNT))?;
        if member.rank == 0 {
            ok("ncclAllReduce", reduce(member, communicator, memory))?;
            ok("ncclAllReduce", reduce(member, communicator, memory))?;
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| member.synchronise());
                std::thread::sleep(Duration::from_millis(100));
                if waiting.is_finished() {
                    return Err("nobody had to wait".to_owned());
                }
                ok("ncclCommAbort", unsafe { (nccl().abort)(shared.both().0) })?;
                waiting.join().map_err(|_| "a thread has panicked".to_owned())?
            })?;
            // The device goes on.
            member.download(member.upload(&[1])?, 1)?;
            member.tell("rank 0 is free")?;
        } else {
            member.hear("rank 0 is free")?;
            ok("ncclCommAbort", unsafe { (nccl().abort)(communicator) })?;
        }
        expect_code("ncclCommAbort", unsafe { (nccl().abort)(communicator) }, INVALID_ARGUMENT)?;
        expect_words(null_mut(), &["has been destroyed or aborted"])
    })
}

/// Rank 1 ends without a word. Rank 0 isn't told, and waits until it gives up.
pub fn dead_member() -> Result<(), String> {
    in_members(&[2], |member| {
        let communicator = member.come(0)?;
        if member.rank == 1 {
            std::process::exit(0);
        }
        let memory = member.upload(&numbers(FLOAT, 0, COUNT))?;
        ok("ncclAllReduce", reduce(member, communicator, memory))?;
        std::thread::sleep(Duration::from_millis(200));
        ok("the communicator", asked(communicator)?)?;
        let query = || unsafe { cudarc::driver::sys::cuStreamQuery(member.stream.cu_stream()) }.result();
        if query().is_ok() {
            return Err("the sum is done without rank 1".into());
        }
        ok("ncclCommAbort", unsafe { (nccl().abort)(communicator) })?;
        member.synchronise()
    })
}
