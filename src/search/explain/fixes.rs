//! Which single changes make a strategy fit: each checked in exact closed form, those that fit played.

use rayon::prelude::*;

use crate::search::closed_forms::{Closed, ClosedForms};
use crate::search::explain::changes::{Pick, Trial, trials};
use crate::search::explain::{Change, Start};
use crate::search::problem::{Candidate, Problem};
use crate::strategy::{Draft, KeyChange};
use crate::units::Bytes;

/// Most changes that are played; of more, those with the lowest bounds of time.
const MOST_PLAYED: usize = 32;
/// Most passes of blocks that are played in all, so that long steps do not make it long; the first is played anyway.
const MOST_PASSES: u64 = 1_000_000;

/// The changes of one key under which a strategy fits.
#[derive(Clone, Debug)]
pub struct Fixes {
    /// The fastest first.
    pub fitting: Vec<Fix>,
    /// Where none fits, the one that comes nearest.
    pub closest: Option<Miss>,
    /// Changes whose memory was computed.
    pub tried: u64,
    /// Changes that fit and were not played.
    pub left_out: u64,
}

/// A change that fits.
#[derive(Clone, Debug)]
pub struct Fix {
    pub key: KeyChange,
    /// What had to follow.
    pub follows: Vec<KeyChange>,
    pub candidate: Candidate,
}

/// A change that does not fit.
#[derive(Clone, Debug)]
pub struct Miss {
    pub change: Change,
    /// What its process takes.
    pub process: Bytes,
    pub host: Bytes,
}

/// A change with its closed forms.
type Priced = (Change, Closed);

/// Every single change of `start`, which does not fit.
pub(super) fn fixes(problem: &Problem<'_>, start: &Start<'_>) -> Fixes {
    let closed_forms = ClosedForms::new(problem);
    let trials = trials(&closed_forms, start.strategy);
    let priced: Vec<Priced> =
        trials.par_iter().flat_map_iter(|trial| priced(&closed_forms, start, trial)).collect();
    let mut changes: Vec<Priced> = Vec::new();
    for (change, closed) in priced {
        if changes.iter().all(|(known, _)| known.strategy != change.strategy) {
            changes.push((change, closed));
        }
    }
    let tried = changes.len() as u64;
    let (mut fitting, missing): (Vec<Priced>, Vec<Priced>) =
        changes.into_iter().partition(|(_, closed)| closed_forms.fits(closed));
    fitting.sort_by(|one, other| one.1.bound.0.total_cmp(&other.1.bound.0));
    let played = affordable(&fitting);
    let left_out = (fitting.len() - played) as u64;
    fitting.truncate(played);
    let mut fitting: Vec<Fix> = fitting
        .into_par_iter()
        .map(|(Change { key, follows, strategy }, _)| Fix { key, follows, candidate: problem.play(strategy) })
        // What is live at once may fit where the block that holds it does not.
        .filter(|fix| problem.fits(&fix.candidate))
        .collect();
    let time = |fix: &Fix| fix.candidate.playback.step_time.0;
    fitting.sort_by(|one, other| time(one).total_cmp(&time(other)));
    let closest = if fitting.is_empty() { closest(problem, missing) } else { None };
    Fixes { fitting, closest, tried, left_out }
}

/// How many of these, from the first on, are played.
fn affordable(fitting: &[Priced]) -> usize {
    let mut left = MOST_PASSES;
    let affords = |(change, _): &&Priced| {
        let blocks: u64 = change.strategy.cuts.iter().map(|&blocks| u64::from(blocks) + 1).sum();
        let affords = left > 0;
        left = left.saturating_sub(change.strategy.accumulation.saturating_mul(blocks));
        affords
    };
    fitting.iter().take(MOST_PLAYED).take_while(affords).count()
}

/// The changes of a trial that are legal; of gentle and strong ones that do the same, the gentlest that fits, or the
/// strongest.
fn priced(closed_forms: &ClosedForms<'_>, start: &Start<'_>, trial: &Trial) -> Vec<Priced> {
    let problem = closed_forms.problem;
    let legal = |value: &Draft| {
        let alone = start.change(problem, trial.key, value);
        let others = value.keys().into_iter().filter(|&key| key != trial.key);
        alone.or_else(|_| start.with(others, value).change(problem, trial.key, value)).ok().flatten()
    };
    let changes: Vec<Change> = trial.values.iter().filter_map(legal).collect();
    let fits = |change: &Change| closed_forms.fits(&closed_forms.close(&change.strategy));
    let chosen = match trial.pick {
        Pick::Each => changes,
        Pick::Gentlest => {
            let first = changes.partition_point(|change| !fits(change));
            let strongest = changes.len().saturating_sub(1);
            changes.into_iter().skip(first.min(strongest)).take(1).collect()
        }
    };
    let priced = |change: Change| {
        let closed = closed_forms.close(&change.strategy);
        (change, closed)
    };
    chosen.into_iter().map(priced).collect()
}

/// The change that leaves least over the limits.
fn closest(problem: &Problem<'_>, missing: Vec<Priced>) -> Option<Miss> {
    let host = problem.host_limit;
    let over = |closed: &Closed| {
        closed.memory.process.saturating_sub(problem.memory_limit) + closed.host.saturating_sub(host)
    };
    let least = missing.into_iter().min_by_key(|(_, closed)| over(closed));
    least.map(|(change, closed)| Miss { change, process: closed.memory.process, host: closed.host })
}
