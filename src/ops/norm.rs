//! Layer norm and RMS norm over rows.

use crate::units::{Bytes, ElementType};

/// A norm of `rows` rows of `width` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowNorm {
    pub rows: u64,
    pub width: u64,
    pub backward: bool,
    pub element: ElementType,
}

impl RowNorm {
    /// Forward reads and writes each element; backward reads input, gradient and residual gradient and writes one.
    pub fn bytes_moved(&self) -> Bytes {
        let touched = if self.backward { 4 } else { 2 };
        Bytes(touched * self.rows * self.width * self.element.size())
    }
}
