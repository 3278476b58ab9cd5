//! What the passes of a chunk take at the least: as their streams let them end, and as their host issues them.

use crate::cost::bound::Bound;
use crate::cost::calls::{CallTimes, Reducing, Reductions};
use crate::cost::digest::{Issued, PassDigest, UnitDigest};
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
        self.flow.ended.max(self.issued.host)
    }

    fn late(&self) -> f64 {
        self.seconds() - self.flow.ended
    }

    fn lead(&self) -> f64 {
        (self.flow.lead - self.late()).max(0.0)
    }

    /// Seconds of the stretched chain without `part` seconds of it.
    fn without(&self, part: f64) -> f64 {
        let Issued { host, chain } = self.issued;
        if chain > 0.0 { host * (1.0 - part / chain) } else { 0.0 }
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

    /// What the host of `chunk`'s rank takes to issue `pass`, and the chain of that.
    fn issued(&self, chunk: &Chunk, pass: Pass) -> Issued {
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
        let all = units().map(|(unit, count)| {
            let mut issued = Issued::new(&of(unit));
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
