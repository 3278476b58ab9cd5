//! A validation as plain text: tables under their titles.

use super::super::text::{Column, Listing as Table};
use super::listing::{Listing, listings};
use crate::validate::Validation;

/// The listings of `validation` as text of this width; `every_run` shows each run however many there are.
pub fn validation_text(validation: &Validation, every_run: bool, width: usize) -> String {
    let parts: Vec<_> = listings(validation, every_run).iter().map(|listing| part(listing, width)).collect();
    parts.join("\n")
}

fn part(listing: &Listing, width: usize) -> String {
    let column = |(name, is_number): &(&str, bool)| {
        (name.to_uppercase(), if *is_number { Column::Number } else { Column::Text })
    };
    let columns: Vec<(String, Column)> = listing.columns.iter().map(column).collect();
    let columns: Vec<(&str, Column)> = columns.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
    let mut table = Table::new(&columns);
    listing.rows.iter().for_each(|row| table.row(row.iter().cloned()));
    format!("{}\n\n{}\n", listing.title, table.lines(width).join("\n"))
}
