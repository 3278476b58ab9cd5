//! Which of the played plans to show beside the best.

use rayon::prelude::*;

use crate::profile::choices::{CheckpointMode, Schedule};
use crate::search::closed_forms::ClosedForms;
use crate::search::incumbent::Stopped;
use crate::search::problem::Candidate;
use crate::search::request::Request;
use crate::strategy::{Checkpoint, Strategy, rules};

/// Played plans that leaner forms are looked for of.
const LEANER: usize = 6;
/// Plans that are played to their end for no more than to be shown.
const SHOWN: usize = 8;
/// Such a plan takes at most so many times as long as the best, unless it is leaner.
const SLOWER: f64 = 1.05;
/// Passes of a plan that is played for the front alone.
const MOST_PASSES: u64 = 4_000;

/// The played plans, and the best few of them with every block recomputed selectively or wholly, where the engine has
/// that and nothing else is fixed: leaner and slower. What is known to be no leaner than something as fast is not
/// played.
pub fn with_leaner(
    closed_forms: &ClosedForms<'_>,
    request: &Request,
    played: &[Candidate],
) -> Vec<Candidate> {
    let facts = &closed_forms.problem.facts;
    let is_fixed = request.fix.checkpoint.is_some();
    let modes = if is_fixed { &[] } else { CheckpointMode::RECOMPUTING };
    let leaner = played.iter().take(LEANER).flat_map(|candidate| {
        let known = &candidate.strategy;
        modes.iter().filter_map(move |&mode| {
            let uniform = known.cuts.iter().map(|&blocks| Checkpoint::uniform(mode, blocks));
            let mut strategy = Strategy { checkpoint: uniform.collect(), ..known.clone() };
            strategy.normalise(facts);
            let passes = strategy.accumulation * strategy.chunks();
            let is_another = strategy != *known && rules::legal(&strategy, facts);
            (is_another && passes <= MOST_PASSES).then_some(strategy)
        })
    });
    let leaner: Vec<Strategy> = leaner.collect();
    let may_be_shown = |strategy: &Strategy| {
        if closed_forms.deadline.is_over() {
            return false;
        }
        let closed = closed_forms.close(strategy);
        let beats =
            |known: &Candidate| known.peak() <= closed.peak && known.playback.step_time.0 <= closed.bound.0;
        closed_forms.fits(&closed) && !played.iter().any(beats)
    };
    let leaner = leaner.into_par_iter().filter(may_be_shown);
    let leaner = leaner.filter_map(|strategy| closed_forms.play(strategy));
    let leaner: Vec<Candidate> = leaner.filter(|candidate| closed_forms.problem.fits(candidate)).collect();
    played.iter().cloned().chain(leaner).collect()
}

/// Plans that no other beats in both time and memory, the fastest first: the next one peaks lower and needs less.
pub fn pareto(played: &[Candidate]) -> Vec<Candidate> {
    let mut by_time: Vec<&Candidate> = played.iter().collect();
    by_time.sort_by(|one, other| one.playback.step_time.0.total_cmp(&other.playback.step_time.0));
    let mut front: Vec<Candidate> = Vec::new();
    for candidate in by_time {
        let is_leaner = |last: &Candidate| {
            candidate.peak() < last.peak() && candidate.memory.process < last.memory.process
        };
        if front.last().is_none_or(is_leaner) {
            front.push(candidate.clone());
        }
    }
    front
}

/// Of what was `stopped`, what may be shown beside what was `played` (the best first): plans that are among the best
/// `count` that differ, and those that are leaner than all that are faster. A few, by what they would take about.
pub fn shown(played: &[Candidate], stopped: &[Stopped], count: usize) -> Vec<Strategy> {
    let played = played.iter().map(|known| (known.playback.step_time, known.memory, &known.strategy, true));
    let stopped = stopped.iter().map(|known| (known.about, known.memory, &known.strategy, false));
    let mut all: Vec<_> = played.chain(stopped).collect();
    all.sort_by(|one, other| one.0.0.total_cmp(&other.0.0));
    let mut seen: Vec<Kind> = Vec::new();
    let mut leanest = None;
    let mut list: Vec<Strategy> = Vec::new();
    let slowest = all.first().map_or(0.0, |best| SLOWER * best.0.0);
    for (about, memory, strategy, is_played) in all {
        let differs = about.0 <= slowest && seen.len() <= count && !seen.contains(&kind(strategy));
        if differs {
            seen.push(kind(strategy));
        }
        let is_leaner = leanest.is_none_or(|least| memory.process < least);
        if is_leaner {
            leanest = Some(memory.process);
        }
        let is_new = !is_played && list.len() < SHOWN && !list.contains(strategy);
        if is_new && (differs || is_leaner) {
            list.push(strategy.clone());
        }
    }
    list
}

/// What a plan must differ in from others to be shown beside them.
type Kind = (u64, u64, u64, Schedule, u8, u64);

fn kind(strategy: &Strategy) -> Kind {
    let Strategy { tensor, context, pipeline, schedule, zero, micro_batch, .. } = *strategy;
    (tensor, context, pipeline, schedule, zero, micro_batch)
}

/// The next best plans that differ from the winner and each other in more than state and synchronisation.
pub fn different(played: &[Candidate], count: usize) -> Vec<Candidate> {
    let mut seen: Vec<_> = played.first().map(|winner| kind(&winner.strategy)).into_iter().collect();
    let mut list = Vec::new();
    for candidate in played.iter().skip(1) {
        let this = kind(&candidate.strategy);
        if list.len() < count && !seen.contains(&this) {
            seen.push(this);
            list.push(candidate.clone());
        }
    }
    list
}
