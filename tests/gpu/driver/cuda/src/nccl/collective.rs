//! Collectives, in rounds: every member gives a piece of its numbers, and once all have, takes what it needs of them.

use super::communicator::Communicator;
use super::operation::{Kind, Operation, words};
use super::segment::{Description, MEMBER_SLOT};
use gpu::{Emulator, Fault};

/// How far an operation has come.
#[derive(Clone, Copy, Default)]
pub struct Progress {
    /// In numbers, as its call counts.
    pub numbers: u64,
    /// Whether its next piece has been given, and not been taken by all.
    pub posted: bool,
    pub done: bool,
}

/// Why an operation ends early.
pub enum Trouble {
    /// This device's.
    Fault(Fault),
    /// The members don't agree.
    Mismatch(String),
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Trouble {
        Trouble::Fault(fault)
    }
}

/// The numbers of the next round, from where to where.
fn piece(operation: &Operation, size: usize, progress: Progress) -> (u64, u64) {
    let parts = if operation.kind == Kind::ReduceScatter { size as u64 } else { 1 };
    let most = MEMBER_SLOT as u64 / operation.element.size() / parts;
    (progress.numbers, operation.count.min(progress.numbers + most))
}

/// Whether its next step doesn't wait for another member.
pub fn is_able(communicator: &Communicator, progress: Progress) -> bool {
    let mut members = communicator.segment.members();
    let rounds = communicator.rounds;
    if progress.posted {
        members.all(|member| member.posted() > rounds)
    } else {
        members.all(|member| member.taken() >= rounds)
    }
}

/// Gives a piece, or takes one.
pub fn step(
    operation: &Operation,
    communicator: &mut Communicator,
    progress: &mut Progress,
    device: &mut Emulator,
) -> Result<(), Trouble> {
    let (first, last) = piece(operation, communicator.seat.size, *progress);
    if !progress.posted {
        let given = give(operation, communicator, (first, last), device)?;
        communicator.segment.member(communicator.seat.rank).post(operation.description(), &given);
        progress.posted = true;
        return Ok(());
    }
    agree(communicator).map_err(Trouble::Mismatch)?;
    take(operation, communicator, (first, last), device)?;
    communicator.segment.member(communicator.seat.rank).take();
    communicator.rounds += 1;
    *progress = Progress { numbers: last, posted: false, done: last == operation.count };
    Ok(())
}

/// What a member gives: for a reduce-scatter, a piece for each member.
fn give(
    operation: &Operation,
    communicator: &Communicator,
    (first, last): (u64, u64),
    device: &mut Emulator,
) -> Result<Vec<u8>, Fault> {
    let seat = communicator.seat;
    let Some((start, _)) = operation.reads(seat) else {
        return Ok(vec![]);
    };
    let size = operation.element.size();
    let parts = if operation.kind == Kind::ReduceScatter { seat.size as u64 } else { 1 };
    let mut given = vec![];
    if last > first {
        for part in 0..parts {
            let from = start + (part * operation.count + first) * size;
            given.extend_from_slice(device.read(from, ((last - first) * size) as usize)?);
        }
    }
    Ok(given)
}

fn take(
    operation: &Operation,
    communicator: &Communicator,
    (first, last): (u64, u64),
    device: &mut Emulator,
) -> Result<(), Fault> {
    let (seat, size) = (communicator.seat, operation.element.size());
    let bytes = ((last - first) * size) as usize;
    let Some((start, _)) = operation.writes(seat).filter(|_| bytes > 0) else {
        return Ok(());
    };
    let to = start + first * size;
    let all = |skipped: usize| -> Vec<Vec<u8>> {
        communicator.segment.members().map(|member| member.read(skipped, bytes)).collect()
    };
    match operation.kind {
        Kind::AllGather => {
            for (rank, given) in all(0).iter().enumerate() {
                device.write(to + rank as u64 * operation.bytes(), given)?;
            }
            Ok(())
        }
        Kind::Broadcast => device.write(to, &communicator.segment.member(operation.other).read(0, bytes)),
        Kind::ReduceScatter => device.write(to, &operation.element.sum(&all(seat.rank * bytes))),
        _ => device.write(to, &operation.element.sum(&all(0))),
    }
}

/// All must have called the same. Else it's said who didn't: whoever differs from most, or from the first of as many.
fn agree(communicator: &Communicator) -> Result<(), String> {
    let called: Vec<Description> =
        communicator.segment.members().map(|member| member.description()).collect();
    let votes = |one: &Description| called.iter().filter(|other| *other == one).count();
    let most = called.iter().rev().max_by_key(|one| votes(one)).copied().unwrap_or_default();
    let differ = called.iter().enumerate().filter(|(_, one)| **one != most);
    let texts: Vec<String> = differ.map(|(rank, one)| format!("rank {rank} calls {}", words(*one))).collect();
    if texts.is_empty() {
        return Ok(());
    }
    let whole = if texts.len() + 1 == called.len() { "the other" } else { "the others" };
    Err(format!("{}, {whole} {}", texts.join(", "), words(most)))
}
