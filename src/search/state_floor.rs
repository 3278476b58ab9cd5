//! Lower bounds of a whole strategy over all its inner choices: time under a memory limit, and memory.

use crate::cost::flow::{Beside, Busy, together};
use crate::lower::UnitParameters;
use crate::profile::EngineProfile;
use crate::profile::choices::{GradientSync, OffloadCategory, Schedule};
use crate::profile::engine::Overlap;
use crate::program::state::{Gathering, StateRules};
use crate::search::floor::{More, Pipeline};
use crate::search::load::{Kept, Load, Passing};
use crate::search::state_prices::StatePrices;
use crate::units::Bytes;

/// What a bound looks things up in: a frame, whatever its state.
#[derive(Clone, Copy)]
pub struct FrameFloor<'a> {
    pub load: &'a Load,
    pub pipeline: Pipeline,
    pub engine: &'a EngineProfile,
    /// Bytes that a program may take at its peak.
    pub room: f64,
    /// Elements of a bucket.
    pub bucket: u64,
}

/// The bound of one strategy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Floor {
    /// No inner choice is faster than this many seconds and fits.
    Seconds(f64),
    /// No inner choice fits: bytes at the peak of the leanest, at the least.
    OutOfMemory(Bytes),
}

impl FrameFloor<'_> {
    /// The bound of a strategy that synchronises by `sync`, for a search that knows a plan of `best` seconds: what is
    /// slower in any case needs no exact bound.
    pub fn of(&self, sync: GradientSync, rules: &StateRules, prices: &StatePrices, best: f64) -> Floor {
        let ranks = self.pipeline.ranks as f64;
        let step = self.step(sync, prices);
        // Of blocks that differ, it is not known whose gradient a backward reduces last.
        let reduces_each = self.load.is_plain && self.load.is_even && !rules.keeps_whole_gradients;
        let pass = if reduces_each { prices.block } else { 0.0 };
        let more = More { block: step, pass, start: self.start(rules, prices) };
        let passes = self.pipeline.floor(self.load, more);
        if passes >= best {
            return Floor::Seconds(passes);
        }
        let moved = self.collectives(sync, rules, prices) / ranks;
        let steps = step * self.load.blocks as f64 / ranks;
        let each = self.pipeline.micro as f64 / ranks;
        let Load { work, full, waits, .. } = self.load;
        let busy = Busy { chain: each * work, full: each * full, waits: each * waits };
        let beside = Beside::new(prices.multiprocessors, self.load.links, prices.links);
        let time = passes.max(together(busy, moved, beside) + steps);
        if time >= best {
            return Floor::Seconds(time);
        }
        match self.memory(rules, prices, step, best) {
            Ok(forced) => Floor::Seconds(time.max(forced)),
            Err(bytes) => Floor::OutOfMemory(bytes),
        }
    }

    /// What each block adds to the optimizer step, with the sums over replicas that wait for the last micro-batch.
    pub(super) fn step(&self, sync: GradientSync, prices: &StatePrices) -> f64 {
        prices.step + if sync == GradientSync::Scatter { prices.replicas } else { 0.0 }
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
        let each = prices.gather_block - self.load.block.forward;
        (blocks as f64 * each - self.load.front.forward).max(0.0)
    }

    /// The optimizer step of a rank with the fewest blocks that any has, at the least, where these are known.
    pub fn least_step(&self, prices: &StatePrices) -> f64 {
        let Pipeline { ranks, chunks, .. } = self.pipeline;
        let is_known = ranks == 1 || (chunks > 1 && self.load.is_even);
        let blocks = if is_known { self.load.blocks / (ranks * chunks) * chunks } else { 0 };
        prices.step * blocks as f64
    }

    /// Seconds of all collectives over parameters and gradients, of all ranks of a pipeline together.
    fn collectives(&self, sync: GradientSync, rules: &StateRules, prices: &StatePrices) -> f64 {
        let micro = self.pipeline.micro as f64;
        let gathers = match rules.gathering {
            Gathering::Never => 0.0,
            Gathering::OnceAStep => 1.0,
            Gathering::ForwardToBackward => micro,
            Gathering::EachPass => 2.0 * micro,
        };
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

    /// The least time of any inner choice that fits, as far as memory forces it: that of ranks which must have many
    /// blocks if no other is to be slower than `best`, while they hold many micro-batches.
    fn memory(&self, rules: &StateRules, prices: &StatePrices, step: f64, best: f64) -> Result<f64, Bytes> {
        let mut least = 0.0_f64;
        if self.load.is_plain {
            for (blocks, flying) in self.fullest(step, best) {
                least = least.max(self.forced((blocks, flying), &[], (rules, prices), step)?);
            }
        }
        Ok(least)
    }

    /// Blocks that some rank has at least if none is slower than `best`, with the chunks of micro-batches that it then
    /// holds at its fullest: of the first ranks, which hold the most, the more the fewer of them are looked at.
    fn fullest(&self, step: f64, best: f64) -> Vec<(u64, Flying)> {
        let ranks = self.pipeline.ranks;
        let mut list: Vec<(u64, Flying)> = Vec::new();
        for rank in 0..ranks {
            let counts = self.counts(rank, step, best);
            let behind = (ranks - 1 - rank).saturating_mul(counts.most);
            let own = self.load.blocks.saturating_sub(behind).div_ceil(rank + 1).max(counts.fewest);
            if own > list.last().map_or(0, |known| known.0) {
                // It may be any of the ranks so far, of which this one holds the least before backwards.
                let fullest = Moment { waiting: (0, 0), ..self.moments(rank).0 };
                list.push((own, self.flying(fullest, own, counts)));
            }
        }
        list
    }

    /// What a rank with `blocks` blocks holds at `moment`.
    pub(super) fn flying(&self, moment: Moment, blocks: u64, counts: Counts) -> Flying {
        let chunks = self.pipeline.chunks;
        let each = blocks.saturating_sub((chunks - 1) * counts.largest).max(counts.each);
        let (all, least) = moment.waiting;
        Flying {
            chunks: moment.kept,
            largest: blocks.min(counts.largest),
            kept: moment.kept * each,
            waiting: all * each + least * blocks.saturating_sub(chunks * each),
            runs: moment.runs,
        }
    }

    /// How many of the blocks that weigh most rank `rank` may have, if it is not to be slower than `best`. Of several
    /// chunks a rank, each has one of two numbers of all blocks; which of these are of other classes is known of the
    /// ranks behind the last such block alone.
    pub(super) fn counts(&self, rank: u64, step: f64, best: f64) -> Counts {
        let Pipeline { ranks, chunks, micro, .. } = self.pipeline;
        let Load { blocks, others, last_other, .. } = *self.load;
        let block = micro as f64 * self.load.block.work + step;
        let most = if block > 0.0 { ((best / block) as u64).min(blocks) } else { blocks };
        if chunks == 1 {
            return Counts { each: 0, largest: blocks, fewest: 0, most };
        }
        let (each, largest) =
            ((blocks + others) / (ranks * chunks), (blocks + others).div_ceil(ranks * chunks));
        let each = if rank * each >= last_other { each } else { 0 };
        Counts { each, largest, fewest: chunks * each, most: most.min(chunks * largest) }
    }

    /// The least time of a rank with `blocks` blocks, and with what stands at the `ends` of the model, that holds so many
    /// chunks of micro-batches, if it is to fit.
    pub(super) fn forced(
        &self,
        (blocks, flying): (u64, Flying),
        ends: &[UnitParameters],
        (rules, prices): (&StateRules, &StatePrices),
        step: f64,
    ) -> Result<f64, Bytes> {
        let block = self.held(rules, &self.load.parameters, 1);
        let blocks = blocks as f64;
        if blocks < 1.0 {
            return Ok(0.0);
        }
        let mut held = self.held(rules, &self.load.parameters, blocks as u64);
        held.fixed += self.engine.buffers.workspace as f64 + self.buckets(rules, blocks as u64);
        let mut at_ends = 0.0;
        for parameters in ends {
            let end = self.held(rules, parameters, 1);
            at_ends += end.parameters;
            held.fixed += end.fixed;
            held.parameters += end.parameters;
            held.optimizer += end.optimizer;
            held.owned += end.owned;
        }
        let supports = |category| self.engine.supports.offload.contains(&category);
        let modes = &self.load.modes;
        let least = |bytes: fn(&Kept) -> f64| modes.iter().map(bytes).fold(f64::INFINITY, f64::min);
        // Nothing takes away what weight passes wait for.
        held.fixed += flying.waiting as f64 * least(|mode| mode.waiting);
        let Flying { chunks, kept: flying, largest, runs, .. } = flying;
        let (flying, chunks) = (flying as f64, chunks as f64);
        let (beside, alone) = if runs { self.passing(rules) } else { (0.0, 0.0) };
        // Parameters on the host are back for their block's passes.
        let back = if runs { block.parameters } else { 0.0 };
        let offloads = supports(OffloadCategory::Parameters);
        let fetched = if offloads { (held.parameters - back).max(0.0) } else { 0.0 };
        let relief = fetched + if supports(OffloadCategory::Optimizer) { held.optimizer } else { 0.0 };
        let activations = supports(OffloadCategory::Activations);
        let kept = if activations { 0.0 } else { flying * least(|mode| mode.bytes) };
        let holds = held.fixed + held.optimizer + held.parameters;
        let leanest = holds - relief + alone.max(beside + kept);
        if leanest > self.room {
            return Err(Bytes(leanest.max(0.0) as u64));
        }
        let free = self.room - holds - beside;
        let micro = self.pipeline.micro as f64;
        let work = micro * blocks * self.load.block.work + step * blocks;
        let keeps_all = flying * modes[0].bytes;
        let over = keeps_all - free;
        if over <= 0.0 {
            return Ok(0.0);
        }
        // Recomputing alone.
        let recomputing = match self.recomputed(free / flying.max(1.0)) {
            Some(more) => work + micro * blocks * more,
            None => f64::INFINITY,
        };
        // Or with something on the host: activations leave, and parameters come, as long as a chunk's forward runs, but
        // for parameters that are there before it; what is still over is paid for by the cheapest of longer forwards,
        // the host's update and recomputation.
        let forward = |blocks: f64| {
            let block = modes.iter().map(|mode| mode.forward).fold(0.0, f64::max);
            blocks * block + self.load.other_forwards
        };
        let mut cheapest = f64::INFINITY;
        let mut left = over;
        if fetched > 0.0 {
            let ahead = self.pipeline.chunks * self.engine.buffers.gathered_units.max(1);
            let there = at_ends + ahead as f64 * block.parameters;
            left -= fetched.min(there + prices.in_rate * forward(blocks));
            cheapest = cheapest.min(micro / prices.in_rate);
        }
        if activations && chunks > 0.0 {
            left -= (chunks * prices.out_rate * forward(largest as f64)).min(keeps_all);
            cheapest = cheapest.min(micro / (prices.out_rate * chunks.min(micro)));
        }
        if left <= 0.0 {
            return Ok(recomputing.min(work));
        }
        for mode in &modes[1..] {
            let saved = flying * (modes[0].bytes - mode.bytes);
            if saved > 0.0 {
                cheapest = cheapest.min(micro * blocks * (mode.work - modes[0].work).max(0.0) / saved);
            }
        }
        if supports(OffloadCategory::Optimizer) && held.optimizer > 0.0 {
            cheapest = cheapest.min(held.owned * prices.host_element / held.optimizer);
        }
        let offloading = if cheapest.is_finite() { work + left * cheapest } else { f64::INFINITY };
        Ok(recomputing.min(offloading))
    }

    /// Bytes of the buckets that gradients of `blocks` blocks are reduced in.
    fn buckets(&self, rules: &StateRules, blocks: u64) -> f64 {
        let p = &self.load.parameters;
        let reduced = if rules.gradient_ranks > 1 { p.dense_trained } else { 0 }
            + if rules.expert_ranks > 1 { p.expert_trained } else { 0 };
        let elements = (reduced * blocks).min(self.bucket);
        (self.engine.buffers.reduce_buckets * elements * rules.reduce.size()) as f64
    }

    /// Bytes while a block's pass runs, whatever its mode: its values, the gradient that it writes, and the parameters
    /// that are gathered for it; beside what is held and kept, and with what the block itself keeps.
    fn passing(&self, rules: &StateRules) -> (f64, f64) {
        let p = &self.load.parameters;
        let gathered = match rules.gathering {
            Gathering::EachPass => (p.dense + p.expert) * rules.compute.size(),
            _ => 0,
        };
        let gradient = if rules.keeps_whole_gradients {
            0
        } else {
            (p.dense_trained + p.expert_trained) * rules.gradient.size()
        };
        let least = |passing: fn(&Kept) -> Passing| {
            let modes = self.load.modes.iter().map(passing);
            let most = modes.map(|passing| passing.before.max(passing.after + gradient as f64));
            most.fold(f64::INFINITY, f64::min) + gathered as f64
        };
        (least(|mode| mode.beside), least(|mode| mode.alone))
    }

    /// When rank `rank` holds the most: a forward under way among the chunks of micro-batches that it keeps; and where
    /// weight passes follow apart, when the most of these wait.
    pub(super) fn moments(&self, rank: u64) -> (Moment, Option<Moment>) {
        let Pipeline { ranks, chunks, micro, schedule, .. } = self.pipeline;
        let behind = ranks - rank;
        let full = |kept: u64, waiting: u64| Moment { kept, waiting: (waiting, waiting), runs: true };
        // `delay` weight passes wait while `ahead` micro-batches are between forward and backward.
        let delayed = |ahead: u64, delay: u64| {
            let ahead = ahead.min(micro);
            let last = delay.min(micro);
            let most = Moment { kept: micro.min(ahead + last) - last, waiting: (last, last), runs: false };
            (full(ahead, delay.min(micro - ahead)), Some(most))
        };
        match schedule {
            Schedule::GPipe => (full(micro, 0), None),
            Schedule::OneForwardOneBackward => (full(behind.min(micro), 0), None),
            Schedule::Interleaved => {
                let ahead = match micro.is_multiple_of(ranks) {
                    _ if ranks == 1 => 1,
                    true => 2 * (behind - 1) + (chunks - 1) * ranks + 1,
                    false => micro * chunks,
                };
                (full(ahead.min(micro * chunks), 0), None)
            }
            Schedule::ZeroBubbleH1 => delayed(behind, rank),
            Schedule::ZeroBubbleH2 => delayed(2 * behind - 1, 2 * rank),
            Schedule::ZeroBubbleV => {
                // At the end, as many backwards of both chunks as there are ranks before it run without their weights.
                let last = micro.max(2 * ranks - 1);
                let left_out = last - micro;
                let first = rank.saturating_sub(left_out.saturating_sub(behind));
                let second = rank.saturating_sub(left_out);
                let waiting = (first + second, first.min(second));
                let kept = behind.saturating_sub(left_out);
                (full((2 * behind - 1).min(micro), 0), Some(Moment { kept, waiting, runs: false }))
            }
        }
    }

    /// Bytes that `count` units with parameters `p` hold over the whole step.
    fn held(&self, rules: &StateRules, p: &UnitParameters, count: u64) -> Held {
        let (dense, expert) = (p.dense * count, p.expert * count);
        let (dense_trained, expert_trained) = (p.dense_trained * count, p.expert_trained * count);
        let stored = rules.at_least(rules.shards_parameters, dense, expert) * rules.parameter.size();
        let trained = dense_trained + expert_trained;
        let gradients = if rules.keeps_whole_gradients {
            trained * rules.gradient.size()
        } else if rules.shards_gradients && !rules.gradients_reuse_parameters {
            rules.at_least(true, dense_trained, expert_trained) * rules.gradient.size()
        } else {
            0
        };
        // Without a pipeline, what is gathered until its backward is all there at the end of the forward.
        let gathered = match rules.gathering {
            Gathering::OnceAStep => dense + expert,
            Gathering::ForwardToBackward if self.pipeline.ranks == 1 => dense + expert,
            _ => 0,
        };
        let gathered = gathered * rules.compute.size();
        let working =
            if rules.keeps_working_gradients(self.engine) { trained * rules.compute.size() } else { 0 };
        let owned = rules.at_least(rules.shards_optimizer, dense_trained, expert_trained);
        Held {
            fixed: (gradients + gathered + working) as f64,
            parameters: stored as f64,
            optimizer: (owned * rules.optimizer_size) as f64,
            owned: owned as f64,
        }
    }

    /// Seconds that a block must spend on recomputation, for each micro-batch, to keep `bytes` on average; none if no
    /// mode keeps so little.
    fn recomputed(&self, bytes: f64) -> Option<f64> {
        let modes = &self.load.modes;
        let base = self.load.block.work;
        let lean = || modes.iter().filter(|mode| mode.bytes <= bytes);
        let whole = lean().map(|mode| mode.work - base).reduce(f64::min)?;
        let mixed = lean().flat_map(|low| {
            let high = modes.iter().filter(|high| high.bytes > bytes && high.work < low.work);
            high.map(|high| {
                let share = (bytes - low.bytes) / (high.bytes - low.bytes);
                low.work + share * (high.work - low.work) - base
            })
        });
        Some(mixed.fold(whole, f64::min).max(0.0))
    }
}

/// Blocks of a chunk and of a rank.
#[derive(Clone, Copy)]
pub(super) struct Counts {
    /// The fewest and the most of a chunk.
    pub each: u64,
    pub largest: u64,
    /// The fewest and the most of a rank.
    pub fewest: u64,
    pub most: u64,
}

/// What a rank holds at a moment, in chunks of micro-batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// Of its first chunk, or of any of several: between forward and backward.
    pub kept: u64,
    /// Between backward and weight pass: of all chunks together, and of each at the least.
    pub waiting: (u64, u64),
    /// A pass of a block runs then, forward as well as backward.
    pub runs: bool,
}

/// The same for its blocks: how often one is kept, how often one waits for its weight pass, and the most of a chunk.
#[derive(Clone, Copy)]
pub(super) struct Flying {
    chunks: u64,
    largest: u64,
    kept: u64,
    waiting: u64,
    runs: bool,
}

/// What blocks hold over the step, in bytes; `owned` in elements of optimizer state.
struct Held {
    fixed: f64,
    parameters: f64,
    optimizer: f64,
    owned: f64,
}
