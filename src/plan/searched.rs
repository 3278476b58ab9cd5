//! From a search's answer to the plan document.

use crate::plan::assemble::{digest, document, peak, prediction, strategy_record};
use crate::plan::document::{Alternative, FastestRecord, LadderStep, ParetoPoint, Plan, SearchAccount};
use crate::plan::evidence::evidence;
use crate::plan::verdict::{memory_verdict, verdict};
use crate::search::{Account, Candidate, Failure, Objective, Outcome, Problem, Progress, Request};
use crate::units::{Bytes, several, tenths};

/// Searches `problem` and writes the best plan up, with its neighbours and the ladder that leads to it.
///
/// # Errors
/// As [`crate::search::search`].
pub fn search(
    problem: &Problem<'_>,
    request: &Request,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Plan, Failure> {
    let outcome = crate::search::search(problem, request, progress)?;
    let mut plan = written(problem, &outcome);
    plan.digest = digest(&plan);
    Ok(plan)
}

/// The document of what a search found; the digest is left to the caller.
pub(super) fn written(problem: &Problem<'_>, outcome: &Outcome) -> Plan {
    let winner = &outcome.winner;
    let mut plan = document(problem, winner);
    let fastest = outcome.fastest.as_ref().unwrap_or(winner);
    plan.search = Some(account(&outcome.account, fastest));
    plan.fastest = outcome.fastest.as_ref().map(|fastest| fastest_record(problem, winner, fastest));
    plan.warnings.extend(numerics_of_recipes(problem, winner));
    let held = |fixed: &String| format!("{fixed} is held, a value that the search does not try by itself");
    plan.warnings.extend(outcome.account.outside.iter().map(held));
    plan.warnings.extend(outcome.account.idle.iter().cloned());
    plan.alternatives = outcome
        .alternatives
        .iter()
        .map(|candidate| Alternative {
            strategy: strategy_record(problem, &candidate.strategy),
            prediction: prediction(problem, candidate),
            trades: trades(winner, candidate),
        })
        .collect();
    plan.ladder = outcome
        .ladder
        .iter()
        .map(|(changed, candidate)| LadderStep {
            strategy: strategy_record(problem, &candidate.strategy),
            prediction: prediction(problem, candidate),
            changed: changed.clone(),
        })
        .collect();
    plan.pareto = outcome
        .pareto
        .iter()
        .map(|candidate| ParetoPoint {
            strategy: candidate.strategy.text(problem.facts.defaults),
            step_time_s: candidate.playback.step_time,
            peak_memory_bytes: peak(problem, candidate),
            process_bytes: Some(candidate.memory.process),
            devices: None,
            cost_token: None,
        })
        .collect();
    plan.verdict = match outcome.account.least_memory {
        None => verdict(problem, winner, &plan.prediction),
        Some(_) => memory_verdict(problem, winner, &plan.prediction),
    };
    plan
}

/// Says that gradients are in another type than those of a strategy that says nothing, if that is the search's choice.
fn numerics_of_recipes(problem: &Problem<'_>, winner: &Candidate) -> Option<String> {
    let (own, default) = (winner.strategy.gradient_type, problem.facts.defaults.gradient);
    (own != default && problem.engine.defaults.gradient == Some(own)).then(|| {
        let engine = &problem.engine.name;
        format!(
            "gradients are kept and reduced in {own}, as {engine}'s own recipes do; with --fix grad={default},reduce={default} \
             they stay in {default}"
        )
    })
}

/// Warns that `plan` is what was found until `request` was asked to stop, where it was.
pub(super) fn say_interrupted(plan: &mut Plan, request: &Request) {
    let Some(search) = plan.search.as_ref().filter(|_| request.stop.is_asked()) else { return };
    let considered = several("strategy", search.considered);
    let measure = match search.objective {
        Objective::Time => "time",
        Objective::Memory => "memory",
    };
    let said = if search.proven_optimal {
        "Interrupted: the plan itself is proven; what is listed beside it may be incomplete.".to_owned()
    } else if search.gap < 1.0 {
        format!(
            "Interrupted: this is the best plan found so far, of {considered} considered. It is not proven: the best may \
             take up to {:.0} % less {measure}.",
            (100.0 * search.gap).ceil()
        )
    } else {
        format!(
            "Interrupted: this is the best plan found so far, of {considered} considered. It is not proven: others were \
             not looked at, and no bound is known of them."
        )
    };
    plan.warnings.insert(0, said);
}

/// The fastest plan, beside `winner`, which is the answer in its place.
fn fastest_record(problem: &Problem<'_>, winner: &Candidate, fastest: &Candidate) -> FastestRecord {
    let prediction = prediction(problem, fastest);
    let unvalidated = evidence(problem, &fastest.strategy, &prediction).unvalidated;
    let changes = winner.strategy.changes_to(&fastest.strategy, problem.facts.defaults);
    let changes: Vec<String> = changes.iter().map(|change| format!("{}={}", change.key, change.to)).collect();
    let bought = 1.0 - fastest.playback.step_time.0 / winner.playback.step_time.0;
    let memory = 1.0 - fastest.memory.process.0 as f64 / problem.memory_limit.0 as f64;
    let doubts = match unvalidated.len() {
        0 => String::new(),
        _ => format!("; no measured run covers {}", unvalidated.join(", ")),
    };
    let buys = format!(
        "{} less time on paper for {}, with {:.0} % of the memory free{doubts}",
        tenths(bought),
        changes.join(" "),
        100.0 * memory
    );
    FastestRecord { strategy: strategy_record(problem, &fastest.strategy), prediction, unvalidated, buys }
}

/// A plan is proven if no strategy takes this share less.
const PROVEN: f64 = 0.005;

/// What became of all strategies, and how far `winner` may be from the best.
pub(super) fn account(account: &Account, winner: &Candidate) -> SearchAccount {
    let above = |best: f64, lowest: f64| ((best - lowest) / best).max(0.0);
    let (objective, gap) = match account.least_memory {
        Some(least) => (Objective::Memory, above(winner.peak().0 as f64, least.0 as f64)),
        None => {
            let best = winner.playback.step_time.0;
            (Objective::Time, account.lowest_bound.map_or(0.0, |lowest| above(best, lowest.0)))
        }
    };
    let robust_gap = account.robust.map(|robust| above(robust.upper.0, robust.lower.0));
    SearchAccount {
        objective,
        robust_gap,
        considered: account.considered,
        illegal: account.illegal,
        out_of_memory: account.out_of_memory,
        bounded: account.bounded,
        priced: account.priced,
        played: account.played,
        proven_optimal: gap <= PROVEN,
        gap,
        inner_choices_log10: account.inner_choices_log10,
        wall_time_s: account.wall_time.0,
        axes: account.axes.clone(),
        held: account.held.clone(),
    }
}

/// What `other` trades against `winner`, in a sentence.
fn trades(winner: &Candidate, other: &Candidate) -> String {
    let time = other.playback.step_time.0 / winner.playback.step_time.0 - 1.0;
    let (mine, theirs) = (winner.memory.process, other.memory.process);
    let memory = if theirs < mine {
        format!("{} less memory a device", Bytes(mine.0 - theirs.0))
    } else {
        format!("{} more memory a device", Bytes(theirs.0 - mine.0))
    };
    let pace = if time.abs() < 5e-4 {
        "as fast".to_owned()
    } else if time > 0.0 {
        format!("{:.1} % slower", 100.0 * time)
    } else {
        format!("{:.1} % faster", -100.0 * time)
    };
    format!("{pace}, {memory}")
}
