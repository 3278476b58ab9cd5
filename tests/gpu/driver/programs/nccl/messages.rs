//! Sends and receives: in a ring, to oneself, in their order, and of counts that differ.

use super::members::{Member, in_members};
use super::numbers::{equal, numbers};
use super::{FLOAT, INVALID_USAGE, asked, expect_words, nccl, ok, settled};
use std::time::Duration;

/// More than a piece has.
const COUNT: usize = 100_001;

/// Each sends to the next one and receives from the one before, twice, at once.
pub fn ring() -> Result<(), String> {
    in_members(&[1, 2, 3, 4], |member| {
        let communicator = member.come(0)?;
        let (next, before) = ((member.rank + 1) % member.size, (member.rank + member.size - 1) % member.size);
        let counts = [COUNT, 10];
        let mut memory = vec![];
        for count in counts {
            let from = member.upload(&numbers(FLOAT, member.rank, count))?;
            memory.push((from, member.upload(&vec![0; 4 * count])?, count));
        }
        ok("ncclGroupStart", unsafe { (nccl().group_start)() })?;
        for &(from, to, count) in &memory {
            let stream = member.stream();
            ok("ncclSend", unsafe { (nccl().send)(from, count, FLOAT, next as i32, communicator, stream) })?;
            ok("ncclRecv", unsafe {
                (nccl().receive)(to, count, FLOAT, before as i32, communicator, stream)
            })?;
        }
        ok("ncclGroupEnd", unsafe { (nccl().group_end)() })?;
        for (_, to, count) in memory {
            equal("the ring", &member.download(to, 4 * count)?, &numbers(FLOAT, before, count))?;
        }
        ok("ncclCommDestroy", unsafe { (nccl().destroy)(communicator) })
    })
}

/// Rank 0 sends one number more than rank 1 receives; rank 2 doesn't take part.
pub fn counts_differ() -> Result<(), String> {
    in_members(&[3], |member| {
        let communicator = member.come(0)?;
        let memory = member.upload(&numbers(FLOAT, member.rank, COUNT))?;
        let stream = member.stream();
        let code = unsafe {
            match member.rank {
                0 => (nccl().send)(memory, 10, FLOAT, 1, communicator, stream),
                1 => (nccl().receive)(memory, 9, FLOAT, 0, communicator, stream),
                _ => return end(member, communicator),
            }
        };
        ok("the message", code)?;
        member.synchronise()?;
        super::expect_code("the communicator", settled(communicator)?, INVALID_USAGE)?;
        expect_words(communicator, &["rank 0 sends 10 f32 numbers to rank 1, which receives 9 f32 numbers"])?;
        ok("ncclCommAbort", unsafe { (nccl().abort)(communicator) })?;
        member.tell(&format!("{} has seen it", member.rank))
    })
}

/// Whoever has nothing to do with it hears nothing.
fn end(member: &Member, communicator: super::Handle) -> Result<(), String> {
    member.hear("0 has seen it")?;
    member.hear("1 has seen it")?;
    ok("the communicator", asked(communicator)?)?;
    ok("ncclCommDestroy", unsafe { (nccl().destroy)(communicator) })
}

/// A send that nobody receives waits, and no longer than until it's received.
pub fn waits() -> Result<(), String> {
    in_members(&[2], |member| {
        let communicator = member.come(0)?;
        let memory = member.upload(&numbers(FLOAT, member.rank, 10))?;
        let stream = member.stream();
        if member.rank == 0 {
            ok("ncclSend", unsafe { (nccl().send)(memory, 10, FLOAT, 1, communicator, stream) })?;
            let until = std::time::Instant::now() + Duration::from_millis(100);
            while std::time::Instant::now() < until {
                let asked = unsafe { cudarc::driver::sys::cuStreamQuery(member.stream.cu_stream()) };
                if asked.result().is_ok() {
                    return Err("the send is done, and nobody has received".into());
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            member.tell("it has waited")?;
        } else {
            member.hear("it has waited")?;
            ok("ncclRecv", unsafe { (nccl().receive)(memory, 10, FLOAT, 0, communicator, stream) })?;
        }
        equal("the message", &member.download(memory, 40)?, &numbers(FLOAT, 0, 10))?;
        ok("ncclCommDestroy", unsafe { (nccl().destroy)(communicator) })
    })
}
