//! Launches of cross-entropy.

use super::runs::{Types, by_element, line, threads_of_row};
use super::{Launch, Source};

/// Threads of a row, at most: rows are as wide as vocabularies.
const MOST: u32 = 512;

pub fn source(types: Types) -> Source {
    types.source("cross_entropy/cross_entropy.cu", &[])
}

/// Numbers of a row's statistics.
pub const STATISTICS: u32 = 3;

pub fn forward(rows: u32, width: u32) -> Launch {
    line("cross_entropy_forward", u64::from(rows), threads_of_row(width, MOST))
}

pub fn merge(rows: u32) -> Launch {
    by_element("cross_entropy_merge", u64::from(rows))
}

pub fn loss() -> Launch {
    line("cross_entropy_loss", 1, 1024)
}

pub fn gradient(rows: u32, width: u32) -> Launch {
    line("cross_entropy_gradient", u64::from(rows), threads_of_row(width, MOST))
}
