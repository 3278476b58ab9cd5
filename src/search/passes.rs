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
use crate::strategy::{Axis, Strategy};

/// A way to cut the blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    pub cuts: Vec<u32>,
    /// When the last pass ends at the earliest.
    pub seconds: f64,
}

/// The ways of one frame.
#[derive(Debug, Default)]
pub struct Ways {
    /// The quickest first.
    pub list: Vec<Way>,
    /// Where blocks may be shared out in any other way too.
    shared: Option<Shared>,
}

/// What ranks take, each with its share of the blocks.
#[derive(Debug)]
struct Shared {
    blocks: u32,
    /// The fewest and the most that a rank may have.
    counts: (u32, u32),
    /// Seconds of one block's passes, and by rank what comes before and beside those of its blocks.
    each: f64,
    ranks: Vec<f64>,
}

impl Ways {
    /// Whether the passes may end before `limit` seconds.
    pub fn may_end_before(&self, limit: f64) -> bool {
        let quickest = self.list.first().is_none_or(|way| way.seconds < limit);
        quickest || self.shared.as_ref().is_some_and(|shared| shared.may_end_before(limit))
    }

    /// Whether blocks may be shared out in any other way too.
    pub const fn is_shared(&self) -> bool {
        self.shared.is_some()
    }
}

impl Shared {
    /// Whether all blocks find a rank that ends before `limit` seconds by itself.
    fn may_end_before(&self, limit: f64) -> bool {
        let (fewest, most) = self.counts;
        let room = |seconds: &f64| {
            let number = (limit - seconds) / self.each;
            (number >= f64::from(fewest)).then(|| (number as u32).min(most))
        };
        let all: Option<u32> = self.ranks.iter().map(room).sum();
        all.is_some_and(|all| all >= self.blocks)
    }
}

/// A frame on a task's mesh, what its layers send over, and how many ranks on the next stage is.
type Key = (usize, FrameChoice, Links, u64);

/// Ways that were computed.
#[derive(Default)]
pub struct KnownWays(Mutex<HashMap<Key, Arc<OnceLock<Ways>>>>);

impl KnownWays {
    /// The ways to cut the blocks of `outer`, the strategy of `entry`; none where chunks adjoin or cuts are fixed.
    pub fn of(
        &self,
        entry: &Entry,
        outer: &Strategy,
        (bounding, closing): (&Bounding<'_>, &Closing<'_>),
    ) -> Arc<OnceLock<Ways>> {
        let links = closing.links(&closing.pricing(outer));
        let key = (entry.task, entry.frame, links, Mesh::new(outer).stride(Axis::Pipeline));
        let known = Arc::clone(self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default());
        known.get_or_init(|| ways(outer, bounding, closing));
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
    let (load, pipeline) = bounding.pipeline(outer, &forms.pricing);
    let divides = u64::from(blocks).is_multiple_of(outer.chunks());
    let is_shared = !divides && load.is_even && space.request.fix.checkpoint.is_none();
    let shared = || {
        let (turns, each) = (outer.virtual_stages as u32, blocks / outer.chunks() as u32);
        let micro = pipeline.micro as f64;
        let rank = |rank: u64| {
            let chunks = outer.chunks_of(rank);
            let front = if chunks.contains(&0) { load.front.work } else { 0.0 };
            let back = if chunks.contains(&(outer.chunks() - 1)) { load.back.work } else { 0.0 };
            pipeline.way_behind(&load, rank, u64::from(each) * rank) + micro * (front + back)
        };
        Shared {
            blocks,
            counts: (each * turns, (each + 1) * turns),
            each: micro * load.block.work,
            ranks: (0..outer.pipeline).map(rank).collect(),
        }
    };
    Ways { list, shared: is_shared.then(shared) }
}
