//! How elements are stored in memory.

#![expect(unsafe_code, reason = "it says which types any bytes are values of")]

use half::bf16;

use crate::units::ElementType;

/// How the elements of a view are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    Number(ElementType),
    /// Packed integers and their scales.
    Byte,
    /// Token ids.
    Index,
}

impl Storage {
    /// Bytes of an element.
    pub const fn size(self) -> usize {
        match self {
            Self::Number(number) => number.size() as usize,
            Self::Byte => 1,
            Self::Index => 4,
        }
    }
}

/// What a region may be read as.
///
/// # Safety
/// Every bit pattern of its size is a value.
pub unsafe trait Plain: Copy + 'static {
    const STORAGE: Storage;
}

// SAFETY: numbers without padding.
unsafe impl Plain for u8 {
    const STORAGE: Storage = Storage::Byte;
}
// SAFETY: likewise.
unsafe impl Plain for u32 {
    const STORAGE: Storage = Storage::Index;
}
// SAFETY: likewise.
unsafe impl Plain for bf16 {
    const STORAGE: Storage = Storage::Number(ElementType::Bf16);
}
// SAFETY: likewise.
unsafe impl Plain for f32 {
    const STORAGE: Storage = Storage::Number(ElementType::Fp32);
}
// SAFETY: likewise.
unsafe impl Plain for f64 {
    const STORAGE: Storage = Storage::Number(ElementType::Fp64);
}
