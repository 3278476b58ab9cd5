//! When passes end at the earliest, under each way to cut blocks over chunks that do not adjoin:
//! whatever its state, and however much is recomputed or copied. Computed once for all states of a pass choice.

use std::sync::Arc;

use crate::search::bounding::{Bounding, Entry};
use crate::search::cache::Cache;
use crate::search::closed_forms::ClosedForms;
use crate::search::inner::Spread;
use crate::search::links::Links;
use crate::search::space::PassChoice;
use crate::strategy::mesh::Mesh;
use crate::strategy::{Axis, MeshOrder, Strategy};

/// A way to cut the blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    pub cuts: Vec<u32>,
    /// When the last pass ends at the earliest.
    pub seconds: f64,
}

/// The ways of one pass choice.
#[derive(Clone, Debug, Default)]
pub struct Ways {
    /// The quickest first.
    pub list: Vec<Way>,
    /// When the passes end at the earliest, in whatever way.
    pub least: f64,
}

/// What the layers of a task's pass choices send over in an order with shard groups of a size, and how many ranks on
/// the next stage is.
type Place = (Links, u64);

/// Frames whose ways are remembered at once.
const MOST_WAYS: usize = 65_536;

/// Ways that were computed, by task, pass choice and place.
pub struct KnownWays {
    places: Cache<(usize, MeshOrder, u64), Place>,
    ways: Cache<(usize, PassChoice, Place), Ways>,
}

impl Default for KnownWays {
    fn default() -> Self {
        Self { places: Cache::new(MOST_WAYS), ways: Cache::new(MOST_WAYS) }
    }
}

impl KnownWays {
    /// The ways to cut the blocks of the strategy of `entry`; none where chunks adjoin or cuts are fixed.
    pub fn of(
        &self,
        entry: &Entry,
        (bounding, closed_forms): (&Bounding<'_>, &ClosedForms<'_>),
    ) -> Arc<Ways> {
        let outer = bounding.space.strategy(entry);
        let place = self.places.of((entry.task, entry.order, outer.shard), || {
            (closed_forms.links(&closed_forms.pricing(&outer)), Mesh::new(&outer).stride(Axis::Pipeline))
        });
        self.ways.of((entry.task, entry.pass_choice, *place), || ways(&outer, bounding, closed_forms))
    }
}

fn ways(outer: &Strategy, bounding: &Bounding<'_>, closed_forms: &ClosedForms<'_>) -> Ways {
    let (space, blocks) = (bounding.space, bounding.space.problem.facts.blocks);
    if outer.virtual_stages == 1 || space.given_cuts(outer).is_some() {
        return Ways::default();
    }
    let plainest = space.plainest(outer);
    let costs = closed_forms.outer(&plainest);
    let mut list: Vec<Way> = Vec::new();
    for spread in Spread::ALL {
        let cuts = spread.cuts(blocks, outer);
        if list.iter().any(|known| known.cuts == cuts) {
            continue;
        }
        let checkpoint = space.request.fix.checkpoints(&cuts);
        let strategy = Strategy { checkpoint, cuts: cuts.clone(), ..plainest.clone() };
        list.push(Way { cuts, seconds: closed_forms.passes(&costs, &strategy).0 });
    }
    list.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    let least = list.first().map_or(0.0, |way| way.seconds);
    Ways { list, least }
}
