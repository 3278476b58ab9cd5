//! The first incumbents: what is likely to be good is solved and played before all else is bounded, and after that what
//! has the lowest bounds of each mesh and schedule.

use std::collections::BTreeMap;

use rayon::prelude::*;

use crate::profile::choices::Schedule;
use crate::search::bounding::Entry;
use crate::search::closed_forms::ClosedForms;
use crate::search::incumbent::{Found, PLAYED_A_ROUND, events, play};
use crate::search::problem::Problem;
use crate::search::request::Account;
use crate::search::solve::{Solved, Solving};
use crate::units::Bytes;

/// Likely strategies whose inner choices are solved in one round, before all others are bounded against the best.
const SOLVED_A_ROUND: usize = 8;
/// How much slower by bound than the best of them another may be to be played too.
const SPREAD: f64 = 1.05;
/// The most likely strategies that are solved at once.
const MOST_LIKELY: usize = 4_000;
/// Strategies of each mesh, schedule and way to gather that are solved before the others.
const MOST_OF_KIND: usize = 2;
/// Events of a strategy that is played before the others, at most.
const MOST_EVENTS: u64 = 2_000_000;
/// Of the memory, the share that leaves room for buffers that cannot be packed without gaps.
const LEANER: f64 = 0.95;
/// The most that are played, without and with anything on the host.
const MOST_PLAYED: [usize; 2] = [12, 4];

/// Likely strategies, solved: small micro-batches on meshes whose tensor groups stay inside a node, with little or all
/// state sharded; the best of each pipeline size by bound.
pub fn likely(solving: &Solving<'_>) -> Vec<Solved> {
    let bounding = solving.bounding;
    let space = bounding.space;
    let node = u64::from(space.problem.cluster.devices_per_node);
    let likely: Vec<usize> = (0..space.tasks.len())
        .filter(|&index| {
            let mesh = space.tasks[index].mesh;
            mesh.tensor * mesh.context <= node
        })
        .collect();
    let entries: Vec<Vec<Entry>> = likely.into_par_iter().map(|task| bounding.likely(task)).collect();
    likeliest(solving, entries.into_iter().flatten().collect(), f64::INFINITY)
}

/// Of each mesh and schedule the strategies with the lowest bounds, solved; the best of each pipeline size.
pub fn dive(solving: &Solving<'_>, entries: &[Entry], limit: f64) -> Vec<Solved> {
    let mut lowest: BTreeMap<(usize, Schedule, bool), Vec<Entry>> = BTreeMap::new();
    for entry in entries {
        let key = (entry.task, entry.pass_choice.schedule.0, entry.state.reshard);
        let known = lowest.entry(key).or_default();
        let place = known.partition_point(|known| known.lower_bound <= entry.lower_bound);
        if place < MOST_OF_KIND {
            known.insert(place, *entry);
            known.truncate(MOST_OF_KIND);
        }
    }
    likeliest(solving, lowest.into_values().flatten().collect(), limit)
}

/// The best of `entries` under their default cuts, of each pipeline size, with and without the host.
fn likeliest(solving: &Solving<'_>, mut entries: Vec<Entry>, mut limit: f64) -> Vec<Solved> {
    entries.sort_by(|one, other| one.lower_bound.total_cmp(&other.lower_bound));
    let mut best: BTreeMap<(u64, bool), Solved> = BTreeMap::new();
    for round in entries.chunks(SOLVED_A_ROUND).take(MOST_LIKELY / SOLVED_A_ROUND) {
        // A bound is no promise, but one beyond what is known is out of the question.
        if round.first().is_some_and(|entry| entry.lower_bound >= limit)
            || solving.closed_forms.deadline.is_over()
        {
            break;
        }
        let solved: Vec<Option<Solved>> = round.par_iter().map(|entry| solving.even(entry, limit)).collect();
        let short = |solved: &Solved| events(&solved.strategy) <= MOST_EVENTS;
        for solved in solved.into_iter().flatten().filter(short) {
            let seconds = solved.closed.bound.0;
            limit = limit.min(SPREAD * solved.closed.likely.0);
            let key = (solved.strategy.pipeline, solved.strategy.offload.is_none());
            if best.get(&key).is_none_or(|known| seconds < known.closed.bound.0) {
                best.insert(key, solved);
            }
        }
    }
    let by_bound = |one: &Solved, other: &Solved| one.closed.bound.0.total_cmp(&other.closed.bound.0);
    let (mut hosted, mut chosen): (Vec<Solved>, Vec<Solved>) =
        best.into_values().partition(|solved| !solved.strategy.offload.is_none());
    hosted.sort_by(by_bound);
    chosen.sort_by(by_bound);
    chosen.truncate(MOST_PLAYED[0]);
    hosted.truncate(MOST_PLAYED[1]);
    chosen.append(&mut hosted);
    chosen
}

/// Plays the seeds that `choose` finds; where these fit by what they hold at once and none finds room for its buffers,
/// those that it finds with less memory.
pub fn play_seeds(solving: &Solving<'_>, choose: &dyn Fn(&Solving<'_>) -> Vec<Solved>, found: &mut Found) {
    let before = found.tried;
    play_likeliest(solving, choose(solving), found);
    let (problem, deadline) = (solving.closed_forms.problem, solving.closed_forms.deadline);
    if found.best.is_none() && found.tried > before {
        let memory_limit = Bytes((problem.memory_limit.0 as f64 * LEANER) as u64);
        let leaner = Problem { memory_limit, ..problem.clone() };
        let closed_forms = ClosedForms::until(&leaner, deadline);
        play_likeliest(solving, choose(&Solving::new(solving.bounding, &closed_forms)), found);
    }
}

/// Plays the likeliest of `chosen`, as long as one may be faster than what is known. Nothing can stop the very first, so
/// that is the one with the fewest events.
fn play_likeliest(solving: &Solving<'_>, mut chosen: Vec<Solved>, found: &mut Found) {
    chosen.sort_by(|one, other| other.closed.bound.0.total_cmp(&one.closed.bound.0));
    while !solving.closed_forms.deadline.is_over() {
        let limit = found.limit();
        let round: Vec<Solved> = if found.best.is_none() {
            let shortest = (0..chosen.len()).min_by_key(|&place| events(&chosen[place].strategy));
            shortest.map(|place| chosen.remove(place)).into_iter().collect()
        } else {
            let next = || chosen.pop_if(|solved| solved.closed.bound.0 < limit);
            std::iter::from_fn(next).take(PLAYED_A_ROUND).collect()
        };
        if round.is_empty() {
            break;
        }
        play(solving, round, limit, found, &mut Account::default());
    }
    // The others may be shown beside the best.
    found.stopped.extend(chosen.into_iter().map(|solved| {
        let about = solved.closed.likely;
        solved.stopped(about)
    }));
}
