//! Sums of squares that are the same to the bit however gradients are cut and in whichever order parts are added.

use super::each::vectorised;
use crate::execute::element::{Element, Real};
use crate::execute::pool::Pool;

/// A sum of squares in bins: bin i adds up what squares are worth in whole multiples of its quantum, and those sums
/// are exact (after Demmel and Nguyen, "Parallel reproducible summation", 2015, with bins fixed beforehand).
///
/// So it may be added up over slices, ranks and threads in any order, element by element of the array; an all-reduce
/// over it is exact. That holds for fewer than 2³² elements whose squares sum to less than 2⁴²; what a square has
/// below the last quantum, 2⁻⁷¹ at most, is left off.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SquareSum(pub [f64; 4]);

/// What each bin counts in.
const QUANTA: [f64; 4] = [power(-10), power(-30), power(-50), power(-70)];

/// 2ⁿ for a normal exponent.
const fn power(n: i64) -> f64 {
    f64::from_bits(((1023 + n) as u64) << 52)
}

/// Elements that are summed on one thread.
const CHUNK: usize = 1 << 16;
/// Elements side by side: enough that the compiler keeps the loops over them and vectorises them.
const LANES: usize = 64;

impl SquareSum {
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(std::array::from_fn(|bin| self.0[bin] + other.0[bin]))
    }

    /// The sum whose bins are `bins`.
    pub fn of(bins: &[f64]) -> Self {
        Self(std::array::from_fn(|bin| bins[bin]))
    }

    /// Σ g².
    pub fn total(&self) -> f64 {
        self.0.iter().rev().sum()
    }
}

/// Σ g² over `gradient`, in f64.
pub fn square_sum<G: Element>(pool: Pool<'_>, gradient: &[G]) -> SquareSum {
    let chunk = |index: usize| {
        let part = &gradient[index * CHUNK..gradient.len().min((index + 1) * CHUNK)];
        vectorised!(chunk_sum(part))
    };
    pool.reduce(gradient.len().div_ceil(CHUNK), &chunk, &SquareSum::plus).unwrap_or_default()
}

#[inline(always)]
fn chunk_sum<G: Element>(gradient: &[G]) -> SquareSum {
    let mut bins = [[0.0; LANES]; 4];
    let (blocks, rest) = gradient.as_chunks::<LANES>();
    for block in blocks {
        bins = add(bins, block);
    }
    let mut last = [G::default(); LANES];
    last[..rest.len()].copy_from_slice(rest);
    SquareSum(add(bins, &last).map(|lanes| lanes.iter().sum()))
}

#[inline(always)]
fn add<G: Element>(mut bins: [[f64; LANES]; 4], block: &[G; LANES]) -> [[f64; LANES]; 4] {
    let mut rest = [0.0; LANES];
    for (rest, g) in rest.iter_mut().zip(block) {
        let g = g.wide().to_f64();
        *rest = g * g;
    }
    for (bin, quantum) in bins.iter_mut().zip(QUANTA) {
        // Neighbours of 1.5 · 2⁵² quanta are one quantum apart, so this rounds to whole quanta.
        let shift = 1.5 * power(52) * quantum;
        for (sum, rest) in bin.iter_mut().zip(&mut rest) {
            let whole = (*rest + shift) - shift;
            *sum += whole;
            *rest -= whole;
        }
    }
    bins
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::execute::kernels::trial::{close, random, threads};

    #[test]
    fn cuts_order_and_threads_change_no_bit() {
        for scale in [1e-6, 1.0, 1e4] {
            let gradient: Vec<f32> = random::<f32>(200_003, 1).iter().map(|g| g * scale).collect();
            let whole = square_sum(Pool::Serial, &gradient);
            assert_eq!(whole, square_sum(Pool::Threads(threads()), &gradient));
            for at in [1, 4096, 77_777] {
                let (head, tail) = gradient.split_at(at);
                let (head, tail) = (square_sum(Pool::Serial, head), square_sum(Pool::Serial, tail));
                assert_eq!(tail.plus(head), whole);
            }
        }
    }

    #[test]
    fn the_total_is_the_sum_of_squares() {
        for scale in [1e-5, 1.0, 1e4] {
            let gradient: Vec<f64> = random::<f64>(100_000, 1).iter().map(|g| g * scale).collect();
            let exact: f64 = gradient.iter().map(|g| g * g).sum();
            let relative = square_sum(Pool::Serial, &gradient).total() / exact;
            close(&[relative], &[1.0], 1e-11);
        }
        let halves = random::<bf16>(1000, 1);
        let exact: f64 = halves.iter().map(|g| g.to_f64().powi(2)).sum();
        close(&[square_sum(Pool::Serial, &halves).total()], &[exact], 1e-12);
    }

    #[test]
    fn what_is_not_finite_shows() {
        for bad in [f32::NAN, f32::INFINITY] {
            assert!(!square_sum(Pool::Serial, &[1.0, bad]).total().is_finite());
        }
    }
}
