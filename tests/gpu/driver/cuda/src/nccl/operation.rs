//! What a call asks for: which numbers it reads and writes, and whether it may.

use super::number::Element;
use super::segment::Description;
use super::{Code, refuse};
use crate::driver::Driver;
use crate::failure::Answer;
use gpu::Access;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    AllReduce,
    ReduceScatter,
    AllGather,
    Broadcast,
    Reduce,
    Send,
    Receive,
}

/// By their numbers, with an article and without.
const KINDS: [(Kind, &str, &str); 7] = [
    (Kind::AllReduce, "an all-reduce", "all-reduce"),
    (Kind::ReduceScatter, "a reduce-scatter", "reduce-scatter"),
    (Kind::AllGather, "an all-gather", "all-gather"),
    (Kind::Broadcast, "a broadcast", "broadcast"),
    (Kind::Reduce, "a reduce", "reduce"),
    (Kind::Send, "a send", "send"),
    (Kind::Receive, "a receive", "receive"),
];

#[derive(Clone, Copy, Debug)]
pub struct Operation {
    pub kind: Kind,
    pub from: u64,
    pub to: u64,
    /// As the call counts.
    pub count: u64,
    pub element: Element,
    /// The root, or the other side of a message.
    pub other: usize,
    /// Whether it's part of a graph.
    pub captured: bool,
}

/// A rank of a communicator of this size.
#[derive(Clone, Copy)]
pub struct Seat {
    pub rank: usize,
    pub size: usize,
    pub device: usize,
}

impl Operation {
    pub fn bytes(&self) -> u64 {
        self.count.saturating_mul(self.element.size())
    }

    pub fn is_message(&self) -> bool {
        matches!(self.kind, Kind::Send | Kind::Receive)
    }

    pub fn name(&self) -> &'static str {
        KINDS[self.kind as usize].2
    }

    pub fn description(&self) -> Description {
        let [kind, other] = [self.kind as usize, self.other].map(|number| number as u64);
        [kind, self.count, self.element.number(), other, u64::from(self.captured), 0]
    }

    /// The first address and the bytes that a rank reads.
    pub fn reads(&self, seat: Seat) -> Option<(u64, u64)> {
        let bytes = match self.kind {
            Kind::ReduceScatter => self.bytes().saturating_mul(seat.size as u64),
            Kind::Broadcast if seat.rank != self.other => return None,
            Kind::Receive => return None,
            _ => self.bytes(),
        };
        Some((self.from, bytes))
    }

    /// The first address and the bytes that a rank writes.
    pub fn writes(&self, seat: Seat) -> Option<(u64, u64)> {
        let bytes = match self.kind {
            Kind::AllGather => self.bytes().saturating_mul(seat.size as u64),
            Kind::Broadcast if seat.rank == self.other && self.from == self.to => return None,
            Kind::Reduce if seat.rank != self.other => return None,
            Kind::Send => return None,
            _ => self.bytes(),
        };
        Some((self.to, bytes))
    }

    pub fn accesses(&self, seat: Seat) -> Vec<Access> {
        let access = |(start, bytes): (u64, u64), write| Access { start, end: start + bytes, write };
        let reads = self.reads(seat).map(|range| access(range, false));
        reads.into_iter().chain(self.writes(seat).map(|range| access(range, true))).collect()
    }

    /// Whether what it reads and what it writes lie where the in-place form has them.
    fn is_in_place(&self, seat: Seat) -> bool {
        let part = self.bytes().wrapping_mul(seat.rank as u64);
        match self.kind {
            Kind::AllGather => self.from == self.to.wrapping_add(part),
            Kind::ReduceScatter => self.to == self.from.wrapping_add(part),
            _ => self.from == self.to,
        }
    }

    /// All of it lies in memory of the communicator's device.
    pub fn check(&self, driver: &Driver, seat: Seat) -> Answer {
        let invalid =
            |text: String| refuse(Code::InvalidArgument, format!("{}: {text}", words(self.description())));
        let of_root = matches!(self.kind, Kind::Broadcast | Kind::Reduce);
        if (of_root || self.is_message()) && self.other >= seat.size {
            return invalid(format!("there are {} ranks", seat.size));
        }
        let (reads, writes) = (self.reads(seat), self.writes(seat));
        for (verb, range) in [("read", reads), ("write", writes)] {
            let Some((start, bytes)) = range.filter(|range| range.1 > 0) else {
                continue;
            };
            let place = driver.memory.describe(start);
            match driver.memory.allocation(start, bytes as usize) {
                None => {
                    let text = format!("no allocation has the {bytes} bytes that it would {verb} at {place}");
                    return invalid(text);
                }
                Some((_, allocation)) if allocation.device != seat.device => {
                    return invalid(format!("it would {verb} {place}, on device {}", seat.device));
                }
                Some(_) => {}
            }
        }
        if let (Some((from, read)), Some((to, written))) = (reads, writes)
            && from < to + written
            && to < from + read
            && !self.is_in_place(seat)
        {
            return invalid("it would write over what it reads".into());
        }
        Ok(())
    }
}

/// An operation in words.
pub fn words(description: Description) -> String {
    let [kind, count, element, other, captured, _] = description;
    let Some((kind, what, _)) = KINDS.get(kind as usize) else {
        return format!("{description:?}");
    };
    let element = Element::new(element).map_or("", Element::name);
    let whom = match kind {
        Kind::Broadcast => format!(" from rank {other}"),
        Kind::Reduce | Kind::Send => format!(" to rank {other}"),
        Kind::Receive => format!(" from rank {other}"),
        _ => String::new(),
    };
    let captured = if captured == 1 { " in a graph" } else { "" };
    format!("{what} of {count} {element} numbers{whom}{captured}")
}
