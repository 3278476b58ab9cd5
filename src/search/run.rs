//! The search: every strategy bounded, those that may win solved and played, the best of them proven.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rayon::prelude::*;

use crate::search::bounding::{Bounded, Bounding, Entry};
use crate::search::closed::Closing;
use crate::search::ladder;
use crate::search::picks::{different, pareto};
use crate::search::problem::Problem;
use crate::search::request::{Account, Failure, Outcome, Progress, Request};
use crate::search::solve::{Solution, Solving};
use crate::search::space::Space;
use crate::search::waves::{Found, play, waves};

/// Likely strategies that are solved and played before all others are bounded against the best of them.
const SEEDS: usize = 48;
/// Of these, the best by bound that are played.
const PLAYED_SEEDS: usize = 8;

/// Searches `problem`; `progress` is told of each part that is done.
///
/// # Errors
/// [`Failure`] where no legal strategy fits.
pub fn search(
    problem: &Problem<'_>,
    request: &Request,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Outcome, Failure> {
    let start = Instant::now();
    let space = Space::new(problem, request);
    let bounding = Bounding::new(&space);
    let closing = Closing::new(problem);
    let solving = Solving::new(&bounding, &closing);
    let mut account = Account::default();
    let mut found = Found::default();
    let verbose = std::env::var("MW_DEBUG").is_ok();
    let seeds = seeds(&bounding);
    if verbose { eprintln!("seeds {} {:?}", seeds.len(), start.elapsed()); }
    let mut scratch = Account::default();
    let solved: Vec<_> = seeds
        .par_iter()
        .filter_map(|entry| match solving.even(entry) {
            Solution::Fits(solved) => Some(*solved),
            Solution::Beaten => None,
        })
        .collect();
    if verbose { eprintln!("solved {:?}", start.elapsed()); }
    let mut solved = solved;
    solved.sort_by(|one, other| one.closed.bound.0.total_cmp(&other.closed.bound.0));
    solved.truncate(PLAYED_SEEDS);
    play(&solving, solved, &mut found, &mut scratch);
    let limit = found.limit();
    if verbose { eprintln!("seeded {limit} {:?}", start.elapsed()); }
    let (done, considered) = (AtomicU64::new(0), AtomicU64::new(0));
    let results: Vec<Bounded> = (0..space.tasks.len())
        .into_par_iter()
        .map(|task| {
            let result = bounding.bound(task, limit);
            let seen = considered.fetch_add(result.considered, Ordering::Relaxed);
            progress(Progress {
                done: done.fetch_add(1, Ordering::Relaxed) + 1,
                of: space.tasks.len() as u64,
                considered: seen + result.considered,
            });
            result
        })
        .collect();
    let mut entries: Vec<Entry> = Vec::new();
    let (mut leanest, mut broken) = (None, None);
    for result in results {
        account.considered += result.considered;
        account.illegal += result.illegal;
        account.out_of_memory += result.out_of_memory;
        account.bounded += result.bounded;
        entries.extend(result.entries);
        if let Some((bytes, strategy)) = result.leanest
            && leanest.as_ref().is_none_or(|(least, _)| bytes < *least)
        {
            leanest = Some((bytes, strategy));
        }
        broken = broken.or(result.broken);
    }
    if verbose { eprintln!("bounded; {} entries {:?} {account:?}", entries.len(), start.elapsed()); }
    let seeds = std::mem::take(&mut found.played);
    waves(&solving, entries, &mut found, &mut account, &|| false);
    if verbose { eprintln!("waves {:?}", start.elapsed()); }
    for seed in seeds {
        if found.played.iter().all(|known| known.strategy != seed.strategy) {
            found.played.push(seed);
        }
    }
    found.played.sort_by(|one, other| one.playback.step_time.0.total_cmp(&other.playback.step_time.0));
    let blocks = f64::from(problem.facts.blocks);
    account.inner_choices_log10 = blocks * 3.0_f64.log10();
    account.axes = space.axes.listed();
    let Some(winner) = found.played.first().cloned() else {
        return Err(match (leanest, broken) {
            (Some((_, strategy)), _) => crate::search::advice::nothing_fits(&closing, &strategy),
            (None, Some(broken)) => Failure::Illegal(broken),
            (None, None) => Failure::Illegal(crate::search::advice::empty(problem, &request.fix)),
        });
    };
    let ladder = ladder::ladder(problem, &winner.strategy);
    let pareto = pareto(&found.played);
    let alternatives = different(&found.played, request.top);
    account.wall_time = crate::units::Seconds(start.elapsed().as_secs_f64());
    Ok(Outcome { winner, alternatives, ladder, pareto, account })
}

/// Likely strategies: small micro-batches on meshes whose tensor groups stay inside a node, with little or all state
/// sharded; of each tensor- and pipeline-parallel size the best by bound.
fn seeds(bounding: &Bounding<'_>) -> Vec<Entry> {
    let space = bounding.space;
    let node = u64::from(space.problem.cluster.devices_per_node);
    let likely: Vec<usize> = (0..space.tasks.len())
        .filter(|&index| {
            let mesh = space.tasks[index].mesh;
            mesh.tensor <= node && mesh.context == 1
        })
        .collect();
    let best: Vec<Vec<Entry>> = likely.into_par_iter().map(|task| bounding.likely(task)).collect();
    let mut entries: Vec<Entry> = best.into_iter().flatten().collect();
    entries.sort_by(|one, other| one.floor.total_cmp(&other.floor));
    entries.truncate(SEEDS);
    entries
}
