//! Cross-entropy over a (shard of the) vocabulary.

use crate::units::{Bytes, ElementType};

/// The loss of `rows` tokens over `columns` logits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CrossEntropy {
    pub rows: u64,
    pub columns: u64,
    pub backward: bool,
    pub element: ElementType,
}

impl CrossEntropy {
    /// Forward reads the logits twice (maximum, sum of exponentials); backward reads and writes them.
    pub fn bytes_moved(&self) -> Bytes {
        Bytes(2 * self.rows * self.columns * self.element.size())
    }
}
