//! What the passes of a chunk take at the least: as their streams let them end, and as their host issues them.

use crate::cost::bound::Bound;
use crate::cost::calls::{CallTimes, PassBound, Reducing, Reductions};
use crate::cost::digest::{Issued, PassDigest};
use crate::cost::flow::{self, FlowEnd, FlowRules, UnitFlow};
use crate::cost::unit_cost::{Moves, UnitCost};
use crate::profile::choices::GradientSync;
use crate::profile::engine::Overlap;
use crate::program::layout::{Chunk, PlacedUnit};
use crate::program::state::Gathering;
use crate::program::{Pass, build};

/// What moves in the passes of a chunk.
#[derive(Clone, Debug, Default)]
struct Flows {
    forward: Vec<UnitFlow>,
    backward: Vec<UnitFlow>,
    weight: Vec<UnitFlow>,
}

/// One pass of a chunk as its streams let it end, and as its host issues it.
#[derive(Clone, Copy, Default)]
struct Paced {
    flow: FlowEnd,
    issued: Issued,
    /// Seconds of kernels after what it sends on is written, in the unit that writes it.
    after: f64,
    /// The same of reductions in the queue of the kernels.
    reduced_after: f64,
    /// Whether it receives a gradient, and seconds of kernels before any reads that.
    receives: bool,
    early: f64,
}

impl Paced {
    /// A late host stretches all of the pass alike.
    fn seconds(&self) -> f64 {
        self.flow.ended.max(self.issued.host)
    }

    fn late(&self) -> f64 {
        self.seconds() - self.flow.ended
    }

    /// Seconds of the stretched chain without `part` seconds of it.
    fn without(&self, part: f64) -> f64 {
        let Issued { host, chain } = self.issued;
        if chain > 0.0 { host * (1.0 - part / chain) } else { 0.0 }
    }

    fn times(&self) -> PassBound {
        let seconds = self.seconds();
        let written = (self.flow.computed - self.after).max(self.without(self.after + self.reduced_after));
        PassBound {
            seconds,
            lead: (self.flow.lead - self.late()).max(0.0),
            slack: seconds - written,
            early: self.early_seconds(),
        }
    }

    /// How much of it may run before what it receives is there. A host that is late all the same may be late while it
    /// waits for that. So a pass that recomputes less never ends later, however its host stretches it.
    fn early_seconds(&self) -> f64 {
        if !self.receives {
            return 0.0;
        }
        let stretched = self.seconds() - (self.flow.ended - self.early).max(self.without(self.early));
        stretched.max(self.late())
    }

    /// The same pass if it also reduces `seconds` of gradients in the queue of its kernels, which its host issues in
    /// `host`.
    fn reducing(mut self, seconds: f64, host: f64) -> Self {
        self.issued.host += host;
        self.issued.chain += seconds;
        self.flow.ended += seconds;
        self.reduced_after += seconds;
        self
    }
}

impl Bound<'_> {
    /// What the passes of `chunk` take, and what they send.
    pub(super) fn times(&self, chunk: &Chunk) -> CallTimes {
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
        let sends_within = !self.engine.timing.overlaps(Overlap::Sends);
        let flows = self.flows(chunk);
        let rules = self.flow_rules();
        let paced = |flows: &[UnitFlow], pass: Pass| {
            let mut paced =
                Paced { flow: flow::end(flows, rules), issued: self.issued(chunk, pass), ..Paced::default() };
            if sends_within || pass == Pass::Weight {
                return paced;
            }
            let is_forward = pass == Pass::Forward;
            let sends = if is_forward { chunk.units.last() } else { chunk.units.first() };
            if let Some(unit) = sends {
                let UnitCost { moves, .. } = self.costs.of(chunk.stage, unit);
                let digest = self.digest(chunk.stage, unit, pass);
                let (added, reduced) = self.after(moves, digest.after.is_some());
                paced.after = digest.chain.0 - digest.ready.0 + added;
                paced.reduced_after = if self.reduces_beside() { 0.0 } else { reduced };
            }
            paced.receives = !is_forward;
            let receives = chunk.units.iter().rfind(|unit| unit.has_backward && !is_forward);
            paced.early = receives.map_or(0.0, |unit| self.digest(chunk.stage, unit, pass).early.0);
            paced
        };
        let forward = paced(&flows.forward, Pass::Forward);
        let backward = paced(&flows.backward, Pass::Backward);
        let weight = paced(&flows.weight, Pass::Weight);
        let writes = if self.strategy.schedule.splits_weight() { weight } else { backward };
        let mut times = CallTimes {
            forward: forward.times(),
            backward: backward.times(),
            weight: weight.seconds(),
            reducing: writes.times(),
            sends_gradient: chunk.sends_gradient,
            sends_within,
            ..CallTimes::default()
        };
        if self.reducing() != Reducing::Never {
            let reductions = self.reductions(chunk);
            let is_beside = self.reduces_beside();
            let within = if is_beside { 0.0 } else { reductions.all };
            times.reducing = writes.reducing(within, self.reduction_hosts(chunk)).times();
            times.reductions = if is_beside { reductions } else { Reductions::default() };
        }
        if sends_within {
            // Messages follow all of a pass in the queue of its kernels, and hold back all of the next.
            for pass in [&mut times.forward, &mut times.backward, &mut times.reducing] {
                (pass.slack, pass.early) = (0.0, 0.0);
            }
        }
        if self.layout.losses > 1 {
            // The first loss's gradient leaves while the others' backwards are still to come.
            times.backward.slack = times.backward.seconds;
            times.reducing.slack = times.reducing.seconds;
        }
        times
    }

    fn digest(&self, stage: u32, unit: &PlacedUnit, pass: Pass) -> PassDigest {
        let digest = &self.costs.of(stage, unit).digest;
        match pass {
            Pass::Forward => digest.forward,
            Pass::Backward => digest.backward,
            Pass::Weight => digest.weight,
        }
    }

    /// What the host of `chunk`'s rank takes to issue `pass`, and the chain of that.
    fn issued(&self, chunk: &Chunk, pass: Pass) -> Issued {
        let units = || chunk.runs().filter(|(unit, _)| pass == Pass::Forward || unit.has_backward);
        let all = units().map(|(unit, count)| {
            let digest = self.digest(chunk.stage, unit, pass);
            let mut issued = Issued::new(&digest);
            if self.layout.losses == 1 {
                let moves = &self.costs.of(chunk.stage, unit).moves;
                let writes = digest.after.is_some();
                issued.host += self.hosts(unit, moves, (pass, writes));
                issued.chain += self.after(moves, writes).0;
            }
            issued * count as f64
        });
        all.fold(Issued::default(), |all, unit| all + unit)
    }

    /// Seconds of what follows the kernels of a unit that `writes` weight gradients: adding them to a gradient that is
    /// kept whole, or else reducing them.
    fn after(&self, moves: &Moves, writes: bool) -> (f64, f64) {
        match (writes, self.rules.keeps_whole_gradients) {
            (false, _) => (0.0, 0.0),
            (true, true) => (self.accumulate(moves), 0.0),
            (true, false) => (0.0, moves.scatter),
        }
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
        let reduces = if self.strategy.sync == GradientSync::Scatter { hosts.scatter } else { hosts.reduce };
        let each = [
            (gathers, hosts.gather),
            (writes && keeps_whole && self.strategy.accumulation > 1, hosts.accumulate),
            (writes && !keeps_whole, reduces),
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
        let UnitCost { moves, .. } = self.costs.of(stage, unit);
        let digest = self.digest(stage, unit, pass);
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
        let (added, reduced) = self.after(moves, digest.after.is_some());
        flow.chain += added;
        flow.reduce = reduced;
        flow
    }

    /// What a pass that writes weight gradients of a unit adds to a gradient that is kept whole.
    pub(super) fn accumulate(&self, moves: &Moves) -> f64 {
        if self.strategy.accumulation > 1 && self.layout.losses == 1 { moves.accumulate } else { 0.0 }
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
}
