//! A frame: everything of a strategy but what shards and reduces its state. Bounds of all its states come cheaply
//! from sums over its stages.

use crate::cost::bound::{Bound, Moved};
use crate::cost::ledger::Ledger;
use crate::cost::{DevicePricing, Pricing};
use crate::ops::{AdamW, Collective, CollectiveKind, Group, Op};
use crate::profile::choices::{GradientSync, OffloadCategory};
use crate::program::Layout;
use crate::program::state::{Gathering, StateRules};
use crate::search::axes::StateChoice;
use crate::search::closed::Closing;
use crate::strategy::Strategy;
use crate::units::Bytes;

/// What one inner choice (cuts, checkpointing, offload) costs in a frame, whatever its state.
pub struct InnerBounds {
    /// Seconds of passes and messages alone.
    pub core: f64,
    stages: Vec<StageSums>,
}

/// Sums over the units of one stage, and its activations' peak.
#[derive(Clone, Copy, Default)]
struct StageSums {
    dense: u64,
    expert: u64,
    dense_trained: u64,
    expert_trained: u64,
    /// Lower bound of what is not held over the whole step.
    above: u64,
    /// Seconds of all multiprocessors that its passes take.
    busy: f64,
    /// Parameters outside experts through which gradients flow; the others are gathered for the forward alone.
    dense_backward: u64,
    /// Share of the optimizer state that is on the host.
    offloaded: f64,
}

/// A lower bound of time and of process memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cheap {
    pub time: f64,
    pub memory: Bytes,
}

impl InnerBounds {
    /// Bounds of `strategy` with its inner choice in place; state keys are not looked at.
    pub fn new(closing: &Closing<'_>, strategy: &Strategy, pricing: &DevicePricing<'_>) -> Self {
        let problem = closing.problem;
        let shaped = closing.shaped(strategy, pricing);
        let layout = Layout::place(&shaped.units, strategy);
        let mut rules = StateRules::new(strategy, &problem.workload, problem.engine);
        // The least that any state needs: nothing gathered, no transient gradients.
        rules.gathering = Gathering::Never;
        rules.keeps_whole_gradients = true;
        // `strategy` shards over all data ranks here, so no state has smaller shards.
        (rules.shards_parameters, rules.shards_optimizer) = (true, true);
        let ledger = Ledger {
            layout: &layout,
            digests: &shaped.digests,
            strategy,
            engine: problem.engine,
            rules: &rules,
        };
        let instants = closing.instants(strategy);
        let bound = Bound {
            layout: &layout,
            digests: &shaped.digests,
            strategy,
            workload: &problem.workload,
            engine: problem.engine,
            rules: &rules,
            pricing,
        };
        let stages = (0..strategy.pipeline as u32)
            .map(|stage| {
                let mut sums = StageSums {
                    above: ledger.above(stage, &instants[stage as usize]).unsigned_abs(),
                    busy: bound.busy(stage),
                    offloaded: strategy.offload.fraction(OffloadCategory::Optimizer, stage as usize),
                    ..StageSums::default()
                };
                for unit in layout.chunks_of(stage).flat_map(|chunk| &chunk.units) {
                    if !unit.offloads_parameters {
                        sums.dense += unit.parameters.dense;
                        sums.dense_backward += if unit.has_backward { unit.parameters.dense } else { 0 };
                        sums.expert += unit.parameters.expert;
                    }
                    sums.dense_trained += unit.parameters.dense_trained;
                    sums.expert_trained += unit.parameters.expert_trained;
                }
                sums
            })
            .collect();
        Self { core: bound.core().0, stages }
    }

    /// Bounds under the state that `rules` and `state` stand for.
    pub fn under(
        &self,
        closing: &Closing<'_>,
        strategy: &Strategy,
        state: &StateChoice,
        rules: &StateRules,
        pricing: &DevicePricing<'_>,
    ) -> Cheap {
        let mut memory = 0;
        let mut step = f64::INFINITY;
        let mut longest = self.core;
        for sums in &self.stages {
            let owned = (rules.at_least(rules.shards_optimizer, sums.dense_trained, sums.expert_trained)
                as f64
                * (1.0 - sums.offloaded)) as u64;
            memory = memory.max(self.held(sums, rules, owned.saturating_sub(1)) + sums.above);
            let adamw = Op::AdamW(AdamW {
                elements: owned,
                gradient_size: rules.gradient.size(),
                state_size: rules.state_size,
                working_size: 0,
                on_host: false,
            });
            step = step.min(if owned > 0 { pricing.price(&adamw, 0).seconds.0 } else { 0.0 });
            let moved = collectives(sums, strategy, state, rules, pricing);
            longest = longest.max(moved.seconds).max(sums.busy + moved.busy);
        }
        let time = longest + step;
        let memory = closing.problem.process_memory(strategy, Bytes(memory)).process;
        Cheap { time, memory }
    }

    /// State held over the whole step; rounding up by unit would only add to it.
    fn held(&self, sums: &StageSums, rules: &StateRules, owned: u64) -> u64 {
        let stored =
            rules.at_least(rules.shards_parameters, sums.dense, sums.expert) * rules.parameter.size();
        let trained = sums.dense_trained + sums.expert_trained;
        let whole = if rules.keeps_whole_gradients { trained * rules.gradient.size() } else { 0 };
        let gathered = if rules.gathering == Gathering::OnceAStep {
            (sums.dense + sums.expert) * rules.compute.size()
        } else {
            0
        };
        stored + whole + gathered + owned * rules.optimizer_size
    }
}

/// All collectives of a stage over parameters and gradients, each kind as if it were one.
fn collectives(
    sums: &StageSums,
    strategy: &Strategy,
    state: &StateChoice,
    rules: &StateRules,
    pricing: &DevicePricing<'_>,
) -> Moved {
    let mut total = Moved::default();
    let mut add = |times: f64, kind, group, bytes: u64| {
        if bytes > 0 && times > 0.0 {
            total.add(times, &Op::Collective(Collective { kind, group, bytes: Bytes(bytes) }), pricing);
        }
    };
    let micro = strategy.accumulation as f64;
    let gathers = match rules.gathering {
        Gathering::Never => 0.0,
        Gathering::OnceAStep => 1.0,
        Gathering::ForwardToBackward => micro,
        Gathering::EachPass => micro,
    };
    let reductions = if state.sync == GradientSync::Deferred { 1.0 } else { micro };
    let trained = sums.dense_trained * rules.reduce.size();
    add(gathers, CollectiveKind::AllGather, Group::State, sums.dense * rules.compute.size());
    if rules.gathering == Gathering::EachPass {
        let again = sums.dense_backward * rules.compute.size();
        add(micro, CollectiveKind::AllGather, Group::State, again);
    }
    if state.zero == 0 {
        add(reductions, CollectiveKind::AllReduce, Group::Gradient, trained);
    } else {
        add(reductions, CollectiveKind::ReduceScatter, Group::State, trained);
    }
    total
}
