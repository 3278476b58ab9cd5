//! Matrix products: a linear layer's forward, input gradient and weight gradient are one op with other dimensions.

use crate::units::{Bytes, ElementType, Flops};

/// `batch` products of (rows × depth) by (depth × columns).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Linear {
    pub batch: u64,
    pub rows: u64,
    pub columns: u64,
    pub depth: u64,
    /// Type that is multiplied.
    pub element: ElementType,
    /// Whether the inner dimension is that of tokens, as in weight gradients: then no row of a factor in memory is as
    /// long as it.
    pub over_tokens: bool,
}

impl Linear {
    /// 2 · batch · rows · columns · depth.
    pub fn flops(&self) -> Flops {
        Flops(2.0 * self.batch as f64 * self.rows as f64 * self.columns as f64 * self.depth as f64)
    }

    /// Both factors and the product, once each.
    pub fn bytes_moved(&self) -> Bytes {
        let Self { batch, rows, columns, depth, element, .. } = *self;
        Bytes(batch * (rows * depth + depth * columns + rows * columns) * element.size())
    }
}
