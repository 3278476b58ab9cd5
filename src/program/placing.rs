//! Placing a rank's program: where in one block of memory each buffer lies, of the device and of the host.
//!
//! Lifetimes are known before anything runs, so buffers are packed with all of them in sight. What is kept over the
//! step lies at the bottom.

use std::collections::HashMap;

use crate::program::instruction::{RankProgram, Task};
use crate::program::issue_order::Instance;
use crate::program::packing::{Lifetime, Packing, pack};
use crate::units::Bytes;

/// A range of a block of memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Region {
    pub offset: usize,
    pub bytes: usize,
}

impl Region {
    /// `count` elements of `size` bytes from element `start` on.
    ///
    /// # Panics
    /// If they are not inside.
    pub fn elements(self, start: usize, count: usize, size: usize) -> Self {
        assert!(
            (start + count) * size <= self.bytes,
            "elements {start}+{count} of {size} B lie outside {self:?}"
        );
        Self { offset: self.offset + start * size, bytes: count * size }
    }
}

/// One block of memory of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Of each persistent buffer of the program, in its order.
    pub kept: Vec<Region>,
    /// Of each buffer that the step takes, in the order in which it takes them.
    pub taken: Vec<Region>,
    /// The most that is held at once, in aligned sizes.
    pub live: Bytes,
    /// Bytes from the first to the last address.
    pub extent: Bytes,
}

impl Space {
    /// Where what is kept ends, and what a step takes begins.
    pub fn kept_end(&self) -> usize {
        let end = |kept: &Region| kept.offset + Bytes(kept.bytes as u64).aligned().0 as usize;
        self.kept.iter().map(end).max().unwrap_or(0)
    }
}

/// Both blocks of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placing {
    pub device: Space,
    pub host: Space,
}

/// What a rank's buffers take of device and host: the blocks that hold them where the program places them, else the
/// most that is held at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    pub device: Bytes,
    pub host: Bytes,
}

impl Extent {
    /// More than anything takes.
    pub const MAX: Self = Self { device: Bytes(u64::MAX), host: Bytes(u64::MAX) };

    /// The larger of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { device: self.device.max(other.device), host: self.host.max(other.host) }
    }
}

impl Placing {
    pub const fn extent(&self) -> Extent {
        Extent { device: self.device.extent, host: self.host.extent }
    }
}

/// Where the buffers of `rank` lie: as low as can be found, or no higher than `enough`.
pub fn place(rank: &RankProgram, enough: Extent) -> Placing {
    let (mut device, mut host) = (Taken::default(), Taken::default());
    for (position, issued) in (0..).zip(rank.issued()) {
        let instruction = issued.instruction;
        let buffers = &rank.frames[issued.frame as usize].buffers;
        for &buffer in &instruction.allocates {
            device.take(issued.instance(buffer), buffers[buffer as usize].bytes, position);
        }
        for instance in rank.frees(&issued) {
            device.give(instance, position + 1);
        }
        let saved =
            Instance { frame: issued.frame, micro: issued.micro, buffer: instruction.unit.unwrap_or(0) };
        match instruction.task {
            Task::StashActivations => host.take(saved, Bytes(instruction.host.unsigned_abs()), position),
            Task::UnstashActivations => host.give(saved, position + 1),
            _ => {}
        }
    }
    let kept = |bytes: fn(&crate::program::Persistent) -> Bytes| rank.persistent.iter().map(bytes);
    Placing {
        device: device.placed(kept(|state| state.device), enough.device),
        host: host.placed(kept(|state| state.host), enough.host),
    }
}

/// What a step takes of one space.
#[derive(Default)]
struct Taken {
    lifetimes: Vec<Lifetime>,
    sizes: Vec<Bytes>,
    /// The lifetimes that have not ended.
    live: HashMap<Instance, usize>,
}

impl Taken {
    fn take(&mut self, instance: Instance, bytes: Bytes, start: u32) {
        self.live.insert(instance, self.lifetimes.len());
        self.lifetimes.push(Lifetime { bytes: bytes.aligned().0, start, end: u32::MAX });
        self.sizes.push(bytes);
    }

    fn give(&mut self, instance: Instance, end: u32) {
        if let Some(lifetime) = self.live.remove(&instance) {
            self.lifetimes[lifetime].end = end;
        }
    }

    fn placed(self, kept: impl Iterator<Item = Bytes>, enough: Bytes) -> Space {
        let mut space = Space::default();
        let mut end = 0;
        for bytes in kept {
            let offset = if bytes.0 == 0 { 0 } else { end };
            space.kept.push(Region { offset: offset as usize, bytes: bytes.0 as usize });
            end += bytes.aligned().0;
        }
        // What ends before the next begins is packed by itself, and what is alike once.
        let mut known: HashMap<Vec<Lifetime>, Packing> = HashMap::new();
        let mut sizes = self.sizes.iter();
        for group in self.groups() {
            let first = group[0].start;
            let moved = |one: &Lifetime| Lifetime { start: one.start - first, end: one.end - first, ..*one };
            let group: Vec<Lifetime> = group.iter().map(moved).collect();
            let packing =
                known.entry(group).or_insert_with_key(|group| pack(group, enough.0.saturating_sub(end)));
            let place = |(&offset, &bytes): (&u64, &Bytes)| match bytes.0 {
                0 => Region::default(),
                _ => Region { offset: (end + offset) as usize, bytes: bytes.0 as usize },
            };
            space.taken.extend(packing.offsets.iter().zip(sizes.by_ref()).map(place));
            space.live = space.live.max(Bytes(packing.live));
            space.extent = space.extent.max(Bytes(packing.extent));
        }
        space.live += Bytes(end);
        space.extent += Bytes(end);
        space
    }

    /// Runs of lifetimes that share no instant with others; they are in order of their starts.
    fn groups(&self) -> impl Iterator<Item = &[Lifetime]> {
        let mut end = 0;
        let meets = move |one: &Lifetime, next: &Lifetime| {
            end = one.end.max(end);
            next.start < end
        };
        self.lifetimes.chunk_by(meets)
    }
}
