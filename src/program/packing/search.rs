//! Trying orders, and repairing those that end too high.

use super::calendar::{Calendar, Span};
use super::orders::{Order, Pressure};

/// Placements after which no further order is begun, whatever was reached; the
/// first two orders are tried even so.
const PLACEMENTS: usize = 12_000;

/// Placements that a small problem may spend on exchanging buffers.
const EXCHANGE_PLACEMENTS: usize = 200_000;

/// The most buffers a small problem has.
const SMALL: usize = 300;

/// Of more buffers an extent is good enough within one part in this many of the live bytes.
const FEW: usize = 1000;
const CLOSE: u64 = 1000;

/// The best packing so far, and what it takes to try another.
pub(super) struct Search<'a> {
    spans: &'a [Span],
    calendar: Calendar,
    live: u64,
    placements: usize,
    /// The order that gave the best packing.
    order: Vec<usize>,
    pub(super) offsets: Vec<u64>,
    pub(super) extent: u64,
}

/// One pass over an order.
struct Attempt {
    offsets: Vec<u64>,
    extent: u64,
    /// Positions in the order of the buffers that ended above the limit.
    failed: Vec<usize>,
}

impl<'a> Search<'a> {
    pub(super) fn new(spans: &'a [Span], calendar: Calendar, live: u64) -> Self {
        Self {
            spans,
            calendar,
            live,
            placements: 0,
            order: Vec::new(),
            offsets: vec![0; spans.len()],
            extent: u64::MAX,
        }
    }

    /// Tries one order after another until the live bytes are reached or the
    /// placements are spent.
    pub(super) fn run(&mut self, buffers: &[usize], pressure: &Pressure) {
        let mut queue: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
        for (tried, order) in Order::ALL.iter().enumerate() {
            if self.done(tried < 2) {
                return;
            }
            let order = order.sort(buffers, self.spans, pressure);
            let failed = self.attempt(&order);
            queue.push((order, failed));
        }
        while !self.done(false) {
            for (order, failed) in &mut queue {
                move_to_front(order, failed);
                *failed = self.attempt(order);
                if self.done(false) {
                    break;
                }
            }
        }
        if buffers.len() <= SMALL && self.extent > self.live {
            self.exchange();
        }
    }

    /// Whether to stop: of a few buffers nothing but the live bytes themselves is good enough, of many a close extent is,
    /// and behind all placements, without `must`, any is.
    fn done(&self, must: bool) -> bool {
        let enough =
            if self.spans.len() <= FEW { self.live } else { self.live.saturating_add(self.live / CLOSE) };
        let left = self.placements + self.spans.len() <= PLACEMENTS;
        self.extent <= enough || !(left || must)
    }

    /// Places the buffers in the order given and keeps the result if it is the
    /// lowest; the positions of those that ended above the live bytes.
    fn attempt(&mut self, order: &[usize]) -> Vec<usize> {
        let attempt = self.place(order, self.live);
        self.keep(order, &attempt);
        attempt.failed
    }

    fn keep(&mut self, order: &[usize], attempt: &Attempt) {
        if attempt.extent < self.extent {
            self.order = order.to_vec();
            self.extent = attempt.extent;
            self.offsets.clone_from(&attempt.offsets);
        }
    }

    fn place(&mut self, order: &[usize], limit: u64) -> Attempt {
        self.calendar.clear();
        self.placements += order.len();
        let mut attempt = Attempt { offsets: vec![0; self.spans.len()], extent: 0, failed: Vec::new() };
        for (position, &buffer) in order.iter().enumerate() {
            let span = self.spans[buffer];
            let offset = self.calendar.take(span);
            attempt.offsets[buffer] = offset;
            attempt.extent = attempt.extent.max(offset + span.bytes);
            if offset + span.bytes > limit {
                attempt.failed.push(position);
            }
        }
        attempt
    }

    /// Climbs from the best order by exchanging, among the buffers that overlap the
    /// first one to end at the extent, two at a time.
    fn exchange(&mut self) {
        let mut draw = Draw(0);
        let mut order = self.order.clone();
        let mut current = self.extent;
        let last = self.placements + EXCHANGE_PLACEMENTS;
        while self.placements < last && self.extent > self.live {
            let attempt = self.place(&order, current.saturating_sub(1));
            let Some(&failed) = attempt.failed.first() else { return };
            let mut near: Vec<usize> =
                (0..failed).filter(|&position| self.overlap(order[position], order[failed])).collect();
            near.push(failed);
            let first = near[draw.below(near.len())];
            let second = if draw.below(2) == 0 { failed } else { near[draw.below(near.len())] };
            let mut next = order.clone();
            if draw.below(2) == 0 {
                next.swap(first, second);
            } else {
                next[first.min(second)..=first.max(second)].rotate_right(1);
            }
            let attempt = self.place(&next, u64::MAX);
            self.keep(&next, &attempt);
            if attempt.extent <= current {
                current = attempt.extent;
                order = next;
            }
        }
    }

    fn overlap(&self, one: usize, other: usize) -> bool {
        self.spans[one].start < self.spans[other].end && self.spans[other].start < self.spans[one].end
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

/// A fixed sequence of numbers without a visible pattern.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit.max(1)
    }
}
