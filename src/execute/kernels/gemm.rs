//! Products of matrices. Blocks of both factors are packed into scratch, and tiles that fill the vector registers are
//! summed over the depth.
//!
//! Three sizes of blocks, as Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008), have
//! them: what is packed at once is cut into what a second-level cache holds (a strip of the left factor, a group of
//! panels of the right), and that into tiles.
//!
//! Every element of a product is one chain of fused multiply-adds over the depth, rounded to the output's type once.
//! So it does not depend on the number of threads, on the machine's vectors, on the sizes of blocks, nor on which
//! other rows and columns are computed with it.
//!
//! (faer's product was not taken: it keeps twice the size of the last-level cache for each thread, allocates in each
//! call, and cuts the depth of small products otherwise.)

#![expect(unsafe_code, reason = "threads share scratch and output")]

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::each::vectorised;
use super::packing::pack;
use super::shared::Shared;
use super::tile::{lanes, load, store, sum_tile, tile};
use crate::execute::element::{Element, Real};
use crate::execute::matrix::{Matrix, MatrixMut};
use crate::execute::pool::Pool;
use crate::execute::vector::Lane;
use crate::lower::kernel::Into;

/// Rows, columns and depth of the blocks that are packed, at most; rows and columns are multiples of every tile's.
const ROWS: usize = 1056;
const COLUMNS: usize = 672;
const DEPTH: usize = 1104;
/// Columns of the right block and depth that are worked on while the second-level cache holds them.
const GROUP: usize = 192;
const LAYER: usize = 384;
/// Rows or columns that a thread packs or multiplies at a time: a multiple of the rows and of the columns of every tile.
const PIECE: usize = 48;

/// Wide elements of scratch that [`product`] needs at least for an output of `rows` × `columns`.
pub fn scratch(rows: usize, columns: usize, depth: usize) -> usize {
    let (rows, columns, depth) = block(rows, columns, depth);
    rows * depth + columns * depth + rows * columns
}

/// The size of the blocks of such a product: as few as may be, and about equal.
fn block(rows: usize, columns: usize, depth: usize) -> (usize, usize, usize) {
    let whole = |size: usize, most: usize| equal(size, most).next_multiple_of(PIECE);
    (whole(rows, ROWS), whole(columns, COLUMNS), equal(depth, DEPTH))
}

/// The size of parts of `size`, which are as few as may be, about equal and at most `most`.
const fn equal(size: usize, most: usize) -> usize {
    let parts = size.div_ceil(most);
    if parts == 0 { 1 } else { size.div_ceil(parts) }
}

/// `c` (=|+=) `a` · `b` (+ `bias` in each row), with a (m, k), b (k, n), c (m, n).
///
/// `scratch` holds at least [`scratch`]`(m, n, k)` elements.
pub fn product<A, B, C>(
    pool: Pool<'_>,
    (a, b): (Matrix<'_, A>, Matrix<'_, B>),
    c: MatrixMut<'_, C>,
    write: Into,
    bias: Option<&[A]>,
    scratch: &mut [A::Wide],
) where
    A: Element,
    B: Element<Wide = A::Wide>,
    C: Element<Wide = A::Wide>,
{
    assert_eq!((a.rows, b.columns), (c.rows, c.columns), "rows and columns of the product");
    assert_eq!(a.columns, b.rows, "the depth");
    assert!(bias.is_none_or(|bias| bias.len() == c.columns), "the length of the bias");
    if c.rows == 0 || c.columns == 0 {
        return;
    }
    let most = block(c.rows, c.columns, a.columns);
    let needed = self::scratch(c.rows, c.columns, a.columns);
    assert!(scratch.len() >= needed, "{} elements of scratch; {needed} are needed", scratch.len());
    let (left, rest) = scratch.split_at_mut(most.0 * most.2);
    let (right, sums) = rest.split_at_mut(most.1 * most.2);
    let product = Product {
        a,
        b: b.transposed(),
        in_place: if a.column_stride == 1 { A::as_wide(a.data) } else { None },
        left: Shared::new(left),
        right: Shared::new(right),
        sums: Shared::new(sums),
        stride: c.stride,
        out: Shared::new(c.data),
        write,
        bias,
        most,
        tile: tile::<A::Wide>(),
    };
    let blocks = c.rows.div_ceil(most.0) * product.across() * product.deep();
    pool.steps(
        2 * blocks,
        |step| {
            let block = product.block(step / 2);
            if step % 2 == 0 { product.packings(&block) } else { block.row_pieces() * block.groups() }
        },
        |step, piece| {
            let block = product.block(step / 2);
            if step % 2 == 0 {
                vectorised!(product.pack(&block, piece));
            } else {
                Arch::new().dispatch(Multiply { product: &product, block, piece });
            }
        },
    );
}

/// A product and the scratch that its threads share. The right factor stands transposed.
struct Product<'a, A: Element, B, C> {
    a: Matrix<'a, A>,
    b: Matrix<'a, B>,
    /// The left factor's elements where tiles can read them as they lie, row by row.
    in_place: Option<&'a [A::Wide]>,
    left: Shared<'a, A::Wide>,
    right: Shared<'a, A::Wide>,
    sums: Shared<'a, A::Wide>,
    out: Shared<'a, C>,
    stride: usize,
    write: Into,
    bias: Option<&'a [A]>,
    /// Rows, columns and depth of a block.
    most: (usize, usize, usize),
    /// Rows and columns of a tile.
    tile: (usize, usize),
}

/// What is packed and multiplied at once.
struct Block {
    rows: Range<usize>,
    columns: Range<usize>,
    depth: Range<usize>,
    /// Whether the left factor's block is not the one that stands packed.
    is_left_new: bool,
    /// Whether the sums end here and are written out.
    is_last: bool,
}

impl Block {
    fn row_pieces(&self) -> usize {
        self.rows.len().div_ceil(PIECE)
    }

    /// Columns that are worked on together.
    fn group(&self) -> usize {
        equal(self.columns.len(), GROUP).next_multiple_of(PIECE)
    }

    fn groups(&self) -> usize {
        self.columns.len().div_ceil(self.group())
    }
}

/// Part `at` of `range` cut into parts of `size`.
fn part(range: &Range<usize>, size: usize, at: usize) -> Range<usize> {
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
    fn across(&self) -> usize {
        self.b.rows.div_ceil(self.most.1)
    }

    fn deep(&self) -> usize {
        self.a.columns.max(1).div_ceil(self.most.2)
    }

    /// Block `at`: the depth changes first, then the columns.
    fn block(&self, at: usize) -> Block {
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

    fn packings(&self, block: &Block) -> usize {
        self.left_packings(block) + block.columns.len().div_ceil(PIECE)
    }

    #[inline(always)]
    fn pack(&self, block: &Block, piece: usize) {
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

/// One piece of a block: rows of it times a group of columns.
struct Multiply<'a, 'b, A: Element, B, C> {
    product: &'a Product<'b, A, B, C>,
    block: Block,
    piece: usize,
}

impl<A, B, C> WithSimd for Multiply<'_, '_, A, B, C>
where
    A: Element,
    B: Element<Wide = A::Wide>,
    C: Element<Wide = A::Wide>,
{
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if S::REGISTER_COUNT >= 32 { self.tiles::<S, 8, 3>(simd) } else { self.tiles::<S, 6, 2>(simd) }
    }
}

impl<A, B, C> Multiply<'_, '_, A, B, C>
where
    A: Element,
    B: Element<Wide = A::Wide>,
    C: Element<Wide = A::Wide>,
{
    #[inline(always)]
    fn tiles<S: Simd, const ROWS: usize, const VECTORS: usize>(self, simd: S) {
        let Self { product, block, piece } = self;
        let width = VECTORS * lanes::<S, A::Wide>();
        let (deep, columns) = (block.depth.len(), block.columns.len());
        let panels = columns.div_ceil(width);
        let rows = part(&(0..block.rows.len()), PIECE, piece % block.row_pieces());
        let group = part(&(0..columns), block.group(), piece / block.row_pieces());
        let layer = equal(deep, LAYER);
        for first in (0..deep.max(1)).step_by(layer) {
            let layer = first..deep.min(first + layer);
            let is_first = block.depth.start + layer.start == 0;
            let is_last = block.is_last && layer.end == deep;
            for panel in group.start / width..group.end.div_ceil(width) {
                let start = (panel * deep + layer.start) * width;
                // SAFETY: the right block is written only in steps of packing.
                let right = unsafe { product.right.read(start..start + layer.len() * width) };
                for row in rows.clone().step_by(ROWS) {
                    let start = (row * panels + panel * ROWS) * width;
                    // SAFETY: each tile belongs to one piece.
                    let tile = unsafe { product.sums.part(start..start + ROWS * width) };
                    let before = if is_first {
                        [[A::Wide::splat(simd, Real::ZERO); VECTORS]; ROWS]
                    } else {
                        load(simd, tile)
                    };
                    let sums = if let Some(values) = product.in_place {
                        let last = block.rows.len() - 1;
                        let left: [&[A::Wide]; ROWS] = std::array::from_fn(|at| {
                            let row = block.rows.start + last.min(row + at);
                            &values[row * product.a.row_stride + block.depth.start + layer.start..]
                                [..layer.len()]
                        });
                        sum_tile::<S, A::Wide, ROWS, VECTORS>(
                            simd,
                            #[inline(always)]
                            |k, row| left[row][k],
                            right,
                            before,
                        )
                    } else {
                        let start = row * deep + layer.start * ROWS;
                        // SAFETY: the left block is written only in steps of packing.
                        let left = unsafe { product.left.read(start..start + layer.len() * ROWS) };
                        let left = left.as_chunks::<ROWS>().0;
                        sum_tile::<S, A::Wide, ROWS, VECTORS>(
                            simd,
                            #[inline(always)]
                            |k, row| left[k][row],
                            right,
                            before,
                        )
                    };
                    if is_last && product.writes_whole(&block, row + ROWS, (panel + 1) * width) {
                        for (at, sums) in sums.iter().enumerate() {
                            let start = (block.rows.start + row + at) * product.stride
                                + block.columns.start
                                + panel * width;
                            // SAFETY: each tile belongs to one piece.
                            let out = unsafe { product.out.part(start..start + width) };
                            if let Some(out) = C::as_wide_mut(out) {
                                store(simd, std::slice::from_ref(sums), out);
                            }
                        }
                    } else {
                        store(simd, &sums, tile);
                        if is_last {
                            product.finish(
                                &block,
                                tile,
                                width,
                                row..block.rows.len().min(row + ROWS),
                                panel * width,
                            );
                        }
                    }
                }
            }
        }
    }
}

impl<A, B, C> Product<'_, A, B, C>
where
    A: Element,
    B: Element<Wide = A::Wide>,
    C: Element<Wide = A::Wide>,
{
    /// Whether a tile that ends at `row` and `column` of `block` is written as it is.
    #[inline(always)]
    fn writes_whole(&self, block: &Block, row: usize, column: usize) -> bool {
        let is_whole = row <= block.rows.len() && column <= block.columns.len();
        is_whole && self.write == Into::Set && self.bias.is_none() && C::as_wide(&[]).is_some()
    }

    /// Writes a tile, whose rows are `rows` and whose first column is `column` of `block`, to the output.
    #[inline(always)]
    fn finish(&self, block: &Block, tile: &[A::Wide], width: usize, rows: Range<usize>, column: usize) {
        let first = block.columns.start + column;
        let count = width.min(block.columns.end - first);
        for (row, sums) in rows.zip(tile.chunks_exact(width)) {
            let start = (block.rows.start + row) * self.stride + first;
            // SAFETY: each tile belongs to one piece.
            let out = unsafe { self.out.part(start..start + count) };
            match (self.write, self.bias) {
                (Into::Set, None) => {
                    out.iter_mut().zip(sums).for_each(|(out, &sum)| *out = C::narrow(sum));
                }
                (Into::Add, None) => {
                    out.iter_mut().zip(sums).for_each(|(out, &sum)| *out = C::narrow(out.wide() + sum));
                }
                (write, Some(bias)) => {
                    for ((out, &sum), bias) in out.iter_mut().zip(sums).zip(&bias[first..][..count]) {
                        let before = if write == Into::Add { out.wide() } else { Real::ZERO };
                        *out = C::narrow(before + (sum + bias.wide()));
                    }
                }
            }
        }
    }
}
