//! Tiles of products: sums that fill the vector registers.

use std::marker::PhantomData;

use pulp::{Arch, Simd, WithSimd};

use crate::execute::element::Real;
use crate::execute::vector::Lane;

/// Rows and vectors across of a tile: as many sums as leave registers for one row of the right factor, and a few over,
/// without which the compiler moves sums about.
const fn tile_shape<S: Simd>() -> (usize, usize) {
    if S::REGISTER_COUNT >= 32 { (8, 3) } else { (6, 2) }
}

/// Rows and columns of the tiles that fill this machine's registers, for elements that are summed as `W`.
pub fn tile<W: Lane>() -> (usize, usize) {
    Arch::new().dispatch(TileSize(PhantomData::<W>))
}

/// Elements of a vector.
pub(super) fn lanes<S: Simd, W: Lane>() -> usize {
    size_of::<W::Vector<S>>() / size_of::<W>()
}

/// Asks for the rows and columns of a tile on this machine.
struct TileSize<W>(PhantomData<W>);

impl<W: Lane> WithSimd for TileSize<W> {
    type Output = (usize, usize);

    fn with_simd<S: Simd>(self, _: S) -> (usize, usize) {
        let (rows, vectors) = tile_shape::<S>();
        (rows, vectors * lanes::<S, W>())
    }
}

/// Sums one tile over the depth: from 0, or from what it holds.
#[inline(always)]
pub(super) fn sum_tile<S: Simd, W: Real, const ROWS: usize, const VECTORS: usize>(
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
