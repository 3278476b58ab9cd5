//! All operations: in place and apart, of all sizes, in one to four processes.

use super::members::{Member, in_members};
use super::numbers::{equal, numbers, size, sums};
use super::{BFLOAT, DOUBLE, FLOAT, Handle, INT8, SUM, nccl, ok};
use crate::setup::text;
use cudarc::driver::result;

/// More f32 numbers than a round takes.
const MANY: usize = 270_001;
const TRIALS: [(u32, usize); 6] =
    [(INT8, 1001), (BFLOAT, 999), (FLOAT, 1000), (FLOAT, MANY), (DOUBLE, 1), (DOUBLE, 0)];

pub fn all() -> Result<(), String> {
    in_members(&[1, 2, 3, 4], |member| {
        let communicator = member.come(0)?;
        let (mut version, mut count, mut rank) = (0, 0, 0);
        ok("ncclGetVersion", unsafe { (nccl().version)(&mut version) })?;
        ok("ncclCommCount", unsafe { (nccl().count)(communicator, &mut count) })?;
        ok("ncclCommUserRank", unsafe { (nccl().rank)(communicator, &mut rank) })?;
        if (version, count, rank) != (23203, member.size as i32, member.rank as i32) {
            return Err(format!("version {version}, {count} ranks, rank {rank}"));
        }
        for (element, count) in TRIALS {
            for in_place in [false, true] {
                let trial = Trial { member, communicator, element, count, in_place };
                trial.all().map_err(|error| format!("type {element}, {count}, {in_place}: {error}"))?;
            }
        }
        ok("ncclCommFinalize", unsafe { (nccl().finalise)(communicator) })?;
        ok("ncclCommDestroy", unsafe { (nccl().destroy)(communicator) })
    })
}

struct Trial<'m> {
    member: &'m Member,
    communicator: Handle,
    element: u32,
    count: usize,
    in_place: bool,
}

impl Trial<'_> {
    fn all(&self) -> Result<(), String> {
        let Trial { member, communicator, element, count, in_place } = *self;
        let (rank, ranks, stream) = (member.rank, member.size, member.stream());
        let (bytes, root) = (count * size(element), ranks - 1);
        let mine = numbers(element, rank, count);
        let apart = |bytes: usize| member.upload(&vec![0xee; bytes]);
        let library = nccl();

        let from = member.upload(&mine)?;
        let to = if in_place { from } else { apart(bytes)? };
        let code = unsafe { (library.all_reduce)(from, to, count, element, SUM, communicator, stream) };
        ok("ncclAllReduce", code)?;
        let sums_of_all = sums(element, ranks, count);
        equal("all-reduce", &member.download(to, bytes)?, &sums_of_all)?;

        let from = member.upload(&mine)?;
        let to = if in_place { from } else { apart(bytes)? };
        let code =
            unsafe { (library.reduce)(from, to, count, element, SUM, root as i32, communicator, stream) };
        ok("ncclReduce", code)?;
        let expected = match (rank == root, in_place) {
            (true, _) => sums_of_all,
            (false, true) => mine.clone(),
            (false, false) => vec![0xee; bytes],
        };
        equal("reduce", &member.download(to, bytes)?, &expected)?;

        let from = member.upload(&mine)?;
        let to = if in_place { from } else { apart(bytes)? };
        let code =
            unsafe { (library.broadcast)(from, to, count, element, root as i32, communicator, stream) };
        ok("ncclBroadcast", code)?;
        equal("broadcast", &member.download(to, bytes)?, &numbers(element, root, count))?;

        let to = apart(bytes * ranks)?;
        let from = if in_place { to + (rank * bytes) as u64 } else { member.upload(&mine)? };
        if in_place && bytes > 0 {
            unsafe { result::memcpy_htod_sync(from, &mine) }.map_err(text)?;
            member.context.synchronize().map_err(text)?;
        }
        let code = unsafe { (library.all_gather)(from, to, count, element, communicator, stream) };
        ok("ncclAllGather", code)?;
        let gathered: Vec<u8> = (0..ranks).flat_map(|rank| numbers(element, rank, count)).collect();
        equal("all-gather", &member.download(to, bytes * ranks)?, &gathered)?;

        let from = member.upload(&numbers(element, rank, count * ranks))?;
        let to = if in_place { from + (rank * bytes) as u64 } else { apart(bytes)? };
        let code = unsafe { (library.reduce_scatter)(from, to, count, element, SUM, communicator, stream) };
        ok("ncclReduceScatter", code)?;
        let expected = &sums(element, ranks, count * ranks)[rank * bytes..][..bytes];
        equal("reduce-scatter", &member.download(to, bytes)?, expected)
    }
}
