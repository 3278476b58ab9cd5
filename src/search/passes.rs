//! When the passes of a frame end at the earliest, under each way to cut blocks over chunks that do not adjoin:
//! whatever its state, and however much is recomputed or copied. Computed once for all states of the frame.

use std::sync::Arc;

use crate::search::bounding::{Bounding, Entry};
use crate::search::cache::Cache;
use crate::search::closed::Closing;
use crate::search::inner::Spread;
use crate::search::links::Links;
use crate::search::space::FrameChoice;
use crate::strategy::mesh::Mesh;
use crate::strategy::{Axis, MeshOrder, Strategy};

/// A way to cut the blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    pub cuts: Vec<u32>,
    /// When the last pass ends at the earliest.
    pub seconds: f64,
}

/// The ways of one frame.
#[derive(Clone, Debug, Default)]
pub struct Ways {
    /// The quickest first.
    pub list: Vec<Way>,
    /// When the passes end at the earliest, in whatever way.
    pub least: f64,
}

/// What the layers of a task's frames send over in an order with shard groups of a size, and how many ranks on the next
/// stage is.
type Place = (Links, u64);

/// Frames whose ways are remembered at once.
const MOST_WAYS: usize = 65_536;

/// Ways that were computed, by task, frame and place.
pub struct KnownWays {
    places: Cache<(usize, MeshOrder, u64), Place>,
    ways: Cache<(usize, FrameChoice, Place), Ways>,
}

impl Default for KnownWays {
    fn default() -> Self {
        Self { places: Cache::new(MOST_WAYS), ways: Cache::new(MOST_WAYS) }
    }
}

impl KnownWays {
    /// The ways to cut the blocks of the strategy of `entry`; none where chunks adjoin or cuts are fixed.
    pub fn of(&self, entry: &Entry, (bounding, closing): (&Bounding<'_>, &Closing<'_>)) -> Arc<Ways> {
        let outer = bounding.space.strategy(entry);
        let place = self.places.of((entry.task, entry.order, outer.shard), || {
            (closing.links(&closing.pricing(&outer)), Mesh::new(&outer).stride(Axis::Pipeline))
        });
        self.ways.of((entry.task, entry.frame, *place), || ways(&outer, bounding, closing))
    }
}

fn ways(outer: &Strategy, bounding: &Bounding<'_>, closing: &Closing<'_>) -> Ways {
    let (space, blocks) = (bounding.space, bounding.space.problem.facts.blocks);
    if outer.virtual_stages == 1 || space.request.fix.cuts.is_some() {
        return Ways::default();
    }
    let plainest = space.plainest(outer);
    let forms = closing.outer(&plainest);
    let mut list: Vec<Way> = Vec::new();
    for spread in Spread::ALL {
        let cuts = spread.cuts(blocks, outer);
        if list.iter().any(|known| known.cuts == cuts) {
            continue;
        }
        let checkpoint = space.request.fix.checkpoints(&cuts);
        let strategy = Strategy { checkpoint, cuts: cuts.clone(), ..plainest.clone() };
        list.push(Way { cuts, seconds: closing.passes(&forms, &strategy).0 });
    }
    list.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    let least = list.first().map_or(0.0, |way| way.seconds);
    Ways { list, least }
}
