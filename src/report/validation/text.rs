//! A validation as plain text: a heading, then columns of equal width.

use super::listing::{Listing, listings};
use crate::validate::Validation;

/// The listings of `validation` as text; `every_run` shows each run however many there are.
pub fn validation_text(validation: &Validation, every_run: bool) -> String {
    let parts: Vec<_> = listings(validation, every_run).iter().map(part).collect();
    parts.join("\n")
}

fn part(listing: &Listing) -> String {
    let header: Vec<String> = listing.columns.iter().map(|(name, _)| name.to_uppercase()).collect();
    let lines: Vec<&Vec<String>> = [&header].into_iter().chain(&listing.rows).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let mut text = format!("{}\n\n", listing.title);
    for line in lines {
        let cells = line.iter().zip(&widths).zip(&listing.columns).map(|((cell, &width), (_, is_number))| {
            if *is_number { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}
