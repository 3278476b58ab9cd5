//! What is remembered of each cell of memory: who wrote and read it last, to find races.

use super::clocks::Clocks;

/// One access: its block (numbered over all launches, zero for none), its thread and time, its line.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Record {
    pub block: u32,
    time: u32,
    pub line: u32,
}

const THREAD_BITS: u32 = 10;

impl Record {
    pub fn new(block: u32, thread: u32, clock: u32, line: u32) -> Record {
        assert!(clock < 1 << (32 - THREAD_BITS), "more barriers than the checker can count");
        Record { block, time: clock << THREAD_BITS | thread, line }
    }

    pub fn thread(self) -> u32 {
        self.time & ((1 << THREAD_BITS) - 1)
    }

    fn clock(self) -> u32 {
        self.time >> THREAD_BITS
    }
}

/// Where accesses stand in time.
pub struct Moment<'a> {
    pub clocks: &'a Clocks,
    /// The first block of the launch: what older blocks did is over.
    pub first_block: u32,
    pub now: Record,
}

impl Moment<'_> {
    /// Whether a recorded access has certainly happened before this one.
    fn after(&self, record: Record) -> bool {
        record.block < self.first_block
            || record.block == self.now.block
                && (record.thread() == self.now.thread()
                    || self.clocks.sees(
                        self.now.thread() as usize / 32,
                        record.thread() as usize / 32,
                        record.clock(),
                    ))
    }
}

/// A cell's history: the last plain write, and two each of the reads and atomic updates since. Two are enough: an
/// access by any thread is another thread's than one of them.
#[derive(Clone, Copy, Default)]
pub struct Cell {
    write: Record,
    reads: [Record; 2],
    atomics: [Record; 2],
    /// The first block of the launch that last read it as unchanging.
    unchanging: u32,
}

/// Why an access may not be.
pub enum Conflict {
    Race { verb: &'static str, record: Record },
    Unchanging,
}

impl Cell {
    /// Whether it has been written, or only read, since this block; none if neither.
    pub fn touched_since(&self, first_block: u32) -> Option<bool> {
        let since = |records: &[Record]| records.iter().any(|record| record.block >= first_block);
        let write = since(&[self.write]) || since(&self.atomics);
        (write || since(&self.reads)).then_some(write)
    }

    pub fn read(&mut self, moment: &Moment, unchanging: bool) -> Option<Conflict> {
        let written = self.write.block.max(self.atomics[0].block).max(self.atomics[1].block);
        // Mostly the launch has not written it, and nothing is to be looked at.
        let is_written = written >= moment.first_block;
        if unchanging {
            self.unchanging = moment.first_block;
            if is_written {
                return Some(Conflict::Unchanging);
            }
        }
        remember(&mut self.reads, moment);
        if is_written {
            self.conflict_with_writes(moment).or_else(|| self.conflict_with_atomics(moment))
        } else {
            None
        }
    }

    pub fn write(&mut self, moment: &Moment) -> Option<Conflict> {
        if self.unchanging == moment.first_block {
            return Some(Conflict::Unchanging);
        }
        let conflict = self
            .conflict_with_writes(moment)
            .or_else(|| self.conflict_with_atomics(moment))
            .or_else(|| self.conflict_with_reads(moment));
        *self = Cell { write: moment.now, unchanging: self.unchanging, ..Cell::default() };
        conflict
    }

    pub fn update(&mut self, moment: &Moment) -> Option<Conflict> {
        if self.unchanging == moment.first_block {
            return Some(Conflict::Unchanging);
        }
        let conflict = self.conflict_with_writes(moment).or_else(|| self.conflict_with_reads(moment));
        remember(&mut self.atomics, moment);
        conflict
    }

    fn conflict_with_writes(&self, moment: &Moment) -> Option<Conflict> {
        race("writes", &[self.write], moment)
    }

    fn conflict_with_atomics(&self, moment: &Moment) -> Option<Conflict> {
        race("updates", &self.atomics, moment)
    }

    fn conflict_with_reads(&self, moment: &Moment) -> Option<Conflict> {
        race("reads", &self.reads, moment)
    }
}

fn race(verb: &'static str, records: &[Record], moment: &Moment) -> Option<Conflict> {
    let record = records.iter().copied().find(|&record| !moment.after(record))?;
    Some(Conflict::Race { verb, record })
}

/// The first place keeps an access until one that follows it; the second keeps the latest.
fn remember(records: &mut [Record; 2], moment: &Moment) {
    let place = usize::from(!moment.after(records[0]));
    records[place] = moment.now;
}
