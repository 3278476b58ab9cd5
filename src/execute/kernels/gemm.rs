//! Products of matrices. Blocks of the right factor, and of the left one where it cannot be read as it lies, are packed
//! into scratch, and tiles that fill the vector registers are summed over the depth.
//!
//! Three sizes of blocks, as Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008), have
//! them: what is packed at once is cut into what a second-level cache holds (some rows of the left factor, a group of
//! panels of the right), and that into tiles. Threads take such pieces one by one.
//!
//! Every element of a product is one chain of fused multiply-adds over the depth, rounded to the output's type once.
//! So it does not depend on the number of threads, on the machine's vectors, on the sizes of blocks, nor on which
//! other rows and columns are computed with it.
//!
//! (faer's product was not taken: it keeps twice the size of the last-level cache for each thread, allocates in each
//! call, and cuts the depth of small products otherwise.)

use pulp::Arch;

use super::blocks::{PIECE, Product, equal};
use super::each::vectorised;
use super::multiply::Multiply;
use super::shared::Shared;
use super::tile::tile;
use crate::execute::element::Element;
use crate::execute::matrix::{Matrix, MatrixMut};
use crate::execute::pool::Pool;
use crate::lower::kernel::Into;

/// Rows, columns and depth of the blocks that are packed, at most; rows and columns are multiples of every tile's.
const ROWS: usize = 1056;
const COLUMNS: usize = 672;
const DEPTH: usize = 1104;

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
