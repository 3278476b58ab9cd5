//! The section on what measured runs a plan rests on, the faster plan that it stands in for, and the engines side by side.

use maud::{Markup, html};

use super::super::words;
use super::copying::code;
use super::section;
use super::tables::{plain, table};
use crate::plan::Plan;

/// Nothing where no run is known and nothing lacks one.
pub fn evidence(plan: &Plan) -> Markup {
    let evidence = &plan.evidence;
    if evidence.runs == 0 && evidence.unvalidated.is_empty() && plan.engines.is_empty() {
        return html! {};
    }
    section(
        "evidence",
        "What it rests on",
        html! {
            p { (words::measured(evidence)) "." }
            @if !evidence.unvalidated.is_empty() {
                p.caution { "Not validated: " (evidence.unvalidated.join("; ")) "." }
            }
            @if !evidence.nearest.is_empty() { (nearest(plan)) }
            @if let Some(fastest) = &plan.fastest {
                p { "Fastest on paper: " (code(&fastest.strategy.text)) ", " (fastest.prediction.step_time_s) ": " (fastest.buys) "." }
            }
            @if !plan.engines.is_empty() { (engines(plan)) }
        },
    )
}

fn nearest(plan: &Plan) -> Markup {
    let columns = [
        ("run", false),
        ("engine", false),
        ("shares", false),
        ("time off by", true),
        ("memory off by", true),
        ("MFU", true),
    ];
    let signed =
        |error: Option<f64>| error.map_or("-".to_owned(), |error| format!("{:+.1} %", 100.0 * error));
    let rows = plan.evidence.nearest.iter().map(|run| {
        vec![
            plain(&run.id),
            plain(&run.engine),
            plain(run.shared.join(", ")),
            plain(signed(run.time_error)),
            plain(signed(run.memory_error)),
            plain(run.mfu.map_or("-".to_owned(), words::percent)),
        ]
    });
    table("The measured runs nearest to the plan", &columns, rows)
}

fn engines(plan: &Plan) -> Markup {
    let columns =
        [("engine", false), ("step time", true), ("MFU", true), ("measured runs", true), ("plan", false)];
    let rows = plan.engines.iter().map(|record| {
        let prediction = record.prediction.as_ref();
        let shown = |text: Option<String>| plain(text.unwrap_or_else(|| "-".to_owned()));
        vec![
            plain(&record.engine),
            shown(prediction.map(|one| one.step_time_s.to_string())),
            shown(prediction.map(|one| words::percent(one.mfu))),
            shown(record.evidence.as_ref().map(|one| one.runs.to_string())),
            match (&record.strategy, &record.failure) {
                (Some(strategy), _) => code(&strategy.text),
                (None, failure) => plain(failure.clone().unwrap_or_default()),
            },
        ]
    });
    table("The best plan of each engine", &columns, rows)
}
