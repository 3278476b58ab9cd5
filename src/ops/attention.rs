//! The core of attention: scores, softmax and the weighted sum of values, fused or materialised.

use super::Linear;
use crate::units::{Bytes, ElementType, Flops};

/// Which pass of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CorePass {
    Forward,
    Backward,
}

/// Attention of `queries` tokens to `keys` tokens in each of `batch` sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttentionCore {
    pub pass: CorePass,
    /// Scores never reach memory.
    pub fused: bool,
    pub batch: u64,
    pub heads: u64,
    pub kv_heads: u64,
    pub queries: u64,
    /// Keys that a query can see, a sliding window counted.
    pub keys: u64,
    pub query_dim: u64,
    pub value_dim: u64,
    /// Half of the (query, key) pairs are masked; fused kernels skip them.
    pub causal: bool,
    pub dropout: bool,
    pub element: ElementType,
}

impl AttentionCore {
    /// Forward: two products over all pairs. Backward: four, and one more where a fused kernel makes the scores
    /// again (Dao 2023, section 3.1: 2.5 times the forward).
    pub fn flops(&self) -> Flops {
        let pairs = self.pairs();
        let (query, value) = (self.query_dim as f64, self.value_dim as f64);
        let forward = 2.0 * pairs * (query + value);
        let flops = match (self.pass, self.fused) {
            (CorePass::Forward, _) => forward,
            (CorePass::Backward, true) => 2.0 * forward + 2.0 * pairs * query,
            (CorePass::Backward, false) => 2.0 * forward,
        };
        Flops(if self.causal && self.fused { flops / 2.0 } else { flops })
    }

    /// Queries, keys, values and outputs; materialised, also the passes over scores and probabilities.
    pub fn bytes_moved(&self) -> Bytes {
        let passes = match self.pass {
            CorePass::Forward => 1,
            CorePass::Backward => 2,
        };
        let tensors = self.batch
            * (self.queries * self.heads * (self.query_dim + self.value_dim)
                + self.keys * self.kv_heads * (self.query_dim + self.value_dim));
        Bytes(passes * tensors * self.element.size() + self.score_bytes())
    }

    /// Bytes moved over scores and probabilities where they are tensors: forward writes scores, softmax reads
    /// and writes, the product reads (dropout adds a read, a write and a mask); backward likewise.
    pub fn score_bytes(&self) -> u64 {
        if self.fused {
            return 0;
        }
        let pairs = self.batch * self.heads * self.queries * self.keys;
        let (plain, dropout) = match self.pass {
            CorePass::Forward => (4, 2),
            CorePass::Backward => (5, 2),
        };
        let masks = u64::from(self.dropout);
        pairs * ((plain + dropout * masks) * self.element.size() + masks)
    }

    /// Kernels that it is launched as: one if fused; else its products, softmax and dropout.
    pub const fn kernels(&self) -> u64 {
        let products = match self.pass {
            CorePass::Forward => 2,
            CorePass::Backward => 4,
        };
        if self.fused { 1 } else { products + 1 + self.dropout as u64 }
    }

    /// Bytes that are moved more over scores that are tensors where scaling, masking, softmax in single precision and
    /// the casts about it are kernels of their own, each of which reads and writes.
    pub fn unfused_softmax_bytes(&self) -> Bytes {
        let (narrow, wide) = (self.element.size(), ElementType::Fp32.size());
        let pairs = self.batch * self.heads * self.queries * self.keys;
        let casts = 2 * (narrow + wide);
        let inside = match self.pass {
            CorePass::Forward => 6,
            CorePass::Backward => 5,
        };
        Bytes(pairs * (casts + inside * wide - 2 * narrow))
    }

    /// The products of a core whose scores are tensors: scores and weighted sum of values, and backward for each of
    /// them the gradients of both factors.
    pub fn products(&self) -> Vec<Linear> {
        let Self { queries, keys, query_dim, value_dim, element, .. } = *self;
        let batch = self.batch * self.heads;
        let product =
            |rows, columns, depth| Linear { batch, rows, columns, depth, element, over_tokens: false };
        match self.pass {
            CorePass::Forward => vec![product(queries, keys, query_dim), product(queries, value_dim, keys)],
            CorePass::Backward => vec![
                product(queries, keys, value_dim),
                product(keys, value_dim, queries),
                product(queries, query_dim, keys),
                product(keys, query_dim, queries),
            ],
        }
    }

    fn pairs(&self) -> f64 {
        self.batch as f64 * self.heads as f64 * self.queries as f64 * self.keys as f64
    }
}
