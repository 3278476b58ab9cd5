//! When the passes of a frame end at the earliest, under each way to cut blocks over chunks that do not adjoin:
//! whatever its state, and however much is recomputed or copied. Computed once for all states of the frame.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::search::bounding::{Bounding, Entry};
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
#[derive(Clone, Debug)]
pub struct Ways {
    /// The quickest first.
    pub list: Vec<Way>,
    /// Blocks may be shared out in any other way too.
    pub is_shared: bool,
    /// When the passes end at the earliest, in whatever way.
    pub least: f64,
}

impl Default for Ways {
    fn default() -> Self {
        Self { list: Vec::new(), is_shared: false, least: 0.0 }
    }
}

/// What ranks take, each with its share of the blocks.
struct Shared {
    blocks: u32,
    /// The fewest and the most that a rank may have.
    counts: (u32, u32),
    /// Seconds of one block's passes, and by rank what comes before and beside those of its blocks.
    each: f64,
    ranks: Vec<f64>,
}

impl Shared {
    /// When the last rank ends at the earliest, each by itself.
    fn least(&self) -> f64 {
        let (fewest, most) = self.counts;
        let end = |seconds: &f64, count: u32| seconds + self.each * f64::from(count);
        let base = self.ranks.iter().map(|seconds| end(seconds, fewest)).fold(0.0, f64::max);
        let mut more: Vec<f64> = self
            .ranks
            .iter()
            .flat_map(|seconds| (fewest + 1..=most).map(|count| end(seconds, count)))
            .collect();
        more.sort_by(f64::total_cmp);
        let left = self.blocks.saturating_sub(fewest * self.ranks.len() as u32) as usize;
        left.checked_sub(1).and_then(|last| more.get(last)).map_or(base, |&last| base.max(last))
    }
}

/// What the layers of a task's frames send over in an order with shard groups of a size, and how many ranks on the next
/// stage is.
type Place = (Links, u64);

/// By task, frame and place; made once.
type Frames = HashMap<(usize, FrameChoice, Place), Arc<OnceLock<Ways>>>;

/// Ways that were computed.
#[derive(Default)]
pub struct KnownWays {
    places: Mutex<HashMap<(usize, MeshOrder, u64), Place>>,
    ways: Mutex<Frames>,
}

impl KnownWays {
    /// The ways to cut the blocks of the strategy of `entry`; none where chunks adjoin or cuts are fixed.
    pub fn of(
        &self,
        entry: &Entry,
        (bounding, closing): (&Bounding<'_>, &Closing<'_>),
    ) -> Arc<OnceLock<Ways>> {
        let outer = bounding.space.strategy(entry);
        let key = (entry.task, entry.order, outer.shard);
        let known = self.places.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
        let place = known.unwrap_or_else(|| {
            let links = closing.links(&closing.pricing(&outer));
            let place = (links, Mesh::new(&outer).stride(Axis::Pipeline));
            self.places.lock().unwrap_or_else(PoisonError::into_inner).insert(key, place);
            place
        });
        let key = (entry.task, entry.frame, place);
        let known =
            Arc::clone(self.ways.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default());
        known.get_or_init(|| ways(&outer, bounding, closing));
        known
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
    let mut least = list.first().map_or(0.0, |way| way.seconds);
    let (load, pipeline) = bounding.pipeline(outer, &forms.pricing);
    let divides = u64::from(blocks).is_multiple_of(outer.chunks());
    let is_shared = !divides && load.is_even && space.request.fix.checkpoint.is_none();
    if is_shared {
        let (turns, each) = (outer.virtual_stages as u32, blocks / outer.chunks() as u32);
        let micro = pipeline.micro as f64;
        let rank = |rank: u64| {
            let chunks = outer.chunks_of(rank);
            let front = if chunks.contains(&0) { load.front.work } else { 0.0 };
            let back = if chunks.contains(&(outer.chunks() - 1)) { load.back.work } else { 0.0 };
            pipeline.way_behind(&load, rank, u64::from(each) * rank) + micro * (front + back)
        };
        let shared = Shared {
            blocks,
            counts: (each * turns, (each + 1) * turns),
            each: micro * load.block.work,
            ranks: (0..outer.pipeline).map(rank).collect(),
        };
        least = least.min(shared.least());
    }
    Ways { list, is_shared, least }
}
