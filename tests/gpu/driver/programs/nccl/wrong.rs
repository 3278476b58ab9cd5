//! What NCCL documents as wrong, or would answer with a hang.

use super::members::{IDS, in_members, in_members_with};
use super::numbers::numbers;
use super::{
    BFLOAT, Config, FLOAT, Handle, INVALID_ARGUMENT, INVALID_USAGE, Id, OK, SUM, asked, expect_code,
    expect_words, nccl, ok,
};
use crate::mapping::{allow, map};
use std::ptr::null_mut;

const COUNT: usize = 1000;

/// Members that call different operations, and the words that all of them hear.
const DIFFERENT: [(&str, &str); 4] = [
    ("count", "rank 2 calls an all-reduce of 999 f32 numbers, the others an all-reduce of 1000 f32 numbers"),
    ("type", "rank 2 calls an all-reduce of 1000 bf16 numbers, the others"),
    ("root", "rank 2 calls a broadcast of 1000 f32 numbers from rank 1, the others a broadcast"),
    ("operation", "rank 2 calls a reduce of 1000 f32 numbers to rank 0, the others an all-reduce"),
];

/// Rank 2 calls something else than the others.
pub fn members_differ() -> Result<(), String> {
    if std::env::var_os("DIFFERENT").is_some() {
        return in_members(&[], differ);
    }
    DIFFERENT.iter().enumerate().try_for_each(|(number, (what, _))| {
        let set = |_, command: &mut std::process::Command| {
            command.env("DIFFERENT", number.to_string());
        };
        in_members_with(&[3], set, differ).map_err(|error| format!("{what}: {error}"))
    })
}

fn differ(member: &super::members::Member) -> Result<(), String> {
    let number = std::env::var("DIFFERENT").ok().and_then(|number| number.parse().ok()).unwrap_or(0);
    let (what, said): (&str, &str) = DIFFERENT[number];
    let communicator = member.come(0)?;
    let memory = member.upload(&numbers(FLOAT, member.rank, COUNT))?;
    let (stream, odd, library) = (member.stream(), member.rank == 2, nccl());
    let count = if what == "count" && odd { COUNT - 1 } else { COUNT };
    let element = if what == "type" && odd { BFLOAT } else { FLOAT };
    let code = unsafe {
        match what {
            "root" => {
                let root = i32::from(odd);
                (library.broadcast)(memory, memory, count, element, root, communicator, stream)
            }
            "operation" if odd => {
                (library.reduce)(memory, memory, count, element, SUM, 0, communicator, stream)
            }
            _ => (library.all_reduce)(memory, memory, count, element, SUM, communicator, stream),
        }
    };
    ok("the operation", code)?;
    member.synchronise()?;
    expect_code("the communicator", asked(communicator)?, INVALID_USAGE)?;
    expect_words(communicator, &[said])?;
    let code = unsafe { (library.all_reduce)(memory, memory, COUNT, FLOAT, SUM, communicator, stream) };
    expect_code("ncclAllReduce", code, INVALID_USAGE)?;
    expect_code("ncclCommDestroy", unsafe { (library.destroy)(communicator) }, INVALID_USAGE)?;
    ok("ncclCommAbort", unsafe { (library.abort)(communicator) })
}

/// Rank 1 has another version.
pub fn versions_differ() -> Result<(), String> {
    let set = |rank: usize, command: &mut std::process::Command| {
        command.env("FAKE_NCCL_VERSION", if rank == 1 { "22907" } else { "23203" });
    };
    in_members_with(&[2], set, |member| {
        let mut communicator = null_mut();
        let (rank, id) = (member.rank as i32, member.ids[0]);
        let code = unsafe { (nccl().init)(&mut communicator, 2, id, rank, &Config::new(1)) };
        expect_code("ncclCommInitRankConfig", code, INVALID_USAGE)?;
        expect_words(communicator, &["rank 0 has version 23203, and rank 1 version 22907"])
    })
}

/// Calls that are wrong by themselves.
pub fn calls() -> Result<(), String> {
    in_members(&[1], |member| {
        let (communicator, library, stream) = (member.come(0)?, nccl(), member.stream());
        let bytes = numbers(FLOAT, 0, COUNT);
        let memory = member.upload(&bytes)?;
        let refused = |what: &str, code: u32, expected: u32, words: &str| {
            expect_code(what, code, expected)?;
            expect_words(null_mut(), &[words])
        };
        let reduce =
            |from: u64, to: u64, count: usize, element: u32, reduction: u32, communicator: Handle| unsafe {
                (library.all_reduce)(from, to, count, element, reduction, communicator, stream)
            };
        let host = bytes.as_ptr() as u64;
        let code = reduce(host, memory, COUNT, FLOAT, SUM, communicator);
        refused(
            "host memory",
            code,
            INVALID_ARGUMENT,
            "no allocation has the 4000 bytes that it would read",
        )?;
        let code = reduce(memory, memory, COUNT + 1, FLOAT, SUM, communicator);
        refused("too many", code, INVALID_ARGUMENT, "no allocation has the 4004 bytes")?;
        let code = reduce(memory, memory + 4, COUNT - 1, FLOAT, SUM, communicator);
        refused("an overlap", code, INVALID_ARGUMENT, "it would write over what it reads")?;
        let code = reduce(memory, memory, COUNT, FLOAT, 1, communicator);
        refused("a product", code, INVALID_ARGUMENT, "only sums are known")?;
        let code = reduce(memory, memory, COUNT, 12, SUM, communicator);
        refused("a type", code, INVALID_ARGUMENT, "numbers of type 12")?;
        let code = reduce(memory, memory, COUNT, FLOAT, SUM, null_mut());
        refused("no communicator", code, INVALID_ARGUMENT, "is no communicator")?;
        let code = unsafe { (library.send)(memory, 1, FLOAT, 1, communicator, stream) };
        refused("a strange rank", code, INVALID_ARGUMENT, "there are 1 ranks")?;
        let code = unsafe { (library.group_end)() };
        refused("an end", code, INVALID_USAGE, "a group ends that this thread hasn't started")?;
        let code = unsafe { (library.count)(communicator, null_mut()) };
        refused("no place", code, INVALID_ARGUMENT, "a null pointer")?;
        in_a_group(communicator, memory, stream)?;
        registered(communicator, memory)?;
        comes(member.ids)?;
        ok("ncclCommDestroy", unsafe { (library.destroy)(communicator) })?;
        let code = reduce(memory, memory, COUNT, FLOAT, SUM, communicator);
        refused("after the end", code, INVALID_ARGUMENT, "has been destroyed or aborted")
    })
}

/// A group with a wrong call in it does nothing at all: else the send would never end.
fn in_a_group(communicator: Handle, memory: u64, stream: Handle) -> Result<(), String> {
    let library = nccl();
    ok("ncclGroupStart", unsafe { (library.group_start)() })?;
    ok("ncclSend", unsafe { (library.send)(memory, 1, FLOAT, 0, communicator, stream) })?;
    let code = unsafe { (library.receive)(0, 1, FLOAT, 0, communicator, stream) };
    expect_code("ncclRecv", code, INVALID_ARGUMENT)?;
    expect_code("ncclGroupEnd", unsafe { (library.group_end)() }, INVALID_ARGUMENT)
}

/// Bytes of memory that is mapped.
const MAPPED: usize = 2 << 20;

fn registered(communicator: Handle, memory: u64) -> Result<(), String> {
    let (library, mut handle) = (nccl(), null_mut());
    let code = unsafe { (library.register)(communicator, memory, 4 * COUNT, &mut handle) };
    expect_code("memory of cuMemAlloc", code, INVALID_USAGE)?;
    let (_, memory) = map(MAPPED)?;
    allow(memory, MAPPED)?;
    ok("ncclCommRegister", unsafe { (library.register)(communicator, memory, MAPPED, &mut handle) })?;
    ok("ncclCommDeregister", unsafe { (library.deregister)(communicator, handle) })?;
    let code = unsafe { (library.deregister)(communicator, handle) };
    expect_code("ncclCommDeregister", code, INVALID_ARGUMENT)?;
    let code = unsafe { (library.register)(communicator, memory, MAPPED + 1, &mut handle) };
    expect_code("ncclCommRegister", code, INVALID_ARGUMENT)
}

/// Ways in which nobody comes to a communicator.
fn comes(ids: [Id; IDS]) -> Result<(), String> {
    let mut communicator = null_mut();
    let mut init = |size: i32, id: Id, rank: i32, config: Config, code: u32, words: &str| {
        let answer = unsafe { (nccl().init)(&mut communicator, size, id, rank, &config) };
        expect_code(words, answer, code)?;
        expect_words(null_mut(), &[words])
    };
    init(1, ids[0], 0, Config::new(1), INVALID_USAGE, "has been rank 0 of this communicator already")?;
    init(1, ids[1], 1, Config::new(1), INVALID_ARGUMENT, "rank 1 of 1")?;
    init(1, Id([1; 128]), 0, Config::new(1), INVALID_ARGUMENT, "the id isn't one")?;
    init(1, ids[1], 0, Config::new(2), INVALID_ARGUMENT, "2 for `blocking`")?;
    ok("ncclGroupStart", unsafe { (nccl().group_start)() })?;
    init(2, ids[1], 0, Config::new(1), OK, "")?;
    init(2, ids[1], 1, Config::new(1), INVALID_USAGE, "ranks 0 and 1 are both on device 0")?;
    expect_code("ncclGroupEnd", unsafe { (nccl().group_end)() }, INVALID_USAGE)
}
