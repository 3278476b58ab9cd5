//! Embedding: gathering rows of a table forward, scattering gradients backward.

use crate::units::{Bytes, ElementType};

/// `rows` looked-up rows of `width` elements; backward adds as many into the table's gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EmbeddingLookup {
    pub rows: u64,
    pub width: u64,
    pub backward: bool,
    pub element: ElementType,
}

impl EmbeddingLookup {
    /// Forward reads and writes each row; backward reads the gradient and updates the table's.
    pub fn bytes_moved(&self) -> Bytes {
        let touched = if self.backward { 3 } else { 2 };
        Bytes(touched * self.rows * self.width * self.element.size())
    }
}
