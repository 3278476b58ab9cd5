//! A lower bound of the step time in closed form: never above what playing the program gives.

use crate::cost::calls::{self, CallTimes, Reducing};
use crate::cost::flow::{self, Busy};
use crate::cost::known_chunks::KnownChunks;
use crate::cost::price::Pricing;
use crate::cost::route::Parts;
use crate::cost::unit_cost::{UnitCost, UnitCosts};
use crate::lower::Stream;
use crate::profile::EngineProfile;
use crate::profile::choices::GradientSync;
use crate::profile::engine::Overlap;
use crate::program::layout::{Chunk, Layout, PlacedUnit};
use crate::program::schedule::orders;
use crate::program::state::{Gathering, StateRules};
use crate::program::{Instruction, build};
use crate::strategy::{Strategy, Workload};
use crate::units::Seconds;

/// A strategy laid out, with what its parts take at the least.
#[derive(Clone, Copy)]
pub struct Bound<'a> {
    pub layout: &'a Layout,
    /// The layout whose activations are copied: of other checkpoint modes, where a bound is to hold for all modes
    /// between.
    pub copied: &'a Layout,
    pub costs: &'a UnitCosts,
    pub strategy: &'a Strategy,
    pub workload: &'a Workload,
    pub engine: &'a EngineProfile,
    pub rules: &'a StateRules,
    pub pricing: &'a dyn Pricing,
    /// What is known of chunks like its own under the same rules.
    pub known: &'a KnownChunks,
}

impl Bound<'_> {
    /// The parts of pipeline rank `stage`'s step.
    pub fn parts(&self, stage: u32) -> Parts {
        Parts { step: self.optimizer_step(stage), ..self.parts_before_step(stage) }
    }

    /// The same without the optimizer step.
    pub fn parts_before_step(&self, stage: u32) -> Parts {
        let chunks: Vec<CallTimes> = self.layout.chunks_of(stage).map(|chunk| self.times(chunk)).collect();
        let sum = |seconds: fn(&CallTimes) -> f64| -> f64 { chunks.iter().map(seconds).sum() };
        let micro = self.strategy.accumulation as f64;
        let splits = self.strategy.schedule.splits_weight();
        let first = chunks.first().copied().unwrap_or_default();
        let last_backward = if splits { first.backward } else { first.reducing };
        let within: f64 = chunks.iter().map(|times| times.reducing_adds(splits)).sum();
        let (within_each, within_last, slack) = match self.reducing() {
            Reducing::Never => (0.0, 0.0, first.backward.slack),
            Reducing::EachMicroBatch => (within, 0.0, last_backward.slack),
            Reducing::LastMicroBatch if splits => (0.0, within, first.backward.slack),
            Reducing::LastMicroBatch => (0.0, within, first.reducing.slack - first.reducing_adds(splits)),
        };
        let each = sum(CallTimes::alone) + within_each;
        let forward =
            sum(|times| times.forward.seconds + if times.sends_within { times.send_forward } else { 0.0 });
        Parts {
            // What the first forward waits for is its lead.
            passes: micro * (each + sum(CallTimes::leads)) - first.forward.lead,
            forward,
            backward: each - forward,
            early: sum(|times| times.backward.early.max(times.reducing.early)),
            slack: [first.forward.slack, slack],
            leads: [sum(|times| times.forward.lead), sum(|times| times.backward.lead)],
            reductions: if splits {
                within_last
            } else {
                within_last + first.reductions.last.max(first.reductions.done - first.reducing.seconds)
            },
            together: self.together(stage),
            copies: self.copies(stage),
            lead: self.lead(stage, &first) + first.forward.lead,
            step: 0.0,
        }
    }

    /// No rank can end earlier than its calls, played alone, with the reduction behind the last of them and the
    /// optimizer step; nor than its collectives over parameters and gradients, or its copies, one behind the other,
    /// and the step.
    pub fn step_time(&self) -> Seconds {
        let ranks = 0..self.strategy.pipeline as u32;
        self.step_time_with(&ranks.map(|stage| self.optimizer_step(stage)).collect::<Vec<_>>())
    }

    /// The same, if the optimizer steps of the ranks take `steps` seconds.
    pub fn step_time_with(&self, steps: &[f64]) -> Seconds {
        let ranks = self.ends().into_iter().zip(steps).enumerate();
        let bound = ranks.map(|(stage, (end, step))| {
            let stage = stage as u32;
            end.max(self.together(stage)).max(self.copies(stage)) + step
        });
        Seconds(bound.fold(0.0, f64::max))
    }

    /// Seconds of the copies of the rank that has the most of them.
    pub fn most_copies(&self) -> f64 {
        (0..self.strategy.pipeline as u32).map(|stage| self.copies(stage)).fold(0.0, f64::max)
    }

    /// When the slowest rank's last pass ends, whatever is gathered, reduced and updated.
    pub fn passes(&self) -> Seconds {
        // Strategies that differ in state alone move other things, and add to other gradients.
        let costs = self.costs.without_moves();
        let plain = Bound { costs: &costs, known: &KnownChunks::default(), ..*self };
        Seconds(plain.ends().into_iter().fold(0.0, f64::max))
    }

    /// When each rank's last pass ends.
    fn ends(&self) -> Vec<f64> {
        let strategy = self.strategy;
        let chunks: Vec<CallTimes> = self.layout.chunks.iter().map(|chunk| self.times(chunk)).collect();
        let held: Vec<Vec<u64>> = (0..strategy.pipeline).map(|stage| strategy.chunks_of(stage)).collect();
        let first = |stage: usize| chunks[held[stage][0] as usize];
        let leads = (0..strategy.pipeline).map(|stage| self.lead(stage as u32, &first(stage as usize)));
        let leads: Vec<f64> = leads.collect();
        self.known.ends(&chunks, &leads, || {
            let Strategy { schedule, pipeline, accumulation, virtual_stages, .. } = *strategy;
            let orders = self.known.orders(|| orders(schedule, pipeline, accumulation, virtual_stages));
            calls::ends(orders, &chunks, &held, (&leads, self.reducing(), accumulation))
        })
    }

    /// Runs of like units of a stage, and how many each has.
    fn runs(&self, stage: u32) -> impl Iterator<Item = (&PlacedUnit, f64)> {
        let runs = self.layout.chunks_of(stage).flat_map(Chunk::runs);
        runs.map(|(unit, count)| (unit, count as f64))
    }

    /// How much longer the first forward of a stage, which takes `times`, takes than later ones because its parameters
    /// are not there yet, if nothing else holds it up.
    fn lead(&self, stage: u32, times: &CallTimes) -> f64 {
        let Some(chunk) = self.layout.chunks_of(stage).next() else { return 0.0 };
        if self.layout.losses > 1 || !self.engine.timing.overlaps(Overlap::Gathers) {
            return 0.0;
        }
        let (Some(first), Some(last)) = (chunk.units.first(), chunk.units.last()) else { return 0.0 };
        let costs = self.costs.on(stage);
        let of = |unit: &PlacedUnit| &costs[unit.lowered];
        let lead = match self.rules.gathering {
            Gathering::Never | Gathering::EachPass => 0.0,
            Gathering::OnceAStep | Gathering::ForwardToBackward => {
                let gathered = chunk.runs().map(|(unit, count)| count as f64 * of(unit).moves.gather);
                let last = gathered.sum::<f64>() + of(last).digest.forward.chain.0 - times.forward.seconds;
                last.max(of(first).moves.gather)
            }
        };
        (lead - times.forward.lead).max(0.0)
    }

    /// Which calls reduce gradients beside later ones; where no gradient is kept whole, a pass waits for its own.
    pub(super) fn reducing(&self) -> Reducing {
        // With several losses, a unit is passed more often than once.
        if !self.rules.keeps_whole_gradients || self.rules.reduces_behind || self.layout.losses > 1 {
            return Reducing::Never;
        }
        match self.strategy.sync {
            GradientSync::Deferred => Reducing::LastMicroBatch,
            GradientSync::Immediate | GradientSync::Scatter => Reducing::EachMicroBatch,
        }
    }

    /// The passes of a stage and its collectives, however they overlap.
    fn together(&self, stage: u32) -> f64 {
        let (mut chain, mut full, mut waits) = (0.0, 0.0, 0.0);
        for (unit, count) in self.runs(stage) {
            let UnitCost { digest, moves, .. } = self.costs.of(stage, unit);
            if digest.weight.after.is_some() || (unit.has_backward && digest.backward.after.is_some()) {
                chain += count * self.accumulate(moves);
            }
            let backward = unit.has_backward.then_some(digest.backward);
            for pass in [digest.forward, digest.weight].into_iter().chain(backward) {
                chain += count * pass.chain.0;
                full += count * pass.full.0;
                waits += count * pass.waits.0;
            }
        }
        let micro = self.strategy.accumulation as f64;
        let (gathered, reduced) = self.collectives(stage);
        let busy = Busy { chain: micro * chain, full: micro * full, waits: micro * waits };
        let [beside, within] =
            [(gathered, self.engine.timing.overlaps(Overlap::Gathers)), (reduced, self.reduces_beside())]
                .into_iter()
                .fold([0.0; 2], |[beside, within], (seconds, is_beside)| {
                    if is_beside { [beside + seconds, within] } else { [beside, within + seconds] }
                });
        flow::together(busy, beside, self.costs.beside) + within
    }

    /// Seconds of all collectives of a stage over parameters, and over gradients, before the optimizer step.
    fn collectives(&self, stage: u32) -> (f64, f64) {
        let micro = self.strategy.accumulation as f64;
        let rounds = match self.strategy.sync {
            GradientSync::Deferred => 1.0,
            GradientSync::Immediate | GradientSync::Scatter => micro,
        };
        let across = self.strategy.sync != GradientSync::Scatter;
        let (mut gathered, mut reduced) = (0.0, 0.0);
        for (unit, count) in self.runs(stage) {
            let moves = &self.costs.of(stage, unit).moves;
            if unit.has_backward && !self.rules.reduces_behind {
                reduced += count * rounds * if across { moves.reduce } else { moves.scatter };
            }
            gathered += count
                * moves.gather
                * match self.rules.gathering {
                    Gathering::Never => 0.0,
                    Gathering::OnceAStep => 1.0,
                    Gathering::ForwardToBackward => micro,
                    Gathering::EachPass => micro * if unit.has_backward { 2.0 } else { 1.0 },
                };
        }
        (gathered, reduced)
    }

    /// Whether gradients are reduced beside kernels, and not in their queue.
    pub(super) fn reduces_beside(&self) -> bool {
        self.engine.timing.overlaps(Overlap::Gradients)
    }

    /// All copies of a stage from the host, or all to it, before the optimizer step.
    fn copies(&self, stage: u32) -> f64 {
        let micro = self.strategy.accumulation as f64;
        let (mut out, mut back) = (0.0, 0.0);
        for (unit, count) in self.copied.chunks_of(stage).flat_map(Chunk::runs) {
            let moves = &self.costs.of(stage, unit).moves;
            let times = micro * count as f64;
            if unit.offloads_activations {
                out += times * moves.out;
                back += times * moves.back;
            }
            if unit.offloads_parameters {
                let passes = if unit.has_backward { 2.0 } else { 1.0 };
                back += times * passes * moves.fetch;
            }
        }
        out.max(back)
    }

    /// The optimizer step of a stage alone.
    pub fn optimizer_step(&self, stage: u32) -> f64 {
        let template =
            build::step_template(self.layout, self.strategy, self.workload, self.engine, *self.rules, stage);
        alone(&template.instructions, self.pricing)
    }
}

/// The end of `instructions` when nothing competes: streams in order, waits kept.
fn alone(instructions: &[Instruction], pricing: &dyn Pricing) -> f64 {
    let mut streams = [0.0_f64; Stream::ALL.len()];
    let mut ends: Vec<f64> = Vec::with_capacity(instructions.len());
    for instruction in instructions {
        let waited = instruction.waits.iter().map(|&wait| ends[wait as usize]).fold(0.0, f64::max);
        let clock = &mut streams[instruction.stream as usize];
        *clock = clock.max(waited) + pricing.price(&instruction.op, 0).seconds.0;
        ends.push(*clock);
    }
    streams.into_iter().fold(0.0, f64::max)
}
