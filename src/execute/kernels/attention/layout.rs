//! Windows of columns of a packed matrix, and the walk over tiles of its rows.

use std::ops::{Deref, Range};

use crate::execute::pool::{Cut, Pool, both};

/// Rows of a tile and numbers in each.
pub const LANES: usize = 32;

/// Columns from `column` on of a row-major matrix of `stride` columns. Where they are written, the rest of the matrix
/// stays as it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window<D> {
    pub data: D,
    pub stride: usize,
    pub column: usize,
}

impl<D> Window<D> {
    /// The same rows, `columns` further right.
    pub(super) fn right(self, columns: usize) -> Self {
        Self { column: self.column + columns, ..self }
    }
}

impl<T, D: Deref<Target = [T]>> Window<D> {
    pub(super) fn row(&self, row: usize, width: usize) -> &[T] {
        &self.data[row * self.stride + self.column..][..width]
    }

    pub(super) fn check(&self, name: &str, rows: usize, width: usize) {
        assert_eq!(self.data.len(), rows * self.stride, "elements of the {name}");
        assert!(self.column + width <= self.stride, "columns of the {name}");
    }
}

/// Keys from column `keys` on and values from column `values` on of one matrix, or their gradients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeyValues<D> {
    pub data: D,
    pub stride: usize,
    pub keys: usize,
    pub values: usize,
}

impl<T, D: Deref<Target = [T]>> KeyValues<D> {
    pub(super) fn keys(&self) -> Window<&[T]> {
        Window { data: &self.data, stride: self.stride, column: self.keys }
    }

    pub(super) fn values(&self) -> Window<&[T]> {
        Window { data: &self.data, stride: self.stride, column: self.values }
    }
}

/// A tile of rows of one sequence: rows `first ..` of sequence `sequence`.
#[derive(Clone, Copy, Debug)]
pub struct RowTile {
    pub sequence: usize,
    pub first: usize,
}

/// Runs `work` over tiles of at most [`LANES`] rows of each of `batch` sequences of `tokens` rows; `rows` are those of
/// all sequences.
pub fn row_tiles<P: Cut>(
    pool: Pool<'_>,
    (batch, tokens): (usize, usize),
    rows: P,
    work: impl Fn(RowTile, P) + Sync,
) {
    let tiles = 0..batch * tokens.div_ceil(LANES);
    pool.enter(|| halve(tiles, tokens, rows, pool.threads() > 1, &work));
}

/// Works on one tile. Were this inlined, every level of halves would hold the arrays of a tile on its stack, up to 400 KB.
#[inline(never)]
fn alone<P>(work: &impl Fn(RowTile, P), tile: RowTile, rows: P) {
    work(tile, rows);
}

/// Halves upon halves of `tiles`, whose rows `rows` are.
fn halve<P: Cut>(
    tiles: Range<usize>,
    tokens: usize,
    rows: P,
    together: bool,
    work: &(impl Fn(RowTile, P) + Sync),
) {
    let of_sequence = tokens.div_ceil(LANES);
    let tile = |index| RowTile { sequence: index / of_sequence, first: index % of_sequence * LANES };
    let row = |index| tile(index).sequence * tokens + tile(index).first;
    match tiles.len() {
        0 => {}
        1 => alone(work, tile(tiles.start), rows),
        count => {
            let middle = tiles.start + count / 2;
            let (left, right) = rows.cut(row(middle) - row(tiles.start));
            let left = || halve(tiles.start..middle, tokens, left, together, work);
            let right = || halve(middle..tiles.end, tokens, right, together, work);
            if together {
                both(left, right);
            } else {
                left();
                right();
            }
        }
    }
}
