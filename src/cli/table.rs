//! Tables that commands print, as wide as stdout.

use super::document::style;
use crate::report::{Column, Listing};

/// A table of `rows` under headings.
pub fn table<const N: usize>(
    columns: [(&str, Column); N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut listing = Listing::new(&columns);
    rows.into_iter().for_each(|row| listing.row(row));
    listing.lines(style().width).join("\n")
}
