//! The simplest of plans whose upper ends are low enough: the least on the host, the fewest words, the shortest step.
//!
//! The choice is made among plain strategies: every mesh, schedule and state, ranks in their default order, blocks cut
//! and recomputed alike, whole categories on the host. How much a strategy keeps there and how many words it takes is
//! known before anything is priced, so they are looked at in that order, and the first kind of which one is good enough
//! settles it.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::hosted;
use super::upper_end::UpperEnds;
use super::words::words;
use crate::profile::capabilities::CheckpointGrain;
use crate::profile::choices::OffloadCategory;
use crate::search::bounding::Entry;
use crate::search::closed_forms::{Closed, ClosedForms};
use crate::search::problem::{Candidate, Problem};
use crate::search::solve::Solving;
use crate::strategy::{CheckpointEntry, CheckpointMode, Strategy, rules};

/// The most strategies whose closed forms are looked at.
const MOST_CLOSED: usize = 60_000;
/// Of a kind, the most that are played.
const MOST_PLAYED: usize = 12;

/// How far a strategy is from plain, in the order in which it counts; its time comes after all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// Categories of which anything is on the host.
    on_host: usize,
    words: usize,
}

/// A plain strategy, not yet closed.
struct Plain<'e> {
    entry: &'e Entry,
    checkpoint: CheckpointEntry,
    offload: Vec<OffloadCategory>,
}

/// The choice of the simplest plan.
pub struct Simplest<'s, 'p, 'q, 'a> {
    /// What plans have to fit.
    pub problem: &'s Problem<'q>,
    pub solving: &'s Solving<'a>,
    pub ends: &'s UpperEnds<'p, 'q>,
    /// The upper end that is low enough, in seconds.
    pub limit: f64,
}

impl<'s, 'a> Simplest<'s, '_, '_, 'a> {
    /// The simplest of `plans` and of the plain strategies of `entries`.
    pub fn choose(&self, entries: &[Entry], plans: &[Candidate]) -> Option<Candidate> {
        let known = plans.iter().filter(|plan| self.ends.of(plan).0 <= self.limit);
        let known = known.map(|plan| (self.rank(&plan.strategy), plan)).min_by(|one, other| {
            let time = |plan: &Candidate| plan.playback.step_time.0;
            one.0.cmp(&other.0).then(time(one.1).total_cmp(&time(other.1)))
        });
        let below = known.map(|(rank, _)| rank);
        self.first(&self.ranked(entries), below).or_else(|| known.map(|(_, plan)| plan.clone()))
    }

    const fn closed_forms(&self) -> &'s ClosedForms<'a> {
        self.solving.closed_forms
    }

    fn rank(&self, strategy: &Strategy) -> Rank {
        Rank { on_host: hosted(strategy), words: words(strategy, &self.problem.facts) }
    }

    /// Seconds that a step of `strategy` may take.
    fn seconds(&self, strategy: &Strategy) -> f64 {
        self.limit / self.ends.ratio(strategy)
    }

    /// The plain strategies of `entries`, by how good they are.
    fn ranked<'e>(&self, entries: &'e [Entry]) -> BTreeMap<Rank, Vec<Plain<'e>>> {
        let mut ranked: BTreeMap<Rank, Vec<Plain<'e>>> = BTreeMap::new();
        let most = self.limit / self.ends.least_ratio();
        for entry in entries.iter().filter(|entry| entry.lower_bound <= most) {
            if self.closed_forms().deadline.is_over() {
                break;
            }
            let outer = self.solving.bounding.space.strategy(entry);
            for checkpoint in self.checkpoints() {
                for offload in self.offloads() {
                    let plain = Plain { entry, checkpoint: checkpoint.clone(), offload };
                    // A partial mode is a whole one as far as rank goes, but for one word.
                    let Some(strategy) = self.written(&outer, &plain, 1) else { continue };
                    if entry.lower_bound <= self.seconds(&strategy) {
                        ranked.entry(self.rank(&strategy)).or_default().push(plain);
                    }
                }
            }
        }
        ranked
    }

    /// The fastest of the first kind below `below`, or of all, of which one is good enough and fits.
    fn first(&self, ranked: &BTreeMap<Rank, Vec<Plain<'_>>>, below: Option<Rank>) -> Option<Candidate> {
        let mut closed = 0;
        let better = ranked.iter().take_while(|(rank, _)| below.is_none_or(|below| **rank < below));
        for (_, plain) in better {
            if self.closed_forms().deadline.is_over() || closed > MOST_CLOSED {
                return None;
            }
            closed += plain.len();
            let look = |plain: &Plain<'_>| self.closed(plain);
            let mut fitting: Vec<(Strategy, Closed)> = plain.par_iter().filter_map(look).collect();
            fitting.sort_by(|one, other| one.1.likely.0.total_cmp(&other.1.likely.0));
            let mut best: Option<Candidate> = None;
            for (strategy, closed) in fitting.into_iter().take(MOST_PLAYED) {
                let fastest = best.as_ref().map_or(f64::INFINITY, |best| best.playback.step_time.0);
                let limit = self.seconds(&strategy).min(fastest);
                if closed.bound.0 > limit {
                    continue;
                }
                let Some(candidate) = self.closed_forms().play(strategy) else { continue };
                if self.problem.fits(&candidate) && candidate.playback.step_time.0 <= limit {
                    best = Some(candidate);
                }
            }
            if best.is_some() {
                return best;
            }
        }
        None
    }

    /// `plain` written out with its closed forms, if it may be good enough and fits.
    fn closed(&self, plain: &Plain<'_>) -> Option<(Strategy, Closed)> {
        let outer = self.solving.bounding.space.strategy(plain.entry);
        let fits = |closed: &Closed| self.closed_forms().fits(closed);
        let of = |count: u32| {
            let strategy = self.written(&outer, plain, count)?;
            let closed = self.closed_forms().close(&strategy);
            Some((strategy, closed))
        };
        let found = match plain.checkpoint {
            CheckpointEntry::First(_) => {
                // The fewest blocks that make it fit.
                let most = self.problem.facts.blocks.div_ceil(outer.chunks() as u32).checked_sub(1)?;
                let (mut low, mut high) = (0, most);
                if most == 0 || !fits(&of(most)?.1) {
                    return None;
                }
                while high - low > 1 {
                    let middle = low + (high - low) / 2;
                    if fits(&of(middle)?.1) { high = middle } else { low = middle }
                }
                of(high)?
            }
            _ => of(0)?,
        };
        (found.1.bound.0 <= self.seconds(&found.0) && fits(&found.1)).then_some(found)
    }

    /// `outer` with the inner choices of `plain`, if that is legal and says what it does.
    fn written(&self, outer: &Strategy, plain: &Plain<'_>, count: u32) -> Option<Strategy> {
        let space = self.solving.bounding.space;
        let facts = &space.problem.facts;
        let cuts = space.plainest_cuts(outer);
        let entry = match &plain.checkpoint {
            CheckpointEntry::First(_) => CheckpointEntry::First(count),
            other => other.clone(),
        };
        let checkpoint = match &space.request.fix.checkpoint {
            Some(_) => space.request.fix.checkpoints(&cuts),
            None => cuts.iter().map(|&blocks| entry.over(blocks)).collect(),
        };
        let mut strategy = Strategy { checkpoint, cuts, ..outer.clone() };
        for &category in &plain.offload {
            *strategy.offload.fractions_mut(category) = vec![1.0; strategy.pipeline as usize];
        }
        strategy.normalise(facts);
        rules::legal(&strategy, facts).then_some(strategy)
    }

    /// What all blocks may recompute; the first blocks of each chunk stand last.
    fn checkpoints(&self) -> Vec<CheckpointEntry> {
        let space = self.solving.bounding.space;
        if space.request.fix.checkpoint.is_some() {
            return vec![CheckpointEntry::Whole(CheckpointMode::None)];
        }
        let supports = &space.problem.engine.supports;
        let modes = supports.checkpoint.iter().map(|mode| CheckpointEntry::Whole(*mode));
        let is_partial = *supports.checkpoint_grain != CheckpointGrain::All;
        modes.chain(is_partial.then_some(CheckpointEntry::First(1))).collect()
    }

    /// What may be on the host as a whole: nothing, or some of the categories.
    fn offloads(&self) -> Vec<Vec<OffloadCategory>> {
        let space = self.solving.bounding.space;
        if space.request.fix.offload.is_some() {
            return vec![Vec::new()];
        }
        let mut sets = vec![Vec::new()];
        for category in space.problem.engine.supports.offloads() {
            let with = sets.iter().map(|set: &Vec<_>| [set.as_slice(), &[category]].concat());
            let with: Vec<_> = with.collect();
            sets.extend(with);
        }
        sets
    }
}
