//! AdamW: the optimizer step over the elements that a rank owns.

use crate::units::Bytes;

/// A step over `elements` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AdamW {
    pub elements: u64,
    /// Bytes of gradient read for each element.
    pub gradient_size: u64,
    /// Bytes of each of weight, first and second moment, read and written.
    pub state_size: u64,
    /// Bytes of working parameter written for each element; 0 where the weight itself is it.
    pub working_size: u64,
    /// The step runs on the host.
    pub on_host: bool,
}

impl AdamW {
    /// Gradient once, three states twice, the working copy once.
    pub fn bytes_moved(&self) -> Bytes {
        Bytes(self.elements * (self.gradient_size + 6 * self.state_size + self.working_size))
    }
}
