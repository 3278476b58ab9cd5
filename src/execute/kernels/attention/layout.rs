//! Windows of columns of a packed matrix, and the walk over tiles of its rows.

use rayon::prelude::*;

use super::tile::LANES;
use crate::execute::element::Element;
use crate::execute::pool::Pool;

/// Columns from `column` on of a row-major matrix of `stride` columns.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a, T> {
    pub data: &'a [T],
    pub stride: usize,
    pub column: usize,
}

impl<'a, T: Element> Window<'a, T> {
    /// The same rows, `columns` further right.
    pub(super) fn right(self, columns: usize) -> Self {
        Self { column: self.column + columns, ..self }
    }

    pub(super) fn row(self, row: usize, width: usize) -> &'a [T] {
        &self.data[row * self.stride + self.column..][..width]
    }

    pub(super) fn check(&self, name: &str, rows: usize, width: usize) {
        assert_eq!(self.data.len(), rows * self.stride, "elements of the {name}");
        assert!(self.column + width <= self.stride, "columns of the {name}");
    }
}

/// Columns that are written; the rest of the matrix stays as it is.
#[derive(Debug)]
pub struct WindowMut<'a, T> {
    pub data: &'a mut [T],
    pub stride: usize,
    pub column: usize,
}

/// Keys from column `keys` on and values from column `values` on of one matrix.
#[derive(Clone, Copy, Debug)]
pub struct KeyValues<'a, T> {
    pub data: &'a [T],
    pub stride: usize,
    pub keys: usize,
    pub values: usize,
}

impl<'a, T: Element> KeyValues<'a, T> {
    pub(super) fn keys(self) -> Window<'a, T> {
        Window { data: self.data, stride: self.stride, column: self.keys }
    }

    pub(super) fn values(self) -> Window<'a, T> {
        Window { data: self.data, stride: self.stride, column: self.values }
    }
}

/// Gradients of keys and values, columns of one matrix; the rest of it stays as it is.
#[derive(Debug)]
pub struct KeyValuesMut<'a, T> {
    pub data: &'a mut [T],
    pub stride: usize,
    pub keys: usize,
    pub values: usize,
}

/// What happens to what a result's place holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// It is forgotten.
    Set,
    /// The result is added to it; a forward merges the two softmaxes.
    Add,
}

/// A tile of rows of one sequence: rows `first ..` of sequence `sequence`.
#[derive(Clone, Copy, Debug)]
pub struct RowTile {
    pub sequence: usize,
    pub first: usize,
}

/// Runs `work` over tiles of at most [`LANES`] rows of each sequence of `tokens` rows of `stride` elements.
pub fn row_tiles<T: Send>(
    pool: Pool<'_>,
    tokens: usize,
    (data, stride): (&mut [T], usize),
    work: impl Fn(RowTile, &mut [T]) + Sync,
) {
    let (sequence_len, tile_len) = ((tokens * stride).max(1), (LANES * stride).max(1));
    let tile = |sequence, turn| RowTile { sequence, first: turn * LANES };
    match pool {
        Pool::Serial => {
            for (sequence, rows) in data.chunks_mut(sequence_len).enumerate() {
                rows.chunks_mut(tile_len)
                    .enumerate()
                    .for_each(|(turn, rows)| work(tile(sequence, turn), rows));
            }
        }
        Pool::Threads(pool) => pool.install(|| {
            data.par_chunks_mut(sequence_len).enumerate().for_each(|(sequence, rows)| {
                let tiles = rows.par_chunks_mut(tile_len).enumerate();
                tiles.for_each(|(turn, rows)| work(tile(sequence, turn), rows));
            });
        }),
    }
}

/// As [`row_tiles`], over two matrices of as many rows.
pub fn row_tiles_of_two<T: Send, U: Send>(
    pool: Pool<'_>,
    tokens: usize,
    (first, first_stride): (&mut [T], usize),
    (second, second_stride): (&mut [U], usize),
    work: impl Fn(RowTile, &mut [T], &mut [U]) + Sync,
) {
    let sizes = |rows: usize| ((rows * first_stride).max(1), (rows * second_stride).max(1));
    let (sequence_len, tile_len) = (sizes(tokens), sizes(LANES));
    let tile = |sequence, turn| RowTile { sequence, first: turn * LANES };
    match pool {
        Pool::Serial => {
            let sequences = first.chunks_mut(sequence_len.0).zip(second.chunks_mut(sequence_len.1));
            for (sequence, (first, second)) in sequences.enumerate() {
                let tiles = first.chunks_mut(tile_len.0).zip(second.chunks_mut(tile_len.1));
                tiles
                    .enumerate()
                    .for_each(|(turn, (first, second))| work(tile(sequence, turn), first, second));
            }
        }
        Pool::Threads(pool) => pool.install(|| {
            let sequences = first.par_chunks_mut(sequence_len.0).zip(second.par_chunks_mut(sequence_len.1));
            sequences.enumerate().for_each(|(sequence, (first, second))| {
                let tiles = first.par_chunks_mut(tile_len.0).zip(second.par_chunks_mut(tile_len.1));
                tiles
                    .enumerate()
                    .for_each(|(turn, (first, second))| work(tile(sequence, turn), first, second));
            });
        }),
    }
}
