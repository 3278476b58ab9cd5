//! A branch and bound over the choices of one pipeline rank whose blocks are all alike.
//!
//! A [`ChoiceRange`] is a set of choices: one split between device and host, and counts of recomputed blocks between
//! two bounds. Recomputation only adds work and takes away memory. So the fewest counts bound the time of all of them
//! from below, and the most counts say whether any fits. The copies of activations are the exception: they shrink with
//! recomputation. So a range is bounded by its passes without them, and by the copies that the most leave.

use crate::cost::bound::Bound;
use crate::cost::route::Parts;
use crate::profile::choices::{Compression, OffloadCategory};
use crate::search::choices::{ChoiceRange, Hosted, NOTHING, RankChoice, without_activations};
use crate::search::modes::{Modes, Recomputed};
use crate::search::rank::RankProblem;

/// Up to so many blocks of a rank each choice of what they recompute is looked at by itself.
const FEW: u32 = 3;

/// Ranges that one rank's search looks at before it takes the best choice that it knows.
const MOST_RANGES: usize = 200;

/// The best choice that is known is good enough if no other ends by more than this share earlier.
const SETTLED: f64 = 2e-4;

/// Which of a rank's blocks are counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Asked {
    /// Those that recompute wholly, if at least so many recompute at all.
    Full(u32),
    /// Those that recompute at all, if so many of them recompute wholly.
    All(u32),
}

impl Asked {
    /// The choice that has so many of them.
    const fn counts(self, count: u32) -> Recomputed {
        match self {
            Self::Full(all) => Recomputed { full: count, selective: all.saturating_sub(count) },
            Self::All(full) => Recomputed { full, selective: count.saturating_sub(full) },
        }
    }

    const fn is_like(self, other: Self) -> bool {
        matches!((self, other), (Self::Full(_), Self::Full(_)) | (Self::All(_), Self::All(_)))
    }
}

/// Of which split between device and host it was asked, which blocks, how many at the least and the most, and before
/// how many seconds they are to end.
pub(super) type Question = (Hosted, Asked, (u32, u32), f64);

impl RankProblem<'_, '_> {
    /// The best choice of the rank that ends before `limit` seconds; none if nothing that does so fits.
    pub fn best(&mut self, limit: f64) -> Option<RankChoice> {
        if !self.is_even {
            return self.best_of_kinds(limit);
        }
        if self.strategy.compression == Compression::None {
            return self.best_count(limit);
        }
        // Compressing what is kept takes kernels, which recomputation saves: less of it may take longer.
        let best = self.best_count(f64::INFINITY)?;
        let blocks = if self.recomputes { self.blocks } else { 0 };
        let counts = [(0, 0), (0, blocks), (blocks, 0)];
        let ends = counts.map(|(full, selective)| self.ends(Recomputed { full, selective }, &NOTHING));
        let lower = ends.into_iter().fold(best.lower, f64::min);
        (lower < limit).then_some(RankChoice { lower, ..best })
    }

    /// Of blocks that are alike: how many recompute.
    fn best_count(&mut self, limit: f64) -> Option<RankChoice> {
        let mut best: Option<RankChoice> = None;
        let roots = self.roots(limit);
        if roots.len() > 1 && !self.may_fit(&roots, limit) {
            return None;
        }
        // Each with whether it was looked into.
        let mut open: Vec<(ChoiceRange, bool)> = roots.into_iter().map(|root| (root, false)).collect();
        let lowest = |open: &[(ChoiceRange, bool)]| {
            (0..open.len()).min_by(|&one, &other| open[one].0.lower.total_cmp(&open[other].0.lower))
        };
        for turn in 0.. {
            let Some(place) = lowest(&open) else { break };
            if self.closed_forms.deadline.is_over() {
                return None;
            }
            let known = best.as_ref().map_or(limit, |best| best.seconds);
            let (range, is_known) = open.swap_remove(place);
            if let Some(best) = &mut best
                && (range.lower >= (1.0 - SETTLED) * known || turn >= MOST_RANGES)
            {
                best.lower = range.lower.min(best.seconds);
                break;
            }
            let ranges = match is_known {
                true => self.halves(&range, known),
                false => self.narrowed(range, known).into_iter().collect(),
            };
            for range in ranges {
                let known = best.as_ref().map_or(limit, |best| best.seconds);
                best = self.corner(&range, known).or(best);
                open.push((range, true));
            }
            open.retain(|(range, is_known)| !is_known || !range.is_single());
        }
        best
    }

    /// Whether any choice of `roots` that ends before `limit` seconds may fit the device. The leanest that could end in
    /// time is counted: as many blocks recompute wholly as there is time for if nothing is copied and the optimizer
    /// step is the quickest of all, and the rest selectively.
    fn may_fit(&mut self, roots: &[ChoiceRange], limit: f64) -> bool {
        if !self.recomputes {
            return true;
        }
        let steps = roots.iter().map(|root| self.step_of(&root.hosted));
        let step = steps.fold(f64::INFINITY, f64::min);
        let late = |problem: &mut Self, left: u32| {
            problem.write(&Modes::All(Recomputed { full: problem.blocks - left, selective: 0 }), &NOTHING);
            let bound = problem.closed_forms.time(problem.costs, problem.strategy, problem.layout);
            let parts = Parts { step, ..bound.parts_before_step(problem.stage) };
            parts.end(&problem.route) - limit
        };
        let Some(left) = self.least(0, self.blocks, late) else { return false };
        let most = Modes::All(Recomputed { full: self.blocks - left, selective: left });
        // The more optimizer state is on the host, the more room there is.
        let mut seen: Vec<[f64; 2]> = Vec::new();
        roots.iter().rev().any(|root| {
            let [_, parameters, activations] = root.hosted;
            let is_new = !seen.contains(&[parameters, activations]);
            seen.push([parameters, activations]);
            is_new && self.over(&most, &root.hosted).device <= 0.0
        })
    }

    /// The best of the choices at two corners of `range` that fit, if it ends before `limit` seconds.
    fn corner(&mut self, range: &ChoiceRange, limit: f64) -> Option<RankChoice> {
        let least =
            Recomputed { full: range.full.1, selective: range.recomputed.0.max(range.full.1) - range.full.1 };
        let most = Recomputed { full: range.full.0, selective: range.recomputed.1 - range.full.0 };
        let mut best: Option<RankChoice> = None;
        for recomputed in [least, most] {
            let seconds = self.ends(recomputed, &range.hosted);
            if seconds < best.as_ref().map_or(limit, |best| best.seconds) {
                let modes = Modes::All(recomputed);
                best = Some(RankChoice { modes, hosted: range.hosted, seconds, lower: seconds });
            }
            if range.is_single() {
                break;
            }
        }
        best
    }

    /// Everything that may be chosen and may end before `limit` seconds, by what is on the host.
    pub fn roots(&mut self, limit: f64) -> Vec<ChoiceRange> {
        let all = if self.recomputes { self.blocks } else { 0 };
        let is_even = self.is_even;
        let mut list = Vec::with_capacity(self.hosted.len());
        // Passes by the share of parameters on the host: where optimizer state is is nothing to them.
        let mut passes: Vec<(f64, Parts)> = Vec::new();
        for place in 0..self.hosted.len() {
            let hosted = self.hosted[place];
            if self.closed_forms.deadline.is_over() {
                break;
            }
            let fetched = hosted[OffloadCategory::Parameters as usize];
            let known = passes.iter().find(|(known, _)| *known == fetched).map(|(_, parts)| *parts);
            let parts = known.unwrap_or_else(|| {
                self.write(&Modes::All(Recomputed::default()), &without_activations(hosted));
                let bound = self.closed_forms.time(self.costs, self.strategy, self.layout);
                let parts = bound.parts_before_step(self.stage);
                passes.push((fetched, parts));
                parts
            });
            let lower = Parts { step: self.step_of(&hosted), ..parts }.end(&self.route);
            if lower >= limit {
                continue;
            }
            if all > FEW || !is_even {
                list.push(ChoiceRange { hosted, full: (0, all), recomputed: (0, all), lower });
                continue;
            }
            // What one block's pass takes is more than what few blocks save: each choice by itself.
            let counts = (0..=all).flat_map(|full| (full..=all).map(move |recomputed| (full, recomputed)));
            list.extend(counts.map(|(full, recomputed)| ChoiceRange {
                hosted,
                full: (full, full),
                recomputed: (recomputed, recomputed),
                lower,
            }));
        }
        list
    }

    /// The part of `range` that holds its best choice by closed form, if that fits and ends before `limit` seconds.
    pub fn narrowed(&mut self, mut range: ChoiceRange, limit: f64) -> Option<ChoiceRange> {
        let hosted = range.hosted;
        let copied = hosted[OffloadCategory::Activations as usize] > 0.0;
        if !self.is_even {
            return self.possible(range, limit);
        }
        let is_least =
            |problem: &mut Self, range: &ChoiceRange| !copied && problem.fits(range.fewest(), &hosted);
        if is_least(self, &range) {
            range = range.fewest_alone();
            range.lower = range.lower.max(self.ends(range.fewest(), &hosted));
            return (range.lower < limit).then_some(range);
        }
        let mut range = self.possible(range, limit)?;
        let quiet = without_activations(hosted);
        if copied && self.hosted.contains(&quiet) && self.fits(range.fewest(), &quiet) {
            // What fits without these copies is better off without them.
            return None;
        }
        if is_least(self, &range) || (!copied && range.full.0 == range.full.1) {
            range = range.fewest_alone();
        }
        range.lower = range.lower.max(self.lower(&range));
        (range.lower < limit).then_some(range)
    }

    /// `range` without counts under which nothing fits, or that end no earlier than `limit` seconds by closed form; none
    /// if that is all.
    pub fn possible(&mut self, mut range: ChoiceRange, limit: f64) -> Option<ChoiceRange> {
        let hosted = range.hosted;
        let quiet = without_activations(hosted);
        if !self.is_even {
            let most = Recomputed { full: range.full.1, selective: 0 };
            return self.fits(most, &hosted).then_some(range);
        }
        // More is slower.
        let (low, high) = range.full;
        range.full.1 = self.most_in_time(Asked::Full(range.recomputed.0), (low, high), &quiet, limit)?;
        let (low, high) = range.recomputed;
        let all = self.most_in_time(Asked::All(range.full.0), (low, high), &quiet, limit)?;
        range.recomputed.1 = all.max(range.full.1);
        range.lower = range.lower.max(self.lower(&range));
        if range.lower >= limit {
            return None;
        }
        let total = range.recomputed.1;
        // With the rest selective, as few whole ones as fit; and as few at all, as many of these whole as may be.
        range.full.0 = self.least(range.full.0, range.full.1, |problem, full| {
            problem.over_all(Recomputed { full, selective: total - full }, &hosted)
        })?;
        let most = range.full.1;
        let fewest = self.least(range.recomputed.0, total, |problem, all| {
            let full = all.min(most);
            problem.over_all(Recomputed { full, selective: all - full }, &hosted)
        })?;
        range.recomputed.0 = fewest.max(range.full.0);
        range.lower = range.lower.max(self.lower(&range));
        (range.lower < limit).then_some(range)
    }

    /// When the step ends at the earliest under any choice of `range`: what the fewest recompute, with the copies that
    /// the most leave.
    fn lower(&mut self, range: &ChoiceRange) -> f64 {
        let hosted = &range.hosted;
        if range.is_single() || hosted[OffloadCategory::Activations as usize] == 0.0 {
            return self.ends(range.fewest(), hosted);
        }
        let mut copied = self.copied.take().unwrap_or_else(|| self.layout.clone());
        self.write(&Modes::All(range.most()), hosted);
        copied.choose(self.strategy, self.stage);
        self.write(&Modes::All(range.fewest()), hosted);
        let step = self.optimizer_step(hosted);
        let bound =
            Bound { copied: &copied, ..self.closed_forms.time(self.costs, self.strategy, self.layout) };
        let parts = bound.parts_before_step(self.stage);
        self.copied = Some(copied);
        Parts { step, ..parts }.end(&self.route)
    }

    /// The most blocks of those from `fewest` to `most` that end before `limit` seconds, if activations stay on the
    /// device.
    fn most_in_time(
        &mut self,
        asked: Asked,
        (fewest, most): (u32, u32),
        hosted: &Hosted,
        limit: f64,
    ) -> Option<u32> {
        let question = (*hosted, asked, (fewest, most), limit);
        if let Some((_, answer)) = self.answers.iter().find(|(known, _)| *known == question) {
            return *answer;
        }
        let late = |problem: &mut Self, left: u32| {
            let seconds = problem.ends(asked.counts(most - left), hosted);
            // Just in time is too late.
            if seconds < limit { seconds - limit } else { seconds - limit + f64::EPSILON }
        };
        let answer = self.least(0, most - fewest, late).map(|left| most - left);
        self.answers.retain(|((of, which, ..), _)| of != hosted || !which.is_like(asked));
        self.answers.push((question, answer));
        answer
    }

    /// Of both halves of `range`, which is not single, the part that holds its best choice, as [`Self::narrowed`].
    pub fn halves(&mut self, range: &ChoiceRange, limit: f64) -> Vec<ChoiceRange> {
        range.halves().into_iter().filter_map(|half| self.narrowed(half, limit)).collect()
    }
}
