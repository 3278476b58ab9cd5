//! Launches of AdamW.

use super::runs::{Types, by_stride};
use super::{Launch, Source};

/// Each works out anew what the step is made by, so there are not many.
const MOST_BLOCKS: u32 = 2048;

pub fn source(types: Types) -> Source {
    types.source("adamw/adamw.cu", &[])
}

/// Parameters are rounded copies of a master in f32.
pub fn master(count: u64) -> Launch {
    by_stride("adamw_master", count, MOST_BLOCKS)
}

pub fn parameters(count: u64) -> Launch {
    by_stride("adamw_parameters", count, MOST_BLOCKS)
}
