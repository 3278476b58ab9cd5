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

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::each::vectorised;
use super::packing::pack;
use super::tile::{lanes, sum_tile, tile};
use crate::execute::element::{Element, Real};
use crate::execute::matrix::{Matrix, MatrixMut};
use crate::execute::pool::{Pool, Rows};
use crate::lower::kernel::Into;

/// Rows, columns and depth of the blocks that are packed, at most; rows and columns are multiples of every tile's.
const ROWS: usize = 1056;
const COLUMNS: usize = 672;
const DEPTH: usize = 1104;
/// Rows of the left block, columns of the right one, and their depth, that are worked on while the caches hold them:
/// a panel of the right block in the first level, the rest in the second.
const STRIP: usize = 132;
const GROUP: usize = 192;
const LAYER: usize = 384;
/// A multiple of the rows and of the columns of every tile, which keeps what follows a block in scratch on cache lines.
const TILE: usize = 48;

/// Wide elements of scratch that [`product`] needs at least for an output of `rows` × `columns`.
pub fn scratch(rows: usize, columns: usize, depth: usize) -> usize {
    let (rows, columns, depth) = block(rows, columns, depth);
    rows * depth + columns * depth + rows * columns
}

/// The size of the blocks of such a product: as few as may be, and about equal.
fn block(rows: usize, columns: usize, depth: usize) -> (usize, usize, usize) {
    let tiles = |size: usize, most: usize| equal(size, most).next_multiple_of(TILE);
    (tiles(rows, ROWS), tiles(columns, COLUMNS), equal(depth, DEPTH))
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
    let depth = a.columns;
    let (block_rows, block_columns, block_depth) = block(c.rows, c.columns, depth);
    let needed = self::scratch(c.rows, c.columns, depth);
    assert!(scratch.len() >= needed, "{} elements of scratch; {needed} are needed", scratch.len());
    let (left, rest) = scratch.split_at_mut(block_rows * block_depth);
    let (right, sums) = rest.split_at_mut(block_columns * block_depth);
    let (tile_rows, tile_columns) = tile::<A::Wide>();
    let b = b.transposed();

    for first_row in (0..c.rows).step_by(block_rows) {
        let rows = first_row..c.rows.min(first_row + block_rows);
        for first_column in (0..c.columns).step_by(block_columns) {
            let columns = first_column..c.columns.min(first_column + block_columns);
            let panels = columns.len().div_ceil(tile_columns);
            for first_depth in (0..depth.max(1)).step_by(block_depth) {
                let depth = first_depth..depth.min(first_depth + block_depth);
                let right = &mut right[..panels * tile_columns * depth.len()];
                pool.each(panels, 1, Rows(&mut *right, tile_columns * depth.len()), |range, part| {
                    let end = columns.end.min(columns.start + range.end * tile_columns);
                    let columns = columns.start + range.start * tile_columns..end;
                    vectorised!(pack(part.0, tile_columns, b, columns, &depth));
                });
                let block = Block {
                    a,
                    right,
                    columns: columns.clone(),
                    repack: first_column == 0 || a.columns > block_depth,
                    last: depth.end == a.columns,
                    depth: depth.clone(),
                    write,
                    bias,
                    stride: c.stride,
                };
                let tiles = rows.len().div_ceil(tile_rows);
                let out = &mut c.data[rows.start * c.stride..];
                let parts = (
                    Rows(&mut *left, tile_rows * depth.len()),
                    Rows(&mut *sums, tile_rows * panels * tile_columns),
                    Rows(out, tile_rows * c.stride),
                );
                pool.each(tiles, 1, parts, |range, (left, sums, out)| {
                    let end = rows.end.min(rows.start + range.end * tile_rows);
                    let rows = rows.start + range.start * tile_rows..end;
                    Arch::new().dispatch(Run { block: &block, rows, left: left.0, sums: sums.0, out: out.0 });
                });
            }
        }
    }
}

/// One packed block of the right factor, and what all threads do with it.
struct Block<'a, A: Element> {
    a: Matrix<'a, A>,
    right: &'a [A::Wide],
    columns: Range<usize>,
    depth: Range<usize>,
    /// Whether the left block is not the one that stands packed.
    repack: bool,
    /// Whether the sums end here and are written out.
    last: bool,
    write: Into,
    bias: Option<&'a [A]>,
    stride: usize,
}

/// The rows that one thread computes.
struct Run<'a, A: Element, C> {
    block: &'a Block<'a, A>,
    rows: Range<usize>,
    left: &'a mut [A::Wide],
    sums: &'a mut [A::Wide],
    out: &'a mut [C],
}

impl<A: Element, C: Element<Wide = A::Wide>> WithSimd for Run<'_, A, C> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if S::REGISTER_COUNT >= 32 { self.tiles::<S, 8, 3>(simd) } else { self.tiles::<S, 6, 2>(simd) }
    }
}

impl<A: Element, C: Element<Wide = A::Wide>> Run<'_, A, C> {
    #[inline(always)]
    fn tiles<S: Simd, const ROWS: usize, const VECTORS: usize>(self, simd: S) {
        let Block { a, right, columns, depth, .. } = self.block;
        let width = VECTORS * lanes::<S, A::Wide>();
        let panels = columns.len().div_ceil(width);
        if self.block.repack {
            pack(self.left, ROWS, *a, self.rows.clone(), depth);
        }
        let strip_rows = equal(self.rows.len(), STRIP).next_multiple_of(ROWS);
        for group in (0..panels).step_by(GROUP / width) {
            let group = group..panels.min(group + GROUP / width);
            for strip in self.rows.clone().step_by(strip_rows) {
                let strip = strip..self.rows.end.min(strip + strip_rows);
                for layer in (0..depth.len().max(1)).step_by(LAYER) {
                    let layer = layer..depth.len().min(layer + LAYER);
                    let is_first = depth.start + layer.start == 0;
                    let is_last = self.block.last && layer.end == depth.len();
                    for panel in group.clone() {
                        let start = panel * depth.len() + layer.start;
                        let right = &right[start * width..][..layer.len() * width];
                        for row in strip.clone().step_by(ROWS) {
                            let first = row - self.rows.start;
                            let start = first * depth.len() + layer.start * ROWS;
                            let left = &self.left[start..][..layer.len() * ROWS];
                            let tile =
                                &mut self.sums[(first * panels + panel * ROWS) * width..][..ROWS * width];
                            sum_tile::<S, A::Wide, ROWS, VECTORS>(simd, left, right, tile, !is_first);
                            if is_last {
                                let rows = first..first + ROWS.min(strip.end - row);
                                self.block.finish(tile, width, rows, panel * width, self.out);
                            }
                        }
                    }
                }
            }
        }
    }
}

impl<A: Element> Block<'_, A> {
    /// Writes a tile, whose first column is `column` of this block, to rows `rows` of `out`.
    #[inline(always)]
    fn finish<C: Element<Wide = A::Wide>>(
        &self,
        tile: &[A::Wide],
        width: usize,
        rows: Range<usize>,
        column: usize,
        out: &mut [C],
    ) {
        let first = self.columns.start + column;
        let count = width.min(self.columns.end - first);
        for (row, sums) in rows.zip(tile.chunks_exact(width)) {
            let out = &mut out[row * self.stride + first..][..count];
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
