//! What a fit found, and how its numbers do on sources that they have not seen, as text.

use super::table::table;
use crate::calibrate::fitting::report::{Bound, Fitted};
use crate::calibrate::fitting::unseen::{Beside, Moved, SourceErrors};
use crate::calibrate::fitting::{FitReport, LeftOut};
use crate::profile::coverage::HalfWidths;
use crate::report::Column::{Name, Number, Text};

fn number(value: f64) -> String {
    if value == 0.0 || (1e-2..1e4).contains(&value.abs()) {
        format!("{value:.4}")
    } else {
        format!("{value:.3e}")
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// The report of a fit.
pub fn fit_text(report: &FitReport) -> String {
    let parameters = report.parameters.iter().map(|parameter| {
        let families: Vec<String> = parameter
            .fixed_by
            .iter()
            .take(3)
            .map(|one| format!("{} {:.0} %", one.family, 100.0 * one.share))
            .collect();
        [
            parameter.files.join("+"),
            parameter.path.clone(),
            number(parameter.before),
            number(parameter.value),
            number(parameter.expected),
            parameter.standard_error.map_or("-".to_owned(), number),
            format!("{:+.1}", parameter.strain),
            note(parameter),
            families.join(", "),
        ]
    });
    let columns = [
        ("FILE", Text),
        ("NUMBER", Text),
        ("BEFORE", Number),
        ("FITTED", Number),
        ("EXPECTED", Number),
        ("ERROR", Number),
        ("STRAIN", Number),
        ("", Text),
        ("FIXED BY", Text),
    ];
    let mut text = table(columns, parameters);
    let families = report.families.iter().map(|family| {
        [
            family.family.clone(),
            family.quantity.clone(),
            family.runs.to_string(),
            percent(family.before),
            percent(family.after),
            percent(family.bias_before),
            percent(family.bias),
        ]
    });
    let columns = [
        ("FAMILY", Name),
        ("OF", Name),
        ("RUNS", Number),
        ("ERROR BEFORE", Number),
        ("AFTER", Number),
        ("BIAS BEFORE", Number),
        ("AFTER", Number),
    ];
    text += &format!("\n\n{}", table(columns, families));
    let kin = report.kin.iter().map(|kin| {
        [kin.name.clone(), kin.path.clone(), kin.members.to_string(), number(kin.expected), number(kin.mean)]
    });
    if !report.kin.is_empty() {
        let columns =
            [("KIN", Text), ("NUMBER", Text), ("MEMBERS", Number), ("EXPECTED", Number), ("MEAN", Number)];
        text += &format!("\n\n{}", table(columns, kin));
    }
    let strained = report.parameters.iter().filter(|one| one.is_strained || one.at_bound.is_some()).count();
    if let Some(left_out) = &report.left_out {
        text += &format!("\n\n{}", left_out_text(left_out).trim_end());
    }
    let FitReport { runs, loss_before, loss, loss_left, shortcut, evaluations, jacobians, seconds, .. } =
        report;
    text + &format!(
        "\n\n{} parameters, {runs} runs, {} skipped; loss {loss_before:.4} -> {loss:.4}, {} of it left to gain; \
         {strained} strained or at a limit; {evaluations} evaluations, {jacobians} times all derivatives, shortcut {shortcut:.5}, {seconds:.1} s\n",
        report.parameters.len(),
        report.skipped.len(),
        percent(*loss_left),
    )
}

/// What is wrong with the value of a parameter.
fn note(parameter: &Fitted) -> String {
    match parameter.at_bound {
        Some(Bound::Lower) => "at its lower limit".to_owned(),
        Some(Bound::Upper) => "at its upper limit".to_owned(),
        None if parameter.is_strained => "strained: a cause is missing".to_owned(),
        None => String::new(),
    }
}

/// The report of sources left out.
pub fn left_out_text(report: &LeftOut) -> String {
    let row = |source: &SourceErrors, quantity: &str, beside: &Beside, moved: String| {
        let Beside { runs, fitted, left_out } = beside;
        [
            source.family.clone(),
            quantity.to_owned(),
            runs.to_string(),
            percent(fitted.mean),
            percent(left_out.mean),
            percent(left_out.median),
            format!("{:+.1} %", 100.0 * left_out.bias),
            moved,
        ]
    };
    let rows = report.sources.iter().chain([&report.all]).flat_map(|source| {
        let moved: Vec<String> = source.moved.iter().map(moved_text).collect();
        let mut moved = moved.join(", ");
        let both = [("time", &source.time), ("memory", &source.memory)];
        let both = both.into_iter().filter_map(|(quantity, beside)| Some((quantity, beside.as_ref()?)));
        both.map(|(quantity, beside)| row(source, quantity, beside, std::mem::take(&mut moved)))
            .collect::<Vec<_>>()
    });
    let columns = [
        ("SOURCE LEFT OUT", Name),
        ("OF", Name),
        ("RUNS", Number),
        ("FITTED", Number),
        ("LEFT OUT", Number),
        ("MEDIAN", Number),
        ("BIAS", Number),
        ("NUMBERS THAT MOVED MOST", Text),
    ];
    let mut text = format!("{}\n", table(columns, rows));
    if let Some(intervals) = &report.intervals {
        let share = |HalfWidths { time, memory }: HalfWidths| {
            format!("{:.0} % of times and {:.0} % of memories", 100.0 * time, 100.0 * memory)
        };
        text += &format!(
            "\nIntervals hold {}; those made without the source {}\n",
            share(intervals.of_table),
            share(intervals.unseen),
        );
    }
    text + &format!("\n{} skipped, {:.1} s\n", report.skipped.len(), report.seconds)
}

fn moved_text(moved: &Moved) -> String {
    let Moved { files, path, with, without } = moved;
    let first = files.first().map_or("", String::as_str);
    let more = if files.len() > 1 { "+" } else { "" };
    format!("{first}{more} {path} {} -> {}", number(*with), number(*without))
}
