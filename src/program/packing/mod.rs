//! Packing: offsets for buffers whose sizes and lifetimes are known, in as little memory as possible.
//!
//! What is held at the fullest instant is a lower bound, and the first attempt that reaches it is the answer. The first
//! attempts place buffers as they come, into gaps between those that are held. All others place them one after another
//! in some order, each at the lowest offset that is free during its whole lifetime; behind the given orders come further
//! ones, each made from the one before by moving the buffers forward that ended too high. Of lifetimes that repeat
//! themselves a few periods are placed so. Nothing here is random or depends on time.

mod calendar;
mod gaps;
mod orders;
mod periods;
#[cfg(test)]
mod tests;

use calendar::Calendar;
use orders::{Order, sorted};

/// A buffer: its bytes, and the instants `start <= instant < end` at which it is held, of which there is one at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lifetime {
    pub bytes: u64,
    pub start: u32,
    pub end: u32,
}

impl Lifetime {
    /// Instants at which it is held.
    const fn length(&self) -> u32 {
        self.end - self.start
    }
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

/// Buffers that are placed in orders before attempts end; two attempts are made in any case.
const PLACED: usize = 4_000;

/// Of more buffers an extent is good enough within one part in this many of the live bytes.
const FEW: usize = 1000;
const CLOSE: u64 = 1000;

/// More buffers than these are not placed in orders, which takes long and saves next to nothing.
const MANY: usize = 20_000;

/// Up to how many instants buffers are short, in the cheap attempts.
const SHORT: [u32; 3] = [0, 16, 64];

/// Packs the buffers, which are in the order of their starts, as low as a bounded search finds, or no higher than
/// `enough`. Offsets are sums of sizes, so they keep the sizes' common alignment.
pub fn pack(lifetimes: &[Lifetime], enough: u64) -> Packing {
    let held = gaps::held(lifetimes);
    let live = held.iter().copied().max().unwrap_or(0);
    let mut best = Packing { offsets: vec![0; lifetimes.len()], extent: u64::MAX, live };
    let mut keep = |offsets: Vec<u64>| {
        let ends = offsets.iter().zip(lifetimes).map(|(offset, lifetime)| offset + lifetime.bytes);
        let extent = ends.max().unwrap_or(0);
        if extent < best.extent {
            (best.offsets, best.extent) = (offsets, extent);
        }
        best.extent
    };
    let close = if lifetimes.len() <= FEW { live } else { live.saturating_add(live / CLOSE) };
    let enough = enough.max(close);
    let repeated = if lifetimes.len() > FEW { periods::place(lifetimes, enough) } else { None };
    let repeats = repeated.is_some();
    if repeated.is_some_and(|offsets| keep(offsets) <= enough)
        || SHORT.iter().any(|&short| keep(gaps::place(lifetimes, live, short)) <= enough)
        || repeats
    {
        return best;
    }
    if lifetimes.len() > MANY {
        return best;
    }
    let mut orders: Vec<Vec<usize>> = Vec::new();
    let mut calendar = Calendar::new(lifetimes);
    let attempts = (PLACED / lifetimes.len()).max(2);
    for attempt in 0..attempts {
        if let Some(&order) = Order::ALL.get(attempt) {
            orders.push(sorted(lifetimes, &held, order));
        }
        let order = &mut orders[attempt % Order::ALL.len()];
        let offsets = orders::place(lifetimes, order, &mut calendar);
        orders::repair(lifetimes, order, &offsets, live);
        if keep(offsets) <= enough {
            break;
        }
    }
    best
}
