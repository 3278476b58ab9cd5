//! The map around a plan on a terminal: the sweep, where it changes, what if, and the largest that fits.

use comfy_table::{ColumnConstraint, Width};

use crate::plan::Plan;

use super::super::{map, words};
use super::sheet::Sheet;
use super::tables::{folded, table, write};

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
    let has = |is_there: fn(&crate::plan::map::SweepPoint) -> bool| plan.sweep.iter().any(is_there);
    let has_efficiency = has(|point| point.efficiency.is_some());
    let has_days = has(|point| point.goodput.is_some());
    let has_cost = has(|point| point.cost.is_some());
    let optional = [(has_efficiency, "efficiency"), (has_days, "run"), (has_cost, "cost/M")];
    let mut header = vec![map::column(key), "step", "tokens/s", "memory"];
    header.extend(optional.iter().filter(|(is_shown, _)| *is_shown).map(|(_, name)| *name));
    let numbers: Vec<usize> = (0..header.len()).collect();
    header.push("plan");
    let place = header.len() - 1;
    let mut table = table(sheet, &header, &numbers);
    let strategy = sheet.room() * 2 / 5;
    for point in &plan.sweep {
        let mut row = vec![map::shown(key, map::value(key, point))];
        let number = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        row.push(number(point.prediction.as_ref().map(|prediction| prediction.step_time_s.to_string())));
        row.push(number(point.tokens_per_s.map(words::rate)));
        row.push(number(
            point.prediction.as_ref().map(|prediction| prediction.peak_memory_bytes.to_string()),
        ));
        if has_efficiency {
            row.push(number(point.efficiency.map(words::percent)));
        }
        if has_days {
            let days = point.goodput.as_ref().and_then(|goodput| goodput.days);
            row.push(number(days.map(|days| map::span(days * 86_400.0))));
        }
        if has_cost {
            row.push(number(point.cost.map(|cost| map::million(cost.token).to_string())));
        }
        let chosen = if map::is_chosen(plan, point) { "* " } else { "" };
        let said = match (&point.strategy, &point.reason) {
            (Some(strategy), _) => format!("{chosen}{}", strategy.text),
            (None, reason) => map::short_reason(reason.as_deref().unwrap_or_default()),
        };
        row.push(folded(&said, strategy));
        table.add_row(row);
    }
    if let (Some(column), Ok(strategy)) = (table.column_mut(place), u16::try_from(strategy)) {
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(strategy + 2)));
    }
    write(sheet, "sweep", &table);
    if plan.sweep.iter().any(|point| map::is_chosen(plan, point)) {
        sheet.paragraph("", "* the plan above");
    }
    for (place, found) in plan.break_evens.iter().enumerate() {
        sheet.paragraph(if place == 0 { "changes" } else { "" }, &map::break_even(key, found));
    }
}

/// What the plan would be were one thing different.
pub fn sensitivity(sheet: &mut Sheet, plan: &Plan) {
    if plan.sensitivity.is_empty() {
        return;
    }
    let mut table = table(sheet, &["with", "step", "best plan then", "keeping this plan costs"], &[1]);
    let strategy = sheet.room() / 3;
    for answer in &plan.sensitivity {
        let step = answer.prediction.as_ref().map(|prediction| prediction.step_time_s.to_string());
        table.add_row([
            answer.scenario.words().to_owned(),
            step.unwrap_or_else(|| "-".to_owned()),
            folded(&map::changes(plan, answer), strategy),
            map::kept(&answer.kept),
        ]);
    }
    write(sheet, "what if", &table);
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
