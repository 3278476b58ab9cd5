//! The last sentence of an explanation: what binds, and what to do next.

use crate::plan::document::Prediction;
use crate::plan::explanation::{Explained, Explanation, Fix, KeyOutcome, KeyStep};
use crate::plan::verdict::memory_error;
use crate::plan::verdict::verdict;
use crate::search::explain::Finding;
use crate::search::{Candidate, Failure, Problem, reasons};
use crate::units::{Bytes, agreeing, tenths};

/// Steps that differ by less than this share are equally fast.
const EQUAL: f64 = 5e-4;

/// What binds, and what to do next; `best` is the best plan, or why there is none.
pub(super) fn why(
    problem: &Problem<'_>,
    document: &Explanation,
    finding: &Finding,
    best: Result<&Candidate, &Failure>,
) -> String {
    match finding {
        Finding::Illegal { .. } => illegal(document, best.err()),
        Finding::OutOfMemory { .. } => out_of_memory(document, best.err()),
        Finding::Fits { mine, .. } => {
            best.map_or_else(|_| String::new(), |best| fits(problem, document, mine, best))
        }
    }
}

fn illegal(document: &Explanation, failure: Option<&Failure>) -> String {
    let rule = document.rule.map_or("", |rule| rule.name());
    let next = match (&document.nearest_strategy, &document.best) {
        (Some(near), _) if near.prediction.fits => {
            let pace = document
                .best
                .as_ref()
                .map_or(String::new(), |best| format!(", {}", pace(&near.prediction, &best.prediction)));
            format!("take {}: {} a step{pace}", near.strategy.text, near.prediction.step_time_s)
        }
        (Some(near), best) => {
            format!(
                "{} is the nearest that is legal but does not fit{}",
                near.strategy.text,
                instead(best.as_ref())
            )
        }
        (None, Some(best)) => format!("the best plan is {}", best.strategy.text),
        (None, None) => format!("there is no legal plan: {}", reason(failure)),
    };
    format!("Illegal by rule {rule}; {next}.")
}

fn out_of_memory(document: &Explanation, failure: Option<&Failure>) -> String {
    let mut text = binds(document) + "; ";
    let same_numbers = document.fixes.iter().find(|fix| !fix.changes_numerics);
    text += &match (same_numbers.or(document.fixes.first()), &document.closest) {
        (Some(fix), _) => {
            let numerics = if fix.changes_numerics { ", which trains other numbers" } else { "" };
            let Fix { key, to, step_time_s, .. } = fix;
            format!("{key}={to} is the fastest single change that fits, {step_time_s} a step{numerics}")
        }
        (None, Some(miss)) => {
            let over = if miss.over_bytes > Bytes::ZERO {
                format!("{} over", miss.over_bytes)
            } else {
                format!("{} over on the host", miss.over_host_bytes)
            };
            format!("no single change fits ({}={} comes nearest, still {over})", miss.key, miss.to)
        }
        (None, None) => "no single change fits".to_owned(),
    };
    text += &match &document.best {
        Some(best) if document.fixes.is_empty() => {
            format!("; take {}: {} a step.", best.strategy.text, best.prediction.step_time_s)
        }
        Some(best) => format!("; the best plan takes {}.", best.prediction.step_time_s),
        None => format!("; {}.", reason(failure)),
    };
    text
}

/// What there is too little of.
fn binds(document: &Explanation) -> String {
    let over = document.over_bytes.unwrap_or_default();
    if over == Bytes::ZERO {
        let host = document.over_host_bytes.unwrap_or_default();
        return format!("Out of host memory by {host} a device: offload less");
    }
    let most = document.dominated_by.as_ref();
    let most = most.map_or(String::new(), |most| {
        format!(", and {} {} most ({})", most.words(), agreeing(most.words(), "take"), most.bytes)
    });
    let process = document.prediction.as_ref().map(|prediction| prediction.safe_memory_bytes.process);
    let error = document.prediction.as_ref().map_or(0.0, memory_error);
    let is_close = process.is_some_and(|process| (over.0 as f64) < error * process.0 as f64);
    let doubt = if is_close {
        format!(", within the error of the prediction (± {:.0} %)", 100.0 * error)
    } else {
        String::new()
    };
    format!("Out of memory by {over} a device{most}{doubt}")
}

fn fits(problem: &Problem<'_>, document: &Explanation, mine: &Candidate, chosen: &Candidate) -> String {
    let (Some(prediction), Some(best)) = (&document.prediction, &document.best) else {
        return String::new();
    };
    let lost = prediction.step_time_s - best.prediction.step_time_s;
    if mine.strategy == chosen.strategy {
        let among = match held_numerics(problem, mine) {
            held if held.is_empty() => String::new(),
            held => format!(" with {held}"),
        };
        return format!(
            "This is the best plan{among} that the search finds. {}",
            verdict(problem, mine, prediction)
        );
    }
    if lost.0 < -EQUAL * best.prediction.step_time_s.0 {
        return format!(
            "{}; that is {}, which {}. {}",
            pace(prediction, &best.prediction),
            best.strategy.text,
            reasons(problem, chosen, mine),
            verdict(problem, mine, prediction)
        );
    }
    if lost.0 < EQUAL * best.prediction.step_time_s.0 {
        return format!("As fast as the best plan. {}", verdict(problem, mine, prediction));
    }
    let worst = document.causes.first().map_or(String::new(), |cause| {
        format!("; most goes to {} (+{})", cause_name(&cause.cause), cause.lost_s)
    });
    let lead = pace(prediction, &best.prediction) + &worst;
    let helps = |step: &&KeyStep| step.outcome == KeyOutcome::Fits && step.saved_s.is_some_and(|s| s.0 > 0.0);
    let step = document.changes.iter().find(helps);
    match step.and_then(|step| step.saved_s.map(|saved| (step, saved))) {
        Some((step, saved)) if saved.0 >= lost.0 => {
            format!("{lead}; {}={} alone wins all of it ({saved}).", step.key, step.to)
        }
        Some((step, saved)) => format!(
            "{lead}; {}={} alone wins {:.0} % of it ({saved} of {lost}).",
            step.key,
            step.to,
            100.0 * saved.0 / lost.0
        ),
        None => format!("{lead}; no key alone helps: take {} as a whole.", best.strategy.text),
    }
}

/// What `mine` trains otherwise than by default, which the best plan does too.
fn held_numerics(problem: &Problem<'_>, mine: &Candidate) -> String {
    let values = mine.strategy.values(problem.facts.defaults).into_iter();
    let held = values.filter(|item| item.is_said && item.key.changes_numerics());
    held.map(|item| format!("{}={}", item.key, item.value)).collect::<Vec<_>>().join(",")
}

/// A cause as it is read.
fn cause_name(cause: &str) -> &str {
    match cause {
        "communication_exposed" => "exposed communication",
        "copy_exposed" => "exposed copies",
        "bubble" => "the pipeline bubble",
        "optimizer" => "the optimizer step",
        other => other,
    }
}

/// `12.0 % slower than the best plan`; a faster one is so on paper.
fn pace(prediction: &Prediction, best: &Prediction) -> String {
    let times = prediction.step_time_s.0 / best.step_time_s.0;
    match times - 1.0 {
        slower if slower < -EQUAL => format!("{:.1} % faster on paper than the best plan", -100.0 * slower),
        slower if slower < EQUAL => "as fast as the best plan".to_owned(),
        slower if slower < 1.0 => format!("{} slower than the best plan", tenths(slower)),
        _ => format!("{times:.1} times as long as the best plan"),
    }
}

fn instead(best: Option<&Explained>) -> String {
    best.map_or(String::new(), |best| format!("; the best plan is {}", best.strategy.text))
}

fn reason(failure: Option<&Failure>) -> String {
    failure.map_or_else(String::new, Failure::to_string)
}
