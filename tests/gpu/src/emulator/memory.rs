//! The memory of the emulated device. An address says which range it belongs to in its high bits, so that a pointer
//! that leaves its range by any distance is found.

use super::access;
use super::clocks::Clocks;
use super::histories::Histories;
use super::permits::Permits;
use super::shadow::{Conflict, Moment, Record};
use super::traffic::Traffic;
use crate::plain;

/// The bits of an address below the number of its range.
const OFFSET_BITS: u32 = 36;
/// Buffers are numbered from here, so that no address of theirs is one of the host; the numbers below are the spaces.
const FIRST_BUFFER: u64 = 1 << 12;

pub const GLOBAL: usize = 1;
pub const SHARED: usize = 2;
pub const LOCAL: usize = 3;
pub const CONSTANT: usize = 4;
const SPACES: usize = 6;

/// The state of a byte.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Byte {
    Unwritten,
    Written,
    /// The target of an asynchronous copy that nobody has waited for.
    InFlight,
    /// Between two variables.
    Outside,
}

/// A range of memory with what the checker knows of it.
#[derive(Default)]
pub struct Range {
    pub name: String,
    pub bytes: Vec<u8>,
    pub states: Vec<Byte>,
    pub histories: Histories,
    /// What the launch has done to each byte, where traffic is counted.
    pub seen: Vec<u8>,
    /// Bytes of a cell.
    pub granule: usize,
    /// The first byte that the launch may touch; all of it or nothing without one.
    pub first: Option<usize>,
    /// Which of them the launch may read and write; all without any.
    pub permits: Option<Permits>,
}

impl Range {
    pub fn new(bytes: Vec<u8>, state: Byte, granule: usize) -> Range {
        let states = vec![state; bytes.len()];
        Range { bytes, states, granule, first: Some(0), ..Range::default() }
    }

    /// Empties it for another block; what older blocks left in the cells is recognised by their number.
    pub fn reset(&mut self, bytes: usize, granule: usize) {
        self.bytes = plain::unwritten(bytes);
        self.states.clear();
        self.states.resize(bytes, Byte::Unwritten);
        if self.granule != granule {
            self.granule = granule;
            self.histories.clear();
        }
    }
}

/// Who touches memory, and when.
pub struct Visit<'a> {
    pub clocks: &'a Clocks,
    pub first_block: u32,
    pub record: Record,
    pub checking: bool,
    pub local_bytes: usize,
}

/// All ranges: the spaces first, then the buffers.
pub struct Memory {
    pub ranges: Vec<Range>,
    /// What the launch has moved, where it is counted.
    pub traffic: Option<Traffic>,
}

/// Why an access is refused; a race names the other access.
pub enum Refusal {
    Text(String),
    Race { text: String, verb: &'static str, other: Record },
}

impl Memory {
    pub fn new() -> Memory {
        let ranges = ["", "the module's variables", "shared memory", "local memory", "constant memory", ""]
            .iter()
            .map(|name| Range { name: (*name).to_owned(), granule: 1, first: Some(0), ..Range::default() })
            .collect();
        Memory { ranges, traffic: None }
    }

    /// Counts what another launch moves.
    pub fn count_traffic(&mut self) {
        self.traffic = Some(Traffic::default());
        for range in self.buffers() {
            range.seen = vec![0; range.bytes.len()];
        }
    }

    /// Adds a buffer and returns its number.
    pub fn add(&mut self, range: Range) -> usize {
        self.ranges.push(range);
        self.ranges.len() - 1 - SPACES
    }

    pub fn buffer(&mut self, buffer: usize) -> &mut Range {
        &mut self.ranges[SPACES + buffer]
    }

    pub fn buffers(&mut self) -> &mut [Range] {
        &mut self.ranges[SPACES..]
    }

    pub fn address(buffer: usize) -> u64 {
        (buffer as u64 + FIRST_BUFFER) << OFFSET_BITS
    }

    /// The buffer and the offset in it of bytes that lie in one buffer.
    pub fn place(&self, address: u64, bytes: usize) -> Option<(usize, usize)> {
        let buffer = (address >> OFFSET_BITS).checked_sub(FIRST_BUFFER)? as usize;
        let offset = (address & ((1 << OFFSET_BITS) - 1)) as usize;
        let length = self.ranges.get(SPACES + buffer)?.bytes.len();
        (offset.checked_add(bytes)? <= length).then_some((buffer, offset))
    }

    /// Checks an access and returns where its bytes lie, as a range and an offset.
    pub fn access(
        &mut self,
        visit: &Visit,
        address: u64,
        bytes: usize,
        alignment: usize,
        flags: u32,
    ) -> Result<(usize, usize), Refusal> {
        let (range, offset) = self.locate(visit, address, bytes, flags)?;
        if offset % alignment != 0 {
            return Err(Refusal::Text(format!(
                "{} bytes {offset}..{} of {}, misaligned: the address must be a multiple of {alignment}",
                verb(flags),
                offset + bytes,
                self.ranges[range].name
            )));
        }
        if range >= SPACES
            && let Some(traffic) = &mut self.traffic
        {
            traffic.add(&mut self.ranges[range].seen[offset..offset + bytes], flags);
        }
        let start =
            if range == LOCAL { offset + visit.record.thread() as usize * visit.local_bytes } else { offset };
        if visit.checking {
            self.check(visit, range, start, bytes, flags)?;
        }
        Ok((range, start))
    }

    fn locate(
        &self,
        visit: &Visit,
        address: u64,
        bytes: usize,
        flags: u32,
    ) -> Result<(usize, usize), Refusal> {
        let verb = verb(flags);
        let space = (flags & access::SPACE) as usize;
        let (mut number, mut offset) = match space {
            0 | GLOBAL => (address >> OFFSET_BITS, (address & ((1 << OFFSET_BITS) - 1)) as i64),
            _ => (space as u64, address as i64),
        };
        if space <= GLOBAL && offset >> (OFFSET_BITS - 1) == 1 {
            number += 1;
            offset -= 1 << OFFSET_BITS;
        }
        let index = match number {
            FIRST_BUFFER.. => (number - FIRST_BUFFER) as usize + SPACES,
            _ => number as usize,
        };
        let stray =
            || Refusal::Text(format!("{verb} {bytes} bytes at address {address:#x}, which is no memory"));
        let range = self.ranges.get(index).ok_or_else(stray)?;
        if number < FIRST_BUFFER && (number as usize >= SPACES || range.name.is_empty()) {
            return Err(stray());
        }
        if space == GLOBAL && index < SPACES && index != GLOBAL {
            let name = &range.name;
            return Err(Refusal::Text(format!("{verb} bytes of {name} as if they were global memory")));
        }
        let length = if index == LOCAL { visit.local_bytes } else { range.bytes.len() } as i64;
        let end = offset + bytes as i64;
        let Some(first) = range.first else {
            return Err(Refusal::Text(format!(
                "{verb} bytes {offset}..{end} of a buffer that is no argument"
            )));
        };
        if offset < first as i64 || end > length {
            return Err(Refusal::Text(format!(
                "{verb} bytes {offset}..{end} of {}, out of bounds: its bytes are {first}..{length}",
                range.name
            )));
        }
        if let Some(permits) = &range.permits {
            let write = flags & (access::WRITE | access::ATOMIC) != 0;
            if !permits.allow(offset as usize, end as usize, write) {
                return Err(Refusal::Text(format!(
                    "{verb} bytes {offset}..{end} of {}, of which the launch may {permits}",
                    range.name
                )));
            }
        }
        Ok((index, offset as usize))
    }

    fn check(
        &mut self,
        visit: &Visit,
        index: usize,
        start: usize,
        bytes: usize,
        flags: u32,
    ) -> Result<(), Refusal> {
        let range = &mut self.ranges[index];
        let end = start + bytes;
        let place = |at: usize| format!("{} byte {at} of {}", verb(flags), range.name);
        for (at, state) in (start..).zip(&range.states[start..end]) {
            let refusal = match state {
                Byte::Written => continue,
                Byte::Outside => "between two variables",
                Byte::InFlight => "in flight: an asynchronous copy that nobody has waited for writes it",
                Byte::Unwritten if flags & access::READ != 0 => "uninitialised",
                Byte::Unwritten => continue,
            };
            return Err(Refusal::Text(format!("{}, which is {refusal}", place(at))));
        }
        if flags & access::WRITE != 0 {
            if index == CONSTANT {
                return Err(Refusal::Text(place(start)));
            }
            range.states[start..end].fill(Byte::Written);
        }
        if index == LOCAL || index == CONSTANT {
            return Ok(());
        }
        // Shared memory begins anew with each block.
        let first_block = if index == SHARED { visit.record.block } else { visit.first_block };
        let moment = Moment { clocks: visit.clocks, first_block, now: visit.record };
        for cell in start / range.granule..(end - 1) / range.granule + 1 {
            let history = range.histories.cell(cell);
            let conflict = if flags & access::ATOMIC != 0 {
                history.update(&moment)
            } else if flags & access::WRITE != 0 {
                history.write(&moment)
            } else {
                history.read(&moment, flags & access::UNCHANGING != 0)
            };
            let at = cell * range.granule;
            match conflict {
                None => {}
                Some(Conflict::Unchanging) => {
                    return Err(Refusal::Text(format!(
                        "{} byte {at} of {}: the launch both writes it and reads it as unchanging (ld.global.nc)",
                        verb(flags),
                        range.name
                    )));
                }
                Some(Conflict::Race { verb: other_verb, record }) => {
                    return Err(Refusal::Race {
                        text: format!("race: {} byte {at} of {}", verb(flags), range.name),
                        verb: other_verb,
                        other: record,
                    });
                }
            }
        }
        Ok(())
    }
}

fn verb(flags: u32) -> &'static str {
    match (flags & access::ATOMIC != 0, flags & access::WRITE != 0) {
        (true, _) => "updates",
        (_, true) => "writes",
        _ => "reads",
    }
}
