//! Launches of quantising and back.

use super::runs::{Types, by_run_of};
use super::{Launch, Source};

/// `bits` are 8 or 4.
pub fn source(types: Types, bits: u32) -> Source {
    let option = if bits == 8 { "-DBITS=8" } else { "-DBITS=4" };
    types.source("quantise/quantise.cu", &[option])
}

pub fn quantise(count: u64) -> Launch {
    by_run_of("quantise", count)
}

pub fn dequantise(count: u64) -> Launch {
    by_run_of("dequantise", count)
}
