//! One outer strategy at its best inner choice, with what no inner choice can undercut.

use crate::search::bounding::{Bounding, Entry};
use crate::search::closed::{Closed, Closing};
use crate::search::inner::{Chosen, InnerProblem};
use crate::search::rank::Options;
use crate::strategy::Strategy;

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
}

impl<'a> Solving<'a> {
    /// Solves what the request of `bounding`'s space leaves free.
    pub fn new(bounding: &'a Bounding<'a>, closing: &'a Closing<'a>) -> Self {
        let fix = &bounding.space.request.fix;
        let offload = &bounding.space.problem.engine.supports.offload;
        let options = Options::new(fix.checkpoint.is_some(), fix.offload.is_some(), offload);
        Self { bounding, closing, options }
    }

    /// The best inner choice of `entry` that is faster than `limit` seconds.
    pub fn solve(&self, entry: &Entry, limit: f64) -> Solution {
        self.chosen(entry, |inner, outer| inner.solve(outer, limit))
    }

    /// A good inner choice of `entry`, quickly: that of the default cuts.
    pub fn even(&self, entry: &Entry) -> Solution {
        self.chosen(entry, |inner, outer| inner.even(outer))
    }

    fn chosen(
        &self,
        entry: &Entry,
        choose: impl Fn(&InnerProblem<'_, '_>, &Strategy) -> Option<Chosen>,
    ) -> Solution {
        let space = self.bounding.space;
        let mut outer = space.outer(&space.tasks[entry.task], &entry.frame);
        entry.state.apply(&mut outer);
        space.keep_on_host(&mut outer);
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
