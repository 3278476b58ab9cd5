//! Why not this strategy: which rule it breaks, by how much it does not fit and what would, or what it loses to the
//! best plan.

mod changes;
mod cuts;
mod fixes;
mod nearest;
mod towards;

use std::borrow::Cow;

use crate::search::problem::{Candidate, Problem};
use crate::search::request::{Account, Failure, Outcome, Progress, Request};
use crate::search::robust;
use crate::search::run::search;
use crate::strategy::{Draft, Key, KeyChange, RuleBreak, Strategy};

pub use fixes::{Fix, Fixes, Miss};
pub use towards::{Step, StepOutcome};

/// A strategy explained, beside the best plan for the same numbers.
#[derive(Clone, Debug)]
pub struct Explained {
    pub finding: Finding,
    /// The best plan: what a search finds, unless something here beats it.
    pub best: Result<Candidate, Failure>,
    /// The fastest of all that was found.
    pub fastest: Option<Candidate>,
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
            let start = Start { typed: Cow::Borrowed(typed), strategy: &mine.strategy };
            let mut best = Best::search(problem, Some(&mine.strategy), progress);
            let finding = if problem.fits(&mine) {
                best.hear(problem, &mine);
                let mut steps = Vec::new();
                while let Ok(known) = &best.plan {
                    let known = known.strategy.clone();
                    steps = towards::towards(problem, &start, &known);
                    // A change on the way may beat what the search found.
                    steps
                        .iter()
                        .filter_map(|step| step.runs(problem))
                        .for_each(|step| best.hear(problem, step));
                    if best.plan.as_ref().is_ok_and(|best| best.strategy == known) {
                        break;
                    }
                }
                Finding::Fits { mine: Box::new(mine), steps }
            } else {
                let fixes = Box::new(fixes::fixes(problem, &start));
                let same = fixes.fitting.iter().filter(|fix| !fix.key.key.changes_numerics());
                same.for_each(|fix| best.hear(problem, &fix.candidate));
                Finding::OutOfMemory { mine: Box::new(mine), fixes }
            };
            best.beside(finding)
        }
        Err(broken) => {
            let nearest = nearest::nearest(typed, &problem.facts).map(|strategy| problem.play(strategy));
            let mut best = Best::search(problem, nearest.as_ref().map(|nearest| &nearest.strategy), progress);
            nearest
                .iter()
                .filter(|nearest| problem.fits(nearest))
                .for_each(|nearest| best.hear(problem, nearest));
            best.beside(Finding::Illegal { broken, nearest: nearest.map(Box::new) })
        }
    }
}

/// The plan that the search for the same problem answers with, as long as nothing beats it.
struct Best {
    request: Request,
    plan: Result<Candidate, Failure>,
    fastest: Option<Candidate>,
    account: Option<Account>,
}

impl Best {
    /// Searches among the strategies that train the same numbers as `mine`.
    fn search(problem: &Problem<'_>, mine: Option<&Strategy>, progress: &(dyn Fn(Progress) + Sync)) -> Self {
        let mut request = Request::plain();
        let draft = mine.map(|mine| mine.draft(problem.facts.defaults)).unwrap_or_default();
        for key in Key::ALL.iter().filter(|key| key.changes_numerics()) {
            request.fix.take(*key, &draft);
        }
        match search(problem, &request, progress) {
            Ok(Outcome { winner, fastest, account, .. }) => {
                let fastest = Some(fastest.unwrap_or_else(|| winner.clone()));
                Self { request, plan: Ok(winner), fastest, account: Some(account) }
            }
            Err(failure) => Self { request, plan: Err(failure), fastest: None, account: None },
        }
    }

    /// Takes note of `known`, which fits and trains the same numbers: what beats the plan takes its place.
    fn hear(&mut self, problem: &Problem<'_>, known: &Candidate) {
        let time = |candidate: &Candidate| candidate.playback.step_time.0;
        if self.fastest.as_ref().is_none_or(|fastest| time(known) < time(fastest)) {
            self.fastest = Some(known.clone());
        }
        if self.plan.as_ref().map_or(true, |plan| robust::beats(problem, &self.request, known, plan)) {
            self.plan = Ok(known.clone());
        }
    }

    fn beside(self, finding: Finding) -> Explained {
        let Self { plan, fastest, account, .. } = self;
        Explained { finding, best: plan, fastest, account }
    }
}

/// A strategy whose keys are changed.
struct Start<'s> {
    /// As it was typed: with keys that have no effect as it is, and may have one beside another value.
    typed: Cow<'s, Draft>,
    strategy: &'s Strategy,
}

impl Start<'_> {
    /// The same with `keys` as in `value`.
    fn with(&self, keys: impl Iterator<Item = Key>, value: &Draft) -> Self {
        let mut typed = self.typed.clone();
        keys.for_each(|key| typed.to_mut().take(key, value));
        Self { typed, strategy: self.strategy }
    }

    /// The strategy with `key` as in `value`; none where that changes nothing.
    fn change(&self, problem: &Problem<'_>, key: Key, value: &Draft) -> Result<Option<Change>, RuleBreak> {
        let defaults = problem.facts.defaults;
        let changed = |draft: &Draft| draft.changed(key, value, &problem.facts);
        let (_, changed) = changed(&self.strategy.draft(defaults))
            .or_else(|broken| changed(&self.typed).map_err(|_| broken))?;
        let mut follows = self.strategy.changes_to(&changed, defaults);
        let place = follows.iter().position(|change| change.key == key);
        Ok(place.map(|place| Change { key: follows.remove(place), follows, strategy: changed }))
    }
}

#[cfg(test)]
mod tests;
