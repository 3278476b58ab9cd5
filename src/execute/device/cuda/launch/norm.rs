//! Launches of layer norm and RMS norm.

use super::runs::{Types, WARP, by_element, by_row};
use super::{Launch, Source};

/// Rows and columns of the blocks that sum over rows, as the kernel has them.
const SIDE: u32 = 8;
const COLUMNS: u32 = 256;
/// Rows that a block sums at least, and blocks that rows are cut for at most.
const LEAST_ROWS: u32 = 32;
const MOST_BLOCKS: u32 = 64;

pub fn source(types: Types) -> Source {
    types.source("norm/norm.cu", &[])
}

pub fn forward(rows: u32, width: u32) -> Launch {
    by_row("norm_forward", rows, width)
}

pub fn statistics(rows: u32, width: u32) -> Launch {
    by_row("norm_statistics", rows, width)
}

pub fn input_gradient(rows: u32, width: u32) -> Launch {
    by_row("norm_input_gradient", rows, width)
}

/// Rows that one block sums.
pub fn rows_per_block(rows: u32) -> u32 {
    rows.div_ceil(MOST_BLOCKS).max(LEAST_ROWS)
}

/// Rows of partial sums.
pub fn partial_rows(rows: u32) -> u32 {
    rows.div_ceil(rows_per_block(rows))
}

/// Elements of the scratch, all f32, that gradients of the weight alone (`parts` 1) or of weight and bias (2) need.
pub fn scratch(rows: u32, width: u32, parts: u32) -> u64 {
    u64::from(partial_rows(rows)) * u64::from(width) * u64::from(parts)
}

pub fn weight_partials(rows: u32, width: u32) -> Launch {
    Launch {
        kernel: "norm_weight_partials",
        grid: [width.div_ceil(COLUMNS), partial_rows(rows), 1],
        block: [WARP, SIDE, 1],
        shared_bytes: 0,
    }
}

/// Adds up the rows of partial sums; its width is `width` times the parts.
pub fn weight_gradient(width: u32, parts: u32) -> Launch {
    by_element("norm_weight_gradient", u64::from(width) * u64::from(parts))
}
