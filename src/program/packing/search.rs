//! Trying orders, and repairing those that end too high.

use super::calendar::{Calendar, Span};
use super::gaps;
use super::orders::{Order, Pressure};

/// Placements after which no further order is begun, whatever was reached; the
/// first two orders are tried even so.
const PLACEMENTS: usize = 4_000;

/// Of more buffers an extent is good enough within one part in this many of the live bytes.
const FEW: usize = 1000;
const CLOSE: u64 = 1000;

/// Up to how many instants buffers are short, in the cheap attempts.
const SHORT: [usize; 3] = [0, 16, 64];

/// The best packing so far, and what it takes to try another.
pub(super) struct Search<'a> {
    spans: &'a [Span],
    live: u64,
    /// What is low enough.
    enough: u64,
    placements: usize,
    pub(super) offsets: Vec<u64>,
    pub(super) extent: u64,
}

impl<'a> Search<'a> {
    /// A search that ends at an extent of `enough`. Of a few buffers nothing but the `live` bytes themselves is good enough
    /// in any case, of many a close extent is.
    pub(super) fn new(spans: &'a [Span], live: u64, enough: u64) -> Self {
        let close = if spans.len() <= FEW { live } else { live.saturating_add(live / CLOSE) };
        let enough = enough.max(close);
        Self { spans, live, enough, placements: 0, offsets: vec![0; spans.len()], extent: u64::MAX }
    }

    /// Tries one way after another until one is good enough or the placements are spent.
    pub(super) fn run(&mut self, buffers: &[usize], pressure: &Pressure, instants: usize) {
        for short in SHORT {
            let (offsets, extent) = gaps::place(self.spans, buffers, self.live, short);
            self.keep(offsets, extent);
            if self.extent <= self.enough {
                return;
            }
        }
        let mut calendar = Calendar::new(instants);
        let mut queue: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
        for (tried, order) in Order::ALL.iter().enumerate() {
            if self.done(tried < 2) {
                return;
            }
            let order = order.sort(buffers, self.spans, pressure);
            let failed = self.attempt(&mut calendar, &order);
            queue.push((order, failed));
        }
        while !self.done(false) {
            for (order, failed) in &mut queue {
                move_to_front(order, failed);
                *failed = self.attempt(&mut calendar, order);
                if self.done(false) {
                    break;
                }
            }
        }
    }

    /// Whether to stop: the extent is low enough, or all placements are spent, without `must`.
    fn done(&self, must: bool) -> bool {
        let left = self.placements + self.spans.len() <= PLACEMENTS;
        self.extent <= self.enough || !(left || must)
    }

    fn keep(&mut self, offsets: Vec<u64>, extent: u64) {
        if extent < self.extent {
            (self.extent, self.offsets) = (extent, offsets);
        }
    }

    /// Places the buffers in the order given and keeps the result if it is the lowest; the positions of those that ended
    /// above the live bytes.
    fn attempt(&mut self, calendar: &mut Calendar, order: &[usize]) -> Vec<usize> {
        calendar.clear();
        self.placements += order.len();
        let (mut offsets, mut extent, mut failed) = (vec![0; self.spans.len()], 0, Vec::new());
        for (position, &buffer) in order.iter().enumerate() {
            let span = self.spans[buffer];
            offsets[buffer] = calendar.take(span);
            let end = offsets[buffer] + span.bytes;
            extent = end.max(extent);
            if end > self.live {
                failed.push(position);
            }
        }
        self.keep(offsets, extent);
        failed
    }
}

/// Moves the buffers at the positions given to the front, in their order.
fn move_to_front(order: &mut Vec<usize>, positions: &[usize]) {
    let mut front = Vec::with_capacity(order.len());
    front.extend(positions.iter().map(|&position| order[position]));
    let mut moved = positions.iter().peekable();
    for (position, &buffer) in order.iter().enumerate() {
        if moved.next_if(|&&next| next == position).is_none() {
            front.push(buffer);
        }
    }
    *order = front;
}
