//! The search: every strategy bounded, those that may win solved and played, the best of them proven.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rayon::prelude::*;

use crate::profile::choices::CheckpointMode;
use crate::search::alternatives::{different, pareto, with_leaner};
use crate::search::best_first::best_first;
use crate::search::bounding::{Bounded, Bounding, Entry};
use crate::search::closed_forms::ClosedForms;
use crate::search::contradiction::contradiction;
use crate::search::deadline::Deadline;
use crate::search::diving::{dive, likely, play_seeds};
use crate::search::idle::idle;
use crate::search::incumbent::Found;
use crate::search::least_memory::Measure;
use crate::search::nothing_fits::nothing_fits;
use crate::search::patience::Patience;
use crate::search::problem::{Candidate, Problem};
use crate::search::request::{Account, Failure, Objective, Outcome, Progress, Request, RobustAccount};
use crate::search::solve::Solving;
use crate::search::space::Space;
use crate::search::{alternatives, ladder, least_memory, robust, spare};
use crate::strategy::Strategy;
use crate::units::{Bytes, Seconds};
/// Plans beside the best that are made sure of, however many are to be listed.
const ALWAYS_SHOWN: usize = 5;
/// The most strategies that are kept for a closer look, those with the lowest bounds.
const MOST_ENTRIES: usize = 150_000;
/// Meshes whose strategies are bounded between two looks at how many there are.
const TASKS_AT_ONCE: usize = 512;

/// Searches `problem`; `progress` is told of each part that is done.
///
/// # Errors
/// [`Failure`] where no legal strategy fits.
pub fn search(
    problem: &Problem<'_>,
    request: &Request,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Outcome, Failure> {
    if request.stop.is_asked() {
        return Err(Failure::Interrupted);
    }
    let start = Instant::now();
    let deadline = Deadline::new(start, request.time_limit, problem.facts.blocks, request.stop);
    let space = Space { deadline, ..Space::new(problem, request) };
    let bounding = Bounding::new(&space);
    let closed_forms = ClosedForms::until(problem, deadline);
    let by_time = request.objective == Objective::Time && !request.exhaustive;
    // Seeds come first where a search has any.
    let has_end = request.time_limit.is_some() || (request.stop.is_possible() && !by_time);
    let spare = if has_end { spare::spare(&space, &closed_forms) } else { None };
    let solving = Solving::new(&bounding, &closed_forms);
    let mut found = Found::default();
    // What the seeds found is found again, unless something beats it.
    if by_time {
        play_seeds(&solving, &likely, &mut found);
    }
    let slack = 1.0 + request.tolerance.unwrap_or(0.0);
    let bounded = found.limit() * slack;
    let Bounds { mut entries, mut account, leanest, let_go } = match request.objective {
        Objective::Time => bound(&bounding, bounded, progress),
        Objective::Memory => Bounds::default(),
    };
    let all = request.tolerance.map(|_| entries.clone()).unwrap_or_default();
    if by_time {
        let limit = found.limit();
        play_seeds(&solving, &|solving| dive(solving, &entries, limit), &mut found);
    }
    let seeds = std::mem::take(&mut found.played);
    let near = leanest.map(|(_, strategy)| strategy).or_else(|| {
        let least = entries.iter().min_by(|one, other| one.lower_bound.total_cmp(&other.lower_bound));
        least.map(|entry| space.strategy(entry))
    });
    let least_bound = entries.iter().map(|entry| entry.lower_bound).reduce(f64::min);
    let work = Patience::work(closed_forms.has_like_blocks(), deadline);
    let patience = if request.exhaustive { Patience::Exhaustive { deadline } } else { work };
    match request.objective {
        Objective::Time => {
            account.survived =
                entries.iter().filter(|entry| entry.lower_bound < found.limit()).count() as u64;
            entries = place(&bounding, &entries, found.limit(), &mut account);
            best_first(&solving, entries, &mut found, &mut account, patience);
        }
        // Where its ranks stand makes no strategy leaner.
        Objective::Memory => (found.played, account) = least_memory::play(&solving),
    }
    let let_go = let_go.filter(|lower_bound| *lower_bound < found.limit()).map(Seconds);
    account.lowest_bound = account.lowest_bound.into_iter().chain(let_go).reduce(Seconds::min);
    for seed in seeds {
        if found.played.iter().any(|known| known.strategy == seed.strategy) {
            continue;
        }
        if found.stopped.iter().all(|known| known.strategy != seed.strategy) {
            // Its bound was not below the best's time, or it would have been played.
            account.count_played();
        }
        found.played.push(seed);
    }
    if found.played.is_empty() && request.objective == Objective::Time && !deadline.is_over() {
        // Of blocks of several kinds, the search by time looks at some inner choices; what fits at all is found by memory.
        let leanest = least_memory::leanest(&solving, Measure::Process);
        found.played = least_memory::fitting(&solving, leanest.found);
        found.played.iter().for_each(|_| account.count_played());
        account.lowest_bound = least_bound.map(Seconds);
    }
    if found.played.is_empty() {
        let spare = spare.filter(|_| request.time_limit.is_some() || deadline.is_over());
        found.played.extend(spare.inspect(|_| account.count_played()));
    }
    sort(&mut found.played, request.objective);
    // The same ones however many are to be listed: one of them may be the answer.
    show(&closed_forms, &mut found, ALWAYS_SHOWN);
    sort(&mut found.played, request.objective);
    account.inner_choices_log10 = inner_choices_log10(problem);
    account.axes = space.axes.listed();
    account.held = space.axes.held();
    account.outside = space.axes.outside();
    let Some(mut winner) = found.played.first().cloned() else {
        return Err(match request.time_limit {
            _ if request.stop.is_asked() => Failure::Interrupted,
            Some(limit) if deadline.is_over() => Failure::TimeIsUp { limit },
            _ => nothing_fits(&space, &closed_forms, near)
                .unwrap_or_else(|| Failure::Illegal(contradiction(problem, request))),
        });
    };
    let mut fastest = None;
    if let Some(tolerance) = request.tolerance.filter(|_| request.objective == Objective::Time) {
        let least = account.lowest_bound.into_iter().chain([winner.playback.step_time]).reduce(Seconds::min);
        let lower = least.map_or(0.0, |seconds| seconds.0);
        let known = robust::Known { fastest: &winner, played: &found.played, entries: &all, bounded, lower };
        if let Some(robust) = robust::choose(&solving, &known, tolerance) {
            account.robust = Some(RobustAccount { upper: robust.upper, lower: robust.lower });
            if robust.plan.strategy != winner.strategy {
                fastest = Some(std::mem::replace(&mut winner, robust.plan));
            }
        }
    }
    if request.top > ALWAYS_SHOWN {
        let best = key(fastest.as_ref().unwrap_or(&winner), request.objective);
        // They are listed beside the answer and do not become it.
        show(&closed_forms, &mut found, request.top);
        found.played.retain(|candidate| key(candidate, request.objective) >= best);
        sort(&mut found.played, request.objective);
    }
    account.idle = idle(problem, request, &winner.strategy);
    // What has no effect is not held outside of anything.
    account.outside.retain(|fixed| !account.idle.iter().any(|said| said.starts_with(&format!("{fixed} "))));
    found.played.retain(|candidate| candidate.strategy != winner.strategy);
    found.played.insert(0, winner.clone());
    let pareto = pareto(&with_leaner(&closed_forms, request, &found.played));
    let mut alternatives = different(&found.played, request.top);
    place_buffers(&closed_forms, [&mut winner].into_iter().chain(&mut fastest).chain(&mut alternatives));
    // Its last step is the winner, placed.
    let mut ladder = ladder::ladder(&closed_forms, &winner);
    let steps = ladder.iter_mut().map(|(_, candidate)| candidate);
    place_buffers(&closed_forms, steps.filter(|step| step.strategy != winner.strategy));
    account.wall_time = Seconds(start.elapsed().as_secs_f64());
    Ok(Outcome { winner, fastest, alternatives, ladder, pareto, account })
}

/// Plays to their end what was stopped and may be listed, as long as `count` plans are.
fn show(closed_forms: &ClosedForms<'_>, found: &mut Found, count: usize) {
    let strategies = alternatives::shown(&found.played, &found.stopped, count).into_par_iter();
    let played: Vec<Candidate> = strategies.filter_map(|strategy| closed_forms.play(strategy)).collect();
    found.played.extend(played.into_iter().filter(|candidate| closed_forms.problem.fits(candidate)));
}

/// Places the buffers of every rank of what is written down, so that it says what playing it alone would.
fn place_buffers<'c>(closed_forms: &ClosedForms<'_>, candidates: impl Iterator<Item = &'c mut Candidate>) {
    let problem = closed_forms.problem;
    if !problem.engine.buffers.placed {
        return;
    }
    candidates.collect::<Vec<_>>().into_par_iter().for_each(|candidate| {
        let program = problem.program(&candidate.strategy);
        if closed_forms.has_time_to_place(&program) {
            problem.place(candidate, &program);
        }
    });
}

/// The measure that the best has least of; the second decides between equals.
fn key(candidate: &Candidate, objective: Objective) -> (f64, f64) {
    let time = candidate.playback.step_time.0;
    match objective {
        Objective::Time => (time, 0.0),
        Objective::Memory => (candidate.peak().0 as f64, time),
    }
}

/// The best first.
fn sort(played: &mut [Candidate], objective: Objective) {
    played.sort_by(|one, other| {
        let (one, other) = (key(one, objective), key(other, objective));
        one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1))
    });
}

/// Decimal logarithm of the ways in which each block can recompute: the inner choices that cuts and offload multiply.
fn inner_choices_log10(problem: &Problem<'_>) -> f64 {
    f64::from(problem.facts.blocks) * (CheckpointMode::ALL.len() as f64).log10()
}

/// The strategies of all meshes, bounded.
#[derive(Default)]
pub struct Bounds {
    pub entries: Vec<Entry>,
    account: Account,
    leanest: Option<(Bytes, Strategy)>,
    /// The lowest bound of those that were let go or not looked at.
    pub let_go: Option<f64>,
}

/// Bounds every strategy of `request` as if no plan were known, for benchmarks: how many bounds of memory and time,
/// over all inner choices and mesh orders, were computed.
pub fn bound_all(problem: &Problem<'_>, request: &Request) -> u64 {
    let space = Space::new(problem, request);
    let bounding = Bounding::new(&space);
    let tasks = (0..space.tasks.len()).into_par_iter();
    tasks.map(|task| bounding.bound(task, f64::INFINITY).computed).sum()
}

impl Bounds {
    fn add(&mut self, result: Bounded) {
        self.account.considered += result.considered;
        self.account.illegal += result.illegal;
        self.account.out_of_memory += result.out_of_memory;
        self.account.bounded += result.bounded;
        self.entries.extend(result.entries);
        if result.is_cut {
            self.let_go = Some(0.0);
        }
        if let Some((bytes, strategy)) = result.leanest
            && self.leanest.as_ref().is_none_or(|(least, _)| bytes < *least)
        {
            self.leanest = Some((bytes, strategy));
        }
    }
}

/// Bounds all strategies of `bounding`; those that cannot be faster than `limit` seconds are let go.
pub fn bound(bounding: &Bounding<'_>, limit: f64, progress: &(dyn Fn(Progress) + Sync)) -> Bounds {
    let (done, considered) = (AtomicU64::new(0), AtomicU64::new(0));
    let of = bounding.space.tasks.len();
    let one = |task: usize| {
        let result = bounding.bound(task, limit);
        let seen = considered.fetch_add(result.considered, Ordering::Relaxed);
        progress(Progress {
            done: done.fetch_add(1, Ordering::Relaxed) + 1,
            of: of as u64,
            considered: seen + result.considered,
        });
        result
    };
    let mut bounds = Bounds { entries: Vec::new(), account: Account::default(), leanest: None, let_go: None };
    let tasks: Vec<usize> = (0..of).collect();
    for tasks in tasks.chunks(TASKS_AT_ONCE) {
        let results: Vec<Bounded> = tasks.par_iter().map(|&task| one(task)).collect();
        results.into_iter().for_each(|result| bounds.add(result));
        if limit.is_finite() {
            let (let_go, count) = bounding.thin_out(&mut bounds.entries, MOST_ENTRIES);
            bounds.let_go = bounds.let_go.into_iter().chain(let_go).reduce(f64::min);
            bounds.account.bounded += count;
        }
    }
    bounds
}

/// The mesh orders of `entries` that may win.
pub fn place(bounding: &Bounding<'_>, entries: &[Entry], limit: f64, account: &mut Account) -> Vec<Entry> {
    let tasks: Vec<&[Entry]> = entries.chunk_by(|one, other| one.task == other.task).collect();
    let placed: Vec<(Vec<Entry>, u64)> =
        tasks.into_par_iter().map(|entries| bounding.place(entries, limit)).collect();
    account.bounded += placed.iter().map(|(_, bounded)| bounded).sum::<u64>();
    placed.into_iter().flat_map(|(entries, _)| entries).collect()
}
