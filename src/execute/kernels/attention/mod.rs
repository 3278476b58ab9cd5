//! The core of attention: scores, softmax and the weighted sum of values; fused (tiled) or materialised.
//!
//! Queries, keys and values of all sequences are rows of a packed matrix `[batch·tokens, stride]`, seen through
//! windows of its columns: query heads, then key heads, then value heads. Under ring attention, keys and values come
//! from another matrix and possibly from another part of the sequence; positions say which key a query may see.
//!
//! Work is split over tiles of rows, whose sums are always taken in the same order: results do not depend on threads.

use std::ops::{Deref, Range};

pub mod fused;
mod fused_backward;
mod layout;
mod mask;
pub mod materialised;
pub mod materialised_backward;
mod score;
#[cfg(test)]
mod tests;
mod tile;

pub use layout::{KeyValues, Window};
pub use mask::Mask;
pub use score::{Alibi, Score};
pub use tile::{LANES, MAX_HEAD_DIM};

/// Sizes of the heads of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    pub heads: usize,
    /// Divides `heads`: head h reads key-value head h / (heads / kv_heads).
    pub kv_heads: usize,
    /// At most [`MAX_HEAD_DIM`], as is `value_dim`.
    pub query_dim: usize,
    pub value_dim: usize,
}

impl Heads {
    /// Query heads that share one key-value head.
    fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// The query heads that share key-value head `kv_head`.
    fn sharing(&self, kv_head: usize) -> Range<usize> {
        kv_head * self.group()..(kv_head + 1) * self.group()
    }
}

/// One probability: what dropout's counter is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Sequence of this rank's batch.
    pub sequence: usize,
    /// Query head of this rank.
    pub head: usize,
    /// Position of the query in the whole sequence.
    pub query: u32,
    /// Position of the key in the whole sequence.
    pub key: u32,
}

/// Dropout of probabilities.
#[derive(Clone, Copy)]
pub struct Dropout<'a> {
    /// Whether a probability stays.
    pub keep: &'a (dyn Fn(Pair) -> bool + Sync),
    /// What those that stay are multiplied by: 1 / (1 − rate).
    pub scale: f64,
}

/// What attention computes, whatever holds its tensors.
#[derive(Clone, Copy)]
pub struct Core<'a> {
    pub batch: usize,
    pub heads: Heads,
    pub mask: Mask<'a>,
    pub score: Score,
    pub dropout: Option<Dropout<'a>>,
}

impl Core<'_> {
    /// Query and key tokens of one sequence.
    fn tokens(&self) -> (usize, usize) {
        (self.mask.query_positions.len(), self.mask.key_positions.len())
    }

    /// Pairs of a query and a key, of all heads and sequences.
    fn pairs(&self) -> usize {
        let (queries, keys) = self.tokens();
        self.batch * self.heads.heads * queries * keys
    }

    /// Elements of the output.
    fn outputs(&self) -> usize {
        self.batch * self.tokens().0 * self.heads.heads * self.heads.value_dim
    }

    /// The columns of a head of the output, or of its gradient.
    fn output<'a, T>(&self, output: &'a [T], head: usize) -> Window<&'a [T]> {
        let width = self.heads.value_dim;
        Window { data: output, stride: self.heads.heads * width, column: head * width }
    }

    fn check<T>(&self, queries: &Window<&[T]>, keys_values: &KeyValues<&[T]>) {
        let Heads { heads, kv_heads, query_dim, value_dim } = self.heads;
        assert!(kv_heads > 0 && heads % kv_heads == 0, "{heads} heads on {kv_heads} key-value heads");
        let widest = query_dim.max(value_dim);
        assert!(widest <= MAX_HEAD_DIM, "a head of {widest} elements: at most {MAX_HEAD_DIM}");
        self.check_queries("queries", queries);
        self.check_keys_values(["keys", "values"], keys_values);
    }

    fn check_queries<T>(&self, name: &str, window: &Window<impl Deref<Target = [T]>>) {
        window.check(name, self.batch * self.tokens().0, self.heads.heads * self.heads.query_dim);
    }

    fn check_keys_values<T>(&self, names: [&str; 2], windows: &KeyValues<impl Deref<Target = [T]>>) {
        let (rows, kv_heads) = (self.batch * self.tokens().1, self.heads.kv_heads);
        windows.keys().check(names[0], rows, kv_heads * self.heads.query_dim);
        windows.values().check(names[1], rows, kv_heads * self.heads.value_dim);
    }
}
