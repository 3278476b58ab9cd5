//! Moving tokens into and out of the slots of a mixture of experts.

use crate::units::{Bytes, ElementType};

/// `slots` rows of `width` elements gathered from, or added back to, `rows` tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Routing {
    pub slots: u64,
    pub rows: u64,
    pub width: u64,
    pub element: ElementType,
}

impl Routing {
    /// Each slot and each token once.
    pub fn bytes_moved(&self) -> Bytes {
        Bytes((self.slots + self.rows) * self.width * self.element.size())
    }
}
