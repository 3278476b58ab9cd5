//! Tiles of numbers on the stack: one side of a tile lies in the lanes of vector registers, the other in rows.
//!
//! Loops that must run in the widest vectors of the machine are structs that `pulp` dispatches: the compiler does not
//! reliably inline closures into the code that it compiles for those vectors.

use pulp::{Arch, Simd, WithSimd};

use super::layout::{Window, Write};
use crate::execute::element::{Element, Real};
use crate::units::ElementType;

/// Rows of a tile and numbers in each.
pub const LANES: usize = 32;
/// The widest head that tiles have room for.
pub const MAX_HEAD_DIM: usize = 256;
/// Runs of lanes that the widest head is cut into.
pub const COLUMN_BLOCKS: usize = MAX_HEAD_DIM / LANES;
/// Rows whose sums are held in registers at once.
const BLOCK: usize = 6;

/// One row of a tile.
pub type Lanes<R> = [R; LANES];
/// [head dim] rows: one head of up to [`LANES`] tokens, a token in each lane.
pub type TokenLanes<R> = [Lanes<R>; MAX_HEAD_DIM];
/// [tokens, head dim], densely packed: one head of up to [`LANES`] tokens.
pub type TokenRows<R> = [R; LANES * MAX_HEAD_DIM];
/// Scores of up to [`LANES`] tokens with up to [`LANES`] tokens.
pub type Square<R> = [Lanes<R>; LANES];

/// Tokens `first .. first + count` of a window into lanes; other lanes are zero.
pub fn load_lanes<T: Element>(
    tile: &mut [Lanes<T::Wide>],
    window: Window<'_, T>,
    first: usize,
    count: usize,
) {
    tile.fill([T::Wide::ZERO; LANES]);
    for lane in 0..count {
        let row = window.row(first + lane, tile.len());
        tile.iter_mut().zip(row).for_each(|(lanes, &value)| lanes[lane] = value.wide());
    }
}

/// Tokens `first .. first + count` of a window into packed rows.
pub fn load_rows<T: Element>(
    tile: &mut TokenRows<T::Wide>,
    window: Window<'_, T>,
    width: usize,
    first: usize,
    count: usize,
) {
    for (row, packed) in tile.chunks_exact_mut(width.max(1)).take(count).enumerate() {
        let source = window.row(first + row, width);
        packed.iter_mut().zip(source).for_each(|(wide, &value)| *wide = value.wide());
    }
}

/// Lanes into columns from `column` on of `rows`, a lane a row.
pub fn store_lanes<T: Element>(
    tile: &[Lanes<T::Wide>],
    rows: &mut [T],
    (stride, column): (usize, usize),
    write: Write,
) {
    for (lane, row) in rows.chunks_exact_mut(stride).enumerate() {
        for (place, lanes) in row[column..].iter_mut().zip(tile) {
            *place = match write {
                Write::Set => T::narrow(lanes[lane]),
                Write::Add => T::narrow(place.wide() + lanes[lane]),
            };
        }
    }
}

/// The first `width` columns of as many tokens as `tile` has rows, from `first` on, into lanes; at most [`LANES`].
pub fn load_columns<T: Element>(
    tile: &mut [Lanes<T::Wide>],
    window: Window<'_, T>,
    width: usize,
    first: usize,
) {
    for (row, lanes) in tile.iter_mut().enumerate() {
        let source = window.row(first + row, width.min(LANES));
        lanes.iter_mut().zip(source).for_each(|(wide, &value)| *wide = value.wide());
    }
}

/// Lanes into as many columns, at most `width`, of `rows` from `column` on, a row a row.
pub fn store_rows<T: Element>(
    tile: &[Lanes<T::Wide>],
    rows: &mut [T],
    (stride, column, width): (usize, usize, usize),
    write: Write,
) {
    for (lanes, row) in tile.iter().zip(rows.chunks_exact_mut(stride)) {
        for (place, &value) in row[column..][..width.min(LANES)].iter_mut().zip(lanes) {
            *place = match write {
                Write::Set => T::narrow(value),
                Write::Add => T::narrow(place.wide() + value),
            };
        }
    }
}

/// sums[i] += Σₖ left[i, k]·right[k], where `left` is packed rows of as many columns as `right` has rows.
pub fn add_products<R: Real>(sums: &mut [Lanes<R>], left: &[R], right: &[Lanes<R>]) {
    Arch::new().dispatch(AddProducts { sums, left, right });
}

struct AddProducts<'a, R> {
    sums: &'a mut [Lanes<R>],
    left: &'a [R],
    right: &'a [Lanes<R>],
}

impl<R: Real> WithSimd for AddProducts<'_, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let depth = self.right.len();
        let whole = self.sums.len() / BLOCK * BLOCK;
        let (blocks, rest) = self.sums.split_at_mut(whole);
        for (turn, block) in blocks.chunks_exact_mut(BLOCK).enumerate() {
            add_block::<R, BLOCK>(block, &self.left[turn * BLOCK * depth..], self.right);
        }
        for (turn, row) in rest.chunks_exact_mut(1).enumerate() {
            add_block::<R, 1>(row, &self.left[(whole + turn) * depth..], self.right);
        }
    }
}

#[inline(always)]
fn add_block<R: Real, const ROWS: usize>(sums: &mut [Lanes<R>], left: &[R], right: &[Lanes<R>]) {
    let depth = right.len();
    let mut rows: [&[R]; ROWS] = [&[]; ROWS];
    let mut held = [[R::ZERO; LANES]; ROWS];
    for row in 0..ROWS {
        rows[row] = &left[row * depth..][..depth];
        held[row] = sums[row];
    }
    for k in 0..depth {
        for row in 0..ROWS {
            multiply_add(&mut held[row], rows[row][k], &right[k]);
        }
    }
    sums[..ROWS].copy_from_slice(&held);
}

/// sums[i] += Σₖ left[k, i]·right[k], where `left` is packed rows of as many columns as `sums` has rows.
pub fn add_transposed_products<R: Real>(sums: &mut [Lanes<R>], left: &[R], right: &[Lanes<R>]) {
    Arch::new().dispatch(AddTransposedProducts { sums, left, right });
}

struct AddTransposedProducts<'a, R> {
    sums: &'a mut [Lanes<R>],
    left: &'a [R],
    right: &'a [Lanes<R>],
}

impl<R: Real> WithSimd for AddTransposedProducts<'_, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let width = self.sums.len();
        let whole = width / BLOCK * BLOCK;
        let (blocks, rest) = self.sums.split_at_mut(whole);
        for (turn, block) in blocks.chunks_exact_mut(BLOCK).enumerate() {
            add_transposed_block::<R, BLOCK>(block, self.left, (width, turn * BLOCK), self.right);
        }
        for (turn, row) in rest.chunks_exact_mut(1).enumerate() {
            add_transposed_block::<R, 1>(row, self.left, (width, whole + turn), self.right);
        }
    }
}

#[inline(always)]
fn add_transposed_block<R: Real, const ROWS: usize>(
    sums: &mut [Lanes<R>],
    left: &[R],
    (width, column): (usize, usize),
    right: &[Lanes<R>],
) {
    let mut held = [[R::ZERO; LANES]; ROWS];
    held.copy_from_slice(&sums[..ROWS]);
    for (values, lanes) in left.chunks_exact(width).zip(right) {
        let values = &values[column..column + ROWS];
        for row in 0..ROWS {
            multiply_add(&mut held[row], values[row], lanes);
        }
    }
    sums[..ROWS].copy_from_slice(&held);
}

#[inline(always)]
fn multiply_add<R: Real>(sums: &mut Lanes<R>, factor: R, lanes: &Lanes<R>) {
    for lane in 0..LANES {
        sums[lane] = factor.mul_add(lanes[lane], sums[lane]);
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

/// eˣ; in f32 a polynomial that vectorises, with an error below 2 units in the last place.
#[inline(always)]
pub fn exp<R: Real>(x: R) -> R {
    // The casts to and from f64 are exact where R is f32, and the compiler drops them.
    if R::TYPE == ElementType::Fp32 { R::of(f64::from(exp_f32(x.to_f64() as f32))) } else { x.exp() }
}

/// eˣ = 2ⁿ·eʳ with n = round(x / ln 2); r is exact in two parts (Cody and Waite 1980), eʳ a Taylor polynomial.
#[inline(always)]
fn exp_f32(x: f32) -> f32 {
    /// Below it the result is taken for zero: half of it would not be a normal number.
    const LEAST: f32 = -86.9;
    const MOST: f32 = 88.72;
    /// Adding it rounds to an integer, which then stands in the low bits.
    const ROUND: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let bounded = if x < LEAST { LEAST } else { x };
    let shifted = bounded.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN_2_LOW, n.mul_add(-LN_2_HIGH, bounded));
    let mut sum = 1.0 / 5040.0;
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        sum = r.mul_add(sum, coefficient);
    }
    // Half of 2ⁿ: n may be 128.
    let half = f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f00_0000));
    let power = sum * half * 2.0;
    if x < LEAST {
        0.0
    } else if x > MOST {
        f32::INFINITY
    } else {
        power
    }
}
