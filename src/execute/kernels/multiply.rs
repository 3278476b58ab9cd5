//! The pieces of a product that threads compute: tiles of rows of the left factor times panels of the right one.

#![expect(unsafe_code, reason = "threads share scratch and output")]

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::blocks::{Block, PIECE, Product, equal, part};
use super::each::inlined;
use super::tile::{Sums, lanes, load, store, sum_tile};
use crate::execute::element::{Element, Real};
use crate::execute::vector::Lane;
use crate::lower::kernel::Into;

/// Depth that is worked on while the second-level cache holds the lines of a group of panels.
const LAYER: usize = 384;

/// One piece of a block: rows of it times a group of columns.
pub(super) struct Multiply<'a, 'b, A: Element, B, C> {
    pub product: &'a Product<'b, A, B, C>,
    pub block: Block,
    pub piece: usize,
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
                    let sums = product.sum::<S, ROWS, VECTORS>(simd, &block, row, &layer, right, before);
                    if !is_last {
                        store(simd, &sums, tile);
                    } else if product.writes_whole(&block, row + ROWS, (panel + 1) * width) {
                        product.write(simd, &block, row, panel * width, width, &sums);
                    } else {
                        store(simd, &sums, tile);
                        let rows = row..block.rows.len().min(row + ROWS);
                        product.finish(&block, tile, width, rows, panel * width);
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
    /// `before` plus the products of rows from `row` on of `block` with a panel of the right factor, over `layer`.
    #[inline(always)]
    fn sum<S: Simd, const ROWS: usize, const VECTORS: usize>(
        &self,
        simd: S,
        block: &Block,
        row: usize,
        layer: &Range<usize>,
        right: &[A::Wide],
        before: Sums<S, A::Wide, ROWS, VECTORS>,
    ) -> Sums<S, A::Wide, ROWS, VECTORS> {
        if let Some(values) = self.in_place {
            // A tile that is not full reads the last row again.
            let last = block.rows.end - 1;
            let first = block.depth.start + layer.start;
            let left: [&[A::Wide]; ROWS] = std::array::from_fn(|at| {
                let row = last.min(block.rows.start + row + at);
                &values[row * self.a.row_stride + first..][..layer.len()]
            });
            let left = inlined!(|k: usize, row: usize| left[row][k]);
            return sum_tile::<S, A::Wide, ROWS, VECTORS>(simd, left, right, before);
        }
        let start = row * block.depth.len() + layer.start * ROWS;
        // SAFETY: the left block is written only in steps of packing.
        let left = unsafe { self.left.read(start..start + layer.len() * ROWS) };
        let left = left.as_chunks::<ROWS>().0;
        let left = inlined!(|k: usize, row: usize| left[k][row]);
        sum_tile::<S, A::Wide, ROWS, VECTORS>(simd, left, right, before)
    }

    /// Writes a whole tile, whose first row and column are `row` and `column` of `block`, to the output as it is.
    #[inline(always)]
    fn write<S: Simd, const VECTORS: usize>(
        &self,
        simd: S,
        block: &Block,
        row: usize,
        column: usize,
        width: usize,
        sums: &[[<A::Wide as Lane>::Vector<S>; VECTORS]],
    ) {
        for (at, sums) in sums.iter().enumerate() {
            let start = (block.rows.start + row + at) * self.stride + block.columns.start + column;
            // SAFETY: each tile belongs to one piece.
            let out = unsafe { self.out.part(start..start + width) };
            if let Some(out) = C::as_wide_mut(out) {
                store(simd, std::slice::from_ref(sums), out);
            }
        }
    }

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
