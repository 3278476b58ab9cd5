//! What an instruction waits for: the last uses, on other streams, of the buffers that it touches.

use crate::lower::Stream;
use crate::program::instruction::{Few, Instruction};

/// An index that no instruction has.
const NONE: u32 = u32::MAX;

/// By stream, the last of some instructions.
type Latest = [u32; Stream::ALL.len()];

/// The uses of one buffer so far.
#[derive(Clone, Copy)]
struct Uses {
    written: u32,
    last: Latest,
}

/// The uses of all buffers of a frame by a template that is being written.
pub(super) struct Waits {
    buffers: Vec<Uses>,
}

impl Waits {
    /// Nothing is used yet, of `buffers` buffers.
    pub(super) fn new(buffers: usize) -> Self {
        let unused = Uses { written: NONE, last: [NONE; Stream::ALL.len()] };
        Self { buffers: vec![unused; buffers] }
    }

    /// What `next`, which will stand behind `written`, must wait for, each stream's last and in issue order.
    pub(super) fn of(&self, next: &Instruction, written: &[Instruction]) -> Few {
        let mut latest: Latest = [NONE; Stream::ALL.len()];
        let mut wait = |before: u32| {
            if before != NONE {
                let slot = &mut latest[written[before as usize].stream as usize];
                *slot = if *slot == NONE { before } else { before.max(*slot) };
            }
        };
        for &buffer in &next.reads {
            wait(self.buffers[buffer as usize].written);
        }
        for &buffer in next.writes.iter().chain(&next.frees) {
            self.buffers[buffer as usize].last.into_iter().for_each(&mut wait);
        }
        next.waits.iter().copied().for_each(&mut wait);
        // What stands before it on its own stream is done in any case.
        latest[next.stream as usize] = NONE;
        let mut waits: Few = latest.into_iter().filter(|&before| before != NONE).collect();
        waits.sort_unstable();
        waits
    }

    /// Remembers that `instruction` stands at `index`.
    pub(super) fn used(&mut self, instruction: &Instruction, index: u32) {
        for &buffer in &instruction.writes {
            self.buffers[buffer as usize].written = index;
        }
        for &buffer in instruction.reads.iter().chain(&instruction.writes) {
            self.buffers[buffer as usize].last[instruction.stream as usize] = index;
        }
    }
}
