//! What no inner choice of an outer strategy can undercut as played: a branch and bound that plays.
//!
//! The closed form leaves out how collectives, copies and kernels slow each other down, up to some per cent. Playing
//! does not. And a step to which work is added never ends earlier (`tests/added_work.rs` looks for one that does), so
//! playing the least that a set of choices has in common bounds all of them from below: of each block the mode that
//! recomputes least, as little on the host as any of them keeps there, the quickest optimizer step. If that is one
//! of them, it is the best of them. Otherwise the set is cut in two.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::profile::choices::OffloadCategory;
use crate::program::Layout;
use crate::search::inner::InnerProblem;
use crate::search::modes::{Modes, Recomputed};
use crate::search::rank::{ChoiceRange, Hosted, without_activations};
use crate::simulate::Below;
use crate::strategy::Strategy;
use crate::units::Seconds;

const PARAMETERS: usize = OffloadCategory::Parameters as usize;
const OPTIMIZER: usize = OffloadCategory::Optimizer as usize;

/// What is known of all inner choices of an outer strategy under its cuts.
#[derive(Clone, Debug)]
pub struct Proof {
    /// None ends its step before so many seconds, as far as that is below what was looked for.
    pub lower: f64,
    /// Choices that do, each better than those before.
    pub better: Vec<Strategy>,
    /// Steps that were played.
    pub played: usize,
}

/// What to look for.
#[derive(Clone, Copy, Debug)]
pub struct Aim {
    /// Choices that take less are looked for, in seconds.
    pub best: f64,
    /// The bound that is enough.
    pub enough: f64,
    /// Steps that are played at the most.
    pub plays: usize,
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

/// One outer strategy with its cuts.
struct Prover<'s, 'a, 'p> {
    inner: &'s InnerProblem<'a, 'p>,
    scratch: Strategy,
    layout: Layout,
}

/// Bounds all inner choices of `inner` under the cuts of `strategy` from below.
pub fn prove(inner: &InnerProblem<'_, '_>, strategy: &Strategy, aim: Aim) -> Proof {
    let layout = inner.closing.whole_layout(inner.forms, strategy);
    let mut prover = Prover { inner, scratch: strategy.clone(), layout };
    let mut proof = Proof { lower: aim.best, better: Vec::new(), played: 0 };
    let Some(ranks) = prover.everything(aim.best) else { return proof };
    let mut best = aim.best;
    let mut open = BinaryHeap::from([Node { ranks, lower: 0.0 }]);
    while let Some(node) = open.pop() {
        if node.lower >= aim.enough || proof.played >= aim.plays {
            proof.lower = node.lower.min(best);
            return proof;
        }
        let (least, spare) = prover.least(&node.ranks);
        proof.played += 1;
        let (_, played) = inner.closing.play_below(&least, Seconds(best + spare));
        let Below::Played(playback) = played else { continue };
        let lower = (playback.step_time.0 - spare).max(node.lower);
        if node.ranks.iter().all(|ranges| matches!(ranges.as_slice(), [range] if range.is_single())) {
            if lower < best {
                best = lower;
                proof.better.push(least);
            }
            continue;
        }
        if lower >= best {
            continue;
        }
        let Some((rank, parts)) = prover.cut(&node.ranks, best) else {
            // Nothing is left to cut: the bound stays as it is.
            proof.lower = lower.min(best);
            return proof;
        };
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let mut ranks = node.ranks.clone();
            ranks[rank] = part;
            open.push(Node { ranks, lower });
        }
    }
    proof.lower = best;
    proof
}

impl Prover<'_, '_, '_> {
    /// Everything that each rank may choose, if it is to end before `limit` seconds; none if a rank cannot.
    fn everything(&mut self, limit: f64) -> Option<Vec<Vec<ChoiceRange>>> {
        (0..self.scratch.pipeline as u32)
            .map(|stage| {
                let way = self.inner.way(&self.scratch, stage);
                let mut rank = self.inner.rank((&mut self.scratch, &mut self.layout), stage, way);
                let roots = rank.roots(limit);
                let ranges: Vec<ChoiceRange> =
                    roots.into_iter().filter_map(|root| rank.looked_into(root, limit)).collect();
                (!ranges.is_empty()).then_some(ranges)
            })
            .collect()
    }

    /// The least that all choices have in common, as a strategy; and by how many seconds its optimizer step may be longer
    /// than that of the quickest of them.
    fn least(&mut self, ranks: &[Vec<ChoiceRange>]) -> (Strategy, f64) {
        let mut spare = 0.0_f64;
        for (stage, ranges) in ranks.iter().enumerate() {
            let mut rank = self.inner.rank((&mut self.scratch, &mut self.layout), stage as u32, 0.0);
            if let [range] = ranges.as_slice()
                && range.is_single()
            {
                rank.write(&Modes::All(range.fewest()), &range.hosted);
                continue;
            }
            let fewest = |count: fn(&ChoiceRange) -> u32| ranges.iter().map(count).min().unwrap_or_default();
            let full = fewest(|range| range.full.0);
            let recomputed =
                Recomputed { full, selective: fewest(|range| range.recomputed.0).max(full) - full };
            let steps: Vec<(f64, Hosted)> =
                ranges.iter().map(|range| (rank.step_of(&range.hosted), range.hosted)).collect();
            let quickest = steps.iter().min_by(|one, other| one.0.total_cmp(&other.0));
            let Some(&(least, quickest)) = quickest else { continue };
            let parameters = ranges.iter().map(|range| range.hosted[PARAMETERS]).fold(1.0, f64::min);
            let mut hosted = without_activations(quickest);
            hosted[PARAMETERS] = parameters;
            spare = spare.max(rank.step_of(&hosted) - least);
            rank.write(&Modes::All(recomputed), &hosted);
        }
        let mut strategy = self.scratch.clone();
        strategy.normalise(&self.inner.closing.problem.facts);
        (strategy, spare)
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
        let way = self.inner.way(&self.scratch, stage as u32);
        let mut rank = self.inner.rank((&mut self.scratch, &mut self.layout), stage as u32, way);
        if !rank.is_even() {
            return None;
        }
        let halves = rank.halves(&ranges[0], limit);
        let mut halves = halves.into_iter().map(|half| vec![half]);
        Some((stage, [halves.next().unwrap_or_default(), halves.next().unwrap_or_default()]))
    }
}
