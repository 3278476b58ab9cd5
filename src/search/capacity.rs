//! Whether all blocks find a rank that has the time and the memory for them: ranks one by one, each with as many as it
//! can have at all.

use crate::profile::choices::GradientSync;
use crate::program::state::StateRules;
use crate::search::floor::Pipeline;
use crate::search::state_floor::{Counts, FrameFloor};
use crate::search::state_prices::StatePrices;

impl FrameFloor<'_> {
    /// Whether the blocks of the class that weighs most may be spread over the ranks so that each fits and ends before
    /// `best` seconds.
    pub fn may_spread(
        &self,
        sync: GradientSync,
        rules: &StateRules,
        prices: &StatePrices,
        best: f64,
    ) -> bool {
        let Pipeline { ranks, .. } = self.pipeline;
        if !self.load.is_plain || ranks == 1 {
            return true;
        }
        let (blocks, step) = (self.load.blocks, self.step(sync, prices));
        // From the last rank, which waits the longest for its first input.
        let mut behind = 0;
        for rank in (0..ranks).rev() {
            let counts = self.counts(rank, step, best);
            let ends = |&count: &u64| {
                let before = match self.pipeline.chunks {
                    1 => blocks.saturating_sub(behind + count),
                    _ => (rank * counts.each).saturating_sub(self.load.others),
                };
                self.end((rank, count, before), counts, (rules, prices, step)).is_some_and(|end| end < best)
            };
            let Some(most) = (counts.fewest..=counts.most).rev().find(ends) else { return false };
            behind += most;
            if behind >= blocks {
                return true;
            }
        }
        false
    }

    /// Seconds until rank `rank` with `count` of the blocks ends at the least, if `before` stand before it and each adds
    /// `step` to the optimizer step; none if it cannot fit.
    fn end(
        &self,
        (rank, count, before): (u64, u64, u64),
        counts: Counts,
        (rules, prices, step): (&StateRules, &StatePrices, f64),
    ) -> Option<f64> {
        let micro = self.pipeline.micro as f64;
        let work = count as f64 * (micro * self.load.block.work + step);
        let (has_first, has_last) = (rank == 0, self.pipeline.holds_last(rank));
        let ends = &self.load.ends[usize::from(!has_first)..1 + usize::from(has_last)];
        let (fullest, waiting) = self.moments(rank);
        let mut forced = 0.0_f64;
        for moment in [Some(fullest), waiting].into_iter().flatten() {
            let flying = self.flying(moment, count, counts);
            forced = forced.max(self.forced((count, flying), ends, (rules, prices), step).ok()?);
        }
        let front = if has_first { self.load.front.work } else { 0.0 };
        let back = if has_last { self.load.back.work } else { 0.0 };
        let way = self.pipeline.way(self.load, rank, before);
        Some(way + micro * (front + back) + work.max(forced))
    }
}
