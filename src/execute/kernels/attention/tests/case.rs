//! What attention is tried on: shapes, masks, random tensors.

use super::super::{Alibi, Core, Dropout, Heads, Mask, Pair, Score};
use crate::execute::element::{Element, Real};

/// A core and tensors for it: queries, keys and values in one matrix, whose first column belongs to nobody.
#[derive(Clone)]
pub struct Case {
    pub name: &'static str,
    pub batch: usize,
    pub heads: Heads,
    pub causal: bool,
    pub window: Option<u32>,
    pub score: Score,
    pub dropout: bool,
    pub query_positions: Vec<u32>,
    pub key_positions: Vec<u32>,
}

pub fn keep(pair: Pair) -> bool {
    let mixed = pair.sequence * 31 + pair.head * 17 + pair.query as usize * 7 + pair.key as usize * 13;
    !mixed.is_multiple_of(5)
}

pub const DROPOUT: Dropout<'static> = Dropout { keep: &keep, scale: 1.25 };

impl Case {
    pub fn plain(name: &'static str, tokens: u32, heads: usize, kv_heads: usize) -> Self {
        Self {
            name,
            batch: 2,
            heads: Heads { heads, kv_heads, query_dim: 5, value_dim: 7 },
            causal: true,
            window: None,
            score: Score { scale: 0.6, soft_cap: None, alibi: None },
            dropout: false,
            query_positions: (0..tokens).collect(),
            key_positions: (0..tokens).collect(),
        }
    }

    /// Every option by itself, and all together.
    pub fn all() -> Vec<Self> {
        let alibi = Some(Alibi { first_head: 2, total_heads: 6 });
        // Zigzag: the second of four context ranks holds segments 1 and 6 of 8.
        let zigzag = |rank: u32, segment: u32| -> Vec<u32> {
            let run = |part: u32| part * segment..(part + 1) * segment;
            run(rank).chain(run(7 - rank)).collect()
        };
        let plain = Self::plain("plain", 70, 2, 2);
        let full = Score { scale: 0.6, soft_cap: Some(1.5), alibi };
        vec![
            Self { name: "one token", ..Self::plain("", 1, 1, 1) },
            Self { name: "full", causal: false, ..plain.clone() },
            Self { name: "grouped", ..Self::plain("", 45, 6, 2) },
            Self { name: "window", window: Some(19), ..plain.clone() },
            Self { name: "one key", window: Some(1), ..plain.clone() },
            Self { name: "soft cap", score: Score { alibi: None, ..full }, ..plain.clone() },
            Self { name: "ALiBi", score: Score { soft_cap: None, ..full }, ..plain.clone() },
            Self { name: "dropout", dropout: true, ..plain.clone() },
            Self {
                name: "ring step",
                query_positions: zigzag(1, 20),
                key_positions: zigzag(2, 20),
                ..plain.clone()
            },
            Self {
                name: "everything",
                window: Some(90),
                score: full,
                dropout: true,
                query_positions: zigzag(1, 20),
                key_positions: zigzag(0, 20),
                ..Self::plain("", 40, 4, 2)
            },
            Self {
                name: "wide head",
                heads: Heads { heads: 1, kv_heads: 1, query_dim: 256, value_dim: 129 },
                score: Score { scale: 0.07, soft_cap: None, alibi: None },
                ..Self::plain("", 33, 1, 1)
            },
            plain,
        ]
    }

    pub fn core(&self) -> Core<'_> {
        let mask = Mask {
            causal: self.causal,
            window: self.window,
            query_positions: &self.query_positions,
            key_positions: &self.key_positions,
        };
        let dropout = self.dropout.then_some(DROPOUT);
        Core { batch: self.batch, heads: self.heads, mask, score: self.score, dropout }
    }

    /// Columns of queries, keys and values in a matrix of their own, and its stride.
    pub fn query_stride(&self) -> usize {
        self.heads.heads * self.heads.query_dim + 1
    }

    pub fn key_value_columns(&self) -> (usize, usize, usize) {
        let (keys, values) =
            (self.heads.kv_heads * self.heads.query_dim, self.heads.kv_heads * self.heads.value_dim);
        (1, 1 + keys, 1 + keys + values)
    }

    pub fn tensors(&self) -> Tensors<f64> {
        let (queries, keys) =
            (self.batch * self.query_positions.len(), self.batch * self.key_positions.len());
        Tensors {
            queries: random(1, queries * self.query_stride()),
            keys_values: random(2, keys * self.key_value_columns().2),
            output_gradient: random(3, queries * self.heads.heads * self.heads.value_dim),
        }
    }
}

/// Queries (with a column more), keys with values (with a column more), and the gradient of the output.
#[derive(Clone)]
pub struct Tensors<T> {
    pub queries: Vec<T>,
    pub keys_values: Vec<T>,
    pub output_gradient: Vec<T>,
}

impl Tensors<f64> {
    pub fn cast<T: Element>(&self) -> Tensors<T> {
        Tensors {
            queries: cast(&self.queries),
            keys_values: cast(&self.keys_values),
            output_gradient: cast(&self.output_gradient),
        }
    }
}

pub fn cast<T: Element>(values: &[f64]) -> Vec<T> {
    values.iter().map(|&value| T::narrow(T::Wide::of(value))).collect()
}

pub fn widen<T: Element>(values: &[T]) -> Vec<f64> {
    values.iter().map(|value| value.wide().to_f64()).collect()
}

/// Numbers in −1 .. 1.
pub fn random(seed: u64, count: usize) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1_u64 << 30) as f64 - 1.0
    };
    (0..count).map(|_| next()).collect()
}
