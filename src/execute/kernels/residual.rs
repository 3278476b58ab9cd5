//! Residual sums with bias and dropout, gradients through dropout, and sums and copies of whole tensors.

use super::dropout::{Dropout, Place};
use super::each::{GRAIN, each, each_element};
use crate::execute::element::{Element, Real};
use crate::execute::pool::{Pool, Rows};

/// out = residual + dropout(branch + bias), all (rows, width), bias (width).
pub fn forward<T: Element>(
    pool: Pool<'_>,
    width: usize,
    residual: &[T],
    (branch, bias): (&[T], Option<&[T]>),
    dropout: Option<(Dropout, Place<'_>)>,
    out: &mut [T],
) {
    let rows = out.len() / width;
    assert_eq!(out.len(), rows * width, "whole rows");
    assert_eq!((residual.len(), branch.len()), (out.len(), out.len()), "residual, branch and output");
    assert!(bias.is_none_or(|bias| bias.len() == width), "the bias");
    let parts = (Rows(residual, width), Rows(branch, width), Rows(out, width));
    each!(pool, rows, 1, parts, |range, (residual, branch, out)| {
        let lines = out.0.chunks_exact_mut(width).zip(residual.0.chunks_exact(width));
        for (row, ((out, residual), branch)) in range.zip(lines.zip(branch.0.chunks_exact(width))) {
            let terms = out.iter_mut().zip(residual).zip(branch);
            let first = dropout.map(|(dropout, place)| (dropout, place.first(row)));
            match (bias, first) {
                (None, None) => {
                    for ((out, residual), branch) in terms {
                        *out = T::narrow(residual.wide() + branch.wide());
                    }
                }
                (Some(bias), None) => {
                    for (((out, residual), branch), bias) in terms.zip(bias) {
                        *out = T::narrow(residual.wide() + (branch.wide() + bias.wide()));
                    }
                }
                (None, Some((dropout, first))) => {
                    for (((out, residual), branch), element) in terms.zip(first..) {
                        *out = T::narrow(branch.wide().mul_add(dropout.factor(element), residual.wide()));
                    }
                }
                (Some(bias), Some((dropout, first))) => {
                    for ((((out, residual), branch), bias), element) in terms.zip(bias).zip(first..) {
                        let branch = branch.wide() + bias.wide();
                        *out = T::narrow(branch.mul_add(dropout.factor(element), residual.wide()));
                    }
                }
            }
        }
    });
}

/// dropout(x) in place, forward or backward; x (rows, width).
pub fn drop<T: Element>(pool: Pool<'_>, width: usize, (dropout, place): (Dropout, Place<'_>), x: &mut [T]) {
    assert_eq!(x.len() % width, 0, "whole rows");
    each!(pool, x.len() / width, 1, Rows(x, width), |range, rows| {
        for (row, line) in range.zip(rows.0.chunks_exact_mut(width)) {
            for (x, element) in line.iter_mut().zip(place.first(row)..) {
                *x = T::narrow(x.wide() * dropout.factor(element));
            }
        }
    });
}

/// out += x.
pub fn add<T: Element, G: Element<Wide = T::Wide>>(pool: Pool<'_>, x: &[T], out: &mut [G]) {
    assert_eq!(x.len(), out.len(), "addend and sum");
    each_element!(pool, |out, x| *out = G::narrow(out.wide() + x.wide()));
}

/// x ·= factor.
pub fn scale<T: Element>(pool: Pool<'_>, factor: f64, x: &mut [T]) {
    let factor = T::Wide::of(factor);
    each_element!(pool, |x| *x = T::narrow(x.wide() * factor));
}

/// out += factor · x.
pub fn add_scaled<T: Element>(pool: Pool<'_>, factor: f64, x: &[T], out: &mut [T]) {
    assert_eq!(x.len(), out.len(), "addend and sum");
    let factor = T::Wide::of(factor);
    each_element!(pool, |out, x| *out = T::narrow(out.wide() + factor * x.wide()));
}

/// out = x.
pub fn copy<T: Element>(pool: Pool<'_>, x: &[T], out: &mut [T]) {
    assert_eq!(x.len(), out.len(), "source and copy");
    pool.each(x.len(), GRAIN, (Rows(x, 1), Rows(out, 1)), |_, (x, out)| out.0.copy_from_slice(x.0));
}

/// x = 0.
pub fn zero<T: Element>(pool: Pool<'_>, x: &mut [T]) {
    pool.each(x.len(), GRAIN, Rows(x, 1), |_, x| x.0.fill(T::default()));
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::execute::kernels::trial::{close, dot, gradient, random, threads};

    const WIDTH: usize = 11;
    const WHOLE: Place<'_> = Place { start: 0, rows: &[0, 1, 2, 3, 4, 5, 6, 7], width: WIDTH as u64 };

    fn run<T: Element>(pool: Pool<'_>, branch: &[T], place: Place<'_>) -> Vec<T> {
        let residual = random::<T>(branch.len(), 1);
        let bias = random::<T>(WIDTH, 2);
        let mut out = vec![T::default(); branch.len()];
        let dropout = (Dropout::new(0.4, 1, 2, 3), place);
        forward(pool, WIDTH, &residual, (branch, Some(&bias)), Some(dropout), &mut out);
        out
    }

    #[test]
    fn sums_are_the_formula() {
        let (residual, branch, bias) = (random::<f64>(33, 1), random::<f64>(33, 4), random::<f64>(WIDTH, 2));
        let dropout = Dropout::new(0.4, 1, 2, 3);
        let expected = |factor: &dyn Fn(usize) -> f64| {
            (0..33).map(|at| residual[at] + (branch[at] + bias[at % WIDTH]) * factor(at)).collect::<Vec<_>>()
        };
        let mut plain = vec![0.0; 33];
        forward(Pool::Serial, WIDTH, &residual, (&branch, Some(&bias)), None, &mut plain);
        close(&plain, &expected(&|_| 1.0), 1e-15);
        let dropped = run(Pool::Threads(threads()), &branch, WHOLE);
        close(&dropped, &expected(&|at| dropout.factor(at as u64)), 1e-15);
    }

    #[test]
    fn gradients_pass_through_the_same_mask() {
        let (branch, dy) = (random::<f64>(55, 4), random::<f64>(55, 5));
        let mut dbranch = dy.clone();
        drop(Pool::Serial, WIDTH, (Dropout::new(0.4, 1, 2, 3), WHOLE), &mut dbranch);
        let loss = |branch: &[f64]| dot(&run(Pool::Serial, branch, WHOLE), &dy);
        close(&dbranch, &gradient(&branch, loss), 1e-9);
    }

    #[test]
    fn shards_and_types_drop_the_same_elements() {
        let mask = |place: Place<'_>, rows: usize| {
            let mut x = vec![1f32; rows * WIDTH];
            drop(Pool::Threads(threads()), WIDTH, (Dropout::new(0.4, 1, 2, 3), place), &mut x);
            x
        };
        let whole = mask(WHOLE, 8);
        assert_eq!(mask(Place { start: 3, ..WHOLE }, 5), whole[3 * WIDTH..]);
        let rows = [6, 1];
        let picked = mask(Place { rows: &rows, ..WHOLE }, 2);
        assert_eq!(picked, [&whole[6 * WIDTH..7 * WIDTH], &whole[WIDTH..2 * WIDTH]].concat());
        let mut x = vec![bf16::ONE; 8 * WIDTH];
        drop(Pool::Serial, WIDTH, (Dropout::new(0.4, 1, 2, 3), WHOLE), &mut x);
        assert!(x.iter().zip(&whole).all(|(x, whole)| *x == bf16::from_f32(*whole)));
    }

    #[test]
    fn whole_tensors_are_summed_scaled_and_copied() {
        let (a, b) = (random::<f32>(9000, 1), random::<f32>(9000, 2));
        let pool = Pool::Threads(threads());
        let mut out = vec![0f32; 9000];
        copy(pool, &a, &mut out);
        add(pool, &b, &mut out);
        assert_eq!(out, a.iter().zip(&b).map(|(a, b)| a + b).collect::<Vec<_>>());
        scale(pool, 0.5, &mut out);
        assert_eq!(out[7], (a[7] + b[7]) * 0.5);
        add_scaled(pool, 2.0, &b, &mut out);
        assert_eq!(out[8], (a[8] + b[8]) * 0.5 + 2.0 * b[8]);
        zero(pool, &mut out);
        assert!(out.iter().all(|&x| x == 0.0));
    }
}
