//! Launches of dropout, and what its kernels take of a rate.

use super::runs::{Types, by_run};
use super::{Launch, Source};

pub fn source(types: Types) -> Source {
    types.source("dropout/dropout.cu", &[])
}

pub fn rows(rows: u32, width: u32) -> Launch {
    by_run("dropout_rows", rows, width)
}

/// Of 2³² random numbers, those below this drop an element.
pub fn threshold(rate: f64) -> u64 {
    (rate * 2f64.powi(32)).round() as u64
}

/// What elements that are kept are multiplied by.
pub fn scale(rate: f64) -> f32 {
    (1.0 / (1.0 - rate)) as f32
}
