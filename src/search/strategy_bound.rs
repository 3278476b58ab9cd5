//! Lower bounds of a whole strategy over all its inner choices: time under a memory limit, and memory.

use crate::cost::flow::{Beside, Busy, together};
use crate::cost::unit_cost::Hosts;
use crate::profile::EngineProfile;
use crate::profile::choices::GradientSync;
use crate::profile::engine::Overlap;
use crate::program::state::{Gathering, StateRules};
use crate::search::choices::Hosted;
use crate::search::in_flight::{Counts, InFlight, Moment};
use crate::search::load::{Load, PassTime};
use crate::search::memory_bound::MemoryBound;
use crate::search::pipeline_bound::{More, Pipeline};
use crate::search::state_prices::StatePrices;
use crate::units::Bytes;

/// What a bound looks things up in: a pass choice, whatever its state.
#[derive(Clone, Copy)]
pub struct StrategyBounds<'a> {
    pub load: &'a Load,
    pub pipeline: Pipeline,
    pub engine: &'a EngineProfile,
    /// What a rank may take at its peak.
    pub room: Room,
    /// What of its state may be on the host.
    pub splits: &'a [Hosted],
    /// Elements of a bucket.
    pub bucket: u64,
}

/// Bytes that there are for a rank.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    pub device: f64,
    pub host: f64,
}

/// The bound of one strategy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StrategyBound {
    /// No inner choice is faster than this many seconds and fits.
    Seconds(f64),
    /// No inner choice fits: bytes at the peak of the leanest, at the least.
    OutOfMemory(Bytes),
}

impl StrategyBounds<'_> {
    /// The bound of a strategy that synchronises by `sync`, for a search that knows a plan of `best` seconds: what is
    /// slower in any case needs no exact bound.
    pub fn of(
        &self,
        sync: GradientSync,
        rules: &StateRules,
        prices: &StatePrices,
        best: f64,
    ) -> StrategyBound {
        let ranks = self.pipeline.ranks as f64;
        let step = self.step(sync, prices);
        let (block, queued) = self.queued(sync, rules, prices);
        let pass = self.waits(rules, prices);
        let issued = self.issued(sync, rules, prices);
        let accumulated = self.accumulated(prices);
        let block = issued + PassTime { chain: block, ..PassTime::default() } + step;
        let more = More { block, pass, start: self.start(rules, prices) };
        let passes = self.pipeline.lower_bound(self.load, more) + prices.update;
        if passes >= best {
            return StrategyBound::Seconds(passes);
        }
        let moved = (self.collectives(sync, rules, prices) - queued).max(0.0) / ranks;
        let steps = step.host * self.load.blocks as f64 / ranks;
        let each = self.pipeline.micro as f64 / ranks;
        let Load { work, full, waits, blocks, .. } = self.load;
        let chain = each * work.chain + (accumulated * *blocks as f64 + queued) / ranks;
        let busy = Busy { chain, full: each * full, waits: each * waits };
        let beside = Beside::new(prices.multiprocessors, self.load.links, prices.links);
        let time = passes.max(together(busy, moved, beside) + steps + prices.update);
        if time >= best {
            return StrategyBound::Seconds(time);
        }
        match self.memory(rules, step, best) {
            Ok(()) => StrategyBound::Seconds(time),
            Err(bytes) => StrategyBound::OutOfMemory(bytes),
        }
    }

    /// What collectives in the queue of the kernels, where an engine overlaps them with nothing, add to a rank for each
    /// of its blocks, in seconds, and to all ranks together.
    fn queued(&self, sync: GradientSync, rules: &StateRules, prices: &StatePrices) -> (f64, f64) {
        if !self.load.is_plain {
            return (0.0, 0.0);
        }
        let micro = self.pipeline.micro as f64;
        let (mut block, mut all) = (0.0, 0.0);
        if !self.engine.timing.overlaps(Overlap::Gradients) && !rules.reduces_behind {
            let rounds = if sync == GradientSync::Deferred { 1.0 } else { micro };
            let (of_block, of_all) = match sync {
                GradientSync::Scatter => (prices.scatter_block, prices.scatter),
                _ => (prices.reduce_block, prices.reduce),
            };
            block += rounds * of_block;
            all += rounds * of_all;
        }
        if !self.engine.timing.overlaps(Overlap::Gathers) {
            let rounds = gathers(rules, micro);
            block += rounds * prices.gather_block;
            all += rounds * prices.gather;
        }
        (block, all)
    }

    /// What a late host takes for the collectives of each block, as far as that holds up the passes of its rank.
    fn issued(&self, sync: GradientSync, rules: &StateRules, prices: &StatePrices) -> PassTime {
        if !self.load.is_plain {
            return PassTime::default();
        }
        let micro = self.pipeline.micro as f64;
        let [forward, backward, weight] = self.load.late;
        let Hosts { gather, scatter, reduce, accumulate, .. } = prices.hosts;
        let gathered = match rules.gathering {
            Gathering::EachPass => (forward + backward) * (gather * micro),
            Gathering::ForwardToBackward => forward * (gather * micro),
            Gathering::OnceAStep | Gathering::Never => PassTime::default(),
        };
        let reduces = if self.pipeline.schedule.splits_weight() { weight } else { backward };
        let reduced = match sync {
            _ if rules.reduces_behind => 0.0,
            GradientSync::Deferred => reduce,
            GradientSync::Immediate => micro * reduce,
            GradientSync::Scatter => micro * scatter,
        };
        let added = if self.pipeline.micro > 1 { micro * accumulate } else { 0.0 };
        gathered + reduces * (reduced + added)
    }

    /// What the passes of a chunk wait for with each micro-batch, before and behind their kernels.
    fn waits(&self, rules: &StateRules, prices: &StatePrices) -> PassTime {
        // Each chunk sends at least one message for each micro-batch.
        let sent = if self.pipeline.sends_within { self.pipeline.send } else { 0.0 };
        if !self.load.is_plain {
            return PassTime::of(sent);
        }
        // Of blocks that differ, it is not known whose gradient a backward reduces last.
        let reduces = self.load.is_even && !rules.keeps_whole_gradients;
        let reduces = reduces && self.engine.timing.overlaps(Overlap::Gradients);
        let reduced = if reduces { prices.scatter_block } else { 0.0 };
        // A forward and a backward gather their first unit's parameters, while nothing else can run; but the first
        // forward of all may wait for its input meanwhile. Late hosts may hide it.
        let gathers = rules.gathering == Gathering::EachPass && self.engine.timing.overlaps(Overlap::Gathers);
        let gathered =
            if gathers { (prices.gather_unit - self.load.without_parameters).max(0.0) } else { 0.0 };
        let passes = 2.0 - 1.0 / (self.pipeline.micro * self.pipeline.chunks) as f64;
        let behind = PassTime::of(sent + reduced);
        PassTime { chain: behind.chain + passes * gathered, ..behind }
    }

    /// What each block adds to its rank beside its passes: to the optimizer step, with the sums over replicas that wait
    /// for the last micro-batch; and to its gradient, where products do not, which late hosts hide.
    pub(super) fn step(&self, sync: GradientSync, prices: &StatePrices) -> PassTime {
        let replicas = if sync == GradientSync::Scatter { prices.replicas } else { 0.0 };
        let accumulated = PassTime { chain: self.accumulated(prices), ..PassTime::default() };
        PassTime::of(prices.step + replicas) + accumulated
    }

    /// What of it adds to gradients, beside the passes.
    fn accumulated(&self, prices: &StatePrices) -> f64 {
        let accumulates = self.pipeline.micro > 1 && self.load.is_plain;
        if accumulates { self.pipeline.micro as f64 * prices.accumulate } else { 0.0 }
    }

    /// Seconds by which the first forward of a chunk is held up at the least, where its parameters stay from then on.
    fn start(&self, rules: &StateRules, prices: &StatePrices) -> f64 {
        let stays = matches!(rules.gathering, Gathering::OnceAStep | Gathering::ForwardToBackward);
        if !stays
            || !self.load.is_plain
            || !self.load.is_even
            || !self.engine.timing.overlaps(Overlap::Gathers)
        {
            return 0.0;
        }
        let Pipeline { ranks, chunks, .. } = self.pipeline;
        // Of one chunk a rank, it is not known how many blocks it has.
        let blocks = if ranks == 1 || chunks > 1 { self.load.blocks / (ranks * chunks) } else { 0 };
        let each = prices.gather_block - self.load.block.forward.seconds();
        (blocks as f64 * each - self.load.front.forward.seconds()).max(0.0)
    }

    /// The optimizer step of a rank with the fewest blocks that any has, at the least, where these are known.
    pub fn least_step(&self, prices: &StatePrices) -> f64 {
        let Pipeline { ranks, chunks, .. } = self.pipeline;
        let is_known = ranks == 1 || (chunks > 1 && self.load.is_even);
        let blocks = if is_known { self.load.blocks / (ranks * chunks) * chunks } else { 0 };
        prices.step * blocks as f64 + prices.update
    }

    /// Seconds of all collectives over parameters and gradients, of all ranks of a pipeline together.
    fn collectives(&self, sync: GradientSync, rules: &StateRules, prices: &StatePrices) -> f64 {
        let micro = self.pipeline.micro as f64;
        let gathers = gathers(rules, micro);
        if !self.load.is_plain {
            // Of a unit that no gradient flows through, the forward alone gathers.
            return gathers.min(micro) * prices.gather;
        }
        let reductions = match sync {
            _ if rules.reduces_behind => 0.0,
            GradientSync::Deferred => prices.reduce,
            GradientSync::Immediate => micro * prices.reduce,
            GradientSync::Scatter => micro * prices.scatter,
        };
        reductions + gathers * prices.gather
    }

    /// Whether ranks which must have many blocks if no other is to be slower than `best`, while they hold many
    /// micro-batches, may have room.
    fn memory(&self, rules: &StateRules, step: PassTime, best: f64) -> Result<(), Bytes> {
        if !self.load.is_plain {
            return Ok(());
        }
        let memory = MemoryBound::new(self, rules);
        self.fullest(step, best).into_iter().try_for_each(|fullest| memory.fits(fullest, None))
    }

    /// Blocks that some rank has at least if none is slower than `best`, with the chunks of micro-batches that it then
    /// holds at its fullest: of the first ranks, which hold the most, the more the fewer of them are looked at.
    fn fullest(&self, step: PassTime, best: f64) -> Vec<(u64, InFlight)> {
        let ranks = self.pipeline.ranks;
        let mut list: Vec<(u64, InFlight)> = Vec::new();
        for rank in 0..ranks {
            let counts = Counts::new((self.load, &self.pipeline), rank, step, best);
            let behind = (ranks - 1 - rank).saturating_mul(counts.most);
            let own = self.load.blocks.saturating_sub(behind).div_ceil(rank + 1).max(counts.fewest);
            if own > list.last().map_or(0, |known| known.0) {
                // It may be any of the ranks so far, of which this one holds the least before backwards.
                let fullest = Moment { waiting: (0, 0), ..self.pipeline.moments(rank).0 };
                list.push((own, counts.in_flight(fullest, own, self.pipeline.chunks)));
            }
        }
        list
    }
}

/// How often parameters are gathered in a step of `micro` micro-batches.
fn gathers(rules: &StateRules, micro: f64) -> f64 {
    match rules.gathering {
        Gathering::Never => 0.0,
        Gathering::OnceAStep => 1.0,
        Gathering::ForwardToBackward => micro,
        Gathering::EachPass => 2.0 * micro,
    }
}
