//! The plan that somebody would run: of all strategies within a tolerance of the fastest, one that fits even if memory is
//! at the upper end of its interval, that keeps the least on the host, that uses the fewest features without evidence,
//! and that is the simplest to state.
//!
//! The choice is made among plain strategies: every mesh, schedule and state, ranks in their default order, blocks cut
//! and recomputed alike, whole categories on the host. How much a strategy keeps there, how much evidence it has and how
//! many words is known before anything is priced, so they are looked at in that order, and the first kind of which one
//! is fast enough settles it.

use std::collections::{BTreeMap, HashMap};

use rayon::prelude::*;

use crate::profile::capabilities::CheckpointGrain;
use crate::profile::choices::{Compression, Feature, LossMode, OffloadCategory, Schedule};
use crate::search::bounding::Entry;
use crate::search::closed_forms::{Closed, ClosedForms};
use crate::search::problem::{Candidate, Problem};
use crate::search::solve::Solving;
use crate::strategy::features::features;
use crate::strategy::{Checkpoint, CheckpointEntry, CheckpointMode, Facts, Strategy, cuts, defaults, rules};

/// The most strategies whose closed forms are looked at.
const MOST_CLOSED: usize = 60_000;
/// Of a kind, the most that are played.
const MOST_PLAYED: usize = 12;

/// How far a strategy is from plain, in the order in which it counts; its time comes after all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// Categories of which anything is on the host.
    on_host: usize,
    /// Features that no measured run covers.
    unvalidated: usize,
    words: usize,
}

/// A plain strategy, not yet closed.
struct Plain<'e> {
    entry: &'e Entry,
    checkpoint: CheckpointEntry,
    offload: Vec<OffloadCategory>,
}

/// The plan that somebody would run in place of `fastest`, of those that take at most `tolerance` more; `entries` are
/// the outer strategies whose lower bounds are that low, and `played` what the search played.
pub fn choose(
    solving: &Solving<'_>,
    entries: &[Entry],
    (fastest, played): (&Candidate, &[Candidate]),
    tolerance: f64,
) -> Option<Candidate> {
    let problem = solving.closed_forms.problem;
    let judge = Judge {
        problem,
        solving,
        limit: fastest.playback.step_time.0 * (1.0 + tolerance),
        memory: problem.half_widths(fastest).memory,
    };
    let by_rank = judge.ranked(entries);
    let known: Vec<(Rank, &Candidate)> = played
        .iter()
        .filter(|candidate| candidate.playback.step_time.0 <= judge.limit)
        .map(|candidate| (judge.rank(&candidate.strategy), candidate))
        .collect();
    // First with room for what memory may be off by; if no plan has that, without.
    [true, false].into_iter().find_map(|has_room| {
        let known = known.iter().filter(|(_, candidate)| !has_room || judge.has_room(candidate));
        let simplest = known.min_by(|one, other| {
            let time = |candidate: &Candidate| candidate.playback.step_time.0;
            one.0.cmp(&other.0).then(time(one.1).total_cmp(&time(other.1)))
        });
        let below = simplest.map(|(rank, _)| *rank);
        judge.first(&by_rank, below, has_room).or_else(|| simplest.map(|(_, candidate)| (*candidate).clone()))
    })
}

/// Why `winner` was chosen though `other` is faster, as it reads on after `which`.
pub fn reasons(problem: &Problem<'_>, winner: &Candidate, other: &Candidate) -> String {
    let doubts = |candidate: &Candidate| problem.coverage(&candidate.strategy).unvalidated.len();
    let words = |candidate: &Candidate| words(&candidate.strategy, &problem.facts);
    let memory = problem.half_widths(other).memory;
    let has_room = |candidate: &Candidate| has_room(problem, candidate, memory);
    let on_host = |candidate: &Candidate| hosted(&candidate.strategy);
    let list: Vec<&str> = [
        (has_room(winner) && !has_room(other), "leaves more of the memory free"),
        (on_host(winner) < on_host(other), "keeps less on the host"),
        (doubts(winner) < doubts(other), "rests on more measured runs"),
        (words(winner) < words(other), "is simpler"),
    ]
    .into_iter()
    .filter_map(|(holds, reason)| holds.then_some(reason))
    .collect();
    if list.is_empty() { "is within the tolerance of it".to_owned() } else { list.join(" and ") }
}

/// Whether `candidate` fits if it takes the share `memory` more than predicted.
fn has_room(problem: &Problem<'_>, candidate: &Candidate, memory: f64) -> bool {
    candidate.memory.process.0 as f64 * (1.0 + memory) <= problem.memory_limit.0 as f64
}

/// The categories of which `strategy` keeps anything on the host.
fn hosted(strategy: &Strategy) -> usize {
    OffloadCategory::ALL.iter().filter(|&&category| !strategy.offload.lacks(category)).count()
}

struct Judge<'s, 'a> {
    problem: &'s Problem<'a>,
    solving: &'s Solving<'a>,
    /// Seconds that a step may take.
    limit: f64,
    /// Share that memory may be above its prediction; that of the fastest, for no feature changes it.
    memory: f64,
}

impl<'s, 'a> Judge<'s, 'a> {
    const fn closed_forms(&self) -> &'s ClosedForms<'a> {
        self.solving.closed_forms
    }

    fn rank(&self, strategy: &Strategy) -> Rank {
        self.rank_knowing(strategy, self.problem.coverage(strategy).unvalidated.len())
    }

    /// The same, where the features that no run covers are counted.
    fn rank_knowing(&self, strategy: &Strategy, unvalidated: usize) -> Rank {
        Rank { on_host: hosted(strategy), unvalidated, words: words(strategy, &self.problem.facts) }
    }

    /// Whether `candidate` fits with its memory at the upper end of its interval.
    fn has_room(&self, candidate: &Candidate) -> bool {
        has_room(self.problem, candidate, self.memory)
    }

    /// The plain strategies of `entries`, by how good they are.
    fn ranked<'e>(&self, entries: &'e [Entry]) -> BTreeMap<Rank, Vec<Plain<'e>>> {
        let node = u64::from(self.problem.cluster.devices_per_node);
        let mut evidence: HashMap<Vec<Feature>, usize> = HashMap::new();
        let mut ranked: BTreeMap<Rank, Vec<Plain<'e>>> = BTreeMap::new();
        for entry in entries.iter().filter(|entry| entry.lower_bound <= self.limit) {
            if self.closed_forms().deadline.is_over() {
                break;
            }
            let outer = self.solving.bounding.space.strategy(entry);
            for checkpoint in self.checkpoints() {
                for offload in self.offloads() {
                    let plain = Plain { entry, checkpoint: checkpoint.clone(), offload };
                    // A partial mode is a whole one as far as rank goes, but for one word.
                    let Some(strategy) = self.written(&outer, &plain, 1) else { continue };
                    let own = features(&strategy, &self.problem.workload, node);
                    let unvalidated = *evidence
                        .entry(own)
                        .or_insert_with(|| self.problem.coverage(&strategy).unvalidated.len());
                    ranked.entry(self.rank_knowing(&strategy, unvalidated)).or_default().push(plain);
                }
            }
        }
        ranked
    }

    /// The fastest of the first kind below `below`, or of all, of which one is fast enough and fits, and `has_room` if so asked.
    fn first(
        &self,
        ranked: &BTreeMap<Rank, Vec<Plain<'_>>>,
        below: Option<Rank>,
        has_room: bool,
    ) -> Option<Candidate> {
        let mut closed = 0;
        let better = ranked.iter().take_while(|(rank, _)| below.is_none_or(|below| **rank < below));
        for (_, plain) in better {
            if self.closed_forms().deadline.is_over() || closed > MOST_CLOSED {
                return None;
            }
            closed += plain.len();
            let look = |plain: &Plain<'_>| self.closed(plain, has_room);
            let mut fitting: Vec<(Strategy, Closed)> = plain.par_iter().filter_map(look).collect();
            fitting.sort_by(|one, other| one.1.likely.0.total_cmp(&other.1.likely.0));
            let mut best: Option<Candidate> = None;
            for (strategy, closed) in fitting.into_iter().take(MOST_PLAYED) {
                let limit = best.as_ref().map_or(self.limit, |best| best.playback.step_time.0);
                if closed.bound.0 > limit {
                    continue;
                }
                let Some(candidate) = self.closed_forms().play(strategy) else { continue };
                let fits = self.problem.fits(&candidate) && (!has_room || self.has_room(&candidate));
                if fits && candidate.playback.step_time.0 <= limit {
                    best = Some(candidate);
                }
            }
            if best.is_some() {
                return best;
            }
        }
        None
    }

    /// `plain` written out with its closed forms, if it may be fast enough and fits.
    fn closed(&self, plain: &Plain<'_>, has_room: bool) -> Option<(Strategy, Closed)> {
        let outer = self.solving.bounding.space.strategy(plain.entry);
        let fits = |closed: &Closed| {
            let most = closed.memory.process.0 as f64 * if has_room { 1.0 + self.memory } else { 1.0 };
            self.closed_forms().fits(closed) && most <= self.problem.memory_limit.0 as f64
        };
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
        (found.1.bound.0 <= self.limit && fits(&found.1)).then_some(found)
    }

    /// `outer` with the inner choices of `plain`, if that is legal and says what it does.
    fn written(&self, outer: &Strategy, plain: &Plain<'_>, count: u32) -> Option<Strategy> {
        let space = self.solving.bounding.space;
        let facts = &self.problem.facts;
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
        let supports = &self.problem.engine.supports;
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
        for category in self.problem.engine.supports.offloads() {
            let with = sets.iter().map(|set: &Vec<_>| [set.as_slice(), &[category]].concat());
            let with: Vec<_> = with.collect();
            sets.extend(with);
        }
        sets
    }
}

/// How much there is to say about `strategy`: kinds of parallelism and keys off their defaults, and more for what
/// differs between blocks or stages.
fn words(strategy: &Strategy, facts: &Facts) -> usize {
    let offloads = OffloadCategory::ALL.iter().filter(|&&category| !strategy.offload.lacks(category));
    let offload = |category: &OffloadCategory| {
        let fractions = strategy.offload.fractions(*category);
        let is_one = fractions.iter().all(|fraction| *fraction == fractions[0]);
        match fractions.first() {
            Some(1.0) if is_one => 1,
            _ if is_one => 2,
            _ => 4,
        }
    };
    let counted = [
        strategy.tensor > 1,
        strategy.context > 1,
        strategy.expert > 1,
        strategy.pipeline > 1,
        strategy.tensor > 1 && !strategy.sequence_parallel,
        strategy.schedule != Schedule::OneForwardOneBackward,
        strategy.virtual_stages != defaults::virtual_stages(strategy.schedule),
        strategy.zero > 0,
        strategy.zero > 0 && strategy.shard < strategy.data,
        !strategy.reshard_after_forward,
        strategy.sync != defaults::sync(strategy.zero),
        strategy.loss != LossMode::Full,
        strategy.compression != Compression::None,
        strategy.order != Default::default(),
    ];
    let cuts = if strategy.cuts == cuts::left_out(facts, strategy.cuts.len()) { 0 } else { 2 };
    counted.into_iter().filter(|counts| *counts).count()
        + cuts
        + recompute_words(strategy)
        + offloads.map(offload).sum::<usize>()
}

/// None for nothing recomputed; one for a mode of all blocks, two for the first blocks of each chunk, four for else.
fn recompute_words(strategy: &Strategy) -> usize {
    let mut runs = strategy.checkpoint.iter().flat_map(|chunk| &chunk.runs).filter(|(_, count)| *count > 0);
    let Some((first, _)) = runs.next() else { return 0 };
    if runs.all(|(mode, _)| mode == first) {
        return usize::from(*first != CheckpointMode::None);
    }
    let is_first = |chunk: &Checkpoint| {
        matches!(
            chunk.runs.as_slice(),
            [] | [(CheckpointMode::Full | CheckpointMode::None, _)]
                | [(CheckpointMode::Full, _), (CheckpointMode::None, _)]
        )
    };
    let counts: Vec<u32> = strategy
        .checkpoint
        .iter()
        .map(|chunk| {
            chunk.runs.iter().filter(|(mode, _)| *mode == CheckpointMode::Full).map(|(_, count)| count).sum()
        })
        .collect();
    let is_one = counts.iter().all(|count| *count == counts[0]);
    if is_one && strategy.checkpoint.iter().all(is_first) { 2 } else { 4 }
}
