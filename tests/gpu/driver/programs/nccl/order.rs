//! Communication beside other work: two communicators at once, the device going on by itself, and what has no order.

use super::members::{Member, in_members};
use super::numbers::{equal, numbers, sums};
use super::{FLOAT, Handle, SUM, nccl, ok};
use crate::setup::text;
use cudarc::driver::{CudaStream, result};
use std::sync::Arc;

const COUNT: usize = 1000;

/// A communicator, its stream and its memory.
struct Side {
    communicator: Handle,
    stream: Arc<CudaStream>,
    memory: u64,
}

impl Side {
    fn new(member: &Member, number: usize) -> Result<Side, String> {
        let memory = member.upload(&numbers(FLOAT, member.rank, COUNT))?;
        let stream = member.context.new_stream().map_err(text)?;
        Ok(Side { communicator: member.come(number)?, stream, memory })
    }

    fn all_reduce(&self) -> Result<(), String> {
        let (memory, stream) = (self.memory, self.stream.cu_stream().cast());
        let code =
            unsafe { (nccl().all_reduce)(memory, memory, COUNT, FLOAT, SUM, self.communicator, stream) };
        ok("ncclAllReduce", code)
    }

    fn end(&self, member: &Member) -> Result<(), String> {
        self.stream.synchronize().map_err(text)?;
        equal("all-reduce", &member.download(self.memory, 4 * COUNT)?, &sums(FLOAT, member.size, COUNT))?;
        ok("ncclCommDestroy", unsafe { (nccl().destroy)(self.communicator) })
    }
}

/// Rank 0 gives the first communicator work before the second one, and rank 1 only once the second one's is done.
pub fn two_streams() -> Result<(), String> {
    in_members(&[2], |member| {
        let (first, second) = (Side::new(member, 0)?, Side::new(member, 1)?);
        if member.rank == 0 {
            first.all_reduce()?;
            second.all_reduce()?;
        } else {
            second.all_reduce()?;
            second.stream.synchronize().map_err(text)?;
            first.all_reduce()?;
        }
        second.end(member)?;
        first.end(member)
    })
}

/// Rank 0 asks the driver for nothing until rank 1 has all of its sums.
pub fn by_itself() -> Result<(), String> {
    in_members(&[2], |member| {
        let side = Side::new(member, 0)?;
        side.all_reduce()?;
        if member.rank == 0 {
            member.hear("rank 1 has it")?;
        } else {
            side.stream.synchronize().map_err(text)?;
            member.tell("rank 1 has it")?;
        }
        side.end(member)
    })
}

/// A memset on another stream, which nothing puts before or after the sum.
pub fn without_order() -> Result<(), String> {
    in_members(&[1], |member| {
        let side = Side::new(member, 0)?;
        side.all_reduce()?;
        let other = member.stream.cu_stream();
        let set = unsafe { result::memset_d8_async(side.memory, 0, 4, other) };
        set.and_then(|()| result::ctx::synchronize()).map_err(text)
    })
}

/// The same with events between.
pub fn with_order() -> Result<(), String> {
    in_members(&[2], |member| {
        let side = Side::new(member, 0)?;
        let other = &member.stream;
        unsafe { result::memset_d8_async(side.memory, 0, 4 * COUNT, other.cu_stream()) }.map_err(text)?;
        let bytes = numbers(FLOAT, member.rank, COUNT);
        unsafe { result::memcpy_htod_async(side.memory, &bytes, other.cu_stream()) }.map_err(text)?;
        side.stream.wait(&other.record_event(None).map_err(text)?).map_err(text)?;
        side.all_reduce()?;
        other.wait(&side.stream.record_event(None).map_err(text)?).map_err(text)?;
        side.end(member)?;
        unsafe { result::memset_d8_async(side.memory, 0, 4, other.cu_stream()) }.map_err(text)?;
        member.synchronise()
    })
}

/// One communicator on two streams: in the order of its calls.
pub fn in_the_order_of_calls() -> Result<(), String> {
    in_members(&[2], |member| {
        let (first, second) = (Side::new(member, 0)?, Side::new(member, 1)?);
        let apart = Side { stream: second.stream.clone(), memory: second.memory, ..first };
        first.all_reduce()?;
        apart.all_reduce()?;
        second.stream.synchronize().map_err(text)?;
        first.stream.synchronize().map_err(text)?;
        for memory in [first.memory, second.memory] {
            equal("all-reduce", &member.download(memory, 4 * COUNT)?, &sums(FLOAT, member.size, COUNT))?;
        }
        [first.communicator, second.communicator]
            .iter()
            .try_for_each(|communicator| ok("ncclCommDestroy", unsafe { (nccl().destroy)(*communicator) }))
    })
}

/// A group on two streams: each of them waits for what the other one is given, as the last memset shows.
pub fn group_on_two_streams() -> Result<(), String> {
    in_members(&[2], |member| {
        let first = Side::new(member, 0)?;
        let memory = member.upload(&numbers(FLOAT, member.rank, COUNT))?;
        let second = Side { stream: member.stream.clone(), memory, ..first };
        ok("ncclGroupStart", unsafe { (nccl().group_start)() })?;
        first.all_reduce()?;
        second.all_reduce()?;
        ok("ncclGroupEnd", unsafe { (nccl().group_end)() })?;
        unsafe { result::memset_d8_async(first.memory, 0, 4, second.stream.cu_stream()) }.map_err(text)?;
        equal("all-reduce", &member.download(memory, 4 * COUNT)?, &sums(FLOAT, member.size, COUNT))?;
        equal("the memset", &member.download(first.memory, 4)?, &[0; 4])?;
        ok("ncclCommDestroy", unsafe { (nccl().destroy)(first.communicator) })
    })
}
