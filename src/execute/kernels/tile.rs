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

/// Sums of a tile.
pub(super) type Sums<S, W, const ROWS: usize, const VECTORS: usize> =
    [[<W as Lane>::Vector<S>; VECTORS]; ROWS];

/// `before` plus the products of `left(depth, row)` with a panel of the right factor.
#[inline(always)]
pub(super) fn sum_tile<S: Simd, W: Real, const ROWS: usize, const VECTORS: usize>(
    simd: S,
    left: impl Fn(usize, usize) -> W,
    right: &[W],
    mut sums: Sums<S, W, ROWS, VECTORS>,
) -> Sums<S, W, ROWS, VECTORS> {
    for (k, right) in W::vectors(simd, right).as_chunks::<VECTORS>().0.iter().enumerate() {
        for (row, sums) in sums.iter_mut().enumerate() {
            let factor = W::splat(simd, left(k, row));
            for (sum, &right) in sums.iter_mut().zip(right) {
                *sum = W::multiply_add(simd, factor, right, *sum);
            }
        }
    }
    sums
}

/// Sums that were stored.
#[inline(always)]
pub(super) fn load<S: Simd, W: Real, const ROWS: usize, const VECTORS: usize>(
    simd: S,
    from: &[W],
) -> Sums<S, W, ROWS, VECTORS> {
    let rows = W::vectors(simd, from).as_chunks::<VECTORS>().0;
    std::array::from_fn(|row| rows[row])
}

/// Stores rows of sums one behind the other.
#[inline(always)]
pub(super) fn store<S: Simd, W: Real, const VECTORS: usize>(
    simd: S,
    sums: &[[W::Vector<S>; VECTORS]],
    to: &mut [W],
) {
    W::vectors_mut(simd, to)
        .as_chunks_mut::<VECTORS>()
        .0
        .iter_mut()
        .zip(sums)
        .for_each(|(to, sums)| *to = *sums);
}
