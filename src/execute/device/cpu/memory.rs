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
