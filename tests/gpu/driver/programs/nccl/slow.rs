//! Communicators whose calls don't block.

use super::members::{Member, in_members, in_members_with};
use super::numbers::{equal, numbers, sums};
use super::{
    Config, FLOAT, Handle, IN_PROGRESS, INVALID_ARGUMENT, OK, SUM, asked, expect_code, nccl, ok, settled,
};

const COUNT: usize = 1000;

fn come(member: &Member) -> Result<Handle, String> {
    let mut communicator = std::ptr::null_mut();
    let (size, rank, id) = (member.size as i32, member.rank as i32, member.ids[0]);
    let code = unsafe { (nccl().init)(&mut communicator, size, id, rank, &Config::new(0)) };
    if member.rank == 0 || code != OK {
        expect_code("ncclCommInitRankConfig", code, IN_PROGRESS)?;
    }
    Ok(communicator)
}

/// Rank 0 has its communicator before rank 1 comes, and may not use it yet.
pub fn comes_alone() -> Result<(), String> {
    in_members(&[2], |member| {
        if member.rank == 1 {
            member.hear("rank 0 is there")?;
        }
        let communicator = come(member)?;
        let memory = member.upload(&numbers(FLOAT, member.rank, COUNT))?;
        let reduce = || unsafe {
            (nccl().all_reduce)(memory, memory, COUNT, FLOAT, SUM, communicator, member.stream())
        };
        if member.rank == 0 {
            expect_code("the communicator", asked(communicator)?, IN_PROGRESS)?;
            expect_code("ncclAllReduce", reduce(), INVALID_ARGUMENT)?;
            member.tell("rank 0 is there")?;
        }
        expect_code("the communicator", settled(communicator)?, OK)?;
        ok("ncclAllReduce", reduce())?;
        equal("all-reduce", &member.download(memory, 4 * COUNT)?, &sums(FLOAT, 2, COUNT))?;
        ok("ncclCommDestroy", unsafe { (nccl().destroy)(communicator) })
    })
}

/// A library that needs its time: calls answer that they are in progress, now and then.
pub fn slowly() -> Result<(), String> {
    let slow = |_, command: &mut std::process::Command| {
        command.env("FAKE_NCCL_SLOW", "1");
    };
    in_members_with(&[1, 2], slow, |member| {
        let mut communicator = std::ptr::null_mut();
        let (size, rank, id) = (member.size as i32, member.rank as i32, member.ids[0]);
        let code = unsafe { (nccl().init)(&mut communicator, size, id, rank, &Config::new(0)) };
        expect_code("ncclCommInitRankConfig", code, IN_PROGRESS)?;
        expect_code("the communicator", settled(communicator)?, OK)?;
        let mut answers = [0; 2];
        for _ in 0..20 {
            let memory = member.upload(&numbers(FLOAT, member.rank, COUNT))?;
            let stream = member.stream();
            let code =
                unsafe { (nccl().all_reduce)(memory, memory, COUNT, FLOAT, SUM, communicator, stream) };
            match code {
                OK => answers[0] += 1,
                other => {
                    expect_code("ncclAllReduce", other, IN_PROGRESS)?;
                    expect_code("the communicator", asked(communicator)?, IN_PROGRESS)?;
                    answers[1] += 1;
                }
            }
            expect_code("the communicator", settled(communicator)?, OK)?;
            equal("all-reduce", &member.download(memory, 4 * COUNT)?, &sums(FLOAT, member.size, COUNT))?;
        }
        if answers.contains(&0) {
            return Err(format!("{} calls were done and {} in progress", answers[0], answers[1]));
        }
        expect_code("ncclCommFinalize", unsafe { (nccl().finalise)(communicator) }, IN_PROGRESS)?;
        expect_code("the communicator", settled(communicator)?, OK)?;
        ok("ncclCommDestroy", unsafe { (nccl().destroy)(communicator) })
    })
}
