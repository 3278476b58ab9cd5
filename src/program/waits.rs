//! What an instruction waits for: the last uses, on other streams, of the buffers that it touches, those that freed
//! memory before it takes some, and what its stream always waits for.

use crate::lower::Stream;
use crate::program::instruction::{BufferId, Instruction, Streams};

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
    /// The last instructions that freed something.
    freed: Latest,
    last: Latest,
    /// By stream, the last instruction that a kernel waits for.
    awaited: Latest,
}

impl Waits {
    /// Nothing is used yet, of `buffers` buffers.
    pub(super) fn new(buffers: usize) -> Self {
        let nothing = [NONE; Stream::ALL.len()];
        let unused = Uses { written: NONE, last: nothing };
        Self { buffers: vec![unused; buffers], freed: nothing, last: nothing, awaited: nothing }
    }

    /// Gives `next`, which follows `written`, its waits: on each stream, the last instruction that it must wait for.
    ///
    /// Memory is handed out in issue order wherever it lies, so what takes some waits for all that was freed before:
    /// of its own template by instruction, of earlier calls by the computing stream, behind whose end all of these
    /// are done.
    pub(super) fn order(&mut self, next: &mut Instruction, written: &[Instruction]) {
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
        let computed = self.last[Stream::Compute as usize];
        if next.stream == Stream::Model {
            // Collectives between kernels are issued behind them, as engines do it.
            wait(computed);
        }
        if !next.allocates.is_empty() {
            self.freed.into_iter().for_each(&mut wait);
        }
        let waits_for_earlier = next.stream == Stream::Model || !next.allocates.is_empty();
        if waits_for_earlier && latest[Stream::Compute as usize] == NONE {
            next.behind = next.behind.and(Streams::of(Stream::Compute));
        }
        if next.stream == Stream::Compute {
            let seen = self.awaited.iter_mut().zip(latest).filter(|(_, last)| *last != NONE);
            seen.for_each(|(known, last)| *known = if *known == NONE { last } else { last.max(*known) });
        }
        // What stands before it on its own stream is done in any case.
        next.behind = next.behind.without(next.stream);
        latest[next.stream as usize] = NONE;
        next.waits.clear();
        next.waits.extend(latest.into_iter().filter(|&before| before != NONE));
        next.waits.sort_unstable();
    }

    /// Remembers that `instruction` stands at `index`.
    pub(super) fn used(&mut self, instruction: &Instruction, index: u32) {
        let stream = instruction.stream as usize;
        self.last[stream] = index;
        if !instruction.frees.is_empty() {
            self.freed[stream] = index;
        }
        for &buffer in &instruction.writes {
            self.buffers[buffer as usize].written = index;
        }
        for &buffer in instruction.reads.iter().chain(&instruction.writes) {
            self.buffers[buffer as usize].last[stream] = index;
        }
    }

    /// The last instruction on `stream`.
    pub(super) fn last(&self, stream: Stream) -> Option<u32> {
        Some(self.last[stream as usize]).filter(|&last| last != NONE)
    }

    /// Of the streams whose results later calls may find in buffers, the last of the instructions `written` that no
    /// kernel waits for yet and that does more than fill buffers that were `sent`: what only leaves, nobody finds. One
    /// that frees memory counts, as a later call may take that memory.
    pub(super) fn unawaited(&self, written: &[Instruction], sent: &[BufferId]) -> impl Iterator<Item = u32> {
        let only_leaves = |one: &Instruction| {
            let is_sent = |buffer: &BufferId| sent.contains(buffer);
            one.frees.is_empty() && !one.writes.is_empty() && one.reads.iter().chain(&one.writes).all(is_sent)
        };
        [Stream::Model, Stream::Receive, Stream::CopyIn].into_iter().filter_map(move |stream| {
            let awaited = self.awaited[stream as usize];
            let first = if awaited == NONE { 0 } else { awaited + 1 };
            (first..=self.last(stream)?).rev().find(|&index| {
                let one = &written[index as usize];
                one.stream == stream && !only_leaves(one)
            })
        })
    }
}
