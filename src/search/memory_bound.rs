//! A lower bound of a rank's memory over all its inner choices: the leanest checkpoint mode, and on the host whatever
//! the engine keeps there.

use crate::lower::UnitParameters;
use crate::profile::choices::OffloadCategory;
use crate::program::state::{Gathering, StateRules};
use crate::search::in_flight::InFlight;
use crate::search::load::{Kept, Passing};
use crate::search::strategy_bound::StrategyBounds;
use crate::units::Bytes;

/// What ranks hold at the least under one pass choice and one state, in bytes.
pub struct MemoryBound<'a> {
    bounds: &'a StrategyBounds<'a>,
    rules: &'a StateRules,
    /// What stands at the model's ends.
    ends: [f64; 2],
    /// A block's parameters that are back from the host for its passes.
    fetched: f64,
    /// While a block's pass runs: beside what is kept, and with what the block itself keeps.
    beside: f64,
    alone: f64,
    /// What a block keeps for a micro-batch, and what of it waits for its weight pass.
    kept: f64,
    waiting: f64,
}

/// Which of the model's ends a rank has beside its blocks.
#[derive(Clone, Copy)]
pub struct Ends {
    pub first: bool,
    pub last: bool,
}

impl<'a> MemoryBound<'a> {
    /// The memory bound of ranks with the passes of `bounds` under `rules`.
    pub fn new(bounds: &'a StrategyBounds<'a>, rules: &'a StateRules) -> Self {
        let modes = &bounds.load.modes;
        let least = |bytes: fn(&Kept) -> f64| modes.iter().map(bytes).fold(f64::INFINITY, f64::min);
        let (beside, alone) = passing(bounds, rules);
        let offloads = |category| bounds.engine.supports.offload.contains(&category);
        Self {
            bounds,
            rules,
            ends: bounds.load.ends.each_ref().map(|parameters| held(bounds, rules, parameters, 1)),
            fetched: if offloads(OffloadCategory::Parameters) {
                stored(rules, &bounds.load.parameters, 1)
            } else {
                0.0
            },
            beside,
            alone,
            kept: if offloads(OffloadCategory::Activations) { 0.0 } else { least(|mode| mode.bytes) },
            waiting: least(|mode| mode.waiting),
        }
    }

    /// Whether a rank with `blocks` blocks, of which so much is in flight, and with the `ends` of the model may have
    /// room; where it is not known which ends it has, of any. With more blocks it has none where it has none with
    /// these.
    ///
    /// # Errors
    /// The bytes that it takes at the least, where that is more than there are.
    pub fn fits(&self, (blocks, in_flight): (u64, InFlight), ends: Option<Ends>) -> Result<(), Bytes> {
        if blocks == 0 {
            return Ok(());
        }
        let StrategyBounds { load, engine, room, .. } = self.bounds;
        let mut bytes = held(self.bounds, self.rules, &load.parameters, blocks);
        if let Some(Ends { first, last }) = ends {
            bytes += if first { self.ends[0] } else { 0.0 } + if last { self.ends[1] } else { 0.0 };
        }
        // Nothing takes away what weight passes wait for.
        bytes +=
            engine.buffers.workspace as f64 + self.buckets(blocks) + in_flight.waiting as f64 * self.waiting;
        let kept = in_flight.kept as f64 * self.kept;
        bytes += match in_flight.runs {
            true => self.fetched + self.alone.max(self.beside + kept),
            false => kept,
        };
        if bytes > *room { Err(Bytes(bytes as u64)) } else { Ok(()) }
    }

    /// Bytes of the buckets that gradients of `blocks` blocks are reduced in.
    fn buckets(&self, blocks: u64) -> f64 {
        let (p, rules) = (&self.bounds.load.parameters, self.rules);
        let reduced = if rules.gradient_ranks > 1 { p.dense_trained } else { 0 }
            + if rules.expert_ranks > 1 { p.expert_trained } else { 0 };
        let elements = (reduced * blocks).min(self.bounds.bucket);
        (self.bounds.engine.buffers.reduce_buckets * elements * rules.reduce.size()) as f64
    }
}

/// Bytes while a block's pass runs, whatever its mode: its values, the gradient that it writes, and the parameters that
/// are gathered for it; beside what is held and kept, and with what the block itself keeps.
fn passing(bounds: &StrategyBounds<'_>, rules: &StateRules) -> (f64, f64) {
    let p = &bounds.load.parameters;
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
        let modes = bounds.load.modes.iter().map(passing);
        let most = modes.map(|passing| passing.before.max(passing.after + gradient as f64));
        most.fold(f64::INFINITY, f64::min) + gathered as f64
    };
    (least(|mode| mode.beside), least(|mode| mode.alone))
}

/// What `count` units with parameters `p` store of them.
fn stored(rules: &StateRules, p: &UnitParameters, count: u64) -> f64 {
    let elements = rules.at_least(rules.shards_parameters, p.dense * count, p.expert * count);
    (elements * rules.parameter.size()) as f64
}

/// What of `count` units with parameters `p` is on the device over the whole step.
fn held(bounds: &StrategyBounds<'_>, rules: &StateRules, p: &UnitParameters, count: u64) -> f64 {
    let (dense, expert) = (p.dense * count, p.expert * count);
    let (dense_trained, expert_trained) = (p.dense_trained * count, p.expert_trained * count);
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
        Gathering::ForwardToBackward if bounds.pipeline.ranks == 1 => dense + expert,
        _ => 0,
    };
    let gathered = gathered * rules.compute.size();
    let working =
        if rules.keeps_working_gradients(bounds.engine) { trained * rules.compute.size() } else { 0 };
    let stays = |category| !bounds.engine.supports.offload.contains(&category);
    let owned = rules.at_least(rules.shards_optimizer, dense_trained, expert_trained);
    let optimizer = if stays(OffloadCategory::Optimizer) { owned * rules.optimizer_size } else { 0 };
    let parameters = if stays(OffloadCategory::Parameters) { stored(rules, p, count) } else { 0.0 };
    (gradients + gathered + working + optimizer) as f64 + parameters
}
