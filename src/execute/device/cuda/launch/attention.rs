//! Attention. Fused: on tensor cores for the usual heads in bf16, else without them. Of attention that keeps its
//! probabilities, what lies between its products.
//!
//! Arguments, of which those of all but delta end with those of the core:
//! - forward: queries, their stride, keys, values, their stride, output, log-sum-exps, whether it goes on from both;
//! - delta: output, its gradient, deltas, rows (tokens · heads of all sequences), value width of a head;
//! - backward of queries: queries, stride, keys, values, stride, output gradient, log-sum-exps, deltas, query gradients,
//!   their stride, whether they are added to;
//! - backward of keys: the same, but key gradients, value gradients, their stride, whether they are added to;
//! - softmax: products, which become probabilities, and what dropout leaves of them (or 0);
//! - backward of the softmax: probabilities, and gradients of what dropout left, which become those of the products;
//! - backward of the soft cap: queries, stride, keys, stride, gradients;
//! - core: query and key tokens of a sequence, heads, heads that share a key-value head, positions of queries and of keys,
//!   whether both ascend, [`nearest`], [`reach`], scale, soft cap, number of the first head, heads in all; with dropout
//!   also the scalars of the step, site, threshold, scale of what is kept, number of the first sequence, tokens of a whole
//!   sequence.

use super::gemm::Element;
use super::{Launch, Source};

/// What attention is computed of, by one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attention {
    pub element: Element,
    pub query_dim: u32,
    pub value_dim: u32,
    pub batch: u32,
    /// Query and key tokens of one sequence.
    pub tokens: u32,
    pub key_tokens: u32,
    pub heads: u32,
    pub kv_heads: u32,
    pub soft_cap: bool,
    pub alibi: bool,
    pub dropout: bool,
    /// Every head of every token begins at a multiple of 16 bytes, in each of the tensors.
    pub aligned: bool,
}

/// The least distance of a key that is seen.
pub const fn nearest(causal: bool) -> i32 {
    if causal { 0 } else { i32::MIN }
}

/// The distance from which on keys are too far back.
pub const fn reach(window: Option<u32>) -> i32 {
    match window {
        Some(window) if window < i32::MAX as u32 => window as i32,
        _ => i32::MAX,
    }
}

/// Tiles of the forward kernel on tensor cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    pub warps: u32,
    /// Blocks of 16 queries that a warp has: two read keys and values half as often, and need twice the registers.
    pub blocks: u32,
    pub keys: u32,
}

/// Warps of the backward kernels on tensor cores, of 16 rows each.
const WARPS: u32 = 4;
/// Keys of a tile where queries walk over them.
const KEYS: u32 = 64;
/// Rows of a tile, and threads of a block, without tensor cores.
const PLAIN_ROWS: u32 = 16;
const PLAIN_THREADS: u32 = 128;
/// Keys that a thread of the softmax takes at a time.
const KEYS_OF_A_THREAD: u32 = 8;
/// Rows of a block of the kernel that sums rows.
const DELTA_ROWS: u32 = 8;

impl Attention {
    fn has_tensor_cores(&self) -> bool {
        let usual = |dim| dim == 64 || dim == 128;
        self.element == Element::Bf16 && usual(self.query_dim) && usual(self.value_dim) && self.aligned
    }

    /// Query heads that share a key-value head.
    pub fn group(&self) -> u64 {
        u64::from(self.heads / self.kv_heads.max(1))
    }

    /// The largest tile that fits the registers.
    fn tile(&self) -> Tile {
        let plain = !(self.soft_cap || self.alibi || self.dropout);
        let blocks = if plain && self.query_dim.max(self.value_dim) == 64 { 2 } else { 1 };
        Tile { warps: 4, blocks, keys: 64 }
    }

    /// Queries of a tile where keys walk over them.
    fn queries(&self) -> u32 {
        if self.query_dim + self.value_dim > 128 { 32 } else { 64 }
    }

    /// Elements of a row of both of its sides, queries and gradients or keys and values.
    fn width(&self) -> u32 {
        self.query_dim + self.value_dim
    }

    /// Bytes of `rows` rows as the kernel without tensor cores keeps them.
    fn plain_bytes(rows: u32, dims: &[u32]) -> u32 {
        dims.iter().map(|dim| rows * (dim | 1) * 4).sum()
    }

    fn source(&self, file: &'static str, tiles: &[(&str, u32)]) -> Source {
        let dims = [("QUERY_DIM", self.query_dim), ("VALUE_DIM", self.value_dim)];
        self.source_for(file, &[&dims[..], tiles].concat())
    }

    fn source_for(&self, file: &'static str, sizes: &[(&str, u32)]) -> Source {
        let storage = if self.element == Element::Bf16 { "-DSTORAGE_BF16" } else { "-DSTORAGE_F32" };
        let mut options = vec![storage.to_owned()];
        options.extend(sizes.iter().map(|(name, size)| format!("-D{name}={size}")));
        let features = [("SOFT_CAP", self.soft_cap), ("ALIBI", self.alibi), ("DROPOUT", self.dropout)];
        options.extend(features.iter().filter(|feature| feature.1).map(|feature| format!("-D{}", feature.0)));
        Source { file, options }
    }

    fn plain(&self, kernel: &'static str, rows: u32, heads: u32, shared_bytes: u32) -> (Source, Launch) {
        let grid = [rows.div_ceil(PLAIN_ROWS), heads, self.batch];
        let launch = Launch { kernel, grid, block: [PLAIN_THREADS, 1, 1], shared_bytes };
        (self.source("attention/attention_plain.cu", &[]), launch)
    }
}

pub fn forward(attention: &Attention) -> (Source, Launch) {
    if attention.has_tensor_cores() {
        return forward_with(attention, attention.tile());
    }
    let Attention { query_dim, value_dim, tokens, heads, .. } = *attention;
    let bytes = Attention::plain_bytes(PLAIN_ROWS, &[query_dim, query_dim, value_dim]);
    attention.plain("attention_plain_forward", tokens, heads, bytes)
}

/// On tensor cores with a tile.
pub fn forward_with(attention: &Attention, tile: Tile) -> (Source, Launch) {
    let queries = tile.warps * tile.blocks * 16;
    let sizes = [("WARPS", tile.warps), ("BLOCKS", tile.blocks), ("KEYS", tile.keys)];
    let launch = Launch {
        kernel: "attention_forward",
        grid: [attention.tokens.div_ceil(queries), attention.heads, attention.batch],
        block: [tile.warps * 32, 1, 1],
        shared_bytes: 2 * queries * attention.query_dim + 4 * tile.keys * attention.width(),
    };
    (attention.source("attention/attention_forward.cu", &sizes), launch)
}

pub fn delta(attention: &Attention) -> (Source, Launch) {
    let storage = if attention.element == Element::Bf16 { "-DSTORAGE_BF16" } else { "-DSTORAGE_F32" };
    let source = Source { file: "attention/attention_delta.cu", options: vec![storage.to_owned()] };
    let rows = attention.batch * attention.tokens * attention.heads;
    let grid = [rows.div_ceil(DELTA_ROWS), 1, 1];
    (source, Launch { kernel: "attention_delta", grid, block: [DELTA_ROWS * 32, 1, 1], shared_bytes: 0 })
}

pub fn backward_queries(attention: &Attention) -> (Source, Launch) {
    let Attention { query_dim, value_dim, tokens, heads, .. } = *attention;
    if !attention.has_tensor_cores() {
        let bytes = 2 * Attention::plain_bytes(PLAIN_ROWS, &[query_dim, value_dim]);
        return attention.plain("attention_plain_backward_queries", tokens, heads, bytes);
    }
    let queries = WARPS * 16;
    let launch = Launch {
        kernel: "attention_backward_queries",
        grid: [tokens.div_ceil(queries), heads, attention.batch],
        block: [WARPS * 32, 1, 1],
        shared_bytes: (2 * queries + 4 * KEYS) * attention.width(),
    };
    (attention.source("attention/attention_backward_queries.cu", &[("WARPS", WARPS), ("KEYS", KEYS)]), launch)
}

pub fn backward_keys(attention: &Attention) -> (Source, Launch) {
    let Attention { query_dim, value_dim, key_tokens, kv_heads, .. } = *attention;
    if !attention.has_tensor_cores() {
        let bytes = 2 * Attention::plain_bytes(PLAIN_ROWS, &[query_dim, value_dim]);
        return attention.plain("attention_plain_backward_keys", key_tokens, kv_heads, bytes);
    }
    let (keys, queries) = (WARPS * 16, attention.queries());
    let launch = Launch {
        kernel: "attention_backward_keys",
        grid: [key_tokens.div_ceil(keys), kv_heads, attention.batch],
        block: [WARPS * 32, 1, 1],
        // A slot of queries also has their log-sum-exps and deltas.
        shared_bytes: 2 * keys * attention.width() + 2 * queries * (2 * attention.width() + 8),
    };
    let sizes = [("WARPS", WARPS), ("QUERIES", queries)];
    (attention.source("attention/attention_backward_keys.cu", &sizes), launch)
}

pub fn softmax(attention: &Attention) -> (Source, Launch) {
    of_rows(attention, "attention_softmax")
}

pub fn softmax_backward(attention: &Attention) -> (Source, Launch) {
    of_rows(attention, "attention_softmax_backward")
}

/// A block for each query of each head.
fn of_rows(attention: &Attention, kernel: &'static str) -> (Source, Launch) {
    let Attention { tokens, key_tokens, heads, batch, .. } = *attention;
    let threads = key_tokens.div_ceil(KEYS_OF_A_THREAD).next_multiple_of(32).clamp(32, 256);
    let launch = Launch { kernel, grid: [tokens, heads, batch], block: [threads, 1, 1], shared_bytes: 0 };
    (attention.source_for("attention/attention_softmax.cu", &[]), launch)
}

/// What follows the backward of the softmax where there is a soft cap.
pub fn soft_cap_backward(attention: &Attention) -> (Source, Launch) {
    let bytes = Attention::plain_bytes(PLAIN_ROWS, &[attention.query_dim; 2]);
    attention.plain("attention_plain_soft_cap", attention.tokens, attention.heads, bytes)
}
