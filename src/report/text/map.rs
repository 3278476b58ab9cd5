//! The map around a plan on a terminal: the sweep, where it changes, what if, and the largest that fits.

use crate::plan::Plan;
use crate::plan::map::SweepPoint;

use super::super::{map, words};
use super::listing::{
    Column::{Number, Text},
    Listing,
};
use super::sheet::Sheet;

/// Time and money of the plan and of the run.
pub fn run(sheet: &mut Sheet, plan: &Plan) {
    if let Some(goodput) = &plan.goodput {
        sheet.flow("run", &map::run(goodput));
    }
    if let Some(cost) = &plan.cost {
        sheet.flow("cost", &map::cost(cost, plan.goodput.as_ref()));
    }
}

/// The best plan at each value, and between which values its kind changes.
pub fn sweep(sheet: &mut Sheet, plan: &Plan) {
    let Some(key) = plan.swept else { return };
    let columns: Vec<(&str, Vec<Option<String>>)> = [
        column(plan, map::column(key), |point| Some(map::shown(key, map::value(key, point)))),
        column(plan, "step", |point| Some(point.prediction.as_ref()?.step_time_s.to_string())),
        column(plan, "tokens/s", |point| point.tokens_per_s.map(words::rate)),
        column(plan, "memory", |point| Some(point.prediction.as_ref()?.process_bytes().to_string())),
        column(plan, "scaling", |point| point.efficiency.map(words::percent)),
        column(plan, "run", |point| Some(map::span(point.goodput.as_ref()?.days? * 86_400.0))),
        column(plan, "cost/M", |point| point.cost.map(|cost| map::million(cost.token).to_string())),
    ]
    .into_iter()
    // What no point has is not shown.
    .filter(|(_, cells)| cells.iter().any(Option::is_some))
    .collect();
    let (header, cells): (Vec<&str>, Vec<_>) = columns.into_iter().unzip();
    let plans = plan.sweep.iter().map(|point| match (&point.strategy, &point.reason) {
        (Some(strategy), _) => {
            let mark = if map::is_chosen(plan, point) { "* " } else { "" };
            mark.to_owned() + &map::short_strategy(&strategy.text)
        }
        (None, reason) => map::first_words(reason.as_deref().unwrap_or_default()),
    });
    let numbers = header.iter().map(|&name| (name, Number));
    let mut table = Listing::new(&numbers.chain([("plan", Text)]).collect::<Vec<_>>());
    for (place, said) in plans.enumerate() {
        let numbers = cells.iter().map(|column| column[place].clone().unwrap_or_else(|| "-".to_owned()));
        table.row(numbers.chain([said]));
    }
    sheet.listing("sweep", &table);
    if plan.sweep.iter().any(|point| map::is_chosen(plan, point)) {
        sheet.paragraph("", "* the plan above");
    }
    for (place, point) in plan.sweep.iter().filter(|point| point.reason.is_some()).enumerate() {
        let value = map::shown(key, map::value(key, point));
        let reason = map::short_reason(point.reason.as_deref().unwrap_or_default());
        sheet.paragraph(if place == 0 { "no plan" } else { "" }, &format!("{value}: {reason}"));
    }
    for (place, found) in plan.break_evens.iter().enumerate() {
        sheet.paragraph(if place == 0 { "changes" } else { "" }, &map::break_even(key, found));
    }
}

fn column<'h>(
    plan: &Plan,
    head: &'h str,
    read: impl Fn(&SweepPoint) -> Option<String>,
) -> (&'h str, Vec<Option<String>>) {
    (head, plan.sweep.iter().map(read).collect())
}

/// What the plan would be were one thing different.
pub fn sensitivity(sheet: &mut Sheet, plan: &Plan) {
    if plan.sensitivity.is_empty() {
        return;
    }
    let mut table = Listing::new(&[
        ("step", Number),
        ("with", Text),
        ("best plan then", Text),
        ("keeping this plan costs", Text),
    ]);
    for answer in &plan.sensitivity {
        let step = answer.prediction.as_ref().map(|prediction| prediction.step_time_s.to_string());
        let step = step.unwrap_or_else(|| "-".to_owned());
        table.row([
            step,
            answer.scenario.words().to_owned(),
            map::changes(plan, answer),
            map::kept(&answer.kept),
        ]);
    }
    sheet.listing("what if", &table);
}

/// The largest that fits.
pub fn maximum(sheet: &mut Sheet, plan: &Plan) {
    if let Some(record) = &plan.maximum {
        let [found, next] = map::maximum(record);
        sheet.gap();
        sheet.paragraph("largest", &found);
        sheet.paragraph("", &next);
    }
}
