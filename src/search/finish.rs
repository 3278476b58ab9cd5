//! The end of a search: the incumbent is improved by local search, and what is left is proven to be slower, as far as
//! that can be.

use rayon::prelude::*;

use crate::search::incumbent::{Found, PLAYED_A_ROUND, events, play};
use crate::search::patience::{NEAR, Patience};
use crate::search::proof::{Aim, Proof};
use crate::search::request::Account;
use crate::search::solve::{Solved, Solving};

/// What proofs may take, in instructions built and events played: of all strategies, and of one.
const MOST_PROVEN: u64 = 4_000_000;
const MOST_PROVEN_OF_ONE: u64 = 400_000;
/// What it may take to change the incumbent a little, likewise; and how many changes of one are played.
const MOST_IMPROVED: u64 = 2_000_000;
const MOST_NEIGHBOURS: usize = 32;
/// What it may take to play what is unlikely to win, but may, likewise: where the incumbent is near the optimum, and
/// where it is not.
const MOST_DOUBTED: u64 = 500_000;
const MOST_DOUBTED_FAR: u64 = 3_000_000;
/// Of how many of these small changes are looked at, and how many of each, unless their steps are long.
const CHANGED: usize = 4;
const CHANGES: usize = 12;
const MOST_EVENTS_CHANGED: u64 = 50_000;

/// A strategy that was solved and is not settled: other inner choices of it may be faster.
pub struct Open {
    pub solved: Solved,
    pub is_played: bool,
}

/// Improves the incumbent and proves what can be proven of `open`: the lowest bound that is left of these, in seconds.
pub fn finish(
    solving: &Solving<'_>,
    open: Vec<Open>,
    found: &mut Found,
    account: &mut Account,
    patience: Patience,
) -> Option<f64> {
    improve(solving, found, patience);
    let before = found.limit();
    let mut left = prove(solving, open, found, account, patience);
    let lowest = left.first().map(|open| open.solved.lower_bound);
    second_look(solving, &mut left, found, account, patience);
    if found.limit() < before {
        improve(solving, found, patience);
    }
    lowest
}

/// Changes the inner choice of the fastest a little, as long as that makes it faster.
fn improve(solving: &Solving<'_>, found: &mut Found, patience: Patience) {
    let most = found.effort + MOST_IMPROVED;
    let Some(mut fastest) = found.fastest.clone() else { return };
    'changed: loop {
        if patience.is_over() || !patience.plays(&fastest.strategy) {
            return;
        }
        let before = found.limit();
        let mut changed = solving.neighbours(&fastest, before);
        changed.truncate(MOST_NEIGHBOURS);
        for round in changed.chunks(PLAYED_A_ROUND) {
            if found.effort >= most || patience.is_over() {
                return;
            }
            play(solving, round.to_vec(), found.limit(), found, &mut Account::default());
            if let Some(faster) = found.fastest.clone().filter(|_| found.limit() < before) {
                fastest = faster;
                continue 'changed;
            }
        }
        return;
    }
}

/// Raises the bounds of `open` by playing what their inner choices have in common, and plays the better choices that
/// this finds. Returns all of them with their bounds, the lowest first.
fn prove(
    solving: &Solving<'_>,
    mut open: Vec<Open>,
    found: &mut Found,
    account: &mut Account,
    patience: Patience,
) -> Vec<Open> {
    // An exhaustive search takes its time for what has too many inner choices to play each.
    let is_exhaustive = matches!(patience, Patience::Exhaustive { .. });
    let mut effort = if is_exhaustive { 10 * MOST_PROVEN } else { MOST_PROVEN };
    let near = if is_exhaustive { 0.0 } else { NEAR };
    open.sort_by(|one, other| one.solved.lower_bound.total_cmp(&other.solved.lower_bound));
    // What could not be raised so far is not looked at again.
    let mut settled: Vec<Open> = Vec::new();
    loop {
        let best = found.limit();
        let enough = best / (1.0 + near);
        let is_open = |open: &Open| open.solved.lower_bound < enough && patience.plays(&open.solved.strategy);
        let is_over = effort == 0 || best.is_infinite() || patience.is_over();
        let mut round: Vec<Open> = Vec::new();
        while let Some(place) =
            open.iter().position(is_open).filter(|_| !is_over && round.len() < PLAYED_A_ROUND)
        {
            round.push(open.remove(place));
        }
        if round.is_empty() {
            settled.append(&mut open);
            settled.sort_by(|one, other| one.solved.lower_bound.total_cmp(&other.solved.lower_bound));
            return settled;
        }
        let aim = Aim { best, enough, effort: MOST_PROVEN_OF_ONE.min(effort) };
        let proofs: Vec<Proof> = round.par_iter().map(|open| solving.prove(&open.solved, aim)).collect();
        let is_cut = patience.is_over();
        for (Open { mut solved, is_played }, proof) in round.into_iter().zip(proofs) {
            effort = effort.saturating_sub(proof.effort);
            account.played += u64::from(!is_played && proof.is_played);
            let better = proof.better.into_iter().map(|strategy| {
                let closed = solving.closed_forms.close(&strategy);
                Solved { strategy, closed, ..solved.clone() }
            });
            play(solving, better.collect(), found.limit(), found, &mut Account::default());
            solved.lower_bound =
                if is_cut { solved.lower_bound } else { proof.lower.max(solved.lower_bound) };
            settled.push(Open { solved, is_played: is_played || proof.is_played });
        }
    }
}

/// Plays what of `left`, the lowest bounds first, is unlikely to win, but may: a few that were not played, and small
/// changes of the first.
fn second_look(
    solving: &Solving<'_>,
    left: &mut Vec<Open>,
    found: &mut Found,
    account: &mut Account,
    patience: Patience,
) {
    let best = found.limit();
    let lowest = left.first().map(|open| open.solved.lower_bound);
    left.retain(|open| open.solved.lower_bound < best && patience.plays(&open.solved.strategy));
    let unplayed = left.iter().filter(|open| !open.is_played).map(|open| open.solved.clone());
    let mut unplayed: Vec<Solved> = unplayed.collect();
    unplayed.sort_by(|one, other| one.closed.likely.0.total_cmp(&other.closed.likely.0));
    left.retain(|open| events(&open.solved.strategy) <= MOST_EVENTS_CHANGED);
    let changed = left.par_iter().take(CHANGED).map(|open| {
        let mut changed = solving.neighbours(&open.solved, best);
        changed.truncate(CHANGES);
        changed
    });
    let changed: Vec<Vec<Solved>> = changed.collect();
    let is_near = lowest.is_none_or(|lowest| found.is_near(lowest));
    let most = found.effort + if is_near { MOST_DOUBTED } else { MOST_DOUBTED_FAR };
    for few in unplayed.chunks(PLAYED_A_ROUND) {
        if found.effort < most && !patience.is_over() {
            play(solving, few.to_vec(), found.limit(), found, account);
        }
    }
    for few in changed.concat().chunks(PLAYED_A_ROUND) {
        if found.effort < most && !patience.is_over() {
            play(solving, few.to_vec(), found.limit(), found, &mut Account::default());
        }
    }
}
