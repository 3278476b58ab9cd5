//! Launches of the arithmetic of collectives.

use super::runs::{Types, by_run, by_run_of};
use super::{Launch, Source};

/// What travelling does to a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wire {
    /// Nothing: it is as wide as what is stored.
    Exact,
    Bf16,
    F16,
}

/// Compiled for the values' type as that of storage.
pub fn source(types: Types, wire: Wire) -> Source {
    let option: &[&str] = match wire {
        Wire::Exact => &[],
        Wire::Bf16 => &["-DWIRE_BF16"],
        Wire::F16 => &["-DWIRE_F16"],
    };
    types.source("collectives/collectives.cu", option)
}

pub fn sum(count: u64) -> Launch {
    by_run_of("collectives_sum", count)
}

pub fn to_heads(rows: u32, columns: u32) -> Launch {
    by_run("collectives_to_heads", rows, columns)
}

pub fn to_tokens(rows: u32, columns: u32) -> Launch {
    by_run("collectives_to_tokens", rows, columns)
}
