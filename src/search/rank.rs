//! The inner choice of one pipeline rank: which of its blocks recompute what, and what it keeps on the host.
//!
//! Ranks meet only in the bound's maximum, so each chooses for itself the least time that fits its memory, which is
//! counted to the byte. Of its blocks the first recompute wholly, the next selectively, the rest not at all: those in
//! front are held longest. Blocks of one kind are interchangeable, so counts are all there is to choose; where a rank
//! has several kinds, an integer programme says how many of each.
//!
//! It is a branch and bound. A [`ChoiceRange`] is a set of choices: one split between device and host, and counts
//! between two bounds. Recomputation only adds work and takes away memory, so the fewest counts bound the time of
//! all of them from below, and the most counts say whether any fits. The copies of activations are the exception: they
//! shrink with recomputation, so a range is bounded by its passes without them, and by the copies that the most leave.

use crate::cost::bound::Bound;
use crate::cost::route::{Parts, Route};
use crate::profile::choices::{CheckpointMode, Compression, OffloadCategory};
use crate::program::Layout;
use crate::search::choices::{ChoiceRange, Hosted, NOTHING, Options, RankChoice, without_activations};
use crate::search::closed::{Closing, OuterForms};
use crate::search::integer::{self, Kind};
use crate::search::modes::{Modes, Recomputed};
use crate::strategy::Strategy;

/// Up to so many blocks of a rank each choice of what they recompute is looked at by itself.
const FEW: u32 = 3;

/// Integer programmes for one choice of what is on the host.
const MOST_PROGRAMMES: usize = 4;

/// Splits between device and host that are looked at for blocks of several kinds, once one of them fits.
const MOST_SPLITS: usize = 4;

/// Ranges that one rank's search looks at before it takes the best choice that it knows.
const MOST_RANGES: usize = 200;

/// The best choice that is known is good enough if no other ends by more than this share earlier.
const SETTLED: f64 = 2e-4;

/// Bytes that a choice takes more than device and host have.
#[derive(Clone, Copy, Debug)]
struct Over {
    device: f64,
    host: f64,
}

/// One rank of a strategy whose cuts are in place.
pub struct RankProblem<'a, 'p> {
    pub closing: &'a Closing<'p>,
    pub forms: &'a OuterForms<'p>,
    pub strategy: &'a mut Strategy,
    pub stage: u32,
    layout: &'a mut Layout,
    chunks: Vec<usize>,
    /// How many blocks it has, and whether all are of one class.
    pub blocks: u32,
    pub is_even: bool,
    /// What stands before and behind it.
    route: Route,
    /// Checkpoint modes are free.
    pub recomputes: bool,
    /// What may be kept on the host.
    pub hosted: Vec<Hosted>,
    /// Seconds of optimizer steps, by what is on the host but activations: what is recomputed is nothing to them.
    steps: Vec<(Hosted, f64)>,
    /// Another layout of it, for what is copied of a choice that recomputes more.
    copied: Option<Layout>,
    /// The choice that strategy and layout have.
    written: Option<(Modes, Hosted)>,
    /// How many blocks end in time, as it was asked last: of what on the host, how many and until when.
    answers: Vec<((Hosted, Asked, (u32, u32), f64), Option<u32>)>,
}

/// Which of a rank's blocks are counted.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Asked {
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

impl<'a, 'p> RankProblem<'a, 'p> {
    /// Rank `stage` of `strategy`, which `layout` places, on `route`.
    pub fn new(
        (closing, forms): (&'a Closing<'p>, &'a OuterForms<'p>),
        (strategy, layout): (&'a mut Strategy, &'a mut Layout),
        (stage, route): (u32, Route),
        options: &Options,
    ) -> Self {
        let supports = &closing.problem.engine.supports;
        let offloads_parameters = strategy.zero >= supports.parameter_offload_from_zero;
        let hosted = match &options.hosted {
            Some(hosted) => {
                let allows = |hosted: &&Hosted| {
                    offloads_parameters || hosted[OffloadCategory::Parameters as usize] == 0.0
                };
                hosted.iter().filter(allows).copied().collect()
            }
            None => {
                let fraction = |&category| strategy.offload.fraction(category, stage as usize);
                let mut fixed = NOTHING;
                fixed
                    .iter_mut()
                    .zip(OffloadCategory::ALL)
                    .for_each(|(slot, category)| *slot = fraction(category));
                vec![fixed]
            }
        };
        let recomputes = options.recomputes;
        let chunks = strategy.chunks_of(u64::from(stage));
        let chunks: Vec<usize> = chunks.into_iter().map(|chunk| chunk as usize).collect();
        let blocks = chunks.iter().map(|&chunk| strategy.cuts[chunk]).sum();
        let is_even = {
            let mut classes = chunks.iter().flat_map(|&chunk| layout.block_classes(chunk));
            classes.next().is_none_or(|first| classes.all(|class| class == first))
        };
        Self {
            closing,
            forms,
            strategy,
            stage,
            layout,
            chunks,
            blocks,
            is_even,
            route,
            recomputes,
            hosted,
            steps: Vec::new(),
            copied: None,
            written: None,
            answers: Vec::new(),
        }
    }

    /// The same with optimizer steps that are known.
    #[must_use]
    pub fn knowing(mut self, steps: &[(Hosted, f64)]) -> Self {
        self.steps = steps.to_vec();
        self
    }

    /// The optimizer steps that were looked at.
    pub fn into_steps(self) -> Vec<(Hosted, f64)> {
        self.steps
    }

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
            if self.closing.deadline.is_over() {
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
                false => self.looked_into(range, known).into_iter().collect(),
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

    /// Whether any choice of `roots` that ends before `limit` seconds may fit the device: as much recomputed as there is
    /// time for if nothing is copied and the optimizer step is the quickest of all, and no optimizer state there.
    fn may_fit(&mut self, roots: &[ChoiceRange], limit: f64) -> bool {
        if !self.recomputes {
            return true;
        }
        let steps = roots.iter().map(|root| self.step_of(&root.hosted));
        let step = steps.fold(f64::INFINITY, f64::min);
        let late = |problem: &mut Self, left: u32| {
            problem.write(&Modes::All(Recomputed { full: problem.blocks - left, selective: 0 }), &NOTHING);
            let bound = problem.closing.time(problem.forms, problem.strategy, problem.layout);
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

    /// Of blocks of several kinds: how many of each recompute.
    fn best_of_kinds(&mut self, limit: f64) -> Option<RankChoice> {
        let mut best: Option<RankChoice> = None;
        let mut lower = f64::INFINITY;
        let mut roots = self.roots(limit);
        roots.sort_by(|one, other| one.lower.total_cmp(&other.lower));
        for (turn, root) in roots.into_iter().enumerate() {
            let known = best.as_ref().map_or(limit, |best| best.seconds);
            let is_enough = best.is_some() && turn >= MOST_SPLITS;
            if root.lower >= known || is_enough || self.closing.deadline.is_over() {
                break;
            }
            // Programmes add bytes up, which is near the truth and no bound: whatever they find, the root's bound stands.
            lower = lower.min(root.lower);
            let (nothing, hosted) = (Recomputed::default(), root.hosted);
            if self.fits(nothing, &hosted) {
                let (modes, seconds) = (Modes::All(nothing), self.ends(nothing, &hosted));
                let choice = RankChoice { modes, hosted, seconds, lower };
                best = Some(choice).filter(|choice| choice.seconds < known).or(best);
            } else if self.recomputes && self.fits(Recomputed { full: self.blocks, selective: 0 }, &hosted) {
                best = self.mixed(&hosted, known).or(best);
            }
        }
        let lower = lower.min(limit);
        best.map(|best| RankChoice { lower: lower.min(best.seconds), ..best })
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
            if self.closing.deadline.is_over() {
                break;
            }
            let fetched = hosted[OffloadCategory::Parameters as usize];
            let known = passes.iter().find(|(known, _)| *known == fetched).map(|(_, parts)| *parts);
            let parts = known.unwrap_or_else(|| {
                self.write(&Modes::All(Recomputed::default()), &without_activations(hosted));
                let bound = self.closing.time(self.forms, self.strategy, self.layout);
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

    /// `range` without counts under which nothing fits, or that end no earlier than `limit` seconds; none if that is all.
    pub fn looked_into(&mut self, mut range: ChoiceRange, limit: f64) -> Option<ChoiceRange> {
        let hosted = range.hosted;
        let copied = hosted[OffloadCategory::Activations as usize] > 0.0;
        let quiet = without_activations(hosted);
        if !self.is_even {
            let most = Recomputed { full: range.full.1, selective: 0 };
            return self.fits(most, &hosted).then_some(range);
        }
        if !copied && self.fits(range.fewest(), &hosted) {
            range.full.1 = range.full.0;
            range.recomputed.1 = range.recomputed.0;
            range.lower = range.lower.max(self.ends(range.fewest(), &hosted));
            return (range.lower < limit).then_some(range);
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
        if copied {
            // What fits without these copies is better off without them.
            if self.hosted.contains(&quiet) && self.fits(range.fewest(), &quiet) {
                return None;
            }
        } else if range.full.0 == range.full.1 || self.fits(range.fewest(), &hosted) {
            range.full.1 = range.full.0;
            range.recomputed.1 = range.recomputed.0;
        }
        range.lower = range.lower.max(self.lower(&range));
        (range.lower < limit).then_some(range)
    }

    /// When the step ends at the earliest under any choice of `range`: what the fewest recompute, with the copies that the
    /// most leave.
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
        let bound = Bound { copied: &copied, ..self.closing.time(self.forms, self.strategy, self.layout) };
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

    /// Both halves of `range`, which is not single, as far as they may fit and end before `limit` seconds.
    pub fn halves(&mut self, range: &ChoiceRange, limit: f64) -> Vec<ChoiceRange> {
        let cut = |(low, high): (u32, u32)| {
            let middle = low + (high - low) / 2;
            [(low, middle), (middle + 1, high)]
        };
        let halves = if range.full.0 < range.full.1 {
            cut(range.full).map(|full| {
                let recomputed = (range.recomputed.0.max(full.0), range.recomputed.1);
                ChoiceRange { full, recomputed, ..*range }
            })
        } else {
            cut(range.recomputed).map(|recomputed| ChoiceRange { recomputed, ..*range })
        };
        halves.into_iter().filter_map(|half| self.looked_into(half, limit)).collect()
    }

    /// Splits between device and host that differ from `hosted` by no more than `step` in one category.
    pub fn near(&self, hosted: &Hosted, step: f64) -> Vec<Hosted> {
        let distance =
            |other: &&Hosted| other.iter().zip(hosted).map(|(one, other)| (one - other).abs()).sum::<f64>();
        self.hosted.iter().filter(|other| distance(other) <= step + f64::EPSILON).copied().collect()
    }

    /// Whether the rank has so many blocks, and may choose what they recompute.
    pub fn is_possible(&self, Recomputed { full, selective }: Recomputed) -> bool {
        (self.recomputes && full + selective <= self.blocks) || full + selective == 0
    }

    /// The fewest blocks that recompute selectively so that the rank fits, beside `full` ones.
    pub fn fewest_selective(&mut self, full: u32, hosted: &Hosted) -> Option<u32> {
        let most = if self.recomputes { self.blocks.checked_sub(full)? } else { 0 };
        self.least(0, most, |problem, selective| problem.over_all(Recomputed { full, selective }, hosted))
    }

    /// Whether the device has room if everything is recomputed and on the host that can be.
    pub fn could_fit(&mut self) -> bool {
        let mut most = NOTHING;
        for hosted in &self.hosted {
            for (most, &fraction) in most.iter_mut().zip(hosted) {
                *most = fraction.max(*most);
            }
        }
        let full = if self.recomputes { self.blocks } else { 0 };
        self.over(&Modes::All(Recomputed { full, selective: 0 }), &most).device <= 0.0
    }

    /// The least number from `low` to `high` that is not over, which more brings down about evenly: `over` says by how much.
    fn least(&mut self, low: u32, high: u32, over: impl Fn(&mut Self, u32) -> f64) -> Option<u32> {
        if low > high {
            return None;
        }
        let (mut low, mut high) = (low, high);
        let mut least = over(self, low);
        if least <= 0.0 {
            return Some(low);
        }
        let mut most = over(self, high);
        if low == high || most > 0.0 {
            return None;
        }
        let mut turn = 0;
        while high - low > 1 && !self.closing.deadline.is_over() {
            // Where a straight line says, and every third time in the middle.
            turn += 1;
            let share = if turn % 3 == 0 { 0.5 } else { least / (least - most) };
            let middle = low + ((f64::from(high - low) * share).ceil() as u32).clamp(1, high - low - 1);
            let at = over(self, middle);
            if at <= 0.0 {
                (high, most) = (middle, at);
            } else {
                (low, least) = (middle, at);
            }
        }
        Some(high)
    }

    /// What the rank has to do if it recomputes nothing and keeps nothing on the host but what is fixed, with the least
    /// optimizer step of all splits between device and host.
    pub fn plain(&mut self) -> Parts {
        let first = without_activations(self.hosted[0]);
        self.write(&Modes::All(Recomputed::default()), &first);
        let parts = self.parts(&first);
        let others = self.hosted.clone();
        let steps = others.iter().skip(1).map(|hosted| self.step_of(hosted));
        let step = steps.fold(parts.step, f64::min);
        self.write(&Modes::All(Recomputed::default()), &first);
        Parts { step, ..parts }
    }

    /// Seconds of the optimizer step with `hosted` on the host.
    pub fn step_of(&mut self, hosted: &Hosted) -> f64 {
        let hosted = without_activations(*hosted);
        if self.steps.iter().all(|(known, _)| *known != hosted) {
            self.write(&Modes::All(Recomputed::default()), &hosted);
        }
        self.optimizer_step(&hosted)
    }

    /// The parts of the choice that is written down, of which `hosted` is on the host.
    fn parts(&mut self, hosted: &Hosted) -> Parts {
        let bound = self.closing.time(self.forms, self.strategy, self.layout);
        let parts = bound.parts_before_step(self.stage);
        Parts { step: self.optimizer_step(hosted), ..parts }
    }

    /// Seconds of the optimizer step of what is written down, of which `hosted` is on the host.
    fn optimizer_step(&mut self, hosted: &Hosted) -> f64 {
        let hosted = without_activations(*hosted);
        let known = self.steps.iter().find(|(known, _)| *known == hosted);
        known.map(|(_, step)| *step).unwrap_or_else(|| {
            let step = self.closing.optimizer_step(self.forms, self.strategy, self.layout, self.stage);
            self.steps.push((hosted, step));
            step
        })
    }

    /// When the rank's step ends under a choice.
    fn ends(&mut self, recomputed: Recomputed, hosted: &Hosted) -> f64 {
        self.write(&Modes::All(recomputed), hosted);
        self.parts(hosted).end(&self.route)
    }

    /// Whether a choice fits device and host.
    pub fn fits(&mut self, recomputed: Recomputed, hosted: &Hosted) -> bool {
        self.over_all(recomputed, hosted) <= 0.0
    }

    /// Bytes that a choice takes more than device or host have.
    fn over_all(&mut self, recomputed: Recomputed, hosted: &Hosted) -> f64 {
        let over = self.over(&Modes::All(recomputed), hosted);
        over.device.max(over.host)
    }

    /// What a choice, which is written down, takes more than there is.
    fn over(&mut self, modes: &Modes, hosted: &Hosted) -> Over {
        self.write(modes, hosted);
        let (peak, host) = self.closing.peaks(self.forms, self.strategy, self.layout, self.stage);
        let problem = self.closing.problem;
        let process = problem.process_memory(self.strategy, peak).process;
        Over {
            device: process.0 as f64 - problem.memory_limit.0 as f64,
            host: host.0 as f64 - problem.cluster.host_memory_per_device().0 as f64,
        }
    }

    /// Of blocks of several kinds, how many of each recompute so that the rank has room in the least time: bytes and
    /// seconds of a block are taken to add up, what they add up to is counted exactly, and what it is over is taken off
    /// the room.
    fn mixed(&mut self, hosted: &Hosted, limit: f64) -> Option<RankChoice> {
        let found = self.closing.kinds(self.forms, self.strategy, self.layout, self.stage);
        let kinds: Vec<Kind> = found.iter().map(|found| found.kind.clone()).collect();
        let all_kept =
            |kind: &Kind| f64::from(kind.count) * kind.modes.first().map_or(0.0, |mode| mode.bytes);
        let plain = self.over(&Modes::All(Recomputed::default()), hosted);
        let mut room = kinds.iter().map(all_kept).sum::<f64>() - plain.device;
        for _ in 0..MOST_PROGRAMMES {
            let counts = integer::modes(&kinds, room)?;
            let recomputed = counts.iter().map(|counts| Recomputed {
                full: counts.get(CheckpointMode::Full as usize).copied().unwrap_or_default(),
                selective: counts.get(CheckpointMode::Selective as usize).copied().unwrap_or_default(),
            });
            let kinds = found.iter().zip(recomputed);
            let modes =
                Modes::Kinds(kinds.map(|(found, counts)| (found.chunk, found.class, counts)).collect());
            let over = self.over(&modes, hosted);
            if over.device <= 0.0 {
                let seconds = self.parts(hosted).end(&self.route);
                let wins = over.host <= 0.0 && seconds < limit;
                return wins.then_some(RankChoice { modes, hosted: *hosted, seconds, lower: seconds });
            }
            room -= over.device;
        }
        None
    }

    /// Writes a choice into the strategy, and into its layout.
    pub fn write(&mut self, modes: &Modes, hosted: &Hosted) {
        if self.written.as_ref().is_some_and(|written| written.0 == *modes && written.1 == *hosted) {
            return;
        }
        self.written = Some((modes.clone(), *hosted));
        if self.recomputes {
            modes.write(self.strategy, self.layout, &self.chunks);
        }
        for (&category, &fraction) in OffloadCategory::ALL.iter().zip(hosted) {
            let stages = self.strategy.pipeline as usize;
            let fractions = self.strategy.offload.fractions_mut(category);
            if fractions.is_empty() && fraction > 0.0 {
                *fractions = vec![0.0; stages];
            }
            if let Some(slot) = fractions.get_mut(self.stage as usize) {
                *slot = fraction;
            }
        }
        self.layout.choose(self.strategy, self.stage);
    }
}
