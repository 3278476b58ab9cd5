//! What each unit holds and moves on a rank under a strategy's state: computed once, looked up by the closed forms.

use crate::cost::digest::{UnitDigest, leanest, least};
use crate::cost::flow::Beside;
use crate::cost::price::{LEVELS, Links, Pricing};
use crate::lower::UnitParameters;
use crate::ops::Op;
use crate::profile::EngineProfile;
use crate::profile::choices::CheckpointMode;
use crate::program::layout::{PlacedUnit, ShapedUnits};
use crate::program::reduction::{accumulate, gathers, keep, reductions};
use crate::program::state::{Gathering, StateRules};
use crate::units::Bytes;

/// What one unit takes of a rank in one checkpoint mode, in bytes where nothing else is said.
#[derive(Clone, Copy, Debug)]
pub struct UnitCost {
    pub digest: UnitDigest,
    /// Parameters that the rank stores; on the host, where the unit's are there.
    pub stored: u64,
    /// What is gathered once and held over the whole step.
    pub held: u64,
    /// Gradients that are kept until the update.
    pub gradients: u64,
    /// Whether they are there from its backward on, and not from the start of the step.
    pub comes_late: bool,
    /// Elements of optimizer state.
    pub owned: u64,
    /// Trained elements, dense and expert.
    pub trained: (u64, u64),
    /// Parameters that are gathered for a pass.
    pub gathered: i64,
    /// The gradient that a pass writes, if none is kept whole; and whether or not.
    pub gradient: i64,
    pub whole_gradient: i64,
    pub moves: Moves,
}

/// What moves for one unit, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moves {
    /// Its parameters from the other shards.
    pub gather: f64,
    /// The reduction of its gradient inside a shard group, and across all of them.
    pub scatter: f64,
    pub reduce: f64,
    /// Adding what a micro-batch gave to a gradient that is kept whole, where products do not.
    pub accumulate: f64,
    /// Its saved activations to the host, and back; its parameters from there.
    pub out: f64,
    pub back: f64,
    pub fetch: f64,
    /// The shares of links that any of its collectives takes at the least; infinite without any.
    pub links: Links,
    pub hosts: Hosts,
}

/// What a host takes to issue what moves for one unit, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hosts {
    pub gather: f64,
    pub scatter: f64,
    pub reduce: f64,
    pub accumulate: f64,
    pub copy: f64,
}

/// The costs of all units of a model.
#[derive(Clone, Debug)]
pub struct UnitCosts {
    /// By [`PlacedUnit::lowered`]: on the first pipeline rank, and on the others, where those differ.
    first: Vec<UnitCost>,
    others: Option<Vec<UnitCost>>,
    /// How its collectives slow down passes that they run beside.
    pub beside: Beside,
}

impl UnitCosts {
    /// The costs of `units`, with `digests` of their lowered forms, at the prices of `pricing`.
    pub fn new(
        units: &ShapedUnits,
        digests: &[UnitDigest],
        rules: &StateRules,
        engine: &EngineProfile,
        pricing: &dyn Pricing,
    ) -> Self {
        let on = |is_first: bool| {
            let mut list: Vec<UnitCost> = Vec::with_capacity(digests.len());
            for (lowered, &digest) in digests.iter().enumerate() {
                let parameters = units.parameters_on(lowered, is_first);
                // Modes of one unit differ in what they keep alone.
                let cost = match list.last().filter(|_| !units.starts_class(lowered)) {
                    Some(&known) => UnitCost { digest, ..known },
                    None => UnitCost::new(digest, &parameters, rules, engine, pricing),
                };
                list.push(cost.with_copies(pricing));
            }
            list
        };
        let (first, others) = (on(true), units.ties().then(|| on(false)));
        let all = || first.iter().chain(others.iter().flatten());
        let state = all().map(|cost| cost.moves.links).fold([f64::INFINITY; LEVELS], least);
        let passes = all().flat_map(|cost| [cost.digest.forward, cost.digest.backward, cost.digest.weight]);
        let waits = passes.filter(|pass| pass.waits.0 > 0.0);
        let layers = waits.map(|pass| pass.links).fold([f64::INFINITY; LEVELS], least);
        let finite = |links: Links| links.map(|share| if share.is_finite() { share } else { 0.0 });
        let beside = Beside::new(pricing.beside(), finite(layers), finite(state));
        Self { first, others, beside }
    }

    /// The same, with digests of its own.
    pub fn digested(
        units: &ShapedUnits,
        rules: &StateRules,
        engine: &EngineProfile,
        pricing: &dyn Pricing,
    ) -> Self {
        let digests: Vec<UnitDigest> =
            units.lowered().iter().map(|unit| UnitDigest::new(unit, pricing)).collect();
        Self::new(units, &digests, rules, engine, pricing)
    }

    /// The same, but in memory: units of any form hold what forms in one of `modes` hold at the least.
    #[must_use]
    pub fn leanest(&self, modes: &[CheckpointMode]) -> Self {
        let lean = |costs: &Vec<UnitCost>| -> Vec<UnitCost> {
            let of_class = |forms: &[UnitCost]| {
                let offered: Vec<UnitDigest> =
                    modes.iter().map(|&mode| forms[mode as usize].digest).collect();
                let digest = leanest(&offered);
                forms.iter().map(|&cost| UnitCost { digest, ..cost }).collect::<Vec<_>>()
            };
            costs.chunks(CheckpointMode::ALL.len()).flat_map(of_class).collect()
        };
        Self { first: lean(&self.first), others: self.others.as_ref().map(lean), ..*self }
    }

    /// The same if nothing moves, and no pass adds to a gradient that is kept.
    #[must_use]
    pub fn without_moves(&self) -> Self {
        let bare = |costs: &Vec<UnitCost>| -> Vec<UnitCost> {
            costs.iter().map(|&cost| UnitCost { moves: Moves::default(), ..cost }).collect()
        };
        Self { first: bare(&self.first), others: self.others.as_ref().map(bare), ..*self }
    }

    /// The costs on pipeline rank `stage`, by [`PlacedUnit::lowered`].
    pub fn on(&self, stage: u32) -> &[UnitCost] {
        match &self.others {
            Some(others) if stage > 0 => others,
            _ => &self.first,
        }
    }

    /// The cost of `unit` on pipeline rank `stage`.
    pub fn of(&self, stage: u32, unit: &PlacedUnit) -> &UnitCost {
        &self.on(stage)[unit.lowered]
    }
}

impl UnitCost {
    fn new(
        digest: UnitDigest,
        p: &UnitParameters,
        rules: &StateRules,
        engine: &EngineProfile,
        pricing: &dyn Pricing,
    ) -> Self {
        // Trained and frozen parameters and a tied table are sharded each by themselves.
        let trained = |sharded: bool| {
            if sharded {
                (p.dense_trained - p.table).div_ceil(rules.shards)
                    + p.table.div_ceil(rules.shards)
                    + p.expert_trained.div_ceil(rules.expert_shards)
            } else {
                p.dense_trained + p.expert_trained
            }
        };
        let frozen = if rules.shards_parameters {
            (p.dense - p.dense_trained - p.frozen_table).div_ceil(rules.shards)
                + p.frozen_table.div_ceil(rules.shards)
                + (p.expert - p.expert_trained).div_ceil(rules.expert_shards)
        } else {
            p.dense + p.expert - p.dense_trained - p.expert_trained
        };
        let gathered_once =
            if rules.gathering == Gathering::OnceAStep { p.total() * rules.compute.size() } else { 0 };
        let gradients = if rules.keeps_whole_gradients {
            p.trained() * rules.gradient.size()
        } else if rules.zero >= 2 && !rules.gradients_reuse_parameters {
            trained(true) * rules.gradient.size()
        } else {
            0
        };
        let gathered = match rules.gathering {
            _ if rules.casts_parameters && !p.is_multiplied => 0,
            Gathering::EachPass | Gathering::ForwardToBackward => {
                let most = p.largest.max(rules.gathers_at_most);
                (p.total() + p.borrowed).min(most) * rules.compute.size()
            }
            Gathering::Never | Gathering::OnceAStep => 0,
        };
        let held = |bytes: u64| Bytes(bytes).aligned().0;
        let whole_gradient = held((p.trained() + p.borrowed_trained()) * rules.gradient.size()) as i64;
        Self {
            digest,
            stored: (trained(rules.shards_parameters) + frozen) * rules.parameter.size(),
            held: held(gathered_once),
            gradients,
            comes_late: rules.gradients_come_late && p.has_own_gradient,
            owned: trained(rules.zero >= 1),
            trained: (p.dense_trained, p.expert_trained),
            gathered: held(gathered) as i64,
            gradient: if rules.keeps_whole_gradients { 0 } else { whole_gradient },
            whole_gradient,
            moves: Moves::of(p, rules, engine, pricing),
        }
    }

    /// The same with the copies of what it keeps and stores.
    fn with_copies(mut self, pricing: &dyn Pricing) -> Self {
        let seconds = |op: Op| pricing.price(&op, 0).seconds.0;
        (self.moves.out, self.moves.back) = match self.digest.copied {
            Bytes::ZERO => (0.0, 0.0),
            copied => (seconds(Op::CopyOut(copied)), seconds(Op::CopyIn(copied))),
        };
        self.moves.fetch = if self.stored > 0 { seconds(Op::CopyIn(Bytes(self.stored))) } else { 0.0 };
        self
    }
}

impl Moves {
    /// What moves for a unit with `parameters` between ranks.
    fn of(
        parameters: &UnitParameters,
        rules: &StateRules,
        engine: &EngineProfile,
        pricing: &dyn Pricing,
    ) -> Self {
        let mut links = [f64::INFINITY; LEVELS];
        // Seconds of the device and of the host.
        let mut collective = |op: &Op| {
            let price = pricing.price(op, 0);
            links = least(links, price.links());
            (price.seconds.0, pricing.host_time(op).0)
        };
        let and = |one: (f64, f64), other: (f64, f64)| (one.0 + other.0, one.1 + other.1);
        let gathers = gathers(parameters, rules).filter(|_| rules.gathering != Gathering::Never);
        let gather = gathers.map(|op| collective(&op)).fold((0.0, 0.0), and);
        let mut sum = |across| {
            let sums = reductions(rules, engine, parameters, across);
            sums.iter().map(|(_, op)| collective(op)).fold((0.0, 0.0), and)
        };
        let reduce = sum(true);
        let scatter = if rules.replicas > 1 { sum(false) } else { reduce };
        let kernel = |op: Option<Op>| {
            op.map_or((0.0, 0.0), |op| (pricing.price(&op, 0).seconds.0, pricing.host_time(&op).0))
        };
        let kept = kernel(keep(parameters, rules));
        let (reduce, scatter) = (and(reduce, kept), and(scatter, kept));
        let accumulate = kernel(accumulate(parameters, rules, engine));
        Self {
            gather: gather.0,
            scatter: scatter.0,
            reduce: reduce.0,
            accumulate: accumulate.0,
            out: 0.0,
            back: 0.0,
            fetch: 0.0,
            links,
            hosts: Hosts {
                gather: gather.1,
                scatter: scatter.1,
                reduce: reduce.1,
                accumulate: accumulate.1,
                copy: pricing.host_time(&Op::CopyIn(Bytes::ZERO)).0,
            },
        }
    }
}
