//! Whether all blocks find a rank that has the time and the memory for them: ranks one by one, each with as many as it
//! can have at all; and the least memory at which they do.
//!
//! A rank that has no room for what its blocks keep under their fastest mode recomputes, or copies to its host: the more
//! the less room it has.

use crate::profile::choices::{GradientSync, OffloadCategory};
use crate::program::state::StateRules;
use crate::search::in_flight::{Counts, InFlight};
use crate::search::load::{Kept, PassTime};
use crate::search::memory_bound::{Budget, Ends, MemoryBound};
use crate::search::pipeline_bound::Pipeline;
use crate::search::state_prices::{StatePrices, Updates};
use crate::search::strategy_bound::{Room, StrategyBounds};

/// No rank has as many bytes.
const MOST_BYTES: f64 = 1e16;
/// The share to which the least memory is found.
const NEAR: f64 = 0.002;

/// The moment by which ranks must have ended.
#[derive(Clone, Copy)]
struct Until<'a> {
    /// In seconds.
    best: f64,
    /// Seconds that each block adds to its rank's optimizer step.
    step: PassTime,
    /// Prices of state and activations on the host; none if only memory is asked for.
    prices: Option<&'a StatePrices>,
}

/// A rank with a number of blocks.
#[derive(Clone, Copy)]
struct Filled {
    blocks: u64,
    ends: Ends,
    /// At its fullest.
    in_flight: InFlight,
}

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
        self.spreads(rules, Until { best, step: self.step(sync, prices), prices: Some(prices) })
    }

    /// A lower bound of the fullest rank's device memory over all inner choices, in bytes; none if it is above `most`.
    /// Over several ranks it is found by bisection, and is up to 0.2 % lower than it could be.
    pub fn least_memory(&self, rules: &StateRules, most: f64) -> Option<f64> {
        let Self { load, pipeline, .. } = self;
        let any = Until { best: f64::INFINITY, step: PassTime::default(), prices: None };
        if !load.is_plain {
            return Some(0.0);
        }
        if pipeline.ranks == 1 {
            let counts = Counts::new((load, pipeline), 0, any.step, any.best);
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
            roomy.spreads(rules, any)
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

    /// Whether the blocks may be spread so.
    fn spreads(&self, rules: &StateRules, until: Until<'_>) -> bool {
        let Until { best, step, .. } = until;
        let Self { load, pipeline, .. } = self;
        if !load.is_plain {
            return true;
        }
        let memory = MemoryBound::new(self, rules);
        // From the last rank, which waits the longest for its first input.
        let mut behind = 0;
        for rank in (0..pipeline.ranks).rev() {
            let counts = Counts::new((load, pipeline), rank, step, best);
            let end = |count: u64| self.end((rank, count), (counts, until), &memory);
            let fits = |count: u64| end(count).is_some_and(|end| end < best);
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

    /// Seconds that rank `rank` with `count` of the blocks takes at the least from its first input on, if that is before
    /// what it has to end before; none if it cannot fit. With more blocks it takes longer.
    fn end(
        &self,
        (rank, count): (u64, u64),
        (counts, until): (Counts, Until<'_>),
        memory: &MemoryBound<'_>,
    ) -> Option<f64> {
        let Self { load, pipeline, .. } = self;
        let Pipeline { micro, chunks, .. } = *pipeline;
        let ends = Ends { first: rank == 0, last: pipeline.holds_last(rank) };
        let (fullest, waiting) = pipeline.moments(rank);
        let held = |moment| (count, counts.in_flight(moment, count, chunks));
        // What waits cannot leave, so it is what most often has no room.
        for moment in waiting.into_iter().chain([fullest]) {
            memory.fits(held(moment), Some(ends)).ok()?;
        }
        let nothing = PassTime::default();
        let front = if ends.first { load.front.work } else { nothing };
        let back = if ends.last { load.back.work } else { nothing };
        let passes = front + back + load.block.work * count as f64;
        let all = passes * micro as f64 + until.step * count as f64;
        match until.prices.filter(|_| count > 0 && all.seconds() < until.best) {
            None => Some(all.seconds()),
            Some(prices) => {
                let rank = Filled { blocks: count, ends, in_flight: held(fullest).1 };
                let budgets = memory.budgets(held(fullest), Some(ends));
                let longer = budgets.map(|budget| self.longer(rank, &budget, prices, until.best));
                let longer = longer.reduce(f64::min).filter(|longer| longer.is_finite())?;
                Some((all + PassTime { chain: longer, ..PassTime::default() }).seconds())
            }
        }
    }

    /// Seconds that `rank` takes longer than at the least, if it has the state of `budget` on its host and keeps no more
    /// than that allows, and ends before `best` seconds.
    fn longer(&self, rank: Filled, budget: &Budget<'_>, prices: &StatePrices, best: f64) -> f64 {
        let load = self.load;
        let (blocks, micro) = (rank.blocks as f64, self.pipeline.micro as f64);
        let share = |category: OffloadCategory| budget.hosted[category as usize];
        let on_host = share(OffloadCategory::Optimizer);
        let Updates { least, device, host } = prices.updates;
        let update = ((1.0 - on_host) * device).max(on_host * host) - least;
        // Of one micro-batch; what is not kept of it is not kept for as many as are in flight.
        let of_one = rank.in_flight.of_one.max(1) as f64;
        let too_much = (rank.in_flight.kept as f64 * load.trade.kept - budget.device) / of_one;
        let recomputed = |copied: f64| blocks * load.trade.seconds((too_much - copied) / blocks);
        let kept = if too_much <= 0.0 {
            0.0
        } else if share(OffloadCategory::Activations) == 0.0 {
            recomputed(0.0)
        } else {
            let forwards = self.longest_forwards(rank, best / micro);
            let most = too_much.min(budget.host / of_one).min(best / micro / prices.out);
            // Forwards end with their copies. Between these all is straight.
            let corners = load.trade.corners().map(|corner| too_much - blocks * corner);
            let copied = corners.chain([forwards / prices.out, most]).map(|copied| copied.clamp(0.0, most));
            let seconds = |copied| recomputed(copied) + (copied * prices.out - forwards).max(0.0);
            copied.map(seconds).fold(f64::INFINITY, f64::min)
        };
        blocks * update.max(0.0) + micro * kept
    }

    /// Seconds of the forwards of a micro-batch on `rank` at the most, or of all that it does, `all`.
    fn longest_forwards(&self, rank: Filled, all: f64) -> f64 {
        let load = self.load;
        if !load.is_even {
            return all;
        }
        let end = |is_there: bool, seconds: f64| if is_there { seconds } else { 0.0 };
        rank.blocks as f64 * load.longest_forward
            + end(rank.ends.first, load.front.forward.chain)
            + end(rank.ends.last, load.back.forward.chain)
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
