//! Mean squared error against a target, forward and backward.

use crate::execute::element::{Element, Real};
use crate::execute::pool::{Pool, Rows};
use crate::execute::vector::{LANES, total, vectorised};

/// Elements whose squares are added before they meet those of others.
const CHUNK: usize = 4096;

/// Σ (y − target)², in f64; the order does not depend on the threads.
pub fn forward<T: Element>(pool: Pool<'_>, y: &[T], target: &[T]) -> f64 {
    assert_eq!(y.len(), target.len(), "output and target");
    let chunk = |index: usize| {
        let range = index * CHUNK..y.len().min((index + 1) * CHUNK);
        vectorised(
            #[inline(always)]
            || squares(&y[range.clone()], &target[range.clone()]),
        )
    };
    pool.reduce(y.len().div_ceil(CHUNK), &chunk, &|a, b| a + b).unwrap_or(0.0)
}

#[inline(always)]
fn squares<T: Element>(y: &[T], target: &[T]) -> f64 {
    let mut lanes = [0.0; LANES];
    for (y, target) in y.chunks(LANES).zip(target.chunks(LANES)) {
        for ((lane, y), target) in lanes.iter_mut().zip(y).zip(target) {
            let error = y.wide().to_f64() - target.wide().to_f64();
            *lane += error * error;
        }
    }
    total(lanes)
}

/// dy = scale · (y − target): the gradient of the mean where scale is 2 over the number of elements.
pub fn backward<T: Element>(pool: Pool<'_>, y: &[T], target: &[T], scale: f64, dy: &mut [T]) {
    assert_eq!((y.len(), target.len()), (dy.len(), dy.len()), "output, target and gradient");
    let scale = T::Wide::of(scale);
    pool.each(dy.len(), CHUNK, (Rows(y, 1), Rows(target, 1), Rows(dy, 1)), |_, (y, target, dy)| {
        vectorised(
            #[inline(always)]
            || {
                for ((dy, y), target) in dy.0.iter_mut().zip(y.0).zip(target.0) {
                    *dy = T::narrow(scale * (y.wide() - target.wide()));
                }
            },
        );
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::kernels::trial::{close, gradient, random, threads};

    #[test]
    fn sum_and_gradient_are_those_of_the_formula() {
        let (y, target) = (random::<f64>(100, 1), random::<f64>(100, 2));
        let naive = |y: &[f64]| y.iter().zip(&target).map(|(y, t)| (y - t).powi(2)).sum::<f64>();
        close(&[forward(Pool::Serial, &y, &target)], &[naive(&y)], 1e-14);
        let mut dy = vec![0.0; 100];
        backward(Pool::Serial, &y, &target, 2.0, &mut dy);
        close(&dy, &gradient(&y, naive), 1e-8);
    }

    #[test]
    fn threads_change_no_bit() {
        let (y, target) = (random::<f32>(50_001, 1), random::<f32>(50_001, 2));
        let run = |pool| forward(pool, &y, &target).to_bits();
        assert_eq!(run(Pool::Serial), run(Pool::Threads(threads())));
    }
}
