//! One outer strategy at its best inner choice, with what no inner choice can undercut.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::search::bounding::{Bounding, Entry};
use crate::search::closed::{Closed, Closing};
use crate::search::inner::{Chosen, InnerProblem};
use crate::search::rank::Options;
use crate::search::space::FrameChoice;
use crate::strategy::{MeshOrder, Strategy};

/// An outer strategy at its best inner choice.
#[derive(Clone, Debug)]
pub struct Solved {
    pub strategy: Strategy,
    pub closed: Closed,
    /// No inner choice is faster, in seconds.
    pub floor: f64,
    /// A second inner choice of the same outer strategy.
    pub is_second: bool,
}

/// What became of an outer strategy.
#[derive(Clone, Debug)]
pub enum Solution {
    /// The best inner choice; and where that keeps something on the host, which copies may slow down more than the
    /// bound knows, the best that does not.
    Fits(Vec<Solved>),
    /// No inner choice both fits and is faster than what is known.
    Beaten,
}

/// Solves inner choices.
pub struct Solving<'a> {
    pub bounding: &'a Bounding<'a>,
    pub closing: &'a Closing<'a>,
    pub options: Options,
    /// The same without the host; none where nothing can be there.
    without_host: Option<Options>,
    /// When the passes of a frame end that has one way to be cut, by task and mesh order.
    passes: Mutex<HashMap<(usize, FrameChoice, MeshOrder), f64>>,
}

impl<'a> Solving<'a> {
    /// Solves what the request of `bounding`'s space leaves free.
    pub fn new(bounding: &'a Bounding<'a>, closing: &'a Closing<'a>) -> Self {
        let fix = &bounding.space.request.fix;
        let offload = &bounding.space.problem.engine.supports.offload;
        let options = Options::new(fix.checkpoint.is_some(), fix.offload.is_some(), offload);
        let without_host =
            (options.hosted.len() > 1).then(|| Options::new(fix.checkpoint.is_some(), true, offload));
        Self { bounding, closing, options, without_host, passes: Mutex::new(HashMap::new()) }
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
        outer.order = entry.order;
        let key = (entry.task, entry.frame, entry.order);
        let known = self.passes.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
        Some(known.unwrap_or_else(|| {
            outer = space.plainest(&outer);
            let passes = self.closing.passes(&self.closing.outer(&outer), &outer).0;
            self.passes.lock().unwrap_or_else(PoisonError::into_inner).insert(key, passes);
            passes
        }))
    }

    /// `entry` with everything recomputed that may be, under the default cuts; none if that does not fit.
    pub fn leanest(&self, entry: &Entry) -> Option<Solved> {
        let space = self.bounding.space;
        let strategy = space.recomputing(&space.strategy(entry));
        let closed = self.closing.close(&strategy);
        self.closing.fits(&closed).then_some(Solved {
            floor: entry.floor,
            strategy,
            closed,
            is_second: false,
        })
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
        let outer = self.bounding.space.strategy(entry);
        let forms = self.closing.outer(&outer);
        let (load, pipeline) = self.bounding.pipeline(&outer, &forms.pricing);
        let fix = &self.bounding.space.request.fix;
        let under = |options: &Options| {
            let inner = InnerProblem {
                closing: self.closing,
                forms: &forms,
                options,
                load: &load,
                pipeline,
                cuts: fix.cuts.as_deref(),
                checkpoint: fix.checkpoint.as_deref(),
            };
            choose(&inner, &outer)
        };
        let Some(best) = under(&self.options) else { return Solution::Beaten };
        let floor = entry.floor.max(best.seconds);
        let second = match &self.without_host {
            Some(options) if !best.strategy.offload.is_none() => under(options),
            _ => None,
        };
        let solved = |(place, chosen): (usize, Chosen)| {
            let mut strategy = chosen.strategy;
            strategy.normalise(&self.bounding.space.problem.facts);
            let closed = self.closing.close(&strategy);
            Solved { strategy, closed, floor, is_second: place > 0 }
        };
        Solution::Fits([Some(best), second].into_iter().flatten().enumerate().map(solved).collect())
    }
}
