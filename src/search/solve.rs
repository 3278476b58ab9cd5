//! One outer strategy at its best inner choice, with what no inner choice can undercut.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::search::bounding::{Bounding, Entry};
use crate::search::closed::{Closed, Closing};
use crate::search::inner::{Chosen, InnerProblem};
use crate::search::rank::Options;
use crate::search::space::FrameChoice;
use crate::strategy::{Checkpoint, CheckpointEntry, CheckpointMode, Strategy, defaults};

/// An outer strategy at its best inner choice.
#[derive(Clone, Debug)]
pub struct Solved {
    pub strategy: Strategy,
    pub closed: Closed,
    /// No inner choice is faster, in seconds.
    pub floor: f64,
}

/// What became of an outer strategy.
#[derive(Clone, Debug)]
pub enum Solution {
    Fits(Box<Solved>),
    /// No inner choice both fits and is faster than what is known.
    Beaten,
}

/// Solves inner choices.
pub struct Solving<'a> {
    pub bounding: &'a Bounding<'a>,
    pub closing: &'a Closing<'a>,
    pub options: Options,
    /// When the passes of a frame end that has one way to be cut, by task.
    passes: Mutex<HashMap<(usize, FrameChoice), f64>>,
}

impl<'a> Solving<'a> {
    /// Solves what the request of `bounding`'s space leaves free.
    pub fn new(bounding: &'a Bounding<'a>, closing: &'a Closing<'a>) -> Self {
        let fix = &bounding.space.request.fix;
        let offload = &bounding.space.problem.engine.supports.offload;
        let options = Options::new(fix.checkpoint.is_some(), fix.offload.is_some(), offload);
        Self { bounding, closing, options, passes: Mutex::new(HashMap::new()) }
    }

    /// The best inner choice of `entry` that is faster than `limit` seconds.
    pub fn solve(&self, entry: &Entry, limit: f64) -> Solution {
        if self.passes(entry).is_some_and(|passes| passes + entry.step >= limit) {
            return Solution::Beaten;
        }
        self.chosen(entry, |inner, outer| inner.solve(outer, limit))
    }

    /// When the passes of `entry`'s frame end at the earliest, if there is one way to cut the blocks: under every
    /// state, and however much is recomputed or copied.
    fn passes(&self, entry: &Entry) -> Option<f64> {
        let space = self.bounding.space;
        let mut outer = space.outer(&space.tasks[entry.task], &entry.frame);
        let blocks = space.problem.facts.blocks;
        let divides = u64::from(blocks).is_multiple_of(outer.chunks());
        if outer.virtual_stages == 1 || !divides || space.request.fix.cuts.is_some() {
            return None;
        }
        let key = (entry.task, entry.frame);
        let known = self.passes.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
        Some(known.unwrap_or_else(|| {
            outer.cuts = defaults::cuts(blocks, outer.chunks() as usize);
            let plain = |&blocks: &u32| Checkpoint::uniform(CheckpointMode::None, blocks);
            outer.checkpoint = outer.cuts.iter().map(plain).collect();
            let passes = self.closing.passes(&self.closing.outer(&outer), &outer).0;
            self.passes.lock().unwrap_or_else(PoisonError::into_inner).insert(key, passes);
            passes
        }))
    }

    /// `entry` with everything recomputed that may be, under the default cuts; none if that does not fit.
    pub fn leanest(&self, entry: &Entry) -> Option<Solved> {
        let space = self.bounding.space;
        let fix = &space.request.fix;
        let mut strategy = space.strategy(entry);
        let blocks = space.problem.facts.blocks;
        let default = || defaults::cuts(blocks, strategy.chunks() as usize);
        strategy.cuts = fix.cuts.clone().unwrap_or_else(default);
        let full = [CheckpointEntry::Whole(CheckpointMode::Full)];
        let entries = fix.checkpoint.as_deref().unwrap_or(&full);
        let chunks = strategy.cuts.iter().enumerate();
        let modes = chunks.map(|(chunk, &blocks)| entries.get(chunk).unwrap_or(&entries[0]).over(blocks));
        strategy.checkpoint = modes.collect();
        strategy.normalise(&space.problem.facts);
        let closed = self.closing.close(&strategy);
        self.closing.fits(&closed).then_some(Solved { floor: entry.floor, strategy, closed })
    }

    /// A good inner choice of `entry`, quickly: that of the default cuts.
    pub fn even(&self, entry: &Entry, limit: f64) -> Solution {
        self.chosen(entry, |inner, outer| inner.even(outer, limit))
    }

    fn chosen(
        &self,
        entry: &Entry,
        choose: impl Fn(&InnerProblem<'_, '_>, &Strategy) -> Option<Chosen>,
    ) -> Solution {
        let space = self.bounding.space;
        let outer = space.strategy(entry);
        let (load, pipeline) = self.bounding.pipeline(&outer);
        let inner = InnerProblem {
            closing: self.closing,
            forms: &self.closing.outer(&outer),
            options: &self.options,
            load: &load,
            pipeline,
            cuts: space.request.fix.cuts.as_deref(),
            checkpoint: space.request.fix.checkpoint.as_deref(),
        };
        let Some(chosen) = choose(&inner, &outer) else { return Solution::Beaten };
        let mut strategy = chosen.strategy;
        strategy.normalise(&space.problem.facts);
        let closed = self.closing.close(&strategy);
        Solution::Fits(Box::new(Solved { floor: entry.floor.max(chosen.seconds), strategy, closed }))
    }
}
