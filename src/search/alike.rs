//! Inner choices for engines in which all ranks choose alike: one checkpoint mode or the first K blocks of every chunk,
//! one fraction of each category on the host. There are few, so each is solved for its cuts by itself.

use crate::profile::capabilities::CheckpointGrain;
use crate::profile::choices::OffloadCategory;
use crate::search::bounding::Entry;
use crate::search::choices::{Hosted, Options, without_activations};
use crate::search::inner::{Chosen, InnerProblem};
use crate::search::proof::{Aim, Proof};
use crate::search::solve::{Shared, Solved, Solving};
use crate::strategy::{CheckpointEntry, CheckpointMode, Strategy, rules};

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
        let shared = self.shared(entry);
        if entry.pass_choice.schedule.1 > 1 {
            return self.best_of_chunks(&shared, limit, cut);
        }
        // Of the counts of first blocks a few are looked at, which suit the default cuts. Ranks that choose for themselves
        // do no worse than under any of them, where each has one chunk.
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
        let mut best = Likeliest::below(limit);
        // Splits of the state under which there is room for all that is kept: whatever recomputes or copies takes longer.
        let mut roomy: Vec<Hosted> = Vec::new();
        for hosted in self.splits(&shared.entry) {
            if !self.may_have(shared, &hosted, best.limit) {
                continue;
            }
            let state = without_activations(hosted);
            for checkpoint in modes(&hosted) {
                if roomy.contains(&state) {
                    break;
                }
                let keeps_all = hosted == state && is_none(checkpoint.as_ref());
                let alike = Alike { checkpoint, hosted };
                let solved = self.solve_alike(shared, &alike, best.limit, cut);
                roomy.extend((keeps_all && solved.is_some()).then_some(state));
                best.add(solved);
            }
        }
        best.found()
    }

    /// The same of all choices, where a rank has several chunks. More recomputation takes longer, as far as nothing is
    /// copied, and less memory: counts of first blocks are looked at from the fewest that fit until they take too long.
    fn best_of_chunks(&self, shared: &Shared<'a>, limit: f64, cut: Cut<'_>) -> Option<Solved> {
        let most = self.most_first(&shared.entry).saturating_sub(1);
        let cuts = self.cuts(shared);
        let mut best = Likeliest::below(limit);
        for hosted in self.splits(&shared.entry) {
            let is_in_time = |checkpoint: CheckpointEntry, limit: f64| {
                let options = Options::one(without_activations(hosted)).boundless();
                cut(&self.inner(shared, &options, Some(&[checkpoint])), &shared.outer, limit).is_some()
            };
            let may_be = self.may_have(shared, &hosted, best.limit);
            if !may_be || !is_in_time(CheckpointEntry::Whole(CheckpointMode::None), best.limit) {
                continue;
            }
            for checkpoint in self.modes() {
                let alike = Alike { checkpoint, hosted };
                best.add(self.solve_alike(shared, &alike, best.limit, cut));
            }
            if most == 0 || !is_in_time(CheckpointEntry::First(1), best.limit) {
                continue;
            }
            let fits = |count: u32| cuts.iter().any(|cuts| self.fits_first(shared, cuts, &hosted, count));
            for count in fewest(most, fits).into_iter().flat_map(|fewest| fewest..=most) {
                if !is_in_time(CheckpointEntry::First(count), best.limit) {
                    break;
                }
                let alike = Alike { checkpoint: Some(CheckpointEntry::First(count)), hosted };
                best.add(self.solve_alike(shared, &alike, best.limit, cut));
            }
        }
        best.found()
    }

    /// The cuts that the chunks of `shared` may have, where a rank has several.
    fn cuts(&self, shared: &Shared<'a>) -> Vec<Vec<u32>> {
        let given = self.bounding.space.given_cuts(&shared.outer);
        let ways =
            || self.with_ways(&shared.entry, |ways| ways.list.iter().map(|way| way.cuts.clone()).collect());
        given.map_or_else(ways, |cuts| vec![cuts])
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
            if !self.may_have(&shared, &hosted, all.lower.min(aim.best)) {
                continue;
            }
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
                all = all.and(Proof { lower: own.lower.max(solved.lower_bound), ..own });
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
        let cuts = self.bounding.space.plainest_cuts(&shared.outer);
        fewest(most, |count| self.fits_first(shared, &cuts, hosted, count))
    }

    /// Whether `shared` fits under `cuts` if the first `count` blocks of each chunk recompute wholly and `hosted` is on the
    /// host.
    fn fits_first(&self, shared: &Shared<'a>, cuts: &[u32], hosted: &Hosted, count: u32) -> bool {
        let outer = &shared.outer;
        let entry = CheckpointEntry::First(count);
        let checkpoint = cuts.iter().map(|&blocks| entry.over(blocks)).collect();
        let mut strategy = Strategy { cuts: cuts.to_vec(), checkpoint, ..outer.clone() };
        for (&category, &fraction) in OffloadCategory::ALL.iter().zip(hosted) {
            if fraction > 0.0 {
                *strategy.offload.fractions_mut(category) = vec![fraction; outer.pipeline as usize];
            }
        }
        strategy.normalise(&self.bounding.space.problem.facts);
        self.closed_forms.fits(&self.close(shared, &strategy))
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

/// The likeliest of choices, and what none of them undercuts.
struct Likeliest {
    best: Option<Solved>,
    lower: f64,
    /// Seconds below which others are of interest.
    limit: f64,
}

/// Whether nothing is recomputed, or what is fixed.
fn is_none(checkpoint: Option<&CheckpointEntry>) -> bool {
    checkpoint.is_none_or(|entry| *entry == CheckpointEntry::Whole(CheckpointMode::None))
}

impl Likeliest {
    const fn below(limit: f64) -> Self {
        Self { best: None, lower: f64::INFINITY, limit }
    }

    fn add(&mut self, solved: Option<Solved>) {
        let Some(solved) = solved else { return };
        self.lower = self.lower.min(solved.lower_bound);
        if self.best.as_ref().is_none_or(|best| solved.closed.likely < best.closed.likely) {
            self.limit = self.limit.min(solved.closed.likely.0);
            self.best = Some(solved);
        }
    }

    fn found(self) -> Option<Solved> {
        self.best.map(|best| Solved { lower_bound: self.lower, ..best })
    }
}

/// The fewest of 1 to `most` that fit, if so many do; more fit whenever fewer do.
fn fewest(most: u32, fits: impl Fn(u32) -> bool) -> Option<u32> {
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
