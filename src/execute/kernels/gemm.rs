//! Products of matrices. Blocks of both factors are packed into scratch, and tiles that fill the vector registers are
//! summed over the depth.
//!
//! Every element of a product is one chain of fused multiply-adds over the depth, begun anew at each multiple of a
//! fixed depth and rounded to the output's type once. So it does not depend on the number of threads, on the
//! machine's vectors, nor on which other rows and columns are computed with it.
//!
//! (faer's product was not taken: it keeps twice the size of the last-level cache for each thread, allocates in each
//! call, and cuts the depth of small products otherwise.)

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use crate::execute::element::{Element, Real};
use crate::execute::matrix::{Matrix, MatrixMut};
use crate::execute::pool::{Pool, Rows};
use crate::execute::vector::Lane;

/// What becomes of what stands in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    Replace,
    Add,
}

/// Rows, columns and depth of the blocks that are packed; rows and columns are multiples of every tile's.
const ROWS: usize = 512;
const COLUMNS: usize = 1536;
const DEPTH: usize = 384;
/// Rows of the left block that one pass over the right block uses, so that they stay in the second-level cache.
const STRIP: usize = 128;
/// A multiple of the rows, and of the columns, of every tile.
const TILE: (usize, usize) = (8, 48);
/// Depth of what is transposed at a time when packing.
const TURN: usize = 16;

/// Wide elements of scratch that [`product`] needs at least for an output of `rows` × `columns`.
pub fn scratch(rows: usize, columns: usize, depth: usize) -> usize {
    let (rows, columns, depth) = block(rows, columns, depth);
    rows * depth + columns * depth + rows * columns
}

/// The size of the blocks of such a product.
fn block(rows: usize, columns: usize, depth: usize) -> (usize, usize, usize) {
    let rows = rows.next_multiple_of(TILE.0).min(ROWS);
    let columns = columns.next_multiple_of(TILE.1).min(COLUMNS);
    (rows, columns, depth.min(DEPTH))
}

/// `c` (=|+=) `a` · `b` (+ `bias` in each row), with a (m, k), b (k, n), c (m, n).
///
/// `scratch` holds at least [`scratch`]`(m, n, k)` elements.
pub fn product<A, B, C>(
    pool: Pool<'_>,
    (a, b): (Matrix<'_, A>, Matrix<'_, B>),
    c: MatrixMut<'_, C>,
    write: Write,
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

    for first_row in (0..c.rows).step_by(ROWS) {
        let rows = first_row..c.rows.min(first_row + ROWS);
        for first_column in (0..c.columns).step_by(COLUMNS) {
            let columns = first_column..c.columns.min(first_column + COLUMNS);
            let panels = columns.len().div_ceil(tile_columns);
            for first_depth in (0..depth.max(1)).step_by(DEPTH) {
                let layer = first_depth..depth.min(first_depth + DEPTH);
                let right = &mut right[..panels * tile_columns * layer.len()];
                pool.each(panels, 1, Rows(&mut *right, tile_columns * layer.len()), |range, part| {
                    let columns = columns.start + range.start * tile_columns..columns.end;
                    Arch::new().dispatch(
                        #[inline(always)]
                        || pack(part.0, tile_columns, b, columns, &layer),
                    );
                });
                let strips = Strips {
                    a,
                    right,
                    columns: columns.clone(),
                    depth: layer.clone(),
                    repack: first_column == 0 || depth > DEPTH,
                    last: layer.end == depth,
                    write,
                    bias,
                    stride: c.stride,
                };
                let tiles = rows.len().div_ceil(tile_rows);
                let out = &mut c.data[rows.start * c.stride..];
                let parts = (
                    Rows(&mut *left, tile_rows * layer.len()),
                    Rows(&mut *sums, tile_rows * panels * tile_columns),
                    Rows(out, tile_rows * c.stride),
                );
                pool.each(tiles, 1, parts, |range, (left, sums, out)| {
                    let end = rows.end.min(rows.start + range.end * tile_rows);
                    let rows = rows.start + range.start * tile_rows..end;
                    Arch::new().dispatch(Run {
                        strips: &strips,
                        rows,
                        left: left.0,
                        sums: sums.0,
                        out: out.0,
                    });
                });
            }
        }
    }
}

/// Rows and vectors across of a tile: as many sums as leave registers for one row of the right factor.
const fn tile_shape<S: Simd>() -> (usize, usize) {
    if S::REGISTER_COUNT >= 32 { (8, 3) } else { (4, 3) }
}

/// Rows and columns of the tiles that fill this machine's registers, for elements that are summed as `W`.
pub fn tile<W: Lane>() -> (usize, usize) {
    Arch::new().dispatch(TileSize(std::marker::PhantomData::<W>))
}

/// Elements of a vector.
fn lanes<S: Simd, W: Lane>() -> usize {
    size_of::<W::Vector<S>>() / size_of::<W>()
}

/// Asks for the rows and columns of a tile on this machine.
struct TileSize<W>(std::marker::PhantomData<W>);

impl<W: Lane> WithSimd for TileSize<W> {
    type Output = (usize, usize);

    fn with_simd<S: Simd>(self, _: S) -> (usize, usize) {
        let (rows, vectors) = tile_shape::<S>();
        (rows, vectors * lanes::<S, W>())
    }
}

/// Copies rows `rows` of `from`, as deep as `depth`, into panels of `width` rows that stand depth by depth; rows that
/// are missing in the last panel become 0.
#[inline(always)]
fn pack<T: Element>(
    to: &mut [T::Wide],
    width: usize,
    from: Matrix<'_, T>,
    rows: Range<usize>,
    depth: &Range<usize>,
) {
    let panels = to.chunks_exact_mut((width * depth.len()).max(1));
    for (panel, first) in panels.zip((rows.start..rows.end).step_by(width)) {
        let count = width.min(rows.end - first);
        if count < width {
            panel.fill(Real::ZERO);
        }
        if from.column_stride == 1 {
            for (turn, piece) in panel.chunks_mut(width * TURN).enumerate() {
                let start = depth.start + turn * TURN;
                for row in 0..count {
                    let values = &from.data[(first + row) * from.row_stride + start..][..piece.len() / width];
                    for (value, line) in values.iter().zip(piece.chunks_exact_mut(width)) {
                        line[row] = value.wide();
                    }
                }
            }
        } else {
            assert_eq!(from.row_stride, 1, "one stride is 1");
            for (line, k) in panel.chunks_exact_mut(width).zip(depth.clone()) {
                let values = &from.data[k * from.column_stride + first..][..count];
                for (to, value) in line.iter_mut().zip(values) {
                    *to = value.wide();
                }
            }
        }
    }
}

/// One packed block of the right factor, and what all threads do with it.
struct Strips<'a, A: Element> {
    a: Matrix<'a, A>,
    right: &'a [A::Wide],
    columns: Range<usize>,
    depth: Range<usize>,
    /// Whether the left block is not the one that stands packed.
    repack: bool,
    /// Whether the sums end here and are written out.
    last: bool,
    write: Write,
    bias: Option<&'a [A]>,
    stride: usize,
}

/// The rows that one thread computes.
struct Run<'a, A: Element, C> {
    strips: &'a Strips<'a, A>,
    rows: Range<usize>,
    left: &'a mut [A::Wide],
    sums: &'a mut [A::Wide],
    out: &'a mut [C],
}

impl<A: Element, C: Element<Wide = A::Wide>> WithSimd for Run<'_, A, C> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if S::REGISTER_COUNT >= 32 { self.tiles::<S, 8, 3>(simd) } else { self.tiles::<S, 4, 3>(simd) }
    }
}

impl<A: Element, C: Element<Wide = A::Wide>> Run<'_, A, C> {
    #[inline(always)]
    fn tiles<S: Simd, const ROWS: usize, const VECTORS: usize>(self, simd: S) {
        let Strips { a, right, columns, depth, .. } = self.strips;
        let width = VECTORS * lanes::<S, A::Wide>();
        let panels = columns.len().div_ceil(width);
        let height = STRIP / ROWS;
        let strips = self.left.chunks_mut((height * ROWS * depth.len()).max(1));
        let strips = strips.zip(self.sums.chunks_mut(height * ROWS * width * panels));
        let starts = self.rows.clone().step_by(STRIP);
        for (start, (left, sums)) in starts.zip(strips) {
            let rows = start..self.rows.end.min(start + STRIP);
            if self.strips.repack {
                pack(left, ROWS, *a, rows.clone(), depth);
            }
            for panel in 0..panels {
                let right = &right[panel * width * depth.len()..][..width * depth.len()];
                for (turn, row) in rows.clone().step_by(ROWS).enumerate() {
                    let left = &left[turn * ROWS * depth.len()..][..ROWS * depth.len()];
                    let tile = &mut sums[(turn * panels + panel) * ROWS * width..][..ROWS * width];
                    sum_tile::<S, A::Wide, ROWS, VECTORS>(simd, left, right, tile, depth.start > 0);
                    if self.strips.last {
                        let rows = row - self.rows.start..(row + ROWS).min(rows.end) - self.rows.start;
                        self.strips.finish(tile, width, rows, panel * width, self.out);
                    }
                }
            }
        }
    }
}

impl<A: Element> Strips<'_, A> {
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
                (Write::Replace, None) => {
                    out.iter_mut().zip(sums).for_each(|(out, &sum)| *out = C::narrow(sum));
                }
                (Write::Add, None) => {
                    out.iter_mut().zip(sums).for_each(|(out, &sum)| *out = C::narrow(out.wide() + sum));
                }
                (write, Some(bias)) => {
                    for ((out, &sum), bias) in out.iter_mut().zip(sums).zip(&bias[first..][..count]) {
                        let before = if write == Write::Add { out.wide() } else { Real::ZERO };
                        *out = C::narrow(before + (sum + bias.wide()));
                    }
                }
            }
        }
    }
}

/// Sums one tile over the depth: from 0, or from what it holds.
#[inline(always)]
fn sum_tile<S: Simd, W: Real, const ROWS: usize, const VECTORS: usize>(
    simd: S,
    left: &[W],
    right: &[W],
    tile: &mut [W],
    continued: bool,
) {
    let mut sums = [[W::splat(simd, W::ZERO); VECTORS]; ROWS];
    let tile = W::vectors_mut(simd, tile).as_chunks_mut::<VECTORS>().0;
    if continued {
        sums.iter_mut().zip(tile.iter()).for_each(|(sums, kept)| *sums = *kept);
    }
    let right = W::vectors(simd, right).as_chunks::<VECTORS>().0;
    for (left, right) in left.as_chunks::<ROWS>().0.iter().zip(right) {
        for row in 0..ROWS {
            let factor = W::splat(simd, left[row]);
            for vector in 0..VECTORS {
                sums[row][vector] = W::multiply_add(simd, factor, right[vector], sums[row][vector]);
            }
        }
    }
    tile.iter_mut().zip(&sums).for_each(|(kept, sums)| *kept = *sums);
}
