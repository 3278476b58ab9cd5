//! A validation as Markdown, for a page of the documentation.

use std::fmt::Write as _;

use super::listing::{Listing, listings};
use crate::export::syntax::markdown::sentence;
use crate::units::several;
use crate::validate::Validation;

/// The listings of `validation` as Markdown, dated `date`; `every_run` shows each run however many there are.
pub fn validation_markdown(validation: &Validation, date: &str, every_run: bool) -> String {
    let mut text = format!(
        "# Predicted against measured\n\nWritten by `meshwright validate` {} on {date}: {} simulated, {} not.\n",
        env!("CARGO_PKG_VERSION"),
        several("run", validation.runs.len()),
        validation.skipped.len(),
    );
    for listing in listings(validation, every_run) {
        part(&mut text, &listing);
    }
    text
}

fn part(text: &mut String, listing: &Listing) {
    let _ = writeln!(text, "\n## {}\n", listing.title);
    if !listing.note.is_empty() {
        let _ = writeln!(text, "{}\n", listing.note);
    }
    row(text, listing.columns.iter().map(|(name, _)| *name));
    row(text, listing.columns.iter().map(|(_, is_number)| if *is_number { "---:" } else { "---" }));
    for cells in &listing.rows {
        row(text, cells.iter().map(String::as_str));
    }
}

fn row<'a>(text: &mut String, cells: impl Iterator<Item = &'a str>) {
    let _ = writeln!(text, "| {} |", cells.map(sentence).collect::<Vec<_>>().join(" | "));
}
