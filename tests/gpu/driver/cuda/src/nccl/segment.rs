//! What the members of a communicator share: a mapped file, made by whoever comes first and named until all have come.

use super::shared_file::{locked, map};
use std::fs::File;
use std::io::Error;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of the whole, of a member and of a channel have this much room.
const PAGE: usize = 4096;
/// The data of a member's round.
pub const MEMBER_SLOT: usize = 1 << 20;
/// The data of a piece of a message.
pub const CHANNEL_SLOT: usize = 1 << 18;

/// Numbers of the whole.
const SIZE: usize = 0;
const JOINED: usize = 1;
const LEFT: usize = 2;

/// Numbers of a member.
const PRESENT: usize = 0;
const VERSION: usize = 1;
const POSTED: usize = 2;
const TAKEN: usize = 3;
const DESCRIPTION: usize = 4;

/// Numbers of a channel, beside the description of what is sent.
const SENT: usize = 0;
const RECEIVED: usize = 1;
const REFUSED: usize = 2;
/// What the receiver wanted instead.
const WANTED: usize = 16;

/// What an operation is, in numbers that members compare.
pub type Description = [u64; 6];

pub struct Segment {
    start: *mut u8,
    size: usize,
    path: PathBuf,
}

// SAFETY: numbers are atomic; data is written and read by turns that those numbers say.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

/// A part of the file: numbers, then data.
#[derive(Clone, Copy)]
struct Part<'s> {
    segment: &'s Segment,
    offset: usize,
}

#[derive(Clone, Copy)]
pub struct Member<'s>(Part<'s>);

/// From one member to another.
#[derive(Clone, Copy)]
pub struct Channel<'s>(Part<'s>);

fn bytes_of(size: usize) -> usize {
    PAGE + size * (PAGE + MEMBER_SLOT) + size * size * (PAGE + CHANNEL_SLOT)
}

impl Segment {
    /// Comes as a member. It says why that can't be.
    pub fn join(path: &Path, size: usize, rank: usize, version: u64) -> Result<Segment, String> {
        let file = locked(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let result = Segment::enter(&file, path, size, rank, version);
        // Closing would not do: a mapping keeps the lock.
        file.unlock().map_err(|error| format!("{}: {error}", path.display()))?;
        result
    }

    /// The same with the file locked.
    fn enter(file: &File, path: &Path, size: usize, rank: usize, version: u64) -> Result<Segment, String> {
        let words = |error: Error| format!("{}: {error}", path.display());
        let is_new = file.metadata().map_err(words)?.len() == 0;
        if is_new {
            file.set_len(bytes_of(size) as u64).map_err(words)?;
        } else {
            let mut there = [0; 8];
            file.read_exact_at(&mut there, 0).map_err(words)?;
            let there = u64::from_ne_bytes(there);
            if there != size as u64 {
                return Err(format!("rank {rank} comes to {size} ranks, and others come to {there}"));
            }
        }
        let segment = Segment { start: map(file, bytes_of(size)).map_err(words)?, size, path: path.into() };
        let all = segment.part(0);
        all.number(SIZE).store(size as u64, Ordering::Release);
        let member = segment.member(rank).0;
        if member.number(PRESENT).swap(1, Ordering::AcqRel) != 0 {
            return Err(format!("there are two members of rank {rank}"));
        }
        member.number(VERSION).store(version, Ordering::Release);
        let joined = all.number(JOINED).fetch_add(1, Ordering::AcqRel) + 1;
        if joined == size as u64 {
            std::fs::remove_file(path).map_err(words)?;
        }
        Ok(segment)
    }

    pub fn all_have_come(&self) -> bool {
        self.part(0).number(JOINED).load(Ordering::Acquire) == self.size as u64
    }

    /// Goes. The file's name goes with the last of those who came.
    pub fn leave(&self) {
        let all = self.part(0);
        // While some have not come, the name is there, and nobody comes who hasn't locked it.
        let lock = if self.all_have_come() { None } else { locked(&self.path).ok() };
        let left = all.number(LEFT).fetch_add(1, Ordering::AcqRel) + 1;
        if !self.all_have_come() && left == all.number(JOINED).load(Ordering::Acquire) {
            let _ = std::fs::remove_file(&self.path);
        }
        drop(lock);
    }

    pub fn member(&self, rank: usize) -> Member<'_> {
        Member(self.part(PAGE + rank * (PAGE + MEMBER_SLOT)))
    }

    pub fn members(&self) -> impl Iterator<Item = Member<'_>> {
        (0..self.size).map(|rank| self.member(rank))
    }

    pub fn channel(&self, from: usize, to: usize) -> Channel<'_> {
        let members = PAGE + self.size * (PAGE + MEMBER_SLOT);
        Channel(self.part(members + (from * self.size + to) * (PAGE + CHANNEL_SLOT)))
    }

    fn part(&self, offset: usize) -> Part<'_> {
        Part { segment: self, offset }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: mapped with this size, and nothing of it is used any more.
        unsafe { libc::munmap(self.start.cast(), bytes_of(self.size)) };
    }
}

impl<'s> Part<'s> {
    fn number(self, index: usize) -> &'s AtomicU64 {
        // SAFETY: within the mapping, at a multiple of 8, and zero at first.
        unsafe { &*self.segment.start.add(self.offset).cast::<AtomicU64>().add(index) }
    }

    fn description(self, first: usize) -> Description {
        std::array::from_fn(|index| self.number(first + index).load(Ordering::Relaxed))
    }

    fn describe(self, first: usize, description: Description) {
        for (index, number) in description.into_iter().enumerate() {
            self.number(first + index).store(number, Ordering::Relaxed);
        }
    }

    fn write(self, bytes: &[u8]) {
        // SAFETY: the callers' data is no longer than a slot, which is this member's to write until it's posted.
        unsafe { self.data().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    fn read(self, start: usize, bytes: usize) -> Vec<u8> {
        // SAFETY: within the slot, which nobody writes between being posted and being taken by all.
        unsafe { std::slice::from_raw_parts(self.data().add(start), bytes) }.to_vec()
    }

    fn data(self) -> *mut u8 {
        // SAFETY: within the mapping.
        unsafe { self.segment.start.add(self.offset + PAGE) }
    }
}

impl Member<'_> {
    pub fn version(self) -> u64 {
        self.0.number(VERSION).load(Ordering::Acquire)
    }

    /// How many rounds it has given its data for.
    pub fn posted(self) -> u64 {
        self.0.number(POSTED).load(Ordering::Acquire)
    }

    /// How many rounds it needs nobody's data of any more.
    pub fn taken(self) -> u64 {
        self.0.number(TAKEN).load(Ordering::Acquire)
    }

    pub fn post(self, description: Description, bytes: &[u8]) {
        self.0.describe(DESCRIPTION, description);
        self.0.write(bytes);
        self.0.number(POSTED).fetch_add(1, Ordering::AcqRel);
    }

    pub fn take(self) {
        self.0.number(TAKEN).fetch_add(1, Ordering::AcqRel);
    }

    pub fn description(self) -> Description {
        self.0.description(DESCRIPTION)
    }

    pub fn read(self, start: usize, bytes: usize) -> Vec<u8> {
        self.0.read(start, bytes)
    }
}

impl Channel<'_> {
    /// How many pieces have been sent and not received: none or one.
    pub fn is_full(self) -> bool {
        let number = |index| self.0.number(index).load(Ordering::Acquire);
        number(SENT) > number(RECEIVED)
    }

    pub fn send(self, description: Description, bytes: &[u8]) {
        self.0.describe(DESCRIPTION, description);
        self.0.write(bytes);
        self.0.number(SENT).fetch_add(1, Ordering::AcqRel);
    }

    pub fn receive(self, bytes: usize) -> Vec<u8> {
        let received = self.0.read(0, bytes);
        self.0.number(RECEIVED).fetch_add(1, Ordering::AcqRel);
        received
    }

    pub fn description(self) -> Description {
        self.0.description(DESCRIPTION)
    }

    /// The receiver wants something else.
    pub fn refuse(self, wanted: Description) {
        self.0.describe(WANTED, wanted);
        self.0.number(REFUSED).store(1, Ordering::Release);
    }

    /// What the receiver wanted instead.
    pub fn refused(self) -> Option<Description> {
        (self.0.number(REFUSED).load(Ordering::Acquire) != 0).then(|| self.0.description(WANTED))
    }
}
