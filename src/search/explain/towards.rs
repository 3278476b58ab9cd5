//! What each key costs in which a strategy differs from the best: that key alone set to the best's value, played.

use rayon::prelude::*;

use crate::search::explain::{Change, Start};
use crate::search::problem::{Candidate, Problem};
use crate::strategy::{Key, KeyChange, RuleBreak, Strategy};

/// One key set to the value it has in the best plan.
#[derive(Clone, Debug)]
pub struct Step {
    pub key: KeyChange,
    /// What had to follow.
    pub follows: Vec<KeyChange>,
    pub outcome: StepOutcome,
}

/// What comes of a change.
#[derive(Clone, Debug)]
pub enum StepOutcome {
    /// By itself it is illegal.
    Illegal(RuleBreak),
    Played(Box<Candidate>),
}

impl Step {
    /// The strategy that it makes, if that can be run.
    pub fn runs(&self, problem: &Problem<'_>) -> Option<&Candidate> {
        match &self.outcome {
            StepOutcome::Played(candidate) if problem.fits(candidate) => Some(candidate),
            _ => None,
        }
    }
}

/// All single changes from `start` towards `best`, the one that helps most first.
pub(super) fn towards(problem: &Problem<'_>, start: &Start<'_>, best: &Strategy) -> Vec<Step> {
    let defaults = problem.facts.defaults;
    let target = best.draft(defaults);
    // dp and accum take what the other sizes leave.
    let keys: Vec<KeyChange> = start
        .strategy
        .changes_to(best, defaults)
        .into_iter()
        .filter(|change| !matches!(change.key, Key::Data | Key::Accumulation))
        .collect();
    let steps = keys.into_par_iter().filter_map(|key| match start.change(problem, key.key, &target) {
        Ok(None) => None,
        Ok(Some(Change { key, follows, strategy })) => {
            let outcome = StepOutcome::Played(Box::new(problem.play(strategy)));
            Some(Step { key, follows, outcome })
        }
        Err(broken) => Some(Step { key, follows: Vec::new(), outcome: StepOutcome::Illegal(broken) }),
    });
    let mut steps: Vec<Step> = steps.collect();
    let time = |step: &Step| step.runs(problem).map_or(f64::INFINITY, |played| played.playback.step_time.0);
    steps.sort_by(|one, other| time(one).total_cmp(&time(other)));
    steps
}
