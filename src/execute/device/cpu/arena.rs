//! One block of memory a rank and space: buffers are ranges of it, placed before the run.

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::cell::UnsafeCell;

use crate::execute::storage::Plain;
use crate::units::Bytes;

pub use crate::program::placing::Region;

/// Every region starts at a multiple of this.
const ALIGNMENT: usize = Bytes::ALIGNMENT as usize;

#[repr(C, align(64))]
struct Line(UnsafeCell<[u8; ALIGNMENT]>);

/// A block of zeroed memory.
pub struct Arena {
    lines: Box<[Line]>,
}

// SAFETY: the arena hands out slices only through unsafe functions, whose callers keep them apart.
unsafe impl Sync for Arena {}

impl Arena {
    /// A block of at least `bytes` bytes.
    pub fn new(bytes: usize) -> Self {
        let count = bytes.div_ceil(ALIGNMENT);
        let Ok(layout) = Layout::array::<Line>(count) else { handle_alloc_error(Layout::new::<Line>()) };
        if count == 0 {
            return Self { lines: Box::default() };
        }
        // SAFETY: the layout is not empty. Pages that nobody touches are never made.
        let start = unsafe { alloc_zeroed(layout) }.cast::<Line>();
        if start.is_null() {
            handle_alloc_error(layout);
        }
        // SAFETY: allocated just so, and zero is a value of every byte of a line.
        Self { lines: unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(start, count)) } }
    }

    /// Bytes of the block.
    pub const fn bytes(&self) -> usize {
        self.lines.len() * ALIGNMENT
    }

    /// Where the block begins.
    pub const fn address(&self) -> *mut u8 {
        self.lines.as_ptr().cast::<u8>().cast_mut()
    }

    fn start<T: Plain>(&self, region: Region) -> (*mut T, usize) {
        assert!(
            region.offset + region.bytes <= self.bytes(),
            "{region:?} lies outside {} bytes",
            self.bytes()
        );
        assert!(region.offset.is_multiple_of(size_of::<T>()) && region.bytes.is_multiple_of(size_of::<T>()));
        let base = self.address();
        // SAFETY: the offset is inside the block, which was just checked.
        (unsafe { base.add(region.offset) }.cast::<T>(), region.bytes / size_of::<T>())
    }

    /// The elements of `region`.
    ///
    /// # Safety
    /// Nobody writes to the region while the slice lives.
    pub unsafe fn read<T: Plain>(&self, region: Region) -> &[T] {
        let (start, len) = self.start::<T>(region);
        if len == 0 {
            return &[];
        }
        // SAFETY: inside the block and aligned; every bit pattern is a value; the caller rules out writers.
        unsafe { std::slice::from_raw_parts(start, len) }
    }

    /// The elements of `region`, to write.
    ///
    /// # Safety
    /// Nobody else reads or writes the region while the slice lives.
    #[expect(
        clippy::mut_from_ref,
        reason = "regions are kept apart by the program, not by the borrow checker"
    )]
    pub unsafe fn write<T: Plain>(&self, region: Region) -> &mut [T] {
        let (start, len) = self.start::<T>(region);
        if len == 0 {
            return &mut [];
        }
        // SAFETY: inside the block and aligned; every bit pattern is a value; the caller rules out other users.
        unsafe { std::slice::from_raw_parts_mut(start, len) }
    }
}
