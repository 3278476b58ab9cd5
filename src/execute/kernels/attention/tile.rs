//! Tiles of numbers on the stack: one side of a tile lies in the lanes of vector registers, the other in rows.
//!
//! Loops that must run in the widest vectors of the machine are structs that `pulp` dispatches: the compiler does not
//! reliably inline closures into the code that it compiles for those vectors.

use pulp::{Arch, Simd, WithSimd};

pub use super::layout::LANES;
use super::layout::Window;
use crate::execute::element::{Element, Real};
use crate::lower::kernel::Into;

/// The widest head that tiles have room for.
pub const MAX_HEAD_DIM: usize = 256;
/// Runs of lanes that the widest head is cut into.
pub const COLUMN_BLOCKS: usize = MAX_HEAD_DIM / LANES;

/// One row of a tile.
pub type Lanes<R> = [R; LANES];
/// [head dim] rows: one head of up to [`LANES`] tokens, a token in each lane.
pub type TokenLanes<R> = [Lanes<R>; MAX_HEAD_DIM];
/// [tokens, head dim], densely packed: one head of up to [`LANES`] tokens.
pub type TokenRows<R> = [R; LANES * MAX_HEAD_DIM];
/// Scores of up to [`LANES`] tokens with up to [`LANES`] tokens.
pub type Square<R> = [Lanes<R>; LANES];

/// Tokens `first .. first + count` of a window into lanes; other lanes are zero.
pub fn load_lanes<T: Element>(tile: &mut [Lanes<T::Wide>], window: Window<&[T]>, first: usize, count: usize) {
    tile.fill([T::Wide::ZERO; LANES]);
    for lane in 0..count {
        let row = window.row(first + lane, tile.len());
        tile.iter_mut().zip(row).for_each(|(lanes, &value)| lanes[lane] = value.wide());
    }
}

/// The first `width` columns of tokens `first .. first + count` of a window into rows that stand `stride` apart.
pub fn load_rows<T: Element>(
    tile: &mut [T::Wide],
    stride: usize,
    (window, width): (Window<&[T]>, usize),
    first: usize,
    count: usize,
) {
    for (row, wide) in tile.chunks_exact_mut(stride.max(1)).take(count).enumerate() {
        let source = window.row(first + row, width);
        wide.iter_mut().zip(source).for_each(|(wide, &value)| *wide = value.wide());
    }
}

/// One head of some tokens in wide elements, rows that stand `stride` apart.
#[derive(Clone, Copy, Debug)]
pub struct WideRows<'a, R> {
    pub data: &'a [R],
    pub stride: usize,
}

/// The first `width` columns of tokens `first .. first + count` of a window: as they lie where they are wide, else copied.
pub fn read_rows<'a, T: Element>(
    copy: &'a mut TokenRows<T::Wide>,
    (window, width): (Window<&'a [T]>, usize),
    first: usize,
    count: usize,
) -> WideRows<'a, T::Wide> {
    if let Some(data) = T::as_wide(window.data) {
        let data = &data[first * window.stride + window.column..];
        return WideRows { data, stride: window.stride };
    }
    load_rows(copy, width, (window, width), first, count);
    WideRows { data: copy, stride: width }
}

/// Lanes into columns from `column` on of `rows`, a lane a row.
pub fn store_lanes<T: Element>(
    tile: &[Lanes<T::Wide>],
    rows: &mut [T],
    (stride, column): (usize, usize),
    write: Into,
) {
    for (lane, row) in rows.chunks_exact_mut(stride).enumerate() {
        row[column..].iter_mut().zip(tile).for_each(|(place, lanes)| put(place, lanes[lane], write));
    }
}

/// Lanes into as many columns, at most `width`, of `rows` from `column` on, a row a row.
pub fn store_rows<T: Element>(
    tile: &[Lanes<T::Wide>],
    rows: &mut [T],
    (stride, column, width): (usize, usize, usize),
    write: Into,
) {
    for (lanes, row) in tile.iter().zip(rows.chunks_exact_mut(stride)) {
        let places = row[column..][..width.min(LANES)].iter_mut();
        places.zip(lanes).for_each(|(place, &value)| put(place, value, write));
    }
}

#[inline(always)]
fn put<T: Element>(place: &mut T, value: T::Wide, write: Into) {
    *place = match write {
        Into::Set => T::narrow(value),
        Into::Add => T::narrow(place.wide() + value),
    };
}

/// sums[i] += Σₖ left[i, k]·right[k].
pub fn add_products<R: Real>(sums: &mut [Lanes<R>], left: WideRows<'_, R>, right: &[Lanes<R>]) {
    Arch::new().dispatch(AddProducts::<R, false> { sums, left, right });
}

/// sums[i] += Σₖ left[k, i]·right[k].
pub fn add_transposed_products<R: Real>(sums: &mut [Lanes<R>], left: WideRows<'_, R>, right: &[Lanes<R>]) {
    Arch::new().dispatch(AddProducts::<R, true> { sums, left, right });
}

struct AddProducts<'a, R, const TRANSPOSED: bool> {
    sums: &'a mut [Lanes<R>],
    left: WideRows<'a, R>,
    right: &'a [Lanes<R>],
}

impl<R: Real, const TRANSPOSED: bool> WithSimd for AddProducts<'_, R, TRANSPOSED> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        // Twice as many sums as rows must leave registers for two vectors and a factor.
        let most = if S::REGISTER_COUNT < 32 { 4 } else { 8 };
        let mut first = 0;
        while first < self.sums.len() {
            let rest = self.sums.len() - first;
            first += match rest.min(most) {
                8.. => self.block::<S, 8>(simd, first),
                4.. => self.block::<S, 4>(simd, first),
                2.. => self.block::<S, 2>(simd, first),
                _ => self.block::<S, 1>(simd, first),
            };
        }
    }
}

impl<R: Real, const TRANSPOSED: bool> AddProducts<'_, R, TRANSPOSED> {
    /// Rows `first .. first + ROWS` of the sums, two vectors of each at a time. Returns `ROWS`.
    #[inline(always)]
    fn block<S: Simd, const ROWS: usize>(&mut self, simd: S, first: usize) -> usize {
        let (depth, WideRows { data: left, stride }) = (self.right.len(), self.left);
        let right = R::vectors(simd, self.right.as_flattened());
        let sums = R::vectors_mut(simd, self.sums[first..first + ROWS].as_flattened_mut());
        let width = sums.len() / ROWS;
        let mut rows: [&[R]; ROWS] = [&[]; ROWS];
        if !TRANSPOSED {
            for (turn, row) in rows.iter_mut().enumerate() {
                *row = &left[(first + turn) * stride..][..depth];
            }
        }
        for vector in (0..width).step_by(2) {
            let mut held = [[R::splat(simd, R::ZERO); 2]; ROWS];
            for (row, held) in held.iter_mut().enumerate() {
                held.copy_from_slice(&sums[row * width + vector..][..2]);
            }
            for k in 0..depth {
                let pair = &right[k * width + vector..][..2];
                let column: &[R] = if TRANSPOSED { &left[k * stride + first..][..ROWS] } else { &[] };
                for (turn, held) in held.iter_mut().enumerate() {
                    let factor = R::splat(simd, if TRANSPOSED { column[turn] } else { rows[turn][k] });
                    held[0] = R::multiply_add(simd, factor, pair[0], held[0]);
                    held[1] = R::multiply_add(simd, factor, pair[1], held[1]);
                }
            }
            for (row, held) in held.iter().enumerate() {
                sums[row * width + vector..][..2].copy_from_slice(held);
            }
        }
        ROWS
    }
}

/// rows[i] *= factors, lane by lane.
pub fn scale_lanes<R: Real>(rows: &mut [Lanes<R>], factors: &Lanes<R>) {
    Arch::new().dispatch(ScaleLanes { rows, factors });
}

struct ScaleLanes<'a, R> {
    rows: &'a mut [Lanes<R>],
    factors: &'a Lanes<R>,
}

impl<R: Real> WithSimd for ScaleLanes<'_, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let factors = R::vectors(simd, self.factors);
        for row in R::vectors_mut(simd, self.rows.as_flattened_mut()).chunks_exact_mut(factors.len()) {
            row.iter_mut()
                .zip(factors)
                .for_each(|(value, &factor)| *value = R::multiply(simd, *value, factor));
        }
    }
}

/// Σ a·b over two rows, in eight interleaved sums.
pub fn dot<T: Element>(a: &[T], b: &[T]) -> T::Wide {
    const PARTS: usize = 8;
    let mut sums = [T::Wide::ZERO; PARTS];
    let (a_parts, b_parts) = (a.chunks_exact(PARTS), b.chunks_exact(PARTS));
    let (a_rest, b_rest) = (a_parts.remainder(), b_parts.remainder());
    for (a, b) in a_parts.zip(b_parts) {
        for part in 0..PARTS {
            sums[part] += a[part].wide() * b[part].wide();
        }
    }
    let rest: T::Wide = a_rest.iter().zip(b_rest).map(|(a, b)| a.wide() * b.wide()).sum();
    sums.into_iter().sum::<T::Wide>() + rest
}
