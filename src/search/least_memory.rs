//! The plan that takes the least memory, and what no plan undercuts: outer strategies by a lower bound of their memory,
//! the leanest inner choice of each in exact closed form, until no bound is below what is known.

use rayon::prelude::*;

use crate::profile::choices::{CheckpointMode, OffloadCategory};
use crate::search::bounding::Entry;
use crate::search::bounding::lean::{Lean, Limit};
use crate::search::choices::{Hosted, is_offered, splits};
use crate::search::closed_forms::Closed;
use crate::search::problem::Candidate;
use crate::search::request::Account;
use crate::search::solve::{Solved, Solving};
use crate::strategy::{Checkpoint, Strategy, rules};
use crate::units::Bytes;

/// Strategies that are played in the end, the leanest by closed form.
const PLAYED: usize = 8;
/// Strategies whose inner choices are looked at together.
const TOGETHER: usize = 64;
/// Most strategies whose inner choices are looked at.
const MOST_CLOSED: usize = 4_096;

/// What of a strategy's memory is to be small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// What its program peaks at, as reports print it.
    Peak,
    /// What its process takes, which has to fit.
    Process,
}

/// The leanest strategies.
#[derive(Clone, Debug, Default)]
pub struct Leanest {
    /// Each at its leanest inner choice, the leanest first.
    pub found: Vec<Solved>,
    /// No strategy takes less.
    pub lower: Bytes,
    /// The leanest if the host had room for anything.
    pub beside_host: Option<Bytes>,
    pub account: Account,
}

impl Measure {
    fn of(self, closed: &Closed) -> Bytes {
        match self {
            Self::Peak => closed.peak,
            Self::Process => closed.memory.process,
        }
    }

    /// What takes no more than `best`, and stays within `own`.
    fn limit(self, best: &Closed, own: Limit) -> Limit {
        match self {
            Self::Peak => Limit { peak: best.peak, ..own },
            Self::Process => Limit { process: own.process.min(best.memory.process), ..own },
        }
    }
}

/// Plays the leanest strategies of the space, and says what no strategy's program peaks below.
pub fn play(solving: &Solving<'_>) -> (Vec<Candidate>, Account) {
    let Leanest { mut found, lower, mut account, .. } = leanest(solving, Measure::Peak);
    found.truncate(PLAYED);
    account.played = found.len() as u64;
    account.least_memory = Some(lower);
    let closed_forms = solving.closed_forms;
    let played = found.into_par_iter().filter_map(|solved| closed_forms.play(solved.strategy));
    let played = played.filter(|candidate| closed_forms.problem.fits(candidate)).collect();
    (played, account)
}

/// The leanest strategies of the space that fit.
pub fn leanest(solving: &Solving<'_>, measure: Measure) -> Leanest {
    let space = solving.bounding.space;
    let all = |limit: Limit, is_first: bool| -> Vec<Lean> {
        (0..space.tasks.len())
            .into_par_iter()
            .map(|task| solving.bounding.lean(task, limit, is_first))
            .collect()
    };
    let own = Limit { peak: Bytes(u64::MAX >> 8), process: space.problem.memory_limit };
    // What a few of the likeliest take rules out most of the others.
    let mut known = Leanest::default();
    look(solving, bounds(solving, &all(own, true), measure), measure, &mut known, TOGETHER);
    let limit = match known.found.first() {
        Some(best) => measure.limit(&best.closed, own),
        None => own,
    };
    let lean = all(limit, false);
    let mut leanest = Leanest { beside_host: known.beside_host, ..Leanest::default() };
    look(solving, bounds(solving, &lean, measure), measure, &mut leanest, MOST_CLOSED);
    leanest.found.extend(known.found);
    leanest.found.sort_by_key(|solved| (measure.of(&solved.closed), solved.closed.bound.0.to_bits()));
    leanest.found.dedup_by(|one, other| one.strategy == other.strategy);
    let best = leanest.found.first().map_or(Bytes(u64::MAX), |best| measure.of(&best.closed));
    leanest.lower = if lean.iter().any(|lean| lean.is_cut) { Bytes::ZERO } else { leanest.lower.min(best) };
    let sum = |count: fn(&Lean) -> u64| lean.iter().map(count).sum::<u64>();
    let looked_at = leanest.account.priced + leanest.account.out_of_memory;
    let considered = sum(|lean| lean.considered);
    let illegal = sum(|lean| lean.illegal);
    let bounded = considered - illegal - looked_at;
    leanest.account = Account { considered, illegal, bounded, ..leanest.account };
    leanest
}

/// Bounds of what the strategies in `lean` take, the least first.
fn bounds(solving: &Solving<'_>, lean: &[Lean], measure: Measure) -> Vec<(Bytes, Entry)> {
    let space = solving.bounding.space;
    let bound = |(peak, entry): &(Bytes, Entry)| match measure {
        Measure::Peak => (*peak, *entry),
        Measure::Process => (space.problem.process_memory(&space.strategy(entry), *peak).process, *entry),
    };
    let mut bounds: Vec<(Bytes, Entry)> =
        lean.par_iter().flat_map_iter(|lean| &lean.entries).map(bound).collect();
    bounds.sort_by_key(|(bytes, entry)| (*bytes, entry.task, entry.place));
    bounds
}

/// Looks at the inner choices of the first of `bounds`, `most` at the most, until no bound is below what is known.
fn look(
    solving: &Solving<'_>,
    bounds: Vec<(Bytes, Entry)>,
    measure: Measure,
    leanest: &mut Leanest,
    most: usize,
) {
    let mut best = Bytes(u64::MAX);
    leanest.lower = Bytes(u64::MAX);
    for (place, entries) in bounds.chunks(TOGETHER).enumerate() {
        let is_enough = place * TOGETHER >= most || solving.closed_forms.deadline.is_over();
        if entries[0].0 >= best || is_enough {
            leanest.lower = entries[0].0;
            break;
        }
        let choices: Vec<Choices> =
            entries.par_iter().map(|(_, entry)| choices(solving, entry, measure)).collect();
        for Choices { leanest: own, beside_host } in choices {
            leanest.beside_host = leanest.beside_host.into_iter().chain(beside_host).min();
            match own {
                Some(solved) => {
                    best = best.min(measure.of(&solved.closed));
                    leanest.account.priced += 1;
                    leanest.found.push(solved);
                }
                None => leanest.account.out_of_memory += 1,
            }
        }
    }
    leanest.found.sort_by_key(|solved| (measure.of(&solved.closed), solved.closed.bound.0.to_bits()));
}

/// The leanest inner choice of a strategy that fits, and what the leanest of all takes if the host has room for it.
#[derive(Default)]
struct Choices {
    leanest: Option<Solved>,
    beside_host: Option<Bytes>,
}

/// Looks at all blocks in each mode and whole categories on the host, under the default cuts.
fn choices(solving: &Solving<'_>, entry: &Entry, measure: Measure) -> Choices {
    let space = solving.bounding.space;
    let problem = space.problem;
    let outer = space.plainest(&space.strategy(entry));
    let modes: Vec<Option<CheckpointMode>> = match space.request.fix.checkpoint {
        Some(_) => vec![None],
        None => problem.engine.supports.checkpoint.iter().copied().map(Some).collect(),
    };
    let whole = |hosted: &Hosted| hosted.iter().all(|fraction| *fraction == 0.0 || *fraction == 1.0);
    let hosted: Vec<Option<Hosted>> = match space.request.fix.offload {
        Some(_) => vec![None],
        None => splits(None, &problem.engine.supports)
            .into_iter()
            .filter(|hosted| whole(hosted) && is_offered(hosted, outer.zero, &problem.engine.supports))
            .map(Some)
            .collect(),
    };
    let mut result = Choices::default();
    for mode in modes {
        for hosted in &hosted {
            let strategy = with(&outer, mode, hosted.as_ref());
            let mut strategy = strategy;
            strategy.normalise(&problem.facts);
            if !rules::legal(&strategy, &problem.facts) {
                continue;
            }
            let closed = solving.closed_forms.close(&strategy);
            let taken = measure.of(&closed);
            result.beside_host = result.beside_host.into_iter().chain([taken]).min();
            let is_leaner = result.leanest.as_ref().is_none_or(|known| {
                let known = (measure.of(&known.closed), known.closed.bound);
                (taken, closed.bound) < known
            });
            if is_leaner && solving.closed_forms.fits(&closed) {
                result.leanest =
                    Some(Solved { entry: *entry, lower_bound: entry.lower_bound, strategy, closed });
            }
        }
    }
    result
}

/// `outer` with all blocks in one mode, and with whole categories on the host, where these are given.
fn with(outer: &Strategy, mode: Option<CheckpointMode>, hosted: Option<&Hosted>) -> Strategy {
    let mut strategy = outer.clone();
    if let Some(mode) = mode {
        strategy.checkpoint = strategy.cuts.iter().map(|&blocks| Checkpoint::uniform(mode, blocks)).collect();
    }
    if let Some(hosted) = hosted {
        for &category in OffloadCategory::ALL {
            let stages = strategy.pipeline as usize;
            *strategy.offload.fractions_mut(category) = vec![hosted[category as usize]; stages];
        }
    }
    strategy
}
