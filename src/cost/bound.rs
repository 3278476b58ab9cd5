//! A lower bound of the step time in closed form: never above what playing the program gives.

use crate::cost::calls::{self, CallTimes};
use crate::cost::digest::{PassDigest, UnitDigest};
use crate::cost::price::Pricing;
use crate::lower::Stream;
use crate::ops::{Collective, CollectiveKind, Group, Op};
use crate::profile::EngineProfile;
use crate::profile::choices::{GradientSync, Schedule};
use crate::program::layout::{Chunk, Layout, PlacedUnit};
use crate::program::reduction::reductions;
use crate::program::schedule::orders;
use crate::program::state::{Gathering, StateRules};
use crate::program::{Instruction, build};
use crate::strategy::{Strategy, Workload};
use crate::units::{Bytes, Seconds};

/// A strategy laid out, with what its parts take at the least.
pub struct Bound<'a> {
    pub layout: &'a Layout,
    /// One for each of the layout's lowered units.
    pub digests: &'a [UnitDigest],
    pub strategy: &'a Strategy,
    pub workload: &'a Workload,
    pub engine: &'a EngineProfile,
    pub rules: &'a StateRules,
    pub pricing: &'a dyn Pricing,
}

/// What collectives take together, one behind the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moved {
    pub seconds: f64,
    /// Seconds of all multiprocessors.
    pub busy: f64,
}

impl Moved {
    /// Adds `times` times `op`.
    pub fn add(&mut self, times: f64, op: &Op, pricing: &dyn Pricing) {
        let price = pricing.price(op, 0);
        self.seconds += times * price.seconds.0;
        self.busy += times * price.busy().0;
    }
}

impl Bound<'_> {
    /// No rank can end earlier than its calls, played alone, with the reduction behind the last of them and the
    /// optimizer step; nor than its collectives over parameters and gradients, or its copies, one behind the other,
    /// and the step.
    pub fn step_time(&self) -> Seconds {
        let chunks: Vec<CallTimes> = self.layout.chunks.iter().map(|chunk| self.times(chunk)).collect();
        let strategy = self.strategy;
        let orders =
            orders(strategy.schedule, strategy.pipeline, strategy.accumulation, strategy.virtual_stages);
        let held: Vec<Vec<u64>> = (0..strategy.pipeline).map(|stage| strategy.chunks_of(stage)).collect();
        let ends = calls::ends(&orders, &chunks, &held, strategy.accumulation);
        let bound = ends.into_iter().enumerate().map(|(stage, end)| {
            let stage = stage as u32;
            let passes = end + self.last_reduction(stage);
            let moved = self.collectives(stage);
            let busy = self.busy(stage) + moved.busy;
            passes.max(moved.seconds).max(busy).max(self.copies(stage)) + self.optimizer_step(stage)
        });
        Seconds(bound.fold(0.0, f64::max))
    }

    /// The part of the bound that no choice about state changes, cheaply: the way of the first micro-batch to each
    /// rank and back, and the passes that it cannot have done before.
    pub fn core(&self) -> Seconds {
        let strategy = self.strategy;
        let chunks: Vec<CallTimes> = self.layout.chunks.iter().map(|chunk| self.times(chunk)).collect();
        let micro = strategy.accumulation as f64;
        let splits = strategy.schedule.splits_weight();
        let mut work = vec![0.0; strategy.pipeline as usize];
        for (chunk, times) in self.layout.chunks.iter().zip(&chunks) {
            work[chunk.stage as usize] += micro * (times.forward + times.backward + times.weight);
        }
        // Gradients of the first micro-batch on their way down, by chunk.
        let mut arrives = vec![0.0; chunks.len() + 1];
        let there: f64 =
            chunks.iter().map(|times| times.forward - times.forward_slack + times.send_forward).sum();
        arrives[chunks.len()] = there;
        for (chunk, times) in chunks.iter().enumerate().rev() {
            let back = times.backward - times.early - times.backward_slack + times.send_backward;
            arrives[chunk] = arrives[chunk + 1] + if times.sends_gradient { back.max(0.0) } else { 0.0 };
        }
        let (mut fill, mut drain, mut bound) = (0.0, 0.0, 0.0_f64);
        for (stage, work) in work.iter().enumerate() {
            bound = bound.max(fill + work + if splits { 0.0 } else { drain });
            if strategy.virtual_stages == 1 {
                let ahead = forwards_ahead(strategy, stage as u64) as f64 * chunks[stage].forward;
                let early = chunks[stage].early;
                bound = bound.max(arrives[stage + 1] - early + work - ahead.min(*work));
            }
            let (times, next) = (&chunks[stage], chunks.get(stage + 1).copied().unwrap_or_default());
            fill += times.forward - times.forward_slack + times.send_forward;
            drain += times.backward - times.early + next.send_backward - next.backward_slack;
        }
        Seconds(bound)
    }

    fn digest(&self, unit: &PlacedUnit) -> &UnitDigest {
        &self.digests[unit.lowered]
    }

    fn times(&self, chunk: &Chunk) -> CallTimes {
        let mut times = CallTimes { sends_gradient: chunk.sends_gradient, ..CallTimes::default() };
        for unit in &chunk.units {
            let digest = self.digest(unit);
            times.forward += digest.forward.chain.0;
            times.weight += digest.weight.chain.0;
            if unit.has_backward {
                times.backward += digest.backward.chain.0;
            }
        }
        let slack = |pass: PassDigest| pass.chain.0 - pass.ready.0;
        times.forward_slack = chunk.units.last().map_or(0.0, |unit| slack(self.digest(unit).forward));
        let last = chunk.units.iter().rfind(|unit| unit.has_backward);
        times.early = last.map_or(0.0, |unit| self.digest(unit).backward.early.0);
        times.backward_slack = chunk.units.first().map_or(0.0, |unit| slack(self.digest(unit).backward));
        if self.layout.losses > 1 {
            // The first loss's gradient leaves while the others' backwards are still to come.
            times.backward_slack = times.backward;
        }
        let stage_of = |index: u32| self.layout.chunks.get(index as usize).map(|chunk| chunk.stage);
        if let Some(to) = stage_of(chunk.index + 1) {
            let bytes = build::entering_of(self.layout, chunk.index + 1);
            times.send_forward = self.pricing.send(bytes, chunk.stage, to).seconds.0;
        }
        if chunk.sends_gradient
            && let Some(to) = chunk.index.checked_sub(1).and_then(stage_of)
        {
            let bytes = build::entering_of(self.layout, chunk.index);
            times.send_backward = self.pricing.send(bytes, chunk.stage, to).seconds.0;
        }
        if !self.rules.keeps_whole_gradients && !self.strategy.schedule.splits_weight() {
            // A pass that reduces unit by unit ends with the reduction of its last unit.
            let reduction = chunk
                .units
                .iter()
                .find(|unit| unit.has_backward)
                .filter(|unit| self.digest(unit).backward.after.is_some())
                .map_or(0.0, |unit| self.reduction(unit, false));
            times.backward += reduction;
            times.backward_slack += reduction;
        }
        times
    }

    fn reduction(&self, unit: &PlacedUnit, across_replicas: bool) -> f64 {
        reductions(self.rules, self.engine, unit, across_replicas)
            .iter()
            .map(|(_, op)| self.pricing.price(op, 0).seconds.0)
            .sum()
    }

    /// The reduction behind the very last backward of a stage.
    fn last_reduction(&self, stage: u32) -> f64 {
        if !self.rules.keeps_whole_gradients
            || self.strategy.schedule.splits_weight()
            || self.rules.reduces_behind
        {
            return 0.0;
        }
        let unit = self
            .layout
            .chunks_of(stage)
            .next()
            .and_then(|chunk| chunk.units.iter().find(|unit| unit.has_backward));
        unit.map_or(0.0, |unit| self.reduction(unit, true))
    }

    /// Seconds of all multiprocessors that the passes of a stage take.
    pub fn busy(&self, stage: u32) -> f64 {
        let units = self.layout.chunks_of(stage).flat_map(|chunk| &chunk.units);
        let one: f64 = units
            .map(|unit| {
                let digest = self.digest(unit);
                let backward = if unit.has_backward { digest.backward.busy.0 } else { 0.0 };
                digest.forward.busy.0 + backward + digest.weight.busy.0
            })
            .sum();
        one * self.strategy.accumulation as f64
    }

    /// All collectives of a stage over parameters and gradients, before the optimizer step.
    fn collectives(&self, stage: u32) -> Moved {
        let micro = self.strategy.accumulation as f64;
        let rounds = match self.strategy.sync {
            GradientSync::Deferred => 1.0,
            GradientSync::Immediate | GradientSync::Scatter => micro,
        };
        let across = self.strategy.sync != GradientSync::Scatter;
        let mut total = Moved::default();
        for unit in self.layout.chunks_of(stage).flat_map(|chunk| &chunk.units) {
            if unit.has_backward && !self.rules.reduces_behind {
                for (_, op) in reductions(self.rules, self.engine, unit, across) {
                    total.add(rounds, &op, self.pricing);
                }
            }
            let passes = match self.rules.gathering {
                Gathering::Never => 0.0,
                Gathering::OnceAStep => 1.0,
                Gathering::ForwardToBackward => micro,
                Gathering::EachPass => micro * if unit.has_backward { 2.0 } else { 1.0 },
            };
            if passes > 0.0 {
                for op in self.gathers(unit) {
                    total.add(passes, &op, self.pricing);
                }
            }
        }
        total
    }

    fn gathers(&self, unit: &PlacedUnit) -> impl Iterator<Item = Op> {
        let size = self.rules.compute.size();
        [
            (Group::State, unit.parameters.dense, self.rules.shards),
            (Group::ExpertState, unit.parameters.expert, self.rules.expert_shards),
        ]
        .into_iter()
        .filter(|&(_, elements, shards)| elements > 0 && shards > 1)
        .map(move |(group, elements, _)| {
            let kind = CollectiveKind::AllGather;
            Op::Collective(Collective { kind, group, bytes: Bytes(elements * size) })
        })
    }

    /// All copies of a stage from the host, or all to it, before the optimizer step.
    fn copies(&self, stage: u32) -> f64 {
        let micro = self.strategy.accumulation as f64;
        let (mut out, mut back) = (0.0, 0.0);
        for unit in self.layout.chunks_of(stage).flat_map(|chunk| &chunk.units) {
            let kept = self.digest(unit).kept;
            if unit.offloads_activations && kept > 0 {
                out += micro * self.pricing.price(&Op::CopyOut(Bytes(kept as u64)), 0).seconds.0;
                back += micro * self.pricing.price(&Op::CopyIn(Bytes(kept as u64)), 0).seconds.0;
            }
            let stored = self.rules.parameter_elements(&unit.parameters) * self.rules.parameter.size();
            if unit.offloads_parameters && stored > 0 {
                let passes = micro * if unit.has_backward { 2.0 } else { 1.0 };
                back += passes * self.pricing.price(&Op::CopyIn(Bytes(stored)), 0).seconds.0;
            }
        }
        out.max(back)
    }

    /// The optimizer step of a stage alone.
    fn optimizer_step(&self, stage: u32) -> f64 {
        let template =
            build::step_template(self.layout, self.strategy, self.workload, self.engine, *self.rules, stage);
        alone(&template.instructions, self.pricing)
    }
}

/// Forwards that a stage may run before its first backward.
fn forwards_ahead(strategy: &Strategy, stage: u64) -> u64 {
    let most = match strategy.schedule {
        Schedule::OneForwardOneBackward => strategy.pipeline - stage,
        Schedule::ZeroBubbleH1 => strategy.pipeline,
        Schedule::ZeroBubbleH2 => 2 * strategy.pipeline - 1,
        Schedule::GPipe | Schedule::Interleaved | Schedule::ZeroBubbleV => strategy.accumulation,
    };
    most.min(strategy.accumulation)
}

/// The end of `instructions` when nothing competes: streams in order, waits and joins kept.
fn alone(instructions: &[Instruction], pricing: &dyn Pricing) -> f64 {
    let mut streams = [0.0_f64; Stream::ALL.len()];
    let mut ends: Vec<f64> = Vec::with_capacity(instructions.len());
    for instruction in instructions {
        let joined = if instruction.joins { streams.iter().copied().fold(0.0, f64::max) } else { 0.0 };
        let waited = instruction.waits.iter().map(|&wait| ends[wait as usize]).fold(joined, f64::max);
        let clock = &mut streams[instruction.stream as usize];
        *clock = clock.max(waited) + pricing.price(&instruction.op, 0).seconds.0;
        ends.push(*clock);
    }
    streams.into_iter().fold(0.0, f64::max)
}
