//! A lower bound of the step time in closed form: never above what playing the program gives.

use crate::cost::calls::{self, CallTimes, Reducing, Reductions};
use crate::cost::digest::{Issued, PassDigest, UnitDigest};
use crate::cost::flow::{self, Busy, FlowEnd, FlowRules, UnitFlow};
use crate::cost::known_chunks::KnownChunks;
use crate::cost::price::Pricing;
use crate::cost::route::Parts;
use crate::cost::unit_cost::{Moves, UnitCost, UnitCosts};
use crate::lower::Stream;
use crate::profile::EngineProfile;
use crate::profile::choices::GradientSync;
use crate::profile::engine::Overlap;
use crate::program::layout::{Chunk, Layout, PlacedUnit};
use crate::program::schedule::orders;
use crate::program::state::{Gathering, StateRules};
use crate::program::{Instruction, Pass, build};
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

/// What moves in the passes of a chunk.
#[derive(Clone, Debug, Default)]
struct Flows {
    forward: Vec<UnitFlow>,
    backward: Vec<UnitFlow>,
    weight: Vec<UnitFlow>,
}

/// One pass of a chunk as its streams let it end, and as its host issues it.
#[derive(Clone, Copy)]
struct Paced {
    flow: FlowEnd,
    issued: Issued,
    /// How much earlier than its last kernel ends it has written what it sends on, in the unit that writes it.
    slack: f64,
}

impl Paced {
    /// A late host stretches all of the pass alike.
    fn seconds(&self) -> f64 {
        self.flow.ended.max(self.issued.seconds())
    }

    fn late(&self) -> f64 {
        self.seconds() - self.flow.ended
    }

    fn lead(&self) -> f64 {
        (self.flow.lead - self.late()).max(0.0)
    }

    /// Seconds of the stretched chain without `part` seconds of it.
    fn without(&self, part: f64) -> f64 {
        let chain = self.issued.chain;
        if chain > 0.0 { self.issued.stretched() * (1.0 - part / chain) } else { 0.0 }
    }

    /// How much earlier than its end it has written what it sends.
    fn slack(&self) -> f64 {
        self.seconds() - (self.flow.computed - self.slack).max(self.without(self.slack))
    }

    /// How much of it may run before what it receives is there, `early` seconds of which if no host is late.
    fn early(&self, early: f64) -> f64 {
        self.seconds() - (self.flow.ended - early).max(self.without(early))
    }
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
        let within = sum(|times| times.reductions_within);
        let (within_each, within_last) = match self.reducing() {
            Reducing::Never => (0.0, 0.0),
            Reducing::EachMicroBatch => (within, 0.0),
            Reducing::LastMicroBatch => (0.0, within),
        };
        let each = sum(CallTimes::alone) + within_each;
        let first = chunks.first().copied().unwrap_or_default();
        let forward = sum(|times| times.forward + if times.sends_within { times.send_forward } else { 0.0 });
        Parts {
            // What the first forward waits for is its lead.
            passes: micro * (each + sum(CallTimes::leads)) - first.forward_lead,
            forward,
            backward: each - forward,
            early: sum(|times| times.early),
            slack: [first.forward_slack, first.backward_slack],
            leads: [sum(|times| times.forward_lead), sum(|times| times.backward_lead)],
            reductions: if self.strategy.schedule.splits_weight() {
                within_last
            } else {
                let done = first.reductions.done - first.backward - first.reductions_within;
                within_last + first.reductions.last.max(done)
            },
            together: self.together(stage),
            copies: self.copies(stage),
            lead: self.lead(stage, &first) + first.forward_lead,
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
        let mut rules = *self.rules;
        rules.gathering = Gathering::Never;
        rules.keeps_whole_gradients = true;
        rules.reduces_behind = true;
        let plain = Bound { rules: &rules, known: &KnownChunks::default(), ..*self };
        Seconds(plain.ends().into_iter().fold(0.0, f64::max))
    }

    /// When each rank's last pass ends.
    fn ends(&self) -> Vec<f64> {
        let strategy = self.strategy;
        let chunks: Vec<CallTimes> = self.layout.chunks.iter().map(|chunk| self.times(chunk)).collect();
        let orders =
            orders(strategy.schedule, strategy.pipeline, strategy.accumulation, strategy.virtual_stages);
        let held: Vec<Vec<u64>> = (0..strategy.pipeline).map(|stage| strategy.chunks_of(stage)).collect();
        let first = |stage: usize| chunks[held[stage][0] as usize];
        let leads = (0..strategy.pipeline).map(|stage| self.lead(stage as u32, &first(stage as usize)));
        let leads: Vec<f64> = leads.collect();
        calls::ends(&orders, &chunks, &held, (&leads, self.reducing(), strategy.accumulation))
    }

    /// Runs of like units of a stage, and how many each has.
    fn runs(&self, stage: u32) -> impl Iterator<Item = (&PlacedUnit, f64)> {
        let runs = self.layout.chunks_of(stage).flat_map(Chunk::runs);
        runs.map(|(unit, count)| (unit, count as f64))
    }

    fn times(&self, chunk: &Chunk) -> CallTimes {
        let copied = &self.copied.chunks[chunk.index as usize];
        let mut times = self.known.times((self.layout, chunk, copied), || self.pass_times(chunk));
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
        times
    }

    /// What the passes of `chunk` take if they send nothing.
    fn pass_times(&self, chunk: &Chunk) -> CallTimes {
        let digest = |unit: &PlacedUnit| &self.costs.of(chunk.stage, unit).digest;
        let sends_within = !self.engine.timing.overlaps(Overlap::Sends);
        let sends_gradient = chunk.sends_gradient;
        let mut times = CallTimes { sends_gradient, sends_within, ..CallTimes::default() };
        let slack = |unit: Option<&PlacedUnit>, pass: fn(&UnitDigest) -> PassDigest| {
            unit.map_or(0.0, |unit| pass(digest(unit)).chain.0 - pass(digest(unit)).ready.0)
        };
        let flows = self.flows(chunk);
        let rules = self.flow_rules();
        let forward = Paced {
            flow: flow::end(&flows.forward, rules),
            issued: self.issued(chunk, Pass::Forward),
            slack: slack(chunk.units.last(), |digest| digest.forward),
        };
        times.forward = forward.seconds();
        times.forward_lead = forward.lead();
        times.forward_slack = forward.slack();
        let backward = Paced {
            flow: flow::end(&flows.backward, rules),
            issued: self.issued(chunk, Pass::Backward),
            slack: slack(chunk.units.first(), |digest| digest.backward),
        };
        times.backward = backward.seconds();
        times.backward_lead = backward.lead();
        times.backward_slack = backward.slack();
        let last = chunk.units.iter().rfind(|unit| unit.has_backward);
        times.early = backward.early(last.map_or(0.0, |unit| digest(unit).backward.early.0));
        let weight = Paced {
            flow: flow::end(&flows.weight, rules),
            issued: self.issued(chunk, Pass::Weight),
            slack: 0.0,
        };
        times.weight = weight.seconds();
        if sends_within {
            (times.early, times.forward_slack, times.backward_slack) = (0.0, 0.0, 0.0);
        }
        if self.layout.losses > 1 {
            // The first loss's gradient leaves while the others' backwards are still to come.
            times.backward_slack = times.backward;
        }
        if self.reducing() != Reducing::Never {
            times.reductions = self.reductions(chunk);
            let writes = if self.strategy.schedule.splits_weight() { weight } else { backward };
            let mut reduces = writes;
            reduces.issued.host += self.reduction_hosts(chunk);
            if !self.reduces_beside() {
                reduces.flow.ended += times.reductions.all;
                times.reductions = Reductions::default();
            }
            times.reductions_within = reduces.seconds() - writes.seconds();
        }
        times
    }

    /// What the host of `chunk`'s rank issues in `pass`, and what of that its device runs.
    fn issued(&self, chunk: &Chunk, pass: Pass) -> Issued {
        let rules = self.flow_rules();
        let of = |unit: &PlacedUnit| {
            let digest = &self.costs.of(chunk.stage, unit).digest;
            match pass {
                Pass::Forward => digest.forward,
                Pass::Backward => digest.backward,
                Pass::Weight => digest.weight,
            }
        };
        let units = || chunk.runs().filter(|(unit, _)| pass == Pass::Forward || unit.has_backward);
        let writes = |unit: &PlacedUnit| of(unit).after.is_some();
        let gathers = pass != Pass::Weight && self.rules.gathering != Gathering::Never;
        let reduces =
            (!rules.reduces_beside || self.adds_gradients()) && units().any(|(unit, _)| writes(unit));
        let has_others = reduces || (gathers && !rules.gathers_beside) || self.layout.losses > 1;
        let all = units().map(|(unit, count)| {
            let mut issued = Issued::new(&of(unit), has_others);
            if self.layout.losses == 1 {
                issued.host +=
                    self.hosts(unit, &self.costs.of(chunk.stage, unit).moves, (pass, writes(unit)));
            }
            issued * count as f64
        });
        all.fold(Issued::default(), |all, unit| all + unit)
    }

    /// What a host takes in any case to issue what `moves` for `unit` in `pass`, which `writes` weight gradients or not.
    fn hosts(&self, unit: &PlacedUnit, moves: &Moves, (pass, writes): (Pass, bool)) -> f64 {
        let hosts = &moves.hosts;
        let gathers = match self.rules.gathering {
            Gathering::EachPass => pass != Pass::Weight,
            Gathering::ForwardToBackward => pass == Pass::Forward,
            Gathering::Never | Gathering::OnceAStep => false,
        };
        let keeps_whole = self.rules.keeps_whole_gradients;
        let each = [
            (gathers, hosts.gather),
            (writes && keeps_whole && self.strategy.accumulation > 1, hosts.accumulate),
            (writes && !keeps_whole, hosts.scatter),
            (pass != Pass::Weight && unit.offloads_parameters && moves.fetch > 0.0, hosts.copy),
            (pass != Pass::Weight && unit.offloads_activations && moves.back > 0.0, hosts.copy),
        ];
        each.into_iter().map(|(is_issued, seconds)| if is_issued { seconds } else { 0.0 }).sum()
    }

    /// What a host takes to issue the reductions of `chunk` in a pass that reduces whole gradients.
    fn reduction_hosts(&self, chunk: &Chunk) -> f64 {
        let across = self.strategy.sync != GradientSync::Scatter;
        let units = chunk.runs().filter(|(unit, _)| unit.has_backward);
        let hosts = units.map(|(unit, count)| {
            let UnitCost { digest, moves, .. } = self.costs.of(chunk.stage, unit);
            let writes = if self.strategy.schedule.splits_weight() { digest.weight } else { digest.backward };
            let hosts = if across { moves.hosts.reduce } else { moves.hosts.scatter };
            if writes.after.is_some() { count as f64 * hosts } else { 0.0 }
        });
        hosts.sum()
    }

    /// What moves in the three passes of `chunk`, unit by unit in the order of each.
    fn flows(&self, chunk: &Chunk) -> Flows {
        let count = chunk.units.len();
        let mut flows = Flows {
            forward: Vec::with_capacity(count),
            backward: Vec::with_capacity(count),
            weight: Vec::with_capacity(count),
        };
        let units = || chunk.units.iter().zip(&self.copied.chunks[chunk.index as usize].units);
        let flow = |flows: &mut Vec<UnitFlow>, unit, pass| {
            let is_first = flows.is_empty();
            flows.push(self.flow(chunk.stage, unit, (pass, is_first)));
        };
        for unit in units() {
            flow(&mut flows.forward, unit, Pass::Forward);
        }
        let splits = self.strategy.schedule.splits_weight();
        for unit in units().rev().filter(|(unit, _)| unit.has_backward) {
            flow(&mut flows.backward, unit, Pass::Backward);
            if splits {
                flow(&mut flows.weight, unit, Pass::Weight);
            }
        }
        flows
    }

    /// What moves in `pass` of `unit`, whose activations are copied as `copied` keeps them. With several losses, units
    /// are passed more often than once; nothing is said of what moves between.
    fn flow(
        &self,
        stage: u32,
        (unit, copied): (&PlacedUnit, &PlacedUnit),
        (pass, is_first): (Pass, bool),
    ) -> UnitFlow {
        let UnitCost { digest, moves, .. } = self.costs.of(stage, unit);
        let digest = match pass {
            Pass::Forward => digest.forward,
            Pass::Backward => digest.backward,
            Pass::Weight => digest.weight,
        };
        let mut flow = UnitFlow {
            chain: digest.chain.0,
            full: digest.full.0,
            waits: digest.waits.0,
            without_parameters: digest.without_parameters.0,
            without_kept: digest.without_kept.0,
            ..UnitFlow::default()
        };
        if self.layout.losses > 1 {
            return flow;
        }
        if pass != Pass::Weight {
            if unit.offloads_parameters {
                flow.fetch = moves.fetch;
            }
            let gathers = match self.rules.gathering {
                Gathering::EachPass => true,
                // What is not given back is gathered as early as can be.
                Gathering::ForwardToBackward => {
                    pass == Pass::Forward && (is_first || !self.engine.timing.overlaps(Overlap::Gathers))
                }
                Gathering::Never | Gathering::OnceAStep => false,
            };
            if gathers {
                flow.gather = moves.gather;
            }
        }
        match pass {
            Pass::Forward if unit.offloads_activations => {
                let UnitCost { digest, moves, .. } = self.costs.of(stage, copied);
                flow.out = moves.out;
                flow.kept = digest.forward.kept.0;
            }
            Pass::Backward if unit.offloads_activations => {
                flow.back = self.costs.of(stage, copied).moves.back;
            }
            _ => {}
        }
        // Only a pass that writes weight gradients adds and reduces them.
        if digest.after.is_some() {
            if self.rules.keeps_whole_gradients {
                flow.chain += self.accumulate(moves);
            } else {
                flow.reduce = moves.scatter;
            }
        }
        flow
    }

    /// What a pass that writes weight gradients of a unit adds to a gradient that is kept whole.
    fn accumulate(&self, moves: &Moves) -> f64 {
        if self.strategy.accumulation > 1 && self.layout.losses == 1 { moves.accumulate } else { 0.0 }
    }

    /// Whether kernels beside those of the units add to gradients.
    fn adds_gradients(&self) -> bool {
        self.strategy.accumulation > 1 && self.engine.state.accumulates_apart
    }

    fn flow_rules(&self) -> FlowRules {
        FlowRules {
            depth: self.engine.buffers.gathered_units.max(1) as usize,
            gathers_beside: self.engine.timing.overlaps(Overlap::Gathers),
            reduces_beside: self.reduces_beside(),
            copies_beside: self.strategy.overlap,
            beside: self.costs.beside,
        }
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
                let last = gathered.sum::<f64>() + of(last).digest.forward.chain.0 - times.forward;
                last.max(of(first).moves.gather)
            }
        };
        (lead - times.forward_lead).max(0.0)
    }

    /// Which calls reduce gradients beside later ones; where no gradient is kept whole, a pass waits for its own.
    fn reducing(&self) -> Reducing {
        // With several losses, a unit is passed more often than once.
        if !self.rules.keeps_whole_gradients || self.rules.reduces_behind || self.layout.losses > 1 {
            return Reducing::Never;
        }
        match self.strategy.sync {
            GradientSync::Deferred => Reducing::LastMicroBatch,
            GradientSync::Immediate | GradientSync::Scatter => Reducing::EachMicroBatch,
        }
    }

    /// The reductions of `chunk`'s gradients behind its units' passes.
    fn reductions(&self, chunk: &Chunk) -> Reductions {
        let splits = self.strategy.schedule.splits_weight();
        let across = self.strategy.sync != GradientSync::Scatter;
        let (mut now, mut reductions) = (0.0, Reductions::default());
        for unit in chunk.units.iter().rev().filter(|unit| unit.has_backward) {
            let UnitCost { digest, moves, .. } = self.costs.of(chunk.stage, unit);
            let writes = if splits { digest.weight } else { digest.backward };
            now += writes.chain.0 + if writes.after.is_some() { self.accumulate(moves) } else { 0.0 };
            // What a split pass writes no gradient of is reduced elsewhere.
            if splits && writes.after.is_none() {
                reductions.last = 0.0;
                continue;
            }
            let reduce = if across { moves.reduce } else { moves.scatter };
            reductions.all += reduce;
            reductions.done = reductions.done.max(now) + reduce;
            reductions.last = reduce;
        }
        reductions
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
    fn reduces_beside(&self) -> bool {
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
