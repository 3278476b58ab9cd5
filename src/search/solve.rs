//! One outer strategy at its best inner choice, with what no inner choice can undercut.

use crate::search::bounding::{Bounding, Entry};
use crate::search::closed::{Closed, Closing};
use crate::search::inner::{Chosen, InnerProblem};
use crate::search::passes::{KnownWays, Ways};
use crate::search::rank::Options;
use crate::strategy::Strategy;

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
    /// When the passes of frames end whose chunks do not adjoin.
    ways: KnownWays,
}

impl<'a> Solving<'a> {
    /// Solves what the request of `bounding`'s space leaves free.
    pub fn new(bounding: &'a Bounding<'a>, closing: &'a Closing<'a>) -> Self {
        let fix = &bounding.space.request.fix;
        let offload = &bounding.space.problem.engine.supports.offload;
        let options = Options::new(fix.checkpoint.is_some(), fix.offload.is_some(), offload);
        let without_host =
            (options.hosted.len() > 1).then(|| Options::new(fix.checkpoint.is_some(), true, offload));
        Self { bounding, closing, options, without_host, ways: KnownWays::default() }
    }

    /// The bound of `entry` with what is known of its frame: chunks that do not adjoin wait for each other.
    pub fn tightened(&self, entry: &Entry) -> f64 {
        if entry.frame.schedule.1 == 1 {
            return entry.floor;
        }
        let ways = self.ways.of(entry, (self.bounding, self.closing));
        ways.get().map_or(entry.floor, |ways| entry.floor.max(ways.least + entry.step))
    }

    /// The best inner choice of `entry` that is faster than `limit` seconds.
    pub fn solve(&self, entry: &Entry, limit: f64) -> Solution {
        let known = (entry.frame.schedule.1 > 1).then(|| self.ways.of(entry, (self.bounding, self.closing)));
        let none = Ways::default();
        let ways = known.as_ref().and_then(|known| known.get()).unwrap_or(&none);
        self.chosen(entry, |inner, outer| inner.solve(outer, (ways, entry.step), limit))
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
