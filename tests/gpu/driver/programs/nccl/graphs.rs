//! Communication in graphs: replayed, and captured by some members only.

use super::members::{Member, in_members};
use super::numbers::{equal, numbers};
use super::{FLOAT, Handle, INVALID_USAGE, SUM, asked, expect_code, expect_words, nccl, ok};
use crate::setup::text;
use cudarc::driver::sys::{CUgraph, CUstreamCaptureMode as Mode};
use cudarc::driver::{result, sys};
use std::ptr::null_mut;

const COUNT: usize = 1000;

/// What the stream is given within a capture.
fn capture(member: &Member, give: impl Fn() -> Result<(), String>) -> Result<CUgraph, String> {
    let (stream, mode) = (member.stream.cu_stream(), Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    unsafe { result::stream::begin_capture(stream, mode) }.map_err(text)?;
    give()?;
    unsafe { result::stream::end_capture(stream) }.map_err(text)
}

fn launch(member: &Member, graph: CUgraph, times: usize) -> Result<(), String> {
    let mut executable = null_mut();
    unsafe { sys::cuGraphInstantiateWithFlags(&mut executable, graph, 0) }.result().map_err(text)?;
    (0..times)
        .try_for_each(|_| unsafe { result::graph::launch(executable, member.stream.cu_stream()) })
        .map_err(text)
}

fn reduce(member: &Member, from: u64, to: u64, communicator: Handle) -> Result<(), String> {
    let code = unsafe { (nccl().all_reduce)(from, to, COUNT, FLOAT, SUM, communicator, member.stream()) };
    ok("ncclAllReduce", code)
}

/// The second round of a ring, three times: what is sent is what came the time before.
pub fn replays() -> Result<(), String> {
    in_members(&[1, 2, 3], |member| {
        let communicator = member.come(0)?;
        let (rank, size) = (member.rank, member.size);
        let from = member.upload(&numbers(FLOAT, rank, COUNT))?;
        let to = member.upload(&vec![0; 4 * COUNT])?;
        let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
        let graph = capture(member, || {
            let stream = member.stream();
            ok("ncclGroupStart", unsafe { (nccl().group_start)() })?;
            ok("ncclSend", unsafe { (nccl().send)(from, COUNT, FLOAT, next as i32, communicator, stream) })?;
            ok("ncclRecv", unsafe {
                (nccl().receive)(to, COUNT, FLOAT, before as i32, communicator, stream)
            })?;
            ok("ncclGroupEnd", unsafe { (nccl().group_end)() })?;
            unsafe { result::memcpy_dtod_async(from, to, 4 * COUNT, member.stream.cu_stream()) }.map_err(text)
        })?;
        launch(member, graph, 3)?;
        let origin = (rank + 3 * size - 3) % size;
        equal("three times", &member.download(from, 4 * COUNT)?, &numbers(FLOAT, origin, COUNT))?;
        ok("ncclCommDestroy", unsafe { (nccl().destroy)(communicator) })?;
        match launch(member, graph, 1) {
            Err(error) if error.contains("INVALID_HANDLE") => Ok(()),
            other => Err(format!("a graph without its communicator: {other:?}")),
        }
    })
}

/// Rank 0 sums in a graph, and rank 1 without one.
pub fn some_only() -> Result<(), String> {
    in_members(&[2], |member| {
        let communicator = member.come(0)?;
        let memory = member.upload(&numbers(FLOAT, member.rank, COUNT))?;
        if member.rank == 0 {
            launch(member, capture(member, || reduce(member, memory, memory, communicator))?, 1)?;
        } else {
            reduce(member, memory, memory, communicator)?;
        }
        member.synchronise()?;
        expect_code("the communicator", asked(communicator)?, INVALID_USAGE)?;
        expect_words(communicator, &["rank 1 calls", "the other", "in a graph"])?;
        ok("ncclCommAbort", unsafe { (nccl().abort)(communicator) })
    })
}
