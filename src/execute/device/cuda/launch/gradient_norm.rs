//! Launches of sums of squares and of what follows from them.

use super::runs::{THREADS, Types, by_stride, line};
use super::{Launch, Source};

const MOST_BLOCKS: u32 = 1024;
/// Numbers of a sum.
pub const BINS: u32 = 4;

/// Compiled for the values' type as that of storage.
pub fn source(types: Types) -> Source {
    types.source("gradient_norm/gradient_norm.cu", &[])
}

/// Writes one row of partial sums a block of its grid, each of [`BINS`] f64.
pub fn squares(count: u64) -> Launch {
    by_stride("gradient_norm_squares", count, MOST_BLOCKS)
}

pub fn sum() -> Launch {
    line("gradient_norm_sum", 1, THREADS)
}

pub fn clip() -> Launch {
    line("gradient_norm_clip", 1, 1)
}

pub fn loss_weight() -> Launch {
    line("gradient_norm_loss_weight", 1, 1)
}

pub fn add_mean() -> Launch {
    line("gradient_norm_add_mean", 1, 1)
}
