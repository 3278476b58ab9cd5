//! Whether all blocks find a rank that has the time and the memory for them: ranks one by one, each with as many as it
//! can have at all; and the least memory at which they do.

use crate::profile::choices::GradientSync;
use crate::program::state::StateRules;
use crate::search::in_flight::Counts;
use crate::search::load::{Kept, PassTime};
use crate::search::memory_bound::{Ends, MemoryBound};
use crate::search::pipeline_bound::Pipeline;
use crate::search::state_prices::StatePrices;
use crate::search::strategy_bound::{Room, StrategyBounds};

/// No rank has as many bytes.
const MOST_BYTES: f64 = 1e16;
/// The share to which the least memory is found.
const NEAR: f64 = 0.002;

impl StrategyBounds<'_> {
    /// Whether the blocks of the class that weighs most may be spread over the ranks so that each fits and ends before
    /// `best` seconds.
    pub fn may_spread(
        &self,
        sync: GradientSync,
        rules: &StateRules,
        prices: &StatePrices,
        best: f64,
    ) -> bool {
        self.pipeline.ranks == 1 || self.spreads(rules, self.step(sync, prices), best)
    }

    /// A lower bound of the fullest rank's device memory over all inner choices, in bytes; none if it is above `most`.
    /// Over several ranks it is found by bisection, and is up to 0.2 % lower than it could be.
    pub fn least_memory(&self, rules: &StateRules, most: f64) -> Option<f64> {
        let Self { load, pipeline, .. } = self;
        let slowest = (PassTime::default(), f64::INFINITY);
        if !load.is_plain {
            return Some(0.0);
        }
        if pipeline.ranks == 1 {
            let counts = Counts::new((load, pipeline), 0, slowest.0, slowest.1);
            let (fullest, waiting) = pipeline.moments(0);
            let memory = MemoryBound::new(self, rules);
            let held = |moment| (load.blocks, counts.in_flight(moment, load.blocks, pipeline.chunks));
            let ends = Some(Ends { first: true, last: true });
            let moments = waiting.into_iter().chain([fullest]);
            let least = moments.map(|moment| memory.least(held(moment), ends, 0.0)).fold(0.0, f64::max);
            return (least <= most).then_some(least);
        }
        let spreads = |device: f64| {
            let roomy = Self { room: Room { device, ..self.room }, ..*self };
            roomy.spreads(rules, slowest.0, slowest.1)
        };
        let (mut low, mut high) = (0.0, most.min(MOST_BYTES));
        if !spreads(high) {
            return None;
        }
        while high - low > NEAR * high {
            let middle = f64::midpoint(low, high);
            if spreads(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        Some(low)
    }

    /// A lower bound of what a rank takes while a pass of one block runs, in bytes: the values of that pass alone.
    pub fn least_passing(&self) -> f64 {
        if !self.load.is_plain {
            return 0.0;
        }
        let needs = |mode: &Kept| mode.beside.before.max(mode.beside.after);
        self.load.modes.iter().map(needs).fold(f64::INFINITY, f64::min)
    }

    /// Whether the blocks may be spread so, where each adds `step` to its rank's optimizer step.
    fn spreads(&self, rules: &StateRules, step: PassTime, best: f64) -> bool {
        let Self { load, pipeline, .. } = self;
        if !load.is_plain {
            return true;
        }
        let memory = MemoryBound::new(self, rules);
        // From the last rank, which waits the longest for its first input.
        let mut behind = 0;
        for rank in (0..pipeline.ranks).rev() {
            let counts = Counts::new((load, pipeline), rank, step, best);
            let end = |count: u64| self.end((rank, count), (counts, step), &memory);
            let fits = |count: u64| end(count).is_some();
            let ends_in_time = |&count: &u64| {
                let before = match pipeline.chunks {
                    1 => load.blocks.saturating_sub(behind + count),
                    _ => (rank * counts.each).saturating_sub(load.others),
                };
                let way = pipeline.way(load, rank, before);
                end(count).is_some_and(|end| way + end < best)
            };
            let Counts { fewest, most, .. } = counts;
            let most = if fewest <= most && ends_in_time(&most) {
                Some(most)
            } else {
                largest(fewest, most, fits).and_then(|most| (fewest..=most).rev().find(ends_in_time))
            };
            let Some(most) = most else { return false };
            behind += most;
            if behind >= load.blocks {
                return true;
            }
            // Not even if all before have as many as time allows.
            if behind + rank * counts.most < load.blocks {
                return false;
            }
        }
        false
    }

    /// Seconds that rank `rank` with `count` of the blocks takes at the least from its first input on; none if it
    /// cannot fit.
    fn end(
        &self,
        (rank, count): (u64, u64),
        (counts, step): (Counts, PassTime),
        memory: &MemoryBound<'_>,
    ) -> Option<f64> {
        let Self { load, pipeline, .. } = self;
        let Pipeline { micro, chunks, .. } = *pipeline;
        let ends = Ends { first: rank == 0, last: pipeline.holds_last(rank) };
        let (fullest, waiting) = pipeline.moments(rank);
        // What waits cannot leave, so it is what most often has no room.
        for moment in waiting.into_iter().chain([fullest]) {
            memory.fits((count, counts.in_flight(moment, count, chunks)), Some(ends)).ok()?;
        }
        let nothing = PassTime::default();
        let front = if ends.first { load.front.work } else { nothing };
        let back = if ends.last { load.back.work } else { nothing };
        let passes = front + back + load.block.work * count as f64;
        Some((passes * micro as f64 + step * count as f64).seconds())
    }
}

/// The largest number from `low` to `high` that `fits`, which no larger one does where one does not.
fn largest(mut low: u64, mut high: u64, fits: impl Fn(u64) -> bool) -> Option<u64> {
    if low > high || fits(high) {
        return (low <= high).then_some(high);
    }
    if !fits(low) {
        return None;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(low)
}
