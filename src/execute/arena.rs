//! One block of memory a rank and space: buffers are ranges of it, placed before the run.

#![expect(unsafe_code, reason = "streams of a rank work on disjoint ranges of one block at the same time")]

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::cell::UnsafeCell;

use crate::execute::element::Element;
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

    fn start<T: Element>(&self, region: Region) -> (*mut T, usize) {
        assert!(
            region.offset + region.bytes <= self.bytes(),
            "{region:?} lies outside {} bytes",
            self.bytes()
        );
        assert!(region.offset.is_multiple_of(size_of::<T>()) && region.bytes.is_multiple_of(size_of::<T>()));
        let base = self.lines.as_ptr().cast::<u8>().cast_mut();
        // SAFETY: the offset is inside the block, which was just checked.
        (unsafe { base.add(region.offset) }.cast::<T>(), region.bytes / size_of::<T>())
    }

    /// The elements of `region`.
    ///
    /// # Safety
    /// Nobody writes to the region while the slice lives.
    pub unsafe fn read<T: Element>(&self, region: Region) -> &[T] {
        let (start, len) = self.start::<T>(region);
        if len == 0 {
            return &[];
        }
        // SAFETY: inside the block and aligned; every bit pattern is an element; the caller rules out writers.
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
    pub unsafe fn write<T: Element>(&self, region: Region) -> &mut [T] {
        let (start, len) = self.start::<T>(region);
        if len == 0 {
            return &mut [];
        }
        // SAFETY: inside the block and aligned; every bit pattern is an element; the caller rules out other users.
        unsafe { std::slice::from_raw_parts_mut(start, len) }
    }

    /// The bytes of `region`.
    ///
    /// # Safety
    /// As for [`Self::read`].
    pub unsafe fn read_bytes(&self, region: Region) -> &[u8] {
        assert!(region.offset + region.bytes <= self.bytes());
        // SAFETY: inside the block; the caller rules out writers.
        unsafe {
            std::slice::from_raw_parts(self.lines.as_ptr().cast::<u8>().add(region.offset), region.bytes)
        }
    }

    /// The bytes of `region`, to write.
    ///
    /// # Safety
    /// As for [`Self::write`].
    #[expect(
        clippy::mut_from_ref,
        reason = "regions are kept apart by the program, not by the borrow checker"
    )]
    pub unsafe fn write_bytes(&self, region: Region) -> &mut [u8] {
        assert!(region.offset + region.bytes <= self.bytes());
        let base = self.lines.as_ptr().cast::<u8>().cast_mut();
        // SAFETY: inside the block; the caller rules out other users.
        unsafe { std::slice::from_raw_parts_mut(base.add(region.offset), region.bytes) }
    }

    /// Token ids in `region`, to write.
    ///
    /// # Safety
    /// As for [`Self::write`].
    #[expect(
        clippy::mut_from_ref,
        reason = "regions are kept apart by the program, not by the borrow checker"
    )]
    pub unsafe fn write_ids(&self, region: Region) -> &mut [u32] {
        assert!(region.offset + region.bytes <= self.bytes() && region.offset.is_multiple_of(4));
        let base = self.lines.as_ptr().cast::<u8>().cast_mut();
        // SAFETY: inside the block and aligned; the caller rules out other users.
        unsafe { std::slice::from_raw_parts_mut(base.add(region.offset).cast::<u32>(), region.bytes / 4) }
    }

    /// Fills `region` with ones in every bit, which is not a number in any floating-point type.
    ///
    /// # Safety
    /// As for [`Self::write`].
    pub unsafe fn poison(&self, region: Region) {
        assert!(region.offset + region.bytes <= self.bytes());
        let base = self.lines.as_ptr().cast::<u8>().cast_mut();
        // SAFETY: inside the block; the caller rules out other users.
        unsafe { std::ptr::write_bytes(base.add(region.offset), 0xff, region.bytes) };
    }

    /// Copies `from` of `source` to `to`, byte by byte.
    ///
    /// # Safety
    /// Nobody writes to `from`, nobody uses `to` meanwhile; they do not overlap.
    pub unsafe fn copy_from(&self, source: &Self, from: Region, to: Region) {
        assert_eq!(from.bytes, to.bytes, "{from:?} is copied to {to:?}");
        assert!(from.offset + from.bytes <= source.bytes() && to.offset + to.bytes <= self.bytes());
        let (source, target) =
            (source.lines.as_ptr().cast::<u8>(), self.lines.as_ptr().cast::<u8>().cast_mut());
        // SAFETY: both inside their blocks; the caller rules out other users and overlap.
        unsafe { std::ptr::copy_nonoverlapping(source.add(from.offset), target.add(to.offset), from.bytes) };
    }
}
