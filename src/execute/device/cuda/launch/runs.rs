//! Launches that go by rows or by runs of eight elements, and the types that their sources are compiled for.

use super::{Launch, Source};

/// How activations and gradients are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Types {
    F32,
    Bf16,
    Bf16WithF32Gradients,
}

impl Types {
    /// `file`, compiled for these types and with `more` options.
    pub fn source(self, file: &'static str, more: &[&str]) -> Source {
        let types: &[&str] = match self {
            Self::F32 => &["-DSTORAGE_F32"],
            Self::Bf16 => &["-DSTORAGE_BF16"],
            Self::Bf16WithF32Gradients => &["-DSTORAGE_BF16", "-DGRADIENT_F32"],
        };
        Source { file, options: types.iter().chain(more).map(|option| (*option).to_owned()).collect() }
    }

    /// Bytes of an activation.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::Bf16WithF32Gradients => 2,
        }
    }
}

/// Elements that a thread takes at a time.
pub const RUN: u32 = 8;
/// Threads of a block, where nothing asks for others.
pub const THREADS: u32 = 256;
pub const WARP: u32 = 32;

/// `blocks` blocks of `threads` threads. Whoever has nothing to do launches nothing.
pub fn line(kernel: &'static str, blocks: u64, threads: u32) -> Launch {
    assert!((1..1 << 31).contains(&blocks), "{kernel} on {blocks} blocks");
    let blocks = blocks as u32;
    Launch { kernel, grid: [blocks, 1, 1], block: [threads, 1, 1], shared_bytes: 0 }
}

/// A thread for each run of each of `rows` rows of `width` elements.
pub fn by_run(kernel: &'static str, rows: u32, width: u32) -> Launch {
    let runs = u64::from(rows) * u64::from(width.div_ceil(RUN));
    line(kernel, runs.div_ceil(u64::from(THREADS)), THREADS)
}

/// A thread for each run of `count` elements.
pub fn by_run_of(kernel: &'static str, count: u64) -> Launch {
    line(kernel, count.div_ceil(u64::from(RUN * THREADS)), THREADS)
}

/// As [`by_run_of`], on `most` blocks at most, whose threads then take several runs.
pub fn by_stride(kernel: &'static str, count: u64, most: u32) -> Launch {
    line(kernel, count.div_ceil(u64::from(RUN * THREADS)).min(u64::from(most)), THREADS)
}

/// Threads of a block that takes a row of `width` elements: whole warps, `most` threads at most.
pub fn threads_of_row(width: u32, most: u32) -> u32 {
    width.div_ceil(RUN).next_multiple_of(WARP).clamp(WARP, most)
}

/// A block for each of `rows` rows of `width` elements.
pub fn by_row(kernel: &'static str, rows: u32, width: u32) -> Launch {
    line(kernel, u64::from(rows), threads_of_row(width, THREADS))
}

/// A warp for each of `rows` rows.
pub fn by_warp(kernel: &'static str, rows: u32) -> Launch {
    line(kernel, u64::from(rows).div_ceil(u64::from(THREADS / WARP)), THREADS)
}

/// A thread for each of `count` elements.
pub fn by_element(kernel: &'static str, count: u64) -> Launch {
    line(kernel, count.div_ceil(u64::from(THREADS)), THREADS)
}
