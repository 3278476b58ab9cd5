//! What units take of a pass whose host issues kernels more slowly than the device runs them.
//!
//! Such a pass takes as long as the host does for all of its units together ([`Issued`]): a long kernel of one hides
//! the launches of another. So a bound adds up either what the hosts of all units take or what their chains take.

use crate::cost::digest::{Issued, PassDigest, UnitDigest};
use crate::lower::unit::{UnitKind, UnitLayers};
use crate::profile::EngineProfile;
use crate::profile::engine::Overlap;
use crate::search::class_costs::{MODES, ModelCosts};
use crate::search::load::PassTime;

/// The passes of a unit.
const PASSES: [fn(&UnitDigest) -> PassDigest; 3] =
    [|digest| digest.forward, |digest| digest.backward, |digest| digest.weight];
const BACKWARD: usize = 1;

/// What may stand in the queues of a device beside the units of a pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct Queues {
    /// Whether there may be gathers, and kernels or collectives that add to gradients.
    gathers: bool,
    reduces: bool,
    /// Whether collectives may take longer than their prices say.
    has_least_prices: bool,
}

impl Queues {
    /// Those of `engine`, whatever a strategy says.
    pub fn of(engine: &EngineProfile, has_least_prices: bool) -> Self {
        let gathers = !engine.timing.overlaps(Overlap::Gathers) && engine.supports.zero.contains(&3);
        let reduces = !engine.timing.overlaps(Overlap::Gradients) || engine.state.accumulates_apart;
        Self { gathers, reduces, has_least_prices }
    }

    /// Whether pass `pass`, which `writes` weight gradients or not, may have kernels beside those of its units.
    const fn has_others(self, pass: usize, writes: bool) -> bool {
        (self.gathers && pass <= BACKWARD) || (self.reduces && writes)
    }

    /// What a pass of a unit takes of them, which may have others beside it.
    fn issued(self, digest: &PassDigest, has_others: bool) -> Issued {
        let issued = Issued::new(digest, has_others);
        let PassDigest { chain, kernels, collectives, .. } = *digest;
        if !self.has_least_prices || collectives.0 == 0.0 {
            return issued;
        }
        // Longer collectives that kernels wait for are as much more of the chain as of the device's time. Others, and
        // all where other kernels fill the waits, may grow until they are as long as what they run beside.
        let hidden = (kernels + collectives - chain).0;
        let device = match has_others {
            true => 2.0 * chain.0,
            false if hidden > HIDDEN * chain.0 => chain.0 + hidden.max(kernels.0),
            false => issued.device,
        };
        Issued { device: device.max(issued.device), ..issued }
    }
}

/// Less than this share of a chain is rounding.
const HIDDEN: f64 = 1e-9;

/// One of the passes over all units.
#[derive(Clone, Debug, Default)]
struct PassPace {
    /// Whether it takes as long as its hosts, at the least.
    is_late: bool,
    /// Seconds of each class over its modes: what its host takes, as far as that holds up its chain, and its chain.
    issued: Vec<f64>,
    chain: Vec<f64>,
    /// Of what a host takes for blocks, the share that a pass takes.
    share: f64,
    /// By how much a pass with blocks is stretched at the most, counted so.
    stretch: f64,
}

/// What each class of units adds to the passes of hosts.
#[derive(Clone, Debug, Default)]
pub struct Pace([PassPace; 3]);

impl Pace {
    /// That of `units`, which cost `costs`.
    pub fn new(units: &[UnitLayers], costs: &ModelCosts, queues: Queues) -> Self {
        Self([0, 1, 2].map(|place| {
            let pass = PASSES[place];
            let digests = || costs.classes.iter().flat_map(|class| &class.digests);
            let has_others = queues.has_others(place, digests().any(|digest| pass(digest).after.is_some()));
            PassPace::new(units, costs, |unit, digest| {
                let runs = unit.has_backward || place != BACKWARD;
                if runs { queues.issued(&pass(digest), has_others) } else { Issued::default() }
            })
        }))
    }

    /// Seconds that a unit of `class` adds to its forward, its backward and its weight pass as hosts issue these.
    pub fn hosts(&self, class: usize) -> [f64; 3] {
        self.0.each_ref().map(|pass| pass.issued[class])
    }

    /// The same, but of passes whose blocks' chains take longer than their hosts, their chains.
    pub fn longer(&self, class: usize) -> [f64; 3] {
        self.0.each_ref().map(|pass| if pass.is_late { pass.issued[class] } else { pass.chain[class] })
    }

    /// What each second more of a host adds to a forward, a backward and a weight pass.
    pub fn shares(&self) -> [PassTime; 3] {
        self.0.each_ref().map(|&PassPace { share, is_late, .. }| PassTime {
            chain: 0.0,
            host: share,
            longer: if is_late { share } else { 0.0 },
        })
    }

    /// Of `slacks` by class, that each leave a unit's forward (`pass` 0) or backward (1) before its end: the longest.
    pub fn slack(&self, pass: usize, slacks: &[f64]) -> PassTime {
        let pass = &self.0[pass];
        let chain = slacks.iter().copied().fold(0.0, f64::max);
        let alone = slacks.iter().zip(&pass.issued).zip(&pass.chain).filter(|((slack, _), _)| **slack > 0.0);
        let alone = alone.map(|((slack, issued), chain)| slack * issued / chain);
        let host = alone.fold(chain * pass.stretch, f64::max);
        PassTime { chain, host, longer: if pass.is_late { host } else { chain } }
    }
}

impl PassPace {
    fn new(
        units: &[UnitLayers],
        costs: &ModelCosts,
        issued: impl Fn(&UnitLayers, &UnitDigest) -> Issued,
    ) -> Self {
        let of = |unit: &UnitLayers, mode: usize| issued(unit, &costs.classes[unit.class].digests[mode]);
        let is_block = |unit: &&UnitLayers| matches!(unit.kind, UnitKind::Block(_));
        let ends = |kind: UnitKind| {
            let ends = units.iter().filter(|unit| unit.kind == kind);
            ends.fold(Issued::default(), |all, unit| all + of(unit, 0))
        };
        let (front, back) = (ends(UnitKind::Front), ends(UnitKind::Back));
        let beside = [Issued::default(), front, back, front + back];
        // One unit of each class.
        let mut classes: Vec<Option<&UnitLayers>> = vec![None; costs.classes.len()];
        for unit in units {
            classes[unit.class].get_or_insert(unit);
        }
        let modes = |unit: &UnitLayers| -> Vec<Issued> {
            (0..MODES).map(|mode| of(unit, mode)).filter(|issued| issued.chain > 0.0).collect()
        };
        let blocks = || classes.iter().copied().flatten().filter(is_block);
        let shares = blocks().flat_map(modes).flat_map(|block| beside.map(|ends| (block + ends).share()));
        let share = shares.fold(1.0, f64::min);
        let least = |unit: &UnitLayers, seconds: &dyn Fn(Issued) -> f64| {
            let least = modes(unit).into_iter().map(seconds).reduce(f64::min);
            least.unwrap_or_default()
        };
        let late = |unit: &UnitLayers| {
            // What stands before and behind the blocks may be alone on its rank.
            least(unit, &|issued| {
                let share = if is_block(&unit) { share } else { share.min(issued.share()) };
                issued.host * share
            })
        };
        let each = |seconds: &dyn Fn(&UnitLayers) -> f64| -> Vec<f64> {
            classes.iter().map(|unit| unit.map_or(0.0, seconds)).collect()
        };
        let mut pass = Self {
            issued: each(&late),
            chain: each(&|unit| least(unit, &|issued| issued.chain)),
            share,
            stretch: 1.0,
            is_late: false,
        };
        let sum = |by_class: &[f64]| -> f64 {
            units.iter().filter(is_block).map(|unit| by_class[unit.class]).sum()
        };
        pass.is_late = sum(&pass.issued) > sum(&pass.chain);
        {
            let end = |kind: UnitKind, by_class: &[f64]| -> f64 {
                units.iter().filter(|unit| unit.kind == kind).map(|unit| by_class[unit.class]).sum()
            };
            let [front, back] = [UnitKind::Front, UnitKind::Back]
                .map(|kind| (end(kind, &pass.issued), end(kind, &pass.chain)));
            let beside = [(0.0, 0.0), front, back, (front.0 + back.0, front.1 + back.1)];
            let stretches = blocks().flat_map(|unit| {
                let (issued, chain) = (pass.issued[unit.class], pass.chain[unit.class]);
                beside.map(|ends| (issued + ends.0) / (chain + ends.1))
            });
            pass.stretch = stretches.filter(|stretch| stretch.is_finite()).fold(0.0, f64::max);
        }
        pass
    }
}
