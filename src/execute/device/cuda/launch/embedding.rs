//! Launches of embeddings.

use super::runs::{RUN, THREADS, Types, by_run};
use super::{Launch, Source};

pub fn source(types: Types) -> Source {
    types.source("embedding/embedding.cu", &[])
}

pub fn forward(rows: u32, width: u32) -> Launch {
    by_run("embedding_forward", rows, width)
}

/// A block for each row and stretch of columns; the whole block looks through the indices.
pub fn gradient(rows: u32, width: u32) -> Launch {
    let stretches = width.div_ceil(RUN * THREADS);
    Launch {
        kernel: "embedding_gradient",
        grid: [rows, stretches, 1],
        block: [THREADS, 1, 1],
        shared_bytes: 0,
    }
}
