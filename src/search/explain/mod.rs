//! Why not this strategy: which rule it breaks, by how much it does not fit and what would, or what it loses to the
//! best plan.

mod changes;
mod cuts;
mod fixes;
mod nearest;
mod towards;

use crate::search::problem::{Candidate, Problem};
use crate::search::request::{Account, Failure, Progress, Request};
use crate::search::run::search;
use crate::strategy::{Draft, Key, KeyChange, RuleBreak, Strategy};

pub use fixes::{Fix, Fixes, Miss};
pub use towards::{Step, StepOutcome};

/// A strategy explained, beside the best plan for the same numbers.
#[derive(Clone, Debug)]
pub struct Explained {
    pub finding: Finding,
    /// The best plan: what a search finds, or the strategy itself where that is faster.
    pub best: Result<Candidate, Failure>,
    /// What became of all strategies; none where no plan was found.
    pub account: Option<Account>,
}

/// What is to be said of a strategy.
#[derive(Clone, Debug)]
pub enum Finding {
    /// It breaks a rule; the closest strategy that breaks none, played.
    Illegal { broken: RuleBreak, nearest: Option<Box<Candidate>> },
    /// It needs more memory than there is.
    OutOfMemory { mine: Box<Candidate>, fixes: Box<Fixes> },
    /// It runs; what each of the keys would change in which the best plan differs.
    Fits { mine: Box<Candidate>, steps: Vec<Step> },
}

/// One key of a strategy changed, and what had to follow.
#[derive(Clone, Debug)]
pub struct Change {
    pub key: KeyChange,
    pub follows: Vec<KeyChange>,
    pub strategy: Strategy,
}

/// Explains what was typed; `progress` is told how far the search for the best plan is.
pub fn explain(problem: &Problem<'_>, typed: &Draft, progress: &(dyn Fn(Progress) + Sync)) -> Explained {
    match typed.resolve(&problem.facts) {
        Ok(strategy) => {
            let mine = problem.play(strategy);
            let (mut best, account) = best(problem, Some(&mine), progress);
            let finding = if problem.fits(&mine) {
                let mut steps = Vec::new();
                while let Ok(known) = &best {
                    steps = towards::towards(problem, &mine.strategy, known);
                    // A change on the way may be faster than what the search found.
                    let Some(faster) = steps.first().and_then(|step| step.faster(problem, known)) else {
                        break;
                    };
                    best = Ok(faster);
                }
                Finding::Fits { mine: Box::new(mine), steps }
            } else {
                let fixes = Box::new(fixes::fixes(problem, &mine.strategy));
                let mut same = fixes.fitting.iter().filter(|fix| !fix.key.key.changes_numerics());
                if let Some(fix) = same.next() {
                    best = faster(Some(&fix.candidate), best);
                }
                Finding::OutOfMemory { mine: Box::new(mine), fixes }
            };
            Explained { finding, best, account }
        }
        Err(broken) => {
            let nearest = nearest::nearest(typed, &problem.facts).map(|strategy| problem.play(strategy));
            let (best, account) = best(problem, nearest.as_ref(), progress);
            Explained { finding: Finding::Illegal { broken, nearest: nearest.map(Box::new) }, best, account }
        }
    }
}

/// The best plan that trains the same numbers as `mine`: what is found, or `mine` where it fits and is no slower.
fn best(
    problem: &Problem<'_>,
    mine: Option<&Candidate>,
    progress: &(dyn Fn(Progress) + Sync),
) -> (Result<Candidate, Failure>, Option<Account>) {
    let request = mine.map_or_else(Request::default, |mine| alike(problem, &mine.strategy));
    let found = search(problem, &request, progress);
    let account = found.as_ref().ok().map(|outcome| outcome.account.clone());
    (faster(mine.filter(|mine| problem.fits(mine)), found.map(|found| found.winner)), account)
}

/// What was found, or `known` where that is no slower.
fn faster(known: Option<&Candidate>, found: Result<Candidate, Failure>) -> Result<Candidate, Failure> {
    match (known, found) {
        (Some(known), Ok(found)) if found.playback.step_time.0 < known.playback.step_time.0 => Ok(found),
        (Some(known), _) => Ok(known.clone()),
        (None, found) => found,
    }
}

/// A search among the strategies that train the same numbers.
fn alike(problem: &Problem<'_>, strategy: &Strategy) -> Request {
    let defaults = problem.facts.defaults;
    let draft = strategy.draft(defaults);
    let mut request = Request::default();
    for key in Key::ALL.iter().filter(|key| key.changes_numerics()) {
        request.fix.take(*key, &draft);
    }
    request
}

/// `strategy` with `key` as in `value`; none where that changes nothing.
fn change(
    problem: &Problem<'_>,
    strategy: &Strategy,
    key: Key,
    value: &Draft,
) -> Result<Option<Change>, RuleBreak> {
    let defaults = problem.facts.defaults;
    let (_, changed) = strategy.draft(defaults).changed(key, value, &problem.facts)?;
    let mut follows = strategy.changes_to(&changed, defaults);
    let place = follows.iter().position(|change| change.key == key);
    Ok(place.map(|place| Change { key: follows.remove(place), follows, strategy: changed }))
}

#[cfg(test)]
mod tests;
