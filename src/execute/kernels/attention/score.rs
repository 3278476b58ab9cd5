//! From products of queries and keys to scores: scale, soft cap, ALiBi and mask; and the way back.

use super::mask::Visible;
use super::tile::{LANES, Lanes};
use super::{Core, Pair};
use crate::execute::element::Real;

/// How a product becomes a score: scale, then soft cap, then ALiBi.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    pub scale: f64,
    /// c·tanh(score / c) (Gemma 2).
    pub soft_cap: Option<f64>,
    pub alibi: Option<Alibi>,
}

/// Linear biases: −slope·(query position − key position) (Press et al. 2022).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alibi {
    /// Global number of this rank's first head.
    pub first_head: usize,
    /// Heads of all ranks together.
    pub total_heads: usize,
}

impl Alibi {
    /// The slope of a head of this rank; Hugging Face's BLOOM, and MPT with `alibi_bias_max` 8: a geometric
    /// sequence for the greatest power of two of heads, then every other member of the next finer one.
    pub fn slope(&self, head: usize) -> f64 {
        let head = self.first_head + head;
        let power = 1_usize << self.total_heads.ilog2();
        let exponent = if head < power {
            8.0 * (head + 1) as f64 / power as f64
        } else {
            8.0 * (2 * (head - power) + 1) as f64 / (2 * power) as f64
        };
        (-exponent).exp2()
    }
}

/// Whose positions are those of a tile's lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneSide {
    Queries,
    Keys,
}

/// Scores of one head of one sequence in the arithmetic of the tile.
#[derive(Clone, Copy)]
pub struct HeadScore<'a, R> {
    core: &'a Core<'a>,
    sequence: usize,
    head: usize,
    scale: R,
    soft_cap: Option<R>,
    slope: Option<R>,
    pub side: LaneSide,
}

impl<'a, R: Real> HeadScore<'a, R> {
    pub fn new(core: &'a Core<'a>, sequence: usize, head: usize, side: LaneSide) -> Self {
        let Score { scale, soft_cap, alibi } = core.score;
        let (scale, soft_cap) = (R::of(scale), soft_cap.map(R::of));
        let slope = alibi.map(|alibi| R::of(alibi.slope(head)));
        Self { core, sequence, head, scale, soft_cap, slope, side }
    }

    /// Drops probabilities, or their gradients, and scales the rest, where there is dropout. `rows` and `lanes` are
    /// positions.
    pub fn drop_out(&self, tile: &mut [Lanes<R>], rows: &[u32], lanes: &[u32]) {
        let Some(dropout) = &self.core.dropout else { return };
        let scale = R::of(dropout.scale);
        for (values, &row) in tile.iter_mut().zip(rows) {
            for (value, &lane) in values.iter_mut().zip(lanes) {
                let (query, key) = if self.side == LaneSide::Queries { (lane, row) } else { (row, lane) };
                let pair = Pair { sequence: self.sequence, head: self.head, query, key };
                *value = if (dropout.keep)(pair) { *value * scale } else { R::ZERO };
            }
        }
    }

    /// Products become scores; what is not visible becomes −∞. `rows` and `lanes` are positions.
    #[inline(always)]
    pub fn apply(&self, tile: &mut [Lanes<R>], rows: &[u32], lanes: &[u32], visible: Visible) {
        let mut lane_positions = [0; LANES];
        for (signed, &position) in lane_positions.iter_mut().zip(lanes) {
            *signed = position as i32;
        }
        for (values, &row) in tile.iter_mut().zip(rows) {
            for value in values.iter_mut() {
                *value *= self.scale;
            }
            if let Some(cap) = self.soft_cap {
                for value in values.iter_mut() {
                    *value = cap * (*value / cap).tanh();
                }
            }
            if self.slope.is_none() && visible == Visible::All {
                continue;
            }
            let sign = if self.side == LaneSide::Queries { 1 } else { -1 };
            for (value, &lane) in values.iter_mut().zip(&lane_positions) {
                let distance = sign * (lane - row as i32);
                if let Some(slope) = self.slope {
                    *value -= slope * R::of(f64::from(distance));
                }
                if visible == Visible::Some {
                    *value = if self.core.mask.sees(distance) { *value } else { R::NEG_INFINITY };
                }
            }
        }
    }

    /// Gradients of scores become gradients of products, which `products` holds where there is a soft cap:
    /// ds/dx = scale·(1 − tanh²(scale·x / c)).
    #[inline(always)]
    pub fn apply_backward(&self, gradients: &mut [Lanes<R>], products: &[Lanes<R>]) {
        for (gradients, products) in gradients.iter_mut().zip(products) {
            for gradient in gradients.iter_mut() {
                *gradient *= self.scale;
            }
            if let Some(cap) = self.soft_cap {
                for (gradient, &product) in gradients.iter_mut().zip(products) {
                    let capped = (self.scale * product / cap).tanh();
                    *gradient *= R::ONE - capped * capped;
                }
            }
        }
    }
}
