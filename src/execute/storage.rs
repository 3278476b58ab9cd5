//! How elements are stored in memory.

#![expect(unsafe_code, reason = "it says which types any bytes are values of")]

use std::fmt;

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

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Byte => f.write_str("bytes"),
            Self::Index => f.write_str("indices"),
        }
    }
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

/// How a run stores its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Types {
    /// Activations and working parameters.
    pub compute: Storage,
    /// What sums over them are taken in, and optimizer state is kept in.
    pub wide: Storage,
    pub gradient: Storage,
}

impl Types {
    /// Of a run that computes in `compute` and keeps gradients in `gradient`.
    pub const fn new(compute: ElementType, gradient: ElementType) -> Self {
        let wide = match compute {
            ElementType::Fp64 => ElementType::Fp64,
            _ => ElementType::Fp32,
        };
        let [compute, wide, gradient] =
            [Storage::Number(compute), Storage::Number(wide), Storage::Number(gradient)];
        Self { compute, wide, gradient }
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

/// Runs `$body` with `$element` as the type of the numbers of a view.
macro_rules! number {
    ($view:expr, $element:ident => $body:expr) => {
        match $view.storage {
            $crate::execute::storage::Storage::Number($crate::units::ElementType::Fp64) => {
                type $element = f64;
                $body
            }
            $crate::execute::storage::Storage::Number($crate::units::ElementType::Fp32) => {
                type $element = f32;
                $body
            }
            $crate::execute::storage::Storage::Number($crate::units::ElementType::Bf16) => {
                type $element = half::bf16;
                $body
            }
            other => unreachable!("{other} are not numbers that this backend computes with"),
        }
    };
}
pub(super) use number;
