//! Launches of rotary positions.

use super::runs::{RUN, Types, line, threads_of_row};
use super::{Launch, Source};

pub fn source(types: Types) -> Source {
    types.source("rotary/rotary.cu", &[])
}

/// Pairs of one head, at most.
pub const MOST_PAIRS: u32 = 128;

/// Turns `pairs` pairs of each of `heads` heads of `tokens` tokens.
pub fn turn(tokens: u32, heads: u32, pairs: u32) -> Launch {
    let runs = heads * pairs.div_ceil(RUN);
    line("rotary_turn", u64::from(tokens), threads_of_row(runs * RUN, 256))
}
