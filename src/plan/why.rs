//! The last sentence of an explanation: what binds, and what to do next.

use crate::plan::explanation::{Dominant, Explained, Explanation, Fix, KeyOutcome};
use crate::search::{Failure, Problem};
use crate::units::{Bytes, Seconds};

/// Steps that differ by less than this share are equally fast.
const EQUAL: f64 = 5e-4;

/// What binds, and what to do next; `failure` says why there is no best plan.
pub(super) fn why(problem: &Problem<'_>, document: &Explanation, failure: Option<&Failure>) -> String {
    match document.fits {
        None => illegal(document, failure),
        Some(false) => out_of_memory(problem, document, failure),
        Some(true) => fits(document),
    }
}

fn illegal(document: &Explanation, failure: Option<&Failure>) -> String {
    let rule = document.rule.map_or("", |rule| rule.name());
    let next = match (&document.nearest_strategy, &document.best) {
        (Some(near), _) if near.prediction.fits => {
            let pace = document.best.as_ref().map_or(String::new(), |best| format!(", {}", pace(near, best)));
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

fn out_of_memory(problem: &Problem<'_>, document: &Explanation, failure: Option<&Failure>) -> String {
    let mut text = binds(problem, document) + "; ";
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
        Some(best) => format!("; the best plan takes {}.", best.prediction.step_time_s),
        None => format!("; {}.", reason(failure)),
    };
    text
}

/// What there is too little of.
fn binds(problem: &Problem<'_>, document: &Explanation) -> String {
    let over = document.over_bytes.unwrap_or_default();
    if over == Bytes::ZERO {
        let host = document.over_host_bytes.unwrap_or_default();
        return format!("Out of host memory by {host} a device: offload less");
    }
    let most =
        document.dominated_by.as_ref().map_or(String::new(), |Dominant { category, bytes, .. }| {
            format!(", of which {category} take most ({bytes})")
        });
    let process = document.prediction.as_ref().map(|prediction| prediction.safe_memory_bytes.process);
    let error = problem.uncertainty().memory;
    let is_close = process.is_some_and(|process| (over.0 as f64) < error * process.0 as f64);
    let doubt = if is_close {
        format!(", within the error of the prediction (± {:.0} %)", 100.0 * error)
    } else {
        String::new()
    };
    format!("Out of memory by {over} a device{most}{doubt}")
}

fn fits(document: &Explanation) -> String {
    let slower = document.slower_by.unwrap_or_default();
    if slower <= 0.0 {
        let proven = document.search.as_ref().is_some_and(|search| search.proven_optimal);
        let proof = if proven { ", and none can be faster" } else { "" };
        return format!("This is the best plan: the search finds none that is faster{proof}.");
    }
    let worst = document.causes.first().map_or(String::new(), |cause| {
        format!("; most goes to {} (+ {})", cause_name(&cause.cause), cause.lost_s)
    });
    let lead = if slower < EQUAL {
        return "As fast as the best plan: the two differ by less than 0.05 %.".to_owned();
    } else {
        format!("{:.1} % slower than the best plan{worst}", 100.0 * slower)
    };
    let lost = document
        .prediction
        .as_ref()
        .zip(document.best.as_ref())
        .map_or(Seconds::ZERO, |(mine, best)| mine.step_time_s - best.prediction.step_time_s);
    let step = document
        .changes
        .iter()
        .find(|step| step.outcome == KeyOutcome::Fits && step.saved_s.is_some_and(|saved| saved.0 > 0.0));
    match step.and_then(|step| step.saved_s.map(|saved| (step, saved))) {
        Some((step, saved)) => format!(
            "{lead}; {}={} alone wins {:.0} % of that ({saved} of {lost}).",
            step.key,
            step.to,
            100.0 * saved.0 / lost.0
        ),
        None => format!("{lead}; no key alone helps, the plan is to be taken whole."),
    }
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

/// `12.0 % slower than the best plan`.
fn pace(near: &Explained, best: &Explained) -> String {
    let slower = near.prediction.step_time_s.0 / best.prediction.step_time_s.0 - 1.0;
    if slower < EQUAL {
        "as fast as the best plan".to_owned()
    } else {
        format!("{:.1} % slower than the best plan", 100.0 * slower)
    }
}

fn instead(best: Option<&Explained>) -> String {
    best.map_or(String::new(), |best| format!("; the best plan is {}", best.strategy.text))
}

fn reason(failure: Option<&Failure>) -> String {
    failure.map_or_else(String::new, Failure::to_string)
}
