//! A lower bound of the step time in closed form: never above what playing the program gives.

use crate::cost::digest::{PassDigest, UnitDigest};
use crate::cost::price::Pricing;
use crate::lower::Stream;
use crate::ops::{Collective, CollectiveKind, Group, Op};
use crate::profile::EngineProfile;
use crate::profile::choices::GradientSync;
use crate::program::layout::{Chunk, Layout, PlacedUnit};
use crate::program::passes::reductions;
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

/// The chains of a chunk's passes.
#[derive(Clone, Copy, Default)]
struct Chains {
    forward: f64,
    backward: f64,
    weight: f64,
    /// How much earlier than its end a pass has written what it sends.
    forward_slack: f64,
    backward_slack: f64,
    /// What a backward may do before its gradient arrives.
    early: f64,
    /// Sending on its output, and back its input's gradient.
    send_forward: f64,
    send_backward: f64,
}

impl Chains {
    /// The way to the next chunk and back from it, given the way to this one and back.
    fn past(&self, next: &Self, fill: f64, drain: f64) -> (f64, f64) {
        let there = self.forward - self.forward_slack + self.send_forward;
        let back = self.backward - self.early + next.send_backward - next.backward_slack;
        (fill + there, drain + back)
    }
}

impl Bound<'_> {
    /// No rank can end earlier than: the way of the first micro-batch to it, all its passes, the way of the last
    /// gradient back to the first rank, and the optimizer step; nor can its collectives over parameters and
    /// gradients, one behind the other, and the step.
    pub fn step_time(&self) -> Seconds {
        let chains: Vec<Chains> = self.layout.chunks.iter().map(|chunk| self.chains(chunk)).collect();
        let steps: Vec<f64> =
            (0..self.strategy.pipeline as u32).map(|stage| self.optimizer_step(stage)).collect();
        let micro = self.strategy.accumulation as f64;
        let splits = self.strategy.schedule.splits_weight();
        let mut bound = 0.0_f64;
        let (mut fill, mut drain) = (0.0, 0.0);
        for stage in 0..self.strategy.pipeline as u32 {
            let own = || self.layout.chunks_of(stage);
            let work: f64 = own()
                .map(|chunk| &chains[chunk.index as usize])
                .map(|chain| micro * (chain.forward + chain.backward + chain.weight))
                .sum();
            let last = self.last_reduction(stage);
            bound = bound.max(fill + work + last + steps[stage as usize]);
            if !splits {
                bound = bound.max(fill + work + drain + self.last_reduction(0) + steps[0]);
            }
            bound = bound.max(self.collectives(stage) + steps[stage as usize]);
            bound = bound.max(self.copies(stage) + steps[stage as usize]);
            let next = chains.get(stage as usize + 1).copied().unwrap_or_default();
            (fill, drain) = chains[stage as usize].past(&next, fill, drain);
        }
        Seconds(bound)
    }

    /// The part of the bound that no choice about state changes: passes and messages alone.
    pub fn core(&self) -> Seconds {
        let chains: Vec<Chains> = self.layout.chunks.iter().map(|chunk| self.chains(chunk)).collect();
        let micro = self.strategy.accumulation as f64;
        let splits = self.strategy.schedule.splits_weight();
        let mut work = vec![0.0; self.strategy.pipeline as usize];
        for (chunk, chain) in self.layout.chunks.iter().zip(&chains) {
            work[chunk.stage as usize] += micro * (chain.forward + chain.backward + chain.weight);
        }
        let (mut fill, mut drain, mut bound) = (0.0, 0.0, 0.0_f64);
        for (stage, work) in work.iter().enumerate() {
            bound = bound.max(fill + work + if splits { 0.0 } else { drain });
            let next = chains.get(stage + 1).copied().unwrap_or_default();
            (fill, drain) = chains[stage].past(&next, fill, drain);
        }
        Seconds(bound)
    }

    fn digest(&self, unit: &PlacedUnit) -> &UnitDigest {
        &self.digests[unit.lowered]
    }

    fn chains(&self, chunk: &Chunk) -> Chains {
        let mut chains = Chains::default();
        for unit in &chunk.units {
            let digest = self.digest(unit);
            chains.forward += digest.forward.chain.0;
            chains.weight += digest.weight.chain.0;
            if unit.has_backward {
                chains.backward += digest.backward.chain.0;
            }
        }
        let slack = |pass: PassDigest| pass.chain.0 - pass.ready.0;
        chains.forward_slack = chunk.units.last().map_or(0.0, |unit| slack(self.digest(unit).forward));
        let last = chunk.units.iter().rfind(|unit| unit.has_backward);
        chains.early = last.map_or(0.0, |unit| self.digest(unit).backward.early.0);
        chains.backward_slack = chunk.units.first().map_or(0.0, |unit| slack(self.digest(unit).backward));
        let stage_of = |index: u32| self.layout.chunks.get(index as usize).map(|chunk| chunk.stage);
        if let Some(to) = stage_of(chunk.index + 1) {
            let bytes = build::entering_of(self.layout, chunk.index + 1);
            chains.send_forward = self.pricing.send(bytes, chunk.stage, to).seconds.0;
        }
        if chunk.sends_gradient
            && let Some(to) = chunk.index.checked_sub(1).and_then(stage_of)
        {
            let bytes = build::entering_of(self.layout, chunk.index);
            chains.send_backward = self.pricing.send(bytes, chunk.stage, to).seconds.0;
        }
        if !self.rules.keeps_whole_gradients && !self.strategy.schedule.splits_weight() {
            // A pass that reduces unit by unit ends with the reduction of its last unit.
            let reduction = chunk
                .units
                .iter()
                .find(|unit| unit.has_backward)
                .filter(|unit| self.digest(unit).backward.after.is_some())
                .map_or(0.0, |unit| self.reduction(unit, false));
            chains.backward += reduction;
            chains.backward_slack += reduction;
        }
        chains
    }

    fn reduction(&self, unit: &PlacedUnit, across_replicas: bool) -> f64 {
        reductions(self.rules, self.engine, unit, across_replicas)
            .iter()
            .map(|op| self.pricing.price(op, 0).seconds.0)
            .sum()
    }

    /// The reduction behind the very last backward of a stage.
    fn last_reduction(&self, stage: u32) -> f64 {
        if !self.rules.keeps_whole_gradients || self.strategy.schedule.splits_weight() {
            return 0.0;
        }
        let unit = self
            .layout
            .chunks_of(stage)
            .next()
            .and_then(|chunk| chunk.units.iter().find(|unit| unit.has_backward));
        unit.map_or(0.0, |unit| self.reduction(unit, true))
    }

    /// All collectives of a stage over parameters and gradients, before the optimizer step.
    fn collectives(&self, stage: u32) -> f64 {
        let micro = self.strategy.accumulation as f64;
        let reductions = match self.strategy.sync {
            GradientSync::Deferred => 1.0,
            GradientSync::Immediate | GradientSync::Scatter => micro,
        };
        let across = self.strategy.sync != GradientSync::Scatter;
        let mut total = 0.0;
        for unit in self.layout.chunks_of(stage).flat_map(|chunk| &chunk.units) {
            if unit.has_backward {
                total += reductions * self.reduction(unit, across);
            }
            let passes = match self.rules.gathering {
                Gathering::Never => 0.0,
                Gathering::OnceAStep => 1.0,
                Gathering::ForwardToBackward => micro,
                Gathering::EachPass => micro * if unit.has_backward { 2.0 } else { 1.0 },
            };
            if passes > 0.0 {
                total += passes * self.gather(unit);
            }
        }
        total
    }

    fn gather(&self, unit: &PlacedUnit) -> f64 {
        let size = self.rules.compute.size();
        [
            (Group::State, unit.parameters.dense, self.rules.shards),
            (Group::ExpertState, unit.parameters.expert, self.rules.expert_shards),
        ]
        .into_iter()
        .filter(|&(_, elements, shards)| elements > 0 && shards > 1)
        .map(|(group, elements, _)| {
            let op = Collective { kind: CollectiveKind::AllGather, group, bytes: Bytes(elements * size) };
            self.pricing.price(&Op::Collective(op), 0).seconds.0
        })
        .sum()
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
