//! Which of the played plans to show beside the best.

use crate::search::problem::Candidate;
use crate::strategy::Strategy;

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
