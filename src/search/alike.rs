//! Inner choices for engines in which all ranks choose alike: one checkpoint mode or the first K blocks of every chunk,
//! one fraction of each category on the host. There are few, so each is solved for its cuts by itself.

use crate::profile::capabilities::CheckpointGrain;
use crate::profile::choices::OffloadCategory;
use crate::search::bounding::Entry;
use crate::search::choices::{Hosted, Options};
use crate::search::inner::{Chosen, InnerProblem};
use crate::search::proof::{Aim, Proof};
use crate::search::solve::{Shared, Solved, Solving};
use crate::strategy::{CheckpointEntry, Strategy, rules};

/// One choice for all ranks.
#[derive(Clone, Debug)]
struct Alike {
    /// None if it is fixed, chunk by chunk.
    checkpoint: Option<CheckpointEntry>,
    hosted: Hosted,
}

/// Finds the cuts of a choice that end before a limit.
type Cut<'c> = &'c dyn Fn(&InnerProblem<'_, '_>, &Strategy, f64) -> Option<Chosen>;

impl<'a> Solving<'a> {
    /// The likeliest of the choices of `entry` that fit and are below `limit` seconds, each under the cuts that `cut`
    /// finds; its bound is that of all of them.
    pub(super) fn best_alike(&self, entry: &Entry, limit: f64, cut: Cut<'_>) -> Option<Solved> {
        if self.most_first(entry) == 0 {
            return self.best_of(&self.shared(entry), limit, cut, &|_| self.modes());
        }
        // Of the counts of first blocks a few are looked at, which suit the default cuts. Ranks that choose for themselves
        // do no worse than under any of them: each may recompute as many blocks, those that are held longest.
        let shared = self.shared(entry);
        let lower_bound = cut(&self.inner(&shared, &self.options, None), &shared.outer, limit)?.seconds;
        let likely = self.best_of(&shared, limit, cut, &|hosted| self.checkpoints(&shared, hosted));
        let found = likely.or_else(|| self.best_of(&shared, limit, cut, &|_| self.every_checkpoint(entry)));
        found.map(|found| {
            let lower_bound = lower_bound.max(entry.lower_bound).min(found.closed.bound.0);
            Solved { lower_bound, ..found }
        })
    }

    /// The likeliest of the choices with any split between device and host and the checkpoint modes that `modes` gives
    /// for it; its bound is that of all of these.
    fn best_of(
        &self,
        shared: &Shared<'a>,
        limit: f64,
        cut: Cut<'_>,
        modes: &dyn Fn(&Hosted) -> Vec<Option<CheckpointEntry>>,
    ) -> Option<Solved> {
        let mut best: Option<Solved> = None;
        let mut lower = f64::INFINITY;
        for hosted in self.splits(&shared.entry) {
            for checkpoint in modes(&hosted) {
                let below = best.as_ref().map_or(limit, |best| best.closed.likely.0.min(limit));
                let alike = Alike { checkpoint, hosted };
                let Some(solved) = self.solve_alike(shared, &alike, below, cut) else { continue };
                lower = lower.min(solved.lower_bound);
                if best.as_ref().is_none_or(|best| solved.closed.likely < best.closed.likely) {
                    best = Some(solved);
                }
            }
        }
        best.map(|best| Solved { lower_bound: lower, ..best })
    }

    fn solve_alike(&self, shared: &Shared<'a>, alike: &Alike, limit: f64, cut: Cut<'_>) -> Option<Solved> {
        let chosen = self.with_alike(shared, alike, |inner, outer| cut(inner, outer, limit))?;
        let solved = self.solved(shared, chosen);
        rules::legal(&solved.strategy, &self.bounding.space.problem.facts).then_some(solved)
    }

    /// What no choice of `entry` can undercut as played.
    pub(super) fn prove_alike(&self, entry: &Entry, aim: Aim) -> Proof {
        let shared = self.shared(entry);
        let mut all = Proof { lower: aim.best, better: Vec::new(), effort: 0, is_played: false };
        for hosted in self.splits(entry) {
            for checkpoint in self.every_checkpoint(entry) {
                let alike = Alike { checkpoint, hosted };
                let best = all.lower.min(aim.best);
                let solved = self.with_ways(entry, |ways| {
                    self.solve_alike(&shared, &alike, best, &|inner, outer, limit| {
                        inner.solve(outer, (ways, entry.step), limit)
                    })
                });
                let Some(solved) = solved else { continue };
                if solved.lower_bound >= aim.enough || all.effort >= aim.effort {
                    all.lower = all.lower.min(solved.lower_bound);
                    continue;
                }
                let aim = Aim { effort: aim.effort - all.effort, ..aim };
                let own = self.with_alike(&shared, &alike, |inner, outer| {
                    self.prove_choices(entry, (inner, outer), &solved.strategy, aim)
                });
                all.lower = all.lower.min(own.lower.max(solved.lower_bound));
                all.effort += own.effort;
                all.is_played |= own.is_played;
                all.better.extend(own.better);
            }
        }
        all
    }

    /// What may be on the host under the ZeRO stage of `entry`, nothing first.
    pub(super) fn splits(&self, entry: &Entry) -> Vec<Hosted> {
        self.options.hosted(0, entry.state.zero, &self.bounding.space.problem.engine.supports)
    }

    /// The checkpoint choices that are worth a look with `hosted` on the host: each mode for all blocks, and of the
    /// first K blocks of every chunk the fewest that fit under the default cuts, and one less.
    fn checkpoints(&self, shared: &Shared<'a>, hosted: &Hosted) -> Vec<Option<CheckpointEntry>> {
        let mut list = self.modes();
        if let Some(count) = self.fewest_first(shared, hosted) {
            let counts = [count.saturating_sub(1), count].into_iter().filter(|count| *count > 0);
            list.extend(counts.map(|count| Some(CheckpointEntry::First(count))));
        }
        list
    }

    /// All of them.
    pub(super) fn every_checkpoint(&self, entry: &Entry) -> Vec<Option<CheckpointEntry>> {
        let mut list = self.modes();
        list.extend((1..self.most_first(entry)).map(|count| Some(CheckpointEntry::First(count))));
        list
    }

    /// Each mode that the engine has, for all blocks; or what is fixed.
    fn modes(&self) -> Vec<Option<CheckpointEntry>> {
        if self.bounding.space.request.fix.checkpoint.is_some() {
            return vec![None];
        }
        let supports = &self.bounding.space.problem.engine.supports;
        supports.checkpoint.iter().map(|mode| Some(CheckpointEntry::Whole(*mode))).collect()
    }

    /// The number of first blocks from which on all of them are; 0 where no part of a chunk recomputes by itself.
    fn most_first(&self, entry: &Entry) -> u32 {
        let space = self.bounding.space;
        let grain = *space.problem.engine.supports.checkpoint_grain;
        if grain == CheckpointGrain::All || space.request.fix.checkpoint.is_some() {
            return 0;
        }
        let blocks = space.problem.facts.blocks;
        let outer = space.strategy(entry);
        match space.given_cuts(&outer) {
            Some(cuts) => cuts.into_iter().max().unwrap_or(0),
            None if outer.pipeline == 1 => blocks,
            // Cuts need not be even.
            None => blocks.div_ceil(outer.chunks() as u32) + 1,
        }
    }

    /// The fewest first blocks of each chunk that recompute wholly so that the default cuts fit, if some do.
    fn fewest_first(&self, shared: &Shared<'a>, hosted: &Hosted) -> Option<u32> {
        let most = self.most_first(&shared.entry).checked_sub(1).filter(|most| *most > 0)?;
        let space = self.bounding.space;
        let facts = &space.problem.facts;
        let outer = &shared.outer;
        let cuts = space.plainest_cuts(outer);
        let fits = |count: u32| {
            let entry = CheckpointEntry::First(count);
            let checkpoint = cuts.iter().map(|&blocks| entry.over(blocks)).collect();
            let mut strategy = Strategy { cuts: cuts.clone(), checkpoint, ..outer.clone() };
            for (&category, &fraction) in OffloadCategory::ALL.iter().zip(hosted) {
                if fraction > 0.0 {
                    *strategy.offload.fractions_mut(category) = vec![fraction; outer.pipeline as usize];
                }
            }
            strategy.normalise(facts);
            self.closed_forms.fits(&self.close(shared, &strategy))
        };
        if !fits(most) {
            return None;
        }
        let (mut low, mut high) = (0, most);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if fits(middle) { high = middle } else { low = middle }
        }
        Some(high)
    }

    fn with_alike<T>(
        &self,
        shared: &Shared<'a>,
        alike: &Alike,
        look: impl FnOnce(&InnerProblem<'_, '_>, &Strategy) -> T,
    ) -> T {
        let checkpoint = alike.checkpoint.clone().map(|entry| vec![entry]);
        look(&self.inner(shared, &Options::one(alike.hosted), checkpoint.as_deref()), &shared.outer)
    }
}
