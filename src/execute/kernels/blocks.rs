//! A product cut into blocks, and those into the pieces that threads pack and multiply.

#![expect(unsafe_code, reason = "threads share scratch")]

use std::ops::Range;

use super::packing::pack;
use super::shared::Shared;
use crate::execute::element::Element;
use crate::execute::matrix::Matrix;
use crate::lower::kernel::Into;

/// Columns of the right block that are worked on while the second-level cache holds them.
const GROUP: usize = 192;
/// Rows or columns that a thread packs or multiplies at a time: a multiple of the rows and of the columns of every tile.
pub(super) const PIECE: usize = 48;

/// The size of parts of `size`, which are as few as may be, about equal and at most `most`.
pub(super) const fn equal(size: usize, most: usize) -> usize {
    let parts = size.div_ceil(most);
    if parts == 0 { 1 } else { size.div_ceil(parts) }
}

/// A product and the scratch that its threads share. The right factor stands transposed.
pub(super) struct Product<'a, A: Element, B, C> {
    pub a: Matrix<'a, A>,
    pub b: Matrix<'a, B>,
    /// The left factor's elements where tiles can read them as they lie, row by row.
    pub in_place: Option<&'a [A::Wide]>,
    pub left: Shared<'a, A::Wide>,
    pub right: Shared<'a, A::Wide>,
    pub sums: Shared<'a, A::Wide>,
    pub out: Shared<'a, C>,
    pub stride: usize,
    pub write: Into,
    pub bias: Option<&'a [A]>,
    /// Rows, columns and depth of a block.
    pub most: (usize, usize, usize),
    /// Rows and columns of a tile.
    pub tile: (usize, usize),
}

/// What is packed and multiplied at once.
pub(super) struct Block {
    pub rows: Range<usize>,
    pub columns: Range<usize>,
    pub depth: Range<usize>,
    /// Whether the left factor's block is not the one that stands packed.
    pub is_left_new: bool,
    /// Whether the sums end here and are written out.
    pub is_last: bool,
}

impl Block {
    pub fn row_pieces(&self) -> usize {
        self.rows.len().div_ceil(PIECE)
    }

    /// Columns that are worked on together.
    pub fn group(&self) -> usize {
        equal(self.columns.len(), GROUP).next_multiple_of(PIECE)
    }

    pub fn groups(&self) -> usize {
        self.columns.len().div_ceil(self.group())
    }
}

/// Part `at` of `range` cut into parts of `size`.
pub(super) fn part(range: &Range<usize>, size: usize, at: usize) -> Range<usize> {
    let start = range.start + at * size;
    start..range.end.min(start + size)
}

impl<A, B, C> Product<'_, A, B, C>
where
    A: Element,
    B: Element<Wide = A::Wide>,
    C: Element<Wide = A::Wide>,
{
    /// Blocks from left to right, and along the depth.
    pub fn across(&self) -> usize {
        self.b.rows.div_ceil(self.most.1)
    }

    pub fn deep(&self) -> usize {
        self.a.columns.max(1).div_ceil(self.most.2)
    }

    /// Block `at`: the depth changes first, then the columns.
    pub fn block(&self, at: usize) -> Block {
        let (deep, across) = (self.deep(), self.across());
        let depth = part(&(0..self.a.columns), self.most.2, at % deep);
        let column = at / deep % across;
        Block {
            rows: part(&(0..self.a.rows), self.most.0, at / deep / across),
            columns: part(&(0..self.b.rows), self.most.1, column),
            is_left_new: column == 0 || deep > 1,
            is_last: depth.end == self.a.columns,
            depth,
        }
    }

    fn left_packings(&self, block: &Block) -> usize {
        if self.in_place.is_none() && block.is_left_new { block.row_pieces() } else { 0 }
    }

    pub fn packings(&self, block: &Block) -> usize {
        self.left_packings(block) + block.columns.len().div_ceil(PIECE)
    }

    #[inline(always)]
    pub fn pack(&self, block: &Block, piece: usize) {
        let deep = block.depth.len();
        let left = self.left_packings(block);
        if piece < left {
            let rows = part(&block.rows, PIECE, piece);
            let start = piece * PIECE * deep;
            let length = rows.len().next_multiple_of(self.tile.0) * deep;
            // SAFETY: pieces are packed once, each into its own range.
            pack(unsafe { self.left.part(start..start + length) }, self.tile.0, self.a, rows, &block.depth);
        } else {
            let columns = part(&block.columns, PIECE, piece - left);
            let start = (piece - left) * PIECE * deep;
            let length = columns.len().next_multiple_of(self.tile.1) * deep;
            // SAFETY: as above.
            pack(
                unsafe { self.right.part(start..start + length) },
                self.tile.1,
                self.b,
                columns,
                &block.depth,
            );
        }
    }
}
