//! Packing: offsets for buffers whose sizes and lifetimes are known, in as little memory as possible.
//!
//! What is held at the fullest instant is a lower bound, and the first attempt that reaches it is the answer. The first
//! attempts are cheap: they place buffers as they come, into gaps between those that are held. All others place them one
//! after another in some order, each at the lowest offset that is free during its whole lifetime. Behind the given orders
//! come a bounded number of further ones, each made from the one before by moving the buffers forward that ended too high.
//! Nothing here is random or depends on time.

mod calendar;
mod gaps;
mod orders;
mod ranges;
mod search;
#[cfg(test)]
mod tests;

use calendar::spans;
use orders::Pressure;
use search::Search;

/// A buffer: its bytes, and the instants `start <= instant < end` at which it is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lifetime {
    pub bytes: u64,
    pub start: u32,
    pub end: u32,
}

/// Where each buffer lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packing {
    /// One for each lifetime, in the order given.
    pub offsets: Vec<u64>,
    /// Where the highest buffer ends.
    pub extent: u64,
    /// The most bytes held at one instant, which no packing can go below.
    pub live: u64,
}

/// Packs the buffers as low as a bounded search finds, or no higher than `enough`. Offsets are sums of sizes, so they keep
/// the sizes' common alignment. Buffers of no bytes or with an empty lifetime lie at offset 0.
pub fn pack(lifetimes: &[Lifetime], enough: u64) -> Packing {
    let (spans, instants) = spans(lifetimes);
    let pressure = Pressure::new(&spans, instants);
    let buffers: Vec<usize> = (0..spans.len()).filter(|&buffer| !spans[buffer].is_empty()).collect();
    if buffers.is_empty() {
        return Packing { offsets: vec![0; spans.len()], extent: 0, live: 0 };
    }
    let mut search = Search::new(&spans, pressure.live(), enough);
    search.run(&buffers, &pressure, instants);
    Packing { offsets: search.offsets, extent: search.extent, live: pressure.live() }
}
