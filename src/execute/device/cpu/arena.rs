//! One block of memory a rank and space: buffers are ranges of it, placed before the run.

use std::io;

use memmap2::MmapMut;

use crate::execute::storage::Plain;
use crate::units::Bytes;

pub use crate::program::placing::Region;

/// Every region starts at a multiple of this.
const ALIGNMENT: usize = Bytes::ALIGNMENT as usize;

/// A block of zeroed memory.
pub struct Arena {
    start: *mut u8,
    bytes: usize,
    /// The memory that `start` points into; none for an empty block.
    _map: Option<MmapMut>,
}

// SAFETY: the memory is the arena's own, and it goes with it.
unsafe impl Send for Arena {}

// SAFETY: the arena hands out slices only through unsafe functions, whose callers keep them apart.
unsafe impl Sync for Arena {}

impl Arena {
    /// A block of at least `bytes` bytes. Pages that nobody touches are never made.
    ///
    /// # Errors
    /// If the system does not give it.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let bytes = bytes.next_multiple_of(ALIGNMENT);
        if bytes == 0 {
            return Ok(Self { start: std::ptr::dangling_mut(), bytes, _map: None });
        }
        let mut map = MmapMut::map_anon(bytes)?;
        Ok(Self { start: map.as_mut_ptr(), bytes, _map: Some(map) })
    }

    /// Bytes of the block.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where the block begins.
    pub const fn address(&self) -> *mut u8 {
        self.start
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
