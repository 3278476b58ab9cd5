//! The map around a plan on a terminal: the sweep, where it changes, what if, and the largest that fits.

use comfy_table::ColumnConstraint;

use crate::plan::Plan;
use crate::plan::map::SweepPoint;

use super::super::{map, words};
use super::sheet::{Sheet, pieces, plain, wrapped};
use super::tables::{table, write};

/// Blanks behind a column.
const GAP: usize = 2;
/// Columns of text are no narrower.
const LEAST_TEXT: usize = 16;

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
        column(plan, "memory", |point| Some(point.prediction.as_ref()?.peak_memory_bytes.to_string())),
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
    let rows = plans.enumerate().map(|(place, said)| {
        let numbers = cells.iter().map(|column| column[place].clone().unwrap_or_else(|| "-".to_owned()));
        numbers.chain([said]).collect()
    });
    let numbers: Vec<usize> = (0..header.len()).collect();
    let header: Vec<&str> = header.into_iter().chain(["plan"]).collect();
    listing(sheet, "sweep", (&header, &numbers), rows.collect());
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

/// A table of columns of which the numbered are never broken; strategies break behind their commas.
fn listing(sheet: &mut Sheet, label: &str, (header, numbers): (&[&str], &[usize]), rows: Vec<Vec<String>>) {
    let width = |place: usize| {
        let cells = rows.iter().map(|row| row[place].chars().count());
        cells.chain([header[place].chars().count()]).max().unwrap_or(0) + GAP
    };
    let taken: usize = numbers.iter().map(|&place| width(place)).sum();
    let others = (header.len() - numbers.len()).max(1);
    let room = (sheet.room().saturating_sub(taken) / others).saturating_sub(GAP).max(LEAST_TEXT);
    let mut table = table(sheet, header, numbers);
    for row in &rows {
        let cells = row.iter().enumerate();
        table.add_row(cells.map(
            |(place, cell)| {
                if numbers.contains(&place) { cell.clone() } else { broken(cell, room) }
            },
        ));
    }
    for &number in numbers {
        if let Some(column) = table.column_mut(number) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    write(sheet, label, &table);
}

/// A text in lines of `width`, broken behind commas and blanks.
fn broken(text: &str, width: usize) -> String {
    wrapped(&pieces(&plain(text), &[',', ' '], width), "", width).join("\n")
}

/// What the plan would be were one thing different.
pub fn sensitivity(sheet: &mut Sheet, plan: &Plan) {
    if plan.sensitivity.is_empty() {
        return;
    }
    let rows = plan.sensitivity.iter().map(|answer| {
        let step = answer.prediction.as_ref().map(|prediction| prediction.step_time_s.to_string());
        let step = step.unwrap_or_else(|| "-".to_owned());
        vec![step, answer.scenario.words().to_owned(), map::changes(plan, answer), map::kept(&answer.kept)]
    });
    let header = ["step", "with", "best plan then", "keeping this plan costs"];
    listing(sheet, "what if", (&header, &[0]), rows.collect());
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
