//! Launches of copies, sums and looks at tensors.

use super::runs::{Types, by_run, by_run_of, line};
use super::{Launch, Source};

/// Compiled for the values' type as that of storage.
pub fn source(types: Types) -> Source {
    types.source("elementwise/elementwise.cu", &[])
}

pub fn copy_columns(rows: u32, columns: u32) -> Launch {
    by_run("elementwise_copy_columns", rows, columns)
}

pub fn add(count: u64) -> Launch {
    by_run_of("elementwise_add", count)
}

pub fn scale(count: u64) -> Launch {
    by_run_of("elementwise_scale", count)
}

pub fn add_scaled(count: u64) -> Launch {
    by_run_of("elementwise_add_scaled", count)
}

pub fn scaled_copy(count: u64) -> Launch {
    by_run_of("elementwise_scaled_copy", count)
}

pub fn set_number() -> Launch {
    line("elementwise_set_number", 1, 1)
}

pub fn check(count: u64) -> Launch {
    by_run_of("elementwise_check", count)
}
