//! The two arenas of a rank, by views.

use super::arena::Arena;
use crate::execute::call::{Space, View};
use crate::execute::storage::Plain;
use crate::execute::storage::Storage;

/// The memory of a rank.
#[derive(Clone, Copy)]
pub struct Memory<'r> {
    pub device: &'r Arena,
    pub host: &'r Arena,
}

impl<'r> Memory<'r> {
    const fn of(self, space: Space) -> &'r Arena {
        match space {
            Space::Device => self.device,
            Space::Host => self.host,
        }
    }

    /// The elements of `view`.
    ///
    /// # Safety
    /// Nobody writes to the view while the slice lives.
    pub unsafe fn read<E: Plain>(self, view: View) -> &'r [E] {
        assert_eq!(view.storage, E::STORAGE, "the type of a view's elements");
        // SAFETY: as the caller vouches.
        unsafe { self.of(view.space).read(view.region) }
    }

    /// The elements of `view`, to write.
    ///
    /// # Safety
    /// Nobody else uses the view while the slice lives.
    pub unsafe fn write<E: Plain>(self, view: View) -> &'r mut [E] {
        assert_eq!(view.storage, E::STORAGE, "the type of a view's elements");
        // SAFETY: as the caller vouches.
        unsafe { self.of(view.space).write(view.region) }
    }

    /// `view`, whatever is in it, as bytes.
    pub const fn bytes(view: View) -> View {
        View { storage: Storage::Byte, ..view }
    }
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
            other => unreachable!("this device has no kernels for {other:?}"),
        }
    };
}
pub(super) use number;
