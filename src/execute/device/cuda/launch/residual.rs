//! Launches of residual sums.

use super::runs::{Types, by_run};
use super::{Launch, Source};

pub fn source(types: Types) -> Source {
    types.source("residual/residual.cu", &[])
}

pub fn forward(rows: u32, width: u32) -> Launch {
    by_run("residual_forward", rows, width)
}
