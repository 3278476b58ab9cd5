//! Which of the played plans to show beside the best.

use rayon::prelude::*;

use crate::profile::choices::CheckpointMode;
use crate::search::problem::{Candidate, Problem};
use crate::strategy::{Checkpoint, Strategy};

/// Played plans that leaner forms are looked for of.
const LEANER: usize = 6;
/// Passes of a plan that is played for the front alone.
const MOST_PASSES: u64 = 20_000;

/// The played plans, and the best few of them with every block recomputed selectively or wholly: leaner and slower.
pub fn with_leaner(problem: &Problem<'_>, played: &[Candidate]) -> Vec<Candidate> {
    let modes = [CheckpointMode::Selective, CheckpointMode::Full];
    let leaner = played.iter().take(LEANER).flat_map(|candidate| {
        let known = &candidate.strategy;
        modes.into_iter().filter_map(move |mode| {
            let uniform = known.cuts.iter().map(|&blocks| Checkpoint::uniform(mode, blocks));
            let mut strategy = Strategy { checkpoint: uniform.collect(), ..known.clone() };
            strategy.normalise(&problem.facts);
            let passes = strategy.accumulation * strategy.chunks();
            (strategy != *known && passes <= MOST_PASSES).then_some(strategy)
        })
    });
    let leaner: Vec<Strategy> = leaner.collect();
    let leaner: Vec<Candidate> = leaner.into_par_iter().map(|strategy| problem.play(strategy)).collect();
    let fitting = leaner.into_iter().filter(|candidate| problem.fits(candidate));
    played.iter().cloned().chain(fitting).collect()
}

/// Plans that no other beats in both time and memory, the fastest first.
pub fn pareto(played: &[Candidate]) -> Vec<Candidate> {
    let mut by_time: Vec<&Candidate> = played.iter().collect();
    by_time.sort_by(|one, other| one.playback.step_time.0.total_cmp(&other.playback.step_time.0));
    let mut front: Vec<Candidate> = Vec::new();
    for candidate in by_time {
        if front.last().is_none_or(|last| candidate.memory.process < last.memory.process) {
            front.push(candidate.clone());
        }
    }
    front
}

/// The next best plans that differ from the winner and each other in more than state and synchronisation.
pub fn different(played: &[Candidate], count: usize) -> Vec<Candidate> {
    let kind = |strategy: &Strategy| {
        (
            strategy.tensor,
            strategy.context,
            strategy.pipeline,
            strategy.schedule,
            strategy.zero,
            strategy.micro_batch,
        )
    };
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
