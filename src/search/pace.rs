//! What units take of a pass whose host issues kernels more slowly than the device runs them.
//!
//! Such a pass takes as long as the host does for all of its units together ([`Issued`]): a long kernel of one hides
//! the launches of another. So a bound adds up either what the hosts of all units take or what their chains take.

use crate::cost::digest::{Issued, PassDigest, UnitDigest};
use crate::lower::unit::{UnitKind, UnitLayers};
use crate::search::class_costs::{MODES, ModelCosts};
use crate::search::load::PassTime;

/// The passes of a unit.
const PASSES: [fn(&UnitDigest) -> PassDigest; 3] =
    [|digest| digest.forward, |digest| digest.backward, |digest| digest.weight];
const BACKWARD: usize = 1;

/// One of the passes over all units.
#[derive(Clone, Debug, Default)]
struct PassPace {
    /// Whether it takes as long as its hosts, at the least.
    is_late: bool,
    /// Seconds of each class, the least over its modes: what its host takes, and its chain.
    classes: Vec<Issued>,
    /// By how much a pass with blocks is stretched at the most, counted so.
    stretch: f64,
}

/// What each class of units adds to the passes of hosts.
#[derive(Clone, Debug, Default)]
pub struct Pace([PassPace; 3]);

impl Pace {
    /// That of `units`, which cost `costs`.
    pub fn new(units: &[UnitLayers], costs: &ModelCosts) -> Self {
        Self([0, 1, 2].map(|place| {
            PassPace::new(units, costs, |unit, digest| {
                let runs = unit.has_backward || place != BACKWARD;
                if runs { Issued::new(&PASSES[place](digest)) } else { Issued::default() }
            })
        }))
    }

    /// Seconds that a unit of `class` adds to its forward, its backward and its weight pass as hosts issue these.
    pub fn hosts(&self, class: usize) -> [f64; 3] {
        self.0.each_ref().map(|pass| pass.classes[class].host)
    }

    /// The same, but of passes whose blocks' chains take longer than their hosts, their chains.
    pub fn longer(&self, class: usize) -> [f64; 3] {
        self.0.each_ref().map(
            |PassPace { is_late, classes, .. }| {
                if *is_late { classes[class].host } else { classes[class].chain }
            },
        )
    }

    /// What each second more of a host adds to a forward, a backward and a weight pass.
    pub fn late(&self) -> [PassTime; 3] {
        self.0.each_ref().map(|pass| PassTime {
            chain: 0.0,
            host: 1.0,
            longer: if pass.is_late { 1.0 } else { 0.0 },
        })
    }

    /// Of `slacks` by class, that each leave a unit's forward (`pass` 0) or backward (1) before its end: the longest.
    pub fn slack(&self, pass: usize, slacks: &[f64]) -> PassTime {
        let pass = &self.0[pass];
        let chain = slacks.iter().copied().fold(0.0, f64::max);
        let alone = slacks.iter().zip(&pass.classes).filter(|(slack, _)| **slack > 0.0);
        let alone = alone.map(|(slack, issued)| slack * issued.host / issued.chain);
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
        let mut classes: Vec<Option<Issued>> = vec![None; costs.classes.len()];
        for unit in units {
            classes[unit.class].get_or_insert_with(|| {
                let modes = (0..MODES).map(|mode| issued(unit, &costs.classes[unit.class].digests[mode]));
                let runs = modes.filter(|issued| issued.chain > 0.0);
                let least = |one: Issued, other: Issued| Issued {
                    host: one.host.min(other.host),
                    chain: one.chain.min(other.chain),
                };
                runs.reduce(least).unwrap_or_default()
            });
        }
        let classes: Vec<Issued> = classes.into_iter().map(Option::unwrap_or_default).collect();
        let all_of = |kind: fn(UnitKind) -> bool| {
            let own = units.iter().filter(|unit| kind(unit.kind)).map(|unit| classes[unit.class]);
            own.fold(Issued::default(), |all, unit| all + unit)
        };
        let is_block = |kind: UnitKind| matches!(kind, UnitKind::Block(_));
        let blocks = all_of(is_block);
        let front = all_of(|kind| kind == UnitKind::Front);
        let back = all_of(|kind| kind == UnitKind::Back);
        // What stands before and behind the blocks may be on the rank of any.
        let stretches = units.iter().filter(|unit| is_block(unit.kind)).flat_map(|unit| {
            let ends = [Issued::default(), front, back, front + back];
            ends.map(|ends| classes[unit.class] + ends).map(|all| all.host / all.chain)
        });
        let stretch = stretches.filter(|stretch| stretch.is_finite()).fold(0.0, f64::max);
        Self { is_late: blocks.host > blocks.chain, classes, stretch }
    }
}
