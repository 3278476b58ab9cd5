//! The plan that somebody would bet a cluster on. Its step takes the least at the upper end of its 80 % interval, and its
//! memory fits at the upper end of its own, on devices and hosts. Of the plans within a tolerance of that, it is the
//! simplest to state; of equals, the fastest.
//!
//! What a step takes at the upper end is its time and a ratio that its features settle (`upper_end`). The search for the
//! least of it (`least`) is that for the least time, with a limit for each ratio. The engine's host copies come apart:
//! what no run covers must win by more than its wider interval, so all else is searched first, without it.

mod least;
mod simplest;
mod upper_end;
mod words;

use crate::profile::choices::OffloadCategory;
use crate::search::bounding::{Bounding, Entry};
use crate::search::closed_forms::ClosedForms;
use crate::search::problem::{Candidate, Problem};
use crate::search::request::{Objective, Request};
use crate::search::robust::least::Least;
use crate::search::robust::simplest::Simplest;
use crate::search::robust::upper_end::UpperEnds;
use crate::search::robust::words::words;
use crate::search::solve::Solving;
use crate::search::space::Space;
use crate::strategy::Strategy;
use crate::units::Seconds;

/// What a search by time knows of the strategies of a problem.
pub struct Known<'k> {
    pub fastest: &'k Candidate,
    pub played: &'k [Candidate],
    /// The strategies whose bounds are below `bounded`, in seconds.
    pub entries: &'k [Entry],
    pub bounded: f64,
    /// No strategy that fits takes less, in seconds.
    pub lower: f64,
}

/// The chosen plan.
pub struct Robust {
    pub plan: Candidate,
    /// The least upper end of a step that is known, as far as features settle it.
    pub upper: Seconds,
    /// No strategy that fits has one below.
    pub lower: Seconds,
}

/// The plan to bet on, of those whose steps end within `tolerance` of the least upper end; `None` if time is up before
/// any is known.
pub fn choose(solving: &Solving<'_>, known: &Known<'_>, tolerance: f64) -> Option<Robust> {
    let problem = solving.closed_forms.problem;
    let careful = problem.with_room_for(problem.half_widths(known.fastest).memory);
    // If nothing has room for what memory may be off by, what fits as predicted.
    [&careful, problem].into_iter().find_map(|problem| among(problem, solving, known, tolerance))
}

/// The same of what fits `problem`.
fn among(problem: &Problem<'_>, solving: &Solving<'_>, known: &Known<'_>, tolerance: f64) -> Option<Robust> {
    let space = solving.bounding.space;
    let ends = UpperEnds::new(problem);
    let mut least = Least::new(&ends, tolerance, known.lower);
    least.add(known.played.iter().filter(|candidate| problem.fits(candidate)).cloned());
    let everywhere = ClosedForms::until(problem, space.deadline);
    let everywhere = Solving::new(solving.bounding, &everywhere);
    let simplest = |least: &Least<'_, '_, '_>, solving: &Solving<'_>, entries: &[Entry]| {
        Simplest { problem, solving, ends: &ends, limit: least.limit() }.choose(entries, &least.plans)
    };
    let host = ends.least_doubt_of_host().filter(|_| space.request.fix.offload.is_none());
    let Some(doubt) = host else {
        least.look(&everywhere, known.entries, 0.0);
        least.let_go(known.bounded, 0.0);
        let plan = simplest(&least, &everywhere, known.entries)?;
        return Some(least.settled(plan));
    };
    let engine = ends.engine_without_doubts();
    let covered = problem.under(&engine);
    let covered_space = Space { deadline: space.deadline, ..Space::new(&covered, space.request) };
    let bounding = Bounding::new(&covered_space);
    let closed_forms = ClosedForms::until(&covered, space.deadline);
    let solving = Solving::new(&bounding, &closed_forms);
    let entries = least.search(&solving);
    least.look(&everywhere, known.entries, doubt);
    least.let_go(known.bounded, doubt);
    let plan =
        simplest(&least, &solving, &entries).or_else(|| simplest(&least, &everywhere, known.entries))?;
    Some(least.settled(plan))
}

/// Whether `other`, which fits, is so much better than `best` that `best` cannot be the answer to `request`.
pub fn beats(problem: &Problem<'_>, request: &Request, other: &Candidate, best: &Candidate) -> bool {
    let time = |candidate: &Candidate| candidate.playback.step_time;
    match (request.objective, request.tolerance) {
        (Objective::Memory, _) => other.peak() < best.peak(),
        (Objective::Time, None) => time(other) < time(best),
        (Objective::Time, Some(tolerance)) => {
            let careful = problem.with_room_for(problem.half_widths(best).memory);
            let ends = UpperEnds::new(problem);
            let is_as_careful = careful.fits(other) || !careful.fits(best);
            is_as_careful && ends.of(other).0 * (1.0 + tolerance) < ends.of(best).0
        }
    }
}

/// Why `winner` was chosen though `other` is faster, as it reads on after `which`.
pub fn reasons(problem: &Problem<'_>, winner: &Candidate, other: &Candidate) -> String {
    let half_widths = [winner, other].map(|candidate| problem.half_widths(candidate));
    let careful = problem.with_room_for(half_widths[1].memory);
    let list: Vec<&str> = [
        (careful.fits(winner) && !careful.fits(other), "leaves more of the memory free"),
        (hosted(&winner.strategy) < hosted(&other.strategy), "keeps less on the host"),
        (half_widths[0].time < half_widths[1].time, "rests on more measured runs"),
        (words(&winner.strategy, &problem.facts) < words(&other.strategy, &problem.facts), "is simpler"),
    ]
    .into_iter()
    .filter_map(|(holds, reason)| holds.then_some(reason))
    .collect();
    if list.is_empty() { "is within the tolerance of it".to_owned() } else { list.join(" and ") }
}

/// The categories of which `strategy` keeps anything on the host.
fn hosted(strategy: &Strategy) -> usize {
    OffloadCategory::ALL.iter().filter(|&&category| !strategy.offload.lacks(category)).count()
}
