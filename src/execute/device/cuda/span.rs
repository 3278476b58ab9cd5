//! Memory that work on a GPU touches, and how.

use crate::execute::call::Space;

/// A run of bytes in the address space that the GPU's memory and pinned host memory share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub space: Space,
    pub address: u64,
    pub bytes: u64,
}

impl Span {
    /// `bytes` bytes of the GPU's memory.
    pub const fn device(address: u64, bytes: u64) -> Self {
        Self { space: Space::Device, address, bytes }
    }

    /// As many bytes elsewhere in the same memory.
    pub const fn moved(self, address: u64) -> Self {
        Self { address, ..self }
    }

    /// What lies behind the first `bytes` bytes; nothing where there are not so many.
    pub const fn behind(self, bytes: u64) -> Self {
        let bytes = if bytes < self.bytes { bytes } else { self.bytes };
        Self { address: self.address + bytes, bytes: self.bytes - bytes, ..self }
    }

    /// The first `bytes` bytes, or all if there are not so many.
    pub const fn first(self, bytes: u64) -> Self {
        Self { bytes: if bytes < self.bytes { bytes } else { self.bytes }, ..self }
    }
}

/// How memory is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    /// Some of what is written was read before.
    Both,
}
