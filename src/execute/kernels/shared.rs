//! Memory that threads write to disjoint parts of.

#![expect(unsafe_code, reason = "who writes where is not a matter of types here")]

use std::marker::PhantomData;
use std::ops::Range;

/// A slice that several threads write to, each to parts of its own.
pub(super) struct Shared<'a, T> {
    start: *mut T,
    length: usize,
    borrowed: PhantomData<&'a mut [T]>,
}

// SAFETY: it hands out slices of T only by unsafe functions, whose callers see to it that threads do not meet.
unsafe impl<T: Send + Sync> Sync for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    pub fn new(slice: &'a mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), length: slice.len(), borrowed: PhantomData }
    }

    fn check(&self, range: &Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.length, "{range:?} of {}", self.length);
    }

    /// Elements `range`, to write to.
    ///
    /// # Safety
    /// Nothing else of this range is borrowed while this is.
    #[expect(clippy::mut_from_ref, reason = "callers keep the ranges apart")]
    #[inline(always)]
    pub unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        self.check(&range);
        // SAFETY: the range lies in the slice that is borrowed for 'a, and the caller lends it once.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }

    /// Elements `range`, to read.
    ///
    /// # Safety
    /// Nobody writes to this range while this is borrowed.
    #[inline(always)]
    pub unsafe fn read(&self, range: Range<usize>) -> &[T] {
        self.check(&range);
        // SAFETY: the range lies in the slice that is borrowed for 'a, and the caller says that nobody writes to it.
        unsafe { std::slice::from_raw_parts(self.start.add(range.start), range.len()) }
    }
}
