//! Placing buffers one after another in an order, and repairing orders that end too high.

use std::cmp::Reverse;

use super::Lifetime;
use super::calendar::Calendar;

/// How buffers are ordered before the first attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The largest first, of one size the earliest.
    Size,
    /// Those live at the fullest instant first, then those live at the next fullest, and so on; of one instant the
    /// earliest started.
    PeakThenStart,
    /// The same; of one instant those that end last.
    PeakThenEnd,
    /// The same; of one instant those that live longest.
    PeakThenLength,
}

impl Order {
    /// The orders, the most often successful first.
    pub(super) const ALL: [Self; 4] =
        [Self::Size, Self::PeakThenStart, Self::PeakThenEnd, Self::PeakThenLength];
}

/// The indices of `lifetimes` in `order`; `held` bytes are live when each of them starts.
pub(super) fn sorted(lifetimes: &[Lifetime], held: &[u64], order: Order) -> Vec<usize> {
    let mut sorted: Vec<usize> = (0..lifetimes.len()).collect();
    sorted.sort_by_cached_key(|&buffer| {
        let lifetime = &lifetimes[buffer];
        let started = lifetimes[buffer..].partition_point(|other| other.start < lifetime.end);
        let peak = || held[buffer..buffer + started].iter().max().copied();
        let (start, end, length) = (u32::MAX - lifetime.start, lifetime.end, lifetime.length());
        let (first, second, third) = match order {
            Order::Size => (Some(lifetime.bytes), start, length),
            Order::PeakThenStart => (peak(), start, length),
            Order::PeakThenEnd => (peak(), end, length),
            Order::PeakThenLength => (peak(), length, start),
        };
        (Reverse((first, second, third, lifetime.bytes)), buffer)
    });
    sorted
}

/// Offsets of the buffers, placed in `order`, each as low as `calendar` has space during its whole lifetime.
pub(super) fn place(lifetimes: &[Lifetime], order: &[usize], calendar: &mut Calendar) -> Vec<u64> {
    calendar.clear();
    let mut offsets = vec![0; lifetimes.len()];
    for &buffer in order.iter().filter(|&&buffer| lifetimes[buffer].bytes > 0) {
        offsets[buffer] = calendar.take(lifetimes[buffer].bytes, buffer);
    }
    offsets
}

/// Moves the buffers forward that `offsets` places beyond `live`.
pub(super) fn repair(lifetimes: &[Lifetime], order: &mut [usize], offsets: &[u64], live: u64) {
    order.sort_by_key(|&buffer| offsets[buffer] + lifetimes[buffer].bytes <= live);
}
