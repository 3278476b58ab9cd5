//! What no inner choice of an outer strategy can undercut as played: a branch and bound that plays.
//!
//! The closed form leaves out how collectives, copies and kernels slow each other down, up to some per cent. Playing
//! does not. The least that a set of choices has in common is a program itself: of each block the mode that recomputes
//! least, as little on the host as any of them keeps there, the quickest optimizer step. A choice of the set does the
//! same and more. If nothing slowed anything down, it would therefore end no earlier, and it does not end earlier than
//! that. But what runs together slows each other down, and there more work may let a step end earlier: what runs beside
//! a collective is then another kernel. It gains no more than the program has to spare: what its kernels wait for what
//! moves beside them (`tests/added_work.rs` looks for one that gains more). Where that is not near enough, the set is
//! cut in two. One choice alone is played as it is.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::cost::route::Route;
use crate::profile::choices::{Compression, OffloadCategory};
use crate::program::Layout;
use crate::search::choices::ChoiceRange;
use crate::search::closed_forms::ClosedForms;
use crate::search::inner::InnerProblem;
use crate::search::modes::{Modes, Recomputed};
use crate::search::playing::Hindered;
use crate::simulate::Below;
use crate::strategy::Strategy;
use crate::units::Seconds;

const PARAMETERS: usize = OffloadCategory::Parameters as usize;
const ACTIVATIONS: usize = OffloadCategory::Activations as usize;
const OPTIMIZER: usize = OffloadCategory::Optimizer as usize;

/// By this share a step to which work is added may gain more than it has to spare.
const SPARE: f64 = 1e-4;
/// By this share rounding may be off.
const ROUNDING: f64 = 1e-9;

/// What is known of all inner choices of an outer strategy under its cuts.
#[derive(Clone, Debug)]
pub struct Proof {
    /// None ends its step before so many seconds, as far as that is below what was looked for.
    pub lower: f64,
    /// Choices that do, each better than those before.
    pub better: Vec<Strategy>,
    /// What that took: instructions built, and events played.
    pub effort: u64,
    /// Whether anything was played.
    pub is_played: bool,
}

impl Proof {
    /// The proof of the choices of both.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.lower = self.lower.min(other.lower);
        self.better.extend(other.better);
        self.effort += other.effort;
        self.is_played |= other.is_played;
        self
    }
}

/// What to look for.
#[derive(Clone, Copy, Debug)]
pub struct Aim {
    /// Choices that take less are looked for, in seconds.
    pub best: f64,
    /// The bound that is enough.
    pub enough: f64,
    /// What it may take, likewise.
    pub effort: u64,
}

/// A set of choices: of each rank, those in any of its ranges.
struct Node {
    ranks: Vec<Vec<ChoiceRange>>,
    lower: f64,
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Node {}

impl PartialOrd for Node {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The lowest bound first.
impl Ord for Node {
    fn cmp(&self, other: &Self) -> Ordering {
        other.lower.total_cmp(&self.lower)
    }
}

/// What a set of choices has in common.
struct Relaxation {
    strategy: Strategy,
    /// The same with as many blocks recomputed as any of them does: no activations but those that it keeps are copied.
    copied: Strategy,
    /// By how many seconds its optimizer step may be longer than that of the quickest of them.
    spare: f64,
}

impl Relaxation {
    /// No choice of the set ends before so many seconds, as far as that is below `limit`; also what that took.
    fn lower(&self, closed_forms: &ClosedForms<'_>, limit: f64) -> (f64, u64) {
        let enough = (limit + self.spare) / (1.0 - SPARE);
        let play = |hindered, limit| {
            let below = closed_forms.play_relaxed((&self.strategy, &self.copied), hindered, Seconds(limit));
            match below {
                (Below::Played(playback), effort) => (Some(playback), effort),
                (Below::Slower(_), effort) => (None, effort),
            }
        };
        let (alone, mut effort) = play(Hindered::No, enough);
        let Some(alone) = alone else { return (limit, effort) };
        let (together, more) = play(Hindered::Yes, f64::INFINITY);
        effort += more;
        let together = together.map_or(0.0, |playback| {
            let waiting = playback.ranks.iter().map(|rank| rank.causes.waiting.0);
            (playback.step_time.0 - waiting.fold(0.0, f64::max)) * (1.0 - SPARE)
        });
        let lower = together.max(alone.step_time.0 * (1.0 - ROUNDING)) - self.spare;
        (lower.min(limit), effort)
    }
}

/// One outer strategy with its cuts.
struct Prover<'s, 'a, 'p> {
    inner: &'s InnerProblem<'a, 'p>,
    scratch: Strategy,
    layout: Layout,
}

/// Bounds all inner choices of `inner` under the cuts of `strategy` from below.
pub fn prove(inner: &InnerProblem<'_, '_>, strategy: &Strategy, aim: Aim) -> Proof {
    let mut proof = Proof { lower: aim.best, better: Vec::new(), effort: 0, is_played: false };
    if strategy.compression != Compression::None {
        // Where recomputation saves kernels that compress, less of it is not always quicker.
        return Proof { lower: 0.0, ..proof };
    }
    let Some(inner) = inner.knowing_first(strategy, strategy.cuts[0], aim.best) else { return proof };
    let inner = &inner;
    let layout = inner.closed_forms.whole_layout(inner.costs, strategy);
    let mut prover = Prover { inner, scratch: strategy.clone(), layout };
    let Some(ranks) = prover.everything(aim.best) else { return proof };
    let mut best = aim.best;
    let mut open = BinaryHeap::from([Node { ranks, lower: 0.0 }]);
    let mut uncut = f64::INFINITY;
    let is_single = |ranges: &Vec<ChoiceRange>| matches!(ranges.as_slice(), [range] if range.is_single());
    while let Some(node) = open.pop() {
        if node.lower >= aim.enough || proof.effort >= aim.effort || inner.closed_forms.deadline.is_over() {
            uncut = uncut.min(node.lower);
            break;
        }
        let relaxation = prover.relaxation(&node.ranks);
        proof.is_played = true;
        if node.ranks.iter().all(is_single) {
            let (_, below, effort) = inner.closed_forms.play_below(&relaxation.strategy, Seconds(best));
            proof.effort += effort;
            if let Below::Played(playback) = below
                && playback.step_time.0 < best
            {
                best = playback.step_time.0;
                proof.better.push(relaxation.strategy);
            }
            continue;
        }
        let (lower, effort) = relaxation.lower(inner.closed_forms, best);
        proof.effort += effort;
        let lower = lower.max(node.lower);
        if lower >= best {
            continue;
        }
        let Some((rank, parts)) = prover.cut(&node.ranks, best) else {
            // What cannot be cut keeps its bound.
            uncut = uncut.min(lower);
            continue;
        };
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let mut ranks = node.ranks.clone();
            ranks[rank] = part;
            open.push(Node { ranks, lower });
        }
    }
    proof.lower = best.min(uncut);
    proof
}

impl Prover<'_, '_, '_> {
    /// Everything that each rank may choose, if it is to end before `limit` seconds; none if a rank cannot.
    fn everything(&mut self, limit: f64) -> Option<Vec<Vec<ChoiceRange>>> {
        (0..self.scratch.pipeline as u32)
            .map(|stage| {
                let route = self.inner.route(&self.scratch, stage);
                let mut rank = self.inner.rank((&mut self.scratch, &mut self.layout), stage, route);
                let roots = rank.roots(limit);
                let ranges: Vec<ChoiceRange> =
                    roots.into_iter().filter_map(|root| rank.possible(root, limit)).collect();
                (!ranges.is_empty()).then_some(ranges)
            })
            .collect()
    }

    /// The least that all choices have in common.
    fn relaxation(&mut self, ranks: &[Vec<ChoiceRange>]) -> Relaxation {
        let mut spare = 0.0_f64;
        let mut copied = self.scratch.clone();
        for (stage, ranges) in ranks.iter().enumerate() {
            let mut rank =
                self.inner.rank((&mut self.scratch, &mut self.layout), stage as u32, Route::default());
            let fewest = |count: fn(&ChoiceRange) -> u32| ranges.iter().map(count).min().unwrap_or_default();
            let most = |count: fn(&ChoiceRange) -> u32| ranges.iter().map(count).max().unwrap_or_default();
            let counts =
                |full: u32, all: u32| Modes::All(Recomputed { full, selective: all.max(full) - full });
            let steps = ranges.iter().map(|range| (rank.step_of(&range.hosted), range.hosted));
            let quickest = steps.min_by(|one, other| one.0.total_cmp(&other.0));
            let Some((least, mut hosted)) = quickest else { continue };
            for category in [PARAMETERS, ACTIVATIONS] {
                hosted[category] = ranges.iter().map(|range| range.hosted[category]).fold(1.0, f64::min);
            }
            spare = spare.max(rank.step_of(&hosted) - least);
            let most = counts(most(|range| range.full.1), most(|range| range.recomputed.1));
            rank.write(&most, &hosted);
            for &chunk in &rank.strategy.chunks_of(stage as u64) {
                copied.checkpoint[chunk as usize] = rank.strategy.checkpoint[chunk as usize].clone();
            }
            rank.write(&counts(fewest(|range| range.full.0), fewest(|range| range.recomputed.0)), &hosted);
        }
        let facts = &self.inner.closed_forms.problem.facts;
        let mut strategy = self.scratch.clone();
        copied.offload = strategy.offload.clone();
        strategy.normalise(facts);
        copied.normalise(facts);
        Relaxation { strategy, copied, spare }
    }

    /// Cuts the choices of one rank in two: of that whose own best is farthest above what its choices have in common.
    fn cut(&mut self, ranks: &[Vec<ChoiceRange>], limit: f64) -> Option<(usize, [Vec<ChoiceRange>; 2])> {
        let open = |ranges: &[ChoiceRange]| !matches!(ranges, [range] if range.is_single());
        let mut widest: Option<(f64, usize)> = None;
        for (stage, ranges) in ranks.iter().enumerate().filter(|(_, ranges)| open(ranges)) {
            let fewest = |count: fn(&ChoiceRange) -> u32| ranges.iter().map(count).min().unwrap_or_default();
            let most = ranges.iter().map(|range| range.lower).fold(0.0, f64::max);
            let least = ranges.iter().map(|range| range.lower).fold(f64::INFINITY, f64::min);
            let counts =
                ranges.iter().map(|range| range.recomputed.1 + range.full.1).max().unwrap_or_default();
            let width = (most - least) / limit
                + f64::from(counts - fewest(|range| range.recomputed.0) - fewest(|range| range.full.0))
                    * 1e-3;
            if widest.is_none_or(|(known, _)| width > known) {
                widest = Some((width, stage));
            }
        }
        let (_, stage) = widest?;
        let mut ranges = ranks[stage].clone();
        if ranges.len() > 1 {
            let place = (0..ranges.len()).min_by(|&one, &other| {
                let order = ranges[one].lower.total_cmp(&ranges[other].lower);
                order.then(ranges[one].hosted[OPTIMIZER].total_cmp(&ranges[other].hosted[OPTIMIZER]))
            })?;
            let first = ranges.swap_remove(place);
            return Some((stage, [vec![first], ranges]));
        }
        let route = self.inner.route(&self.scratch, stage as u32);
        let mut rank = self.inner.rank((&mut self.scratch, &mut self.layout), stage as u32, route);
        if !rank.is_even {
            return None;
        }
        let range = ranges[0];
        // The choice that does the least is likely the best, if it fits.
        if rank.fits(range.fewest(), &range.hosted) {
            let others = range.others().into_iter().filter_map(|other| rank.possible(other, limit));
            return Some((stage, [vec![range.fewest_alone()], others.collect()]));
        }
        let halves = range.halves().map(|half| rank.possible(half, limit).into_iter().collect());
        Some((stage, halves))
    }
}
