//! The map around a plan: questions about neighbouring settings, and the document that answers them.

mod choose;
mod front;
mod questions;
pub mod records;
mod written;

pub use questions::{Goal, Questions};
pub use records::{BreakEvenRecord, ChangeRecord, KeptRecord, MaximumRecord, SensitivityRecord, SweepPoint};

use self::choose::{Chosen, choose};
use crate::plan::Plan;
use crate::plan::assemble::digest;
use crate::plan::searched;
use crate::search::map::{Setting, Until, Watch, maximum, sensitivity, sweep};
use crate::search::{Failure, Request};
use crate::units::grouped;

/// The best plan of `home` and the answers to `questions`. Where nothing fits there, but elsewhere on the map, the plan
/// is of the nearest such setting, with a warning that says so.
///
/// # Errors
/// As [`crate::search::search`], where nothing fits anywhere.
pub fn answer(
    home: &Setting<'_>,
    request: &Request,
    questions: &Questions<'_>,
    watch: Watch<'_>,
) -> Result<Plan, Failure> {
    let until = if questions.goal == Goal::FewestDevices { Until::FirstFit } else { Until::End };
    let swept = questions.sweep.as_ref().inspect(|_| (watch.step)("sweep"));
    let points = swept.map(|asked| sweep(asked, request, until, watch)).unwrap_or_default();
    let maximized = questions.maximize.as_ref().inspect(|_| (watch.step)("maximize"));
    let largest = maximized.map(|(what, ceiling)| (*what, maximum(home, request, *what, ceiling, watch)));
    (watch.step)("the plan");
    let chosen = choose(home, request, questions, &points, largest.as_ref(), watch)?;
    let Chosen { setting, outcome, warning } = &chosen;
    let problem = setting.problem();
    let winner = &outcome.winner;
    let mut plan = searched::written(&problem, outcome);
    plan.warnings.extend(warning.clone());
    (plan.goodput, plan.cost) = questions.money(&problem, winner);
    if let Some(asked) = &questions.sweep {
        plan.swept = Some(asked.key);
        plan.sweep = written::sweep_points(asked.key, &points, questions);
        plan.break_evens = written::break_evens(asked.key, &points);
    }
    if let Some(pareto) = front::front(questions, &points, &chosen) {
        plan.pareto = pareto;
    }
    if questions.sensitivity {
        (watch.step)("sensitivity");
        let answers = sensitivity(setting, request, &winner.strategy, watch);
        plan.sensitivity = answers.iter().map(written::sensitivity).collect();
    }
    let lengths = points.iter().map(|point| point.setting.workload.seq_len);
    let found = largest.as_ref().and_then(|(_, found)| Some(found.as_ref().ok()?.setting.workload.seq_len));
    plan.warnings.extend(too_long(home, lengths.chain(found).max()));
    plan.maximum = largest.map(|(what, found)| written::maximum(what, found));
    searched::say_interrupted(&mut plan, request);
    plan.digest = digest(&plan);
    Ok(plan)
}

/// That the map holds longer sequences than the model's configuration allows, where the plan's own warnings do not
/// say so.
fn too_long(home: &Setting<'_>, longest: Option<u64>) -> Option<String> {
    let allowed = home.model.max_sequence?;
    let longest = longest.filter(|&longest| longest > allowed.max(home.workload.seq_len))?;
    Some(format!(
        "The map holds sequences of up to {} tokens; the configuration of {} allows {}.",
        grouped(longest),
        home.model.name,
        grouped(allowed)
    ))
}
