//! Whether all blocks find a rank that has the time and the memory for them: ranks one by one, each with as many as it
//! can have at all.

use crate::profile::choices::GradientSync;
use crate::program::state::StateRules;
use crate::search::in_flight::Counts;
use crate::search::load::PassTime;
use crate::search::memory_bound::{Ends, MemoryBound};
use crate::search::pipeline_bound::Pipeline;
use crate::search::state_prices::StatePrices;
use crate::search::strategy_bound::StrategyBounds;

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
        let Self { load, pipeline, .. } = self;
        if !load.is_plain || pipeline.ranks == 1 {
            return true;
        }
        let step = self.step(sync, prices);
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
