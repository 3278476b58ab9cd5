//! Layer norm and RMS norm over rows, as `torch.nn.LayerNorm` and Hugging Face's RMS norms compute them.

use super::each::{each, inlined, sum};
use super::linear::{COLUMNS, GROUP, add};
use crate::execute::element::{Element, Real};
use crate::execute::pool::{Pool, Rows};
use crate::execute::vector::{LANES, total};
use crate::lower::kernel::Into;
use crate::model::layer::NormKind;

/// What is normalised, over rows of `width` elements: x̂ = x / √(mean of x² + ε) by RMS norms, (x − mean) /
/// √(variance + ε) by others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    pub kind: NormKind,
    pub width: usize,
    pub epsilon: f64,
}

/// Statistics of a row: what is taken off (0 for RMS norm) and what the rest is multiplied by.
const STATISTICS: usize = 2;

/// y = x̂ · weight + bias, with x and y (rows, width), weight and bias (width).
///
/// `statistics` (rows, 2) receives (mean, 1/std) of each row, or (0, 1/rms).
pub fn forward<T: Element>(
    pool: Pool<'_>,
    norm: Norm,
    x: &[T],
    (weight, bias): (Option<&[T]>, Option<&[T]>),
    y: &mut [T],
    statistics: Option<&mut [T::Wide]>,
) {
    let width = norm.width;
    let rows = norm.check(x, weight, statistics.as_deref());
    assert_eq!(y.len(), x.len(), "the output");
    assert!(bias.is_none_or(|bias| bias.len() == width), "the bias");
    let parts = (Rows(x, width), (Rows(y, width), statistics.map(|statistics| Rows(statistics, STATISTICS))));
    each!(pool, rows, 1, parts, |_, (x, (y, mut statistics))| {
        for (row, (x, y)) in x.0.chunks_exact(width).zip(y.0.chunks_exact_mut(width)).enumerate() {
            let [mean, scale] = norm.row(x);
            if let Some(statistics) = &mut statistics {
                statistics.0[row * STATISTICS..][..STATISTICS].copy_from_slice(&[mean, scale]);
            }
            let normed = inlined!(|x: &T| (x.wide() - mean) * scale);
            match (weight, bias) {
                (Some(weight), Some(bias)) => {
                    for (((y, x), weight), bias) in y.iter_mut().zip(x).zip(weight).zip(bias) {
                        *y = T::narrow(normed(x).mul_add(weight.wide(), bias.wide()));
                    }
                }
                (Some(weight), None) => {
                    for ((y, x), weight) in y.iter_mut().zip(x).zip(weight) {
                        *y = T::narrow(normed(x) * weight.wide());
                    }
                }
                (None, bias) => {
                    y.iter_mut().zip(x).for_each(|(y, x)| *y = T::narrow(normed(x)));
                    if let Some(bias) = bias {
                        y.iter_mut().zip(bias).for_each(|(y, bias)| *y = T::narrow(y.wide() + bias.wide()));
                    }
                }
            }
        }
    });
}

/// Where the gradient of a norm's input goes.
#[derive(Debug)]
pub enum InputGradient<'a, T> {
    /// The slice holds dy and becomes dx. Weights have their gradient before.
    InPlace(&'a mut [T]),
    /// dx (=|+=) what comes of `dy`.
    Apart { dy: &'a [T], dx: &'a mut [T], write: Into },
}

/// The gradient of the input: with g = dy · weight, dx = (g − mean(g) − x̂ · mean(g · x̂)) / std; RMS norm has no
/// mean(g). Statistics that are not given are computed again.
pub fn backward<T: Element>(
    pool: Pool<'_>,
    norm: Norm,
    x: &[T],
    weight: Option<&[T]>,
    statistics: Option<&[T::Wide]>,
    gradient: InputGradient<'_, T>,
) {
    let rows = norm.check(x, weight, statistics);
    let (dy, dx, write) = match gradient {
        InputGradient::InPlace(slice) => (None, slice, Into::Set),
        InputGradient::Apart { dy, dx, write } => (Some(dy), dx, write),
    };
    assert!(dx.len() == x.len() && dy.is_none_or(|dy| dy.len() == x.len()), "the gradients");
    let width = norm.width;
    let given = (Rows(x, width), dy.map(|dy| Rows(dy, width)));
    let statistics = statistics.map(|statistics| Rows(statistics, STATISTICS));
    each!(pool, rows, 1, (given, statistics, Rows(dx, width)), |_, ((x, dy), statistics, dx)| {
        for (row, (x, dx)) in x.0.chunks_exact(width).zip(dx.0.chunks_exact_mut(width)).enumerate() {
            let [mean, scale] = norm.known(x, statistics.map(|statistics| statistics.0), row);
            let dy = dy.map(|dy| &dy.0[row * width..][..width]);
            let sums = norm.gradient_means(x, dy.unwrap_or(dx), weight, [mean, scale]);
            // Both means with 1/std, so that dx = g · scale + (x − mean) · slope + shift.
            let (shift, slope) = (-sums[0] * scale, -sums[1] * scale * scale);
            let value = inlined!(|x: T, dy: T, weight: T::Wide| {
                (dy.wide() * weight).mul_add(scale, (x.wide() - mean).mul_add(slope, shift))
            });
            let one = T::Wide::ONE;
            match (dy, weight) {
                (None, Some(weight)) => {
                    for ((dx, x), weight) in dx.iter_mut().zip(x).zip(weight) {
                        *dx = T::narrow(value(*x, *dx, weight.wide()));
                    }
                }
                (None, None) => {
                    dx.iter_mut().zip(x).for_each(|(dx, x)| *dx = T::narrow(value(*x, *dx, one)));
                }
                (Some(dy), Some(weight)) => {
                    for (((dx, x), dy), weight) in dx.iter_mut().zip(x).zip(dy).zip(weight) {
                        let before = if write == Into::Add { dx.wide() } else { Real::ZERO };
                        *dx = T::narrow(before + value(*x, *dy, weight.wide()));
                    }
                }
                (Some(dy), None) => {
                    for ((dx, x), dy) in dx.iter_mut().zip(x).zip(dy) {
                        let before = if write == Into::Add { dx.wide() } else { Real::ZERO };
                        *dx = T::narrow(before + value(*x, *dy, one));
                    }
                }
            }
        }
    });
}

/// The gradients of weight, dw += Σ dy · x̂ over rows, and of bias, db += Σ dy; both (width).
pub fn weight_gradient<T: Element, G: Element<Wide = T::Wide>>(
    pool: Pool<'_>,
    norm: Norm,
    x: &[T],
    statistics: Option<&[T::Wide]>,
    dy: &[T],
    (dweight, dbias): (&mut [G], Option<&mut [G]>),
) {
    let width = norm.width;
    let rows = norm.check(x, None, statistics);
    assert_eq!(dy.len(), x.len(), "the output's gradient");
    assert_eq!(dweight.len(), width, "the weight's gradient");
    assert!(dbias.as_ref().is_none_or(|dbias| dbias.len() == width), "the bias's gradient");
    let parts = (Rows(dweight, 1), dbias.map(|dbias| Rows(dbias, 1)));
    each!(pool, width, COLUMNS, parts, |columns, (dweight, mut dbias)| {
        for (block, out) in dweight.0.chunks_mut(COLUMNS).enumerate() {
            let window = columns.start + block * COLUMNS..columns.start + block * COLUMNS + out.len();
            let mut sums = [[T::Wide::ZERO; COLUMNS]; 2];
            for first in (0..rows).step_by(GROUP) {
                let mut group = [[T::Wide::ZERO; COLUMNS]; 2];
                for row in first..rows.min(first + GROUP) {
                    let x = &x[row * width..][..width];
                    let [mean, scale] = norm.known(x, statistics, row);
                    let dy = &dy[row * width..][..width][window.clone()];
                    let [weights, biases] = &mut group;
                    for (((weight, bias), x), dy) in
                        weights.iter_mut().zip(biases).zip(&x[window.clone()]).zip(dy)
                    {
                        *weight = ((x.wide() - mean) * scale).mul_add(dy.wide(), *weight);
                        *bias += dy.wide();
                    }
                }
                for (sums, group) in sums.iter_mut().zip(&group) {
                    sums.iter_mut().zip(group).for_each(|(sum, &group)| *sum += group);
                }
            }
            add(out, &sums[0], Into::Add);
            if let Some(dbias) = &mut dbias {
                add(&mut dbias.0[block * COLUMNS..][..out.len()], &sums[1], Into::Add);
            }
        }
    });
}

impl Norm {
    /// The rows of `x`; fails where a length is wrong.
    fn check<T, W>(&self, x: &[T], weight: Option<&[T]>, statistics: Option<&[W]>) -> usize {
        let rows = x.len() / self.width;
        assert_eq!(x.len(), rows * self.width, "whole rows");
        assert!(weight.is_none_or(|weight| weight.len() == self.width), "the weight");
        assert!(statistics.is_none_or(|kept| kept.len() == rows * STATISTICS), "the statistics");
        rows
    }

    #[inline(always)]
    fn known<T: Element>(&self, x: &[T], statistics: Option<&[T::Wide]>, row: usize) -> [T::Wide; 2] {
        match statistics {
            Some(kept) => [kept[row * STATISTICS], kept[row * STATISTICS + 1]],
            None => self.row(x),
        }
    }

    /// The statistics of a row; the variance is that of what the mean leaves.
    #[inline(always)]
    fn row<T: Element>(&self, x: &[T]) -> [T::Wide; 2] {
        let count = T::Wide::of(self.width as f64);
        let mean = match self.kind {
            NormKind::Rms => Real::ZERO,
            _ => sum(x, inlined!(|x: T::Wide| x)) / count,
        };
        let variance = sum(x, inlined!(|x: T::Wide| (x - mean) * (x - mean))) / count;
        [mean, T::Wide::ONE / (variance + T::Wide::of(self.epsilon)).sqrt()]
    }

    /// mean(g), which RMS norm does without, and mean(g · x̂).
    #[inline(always)]
    fn gradient_means<T: Element>(
        &self,
        x: &[T],
        dy: &[T],
        weight: Option<&[T]>,
        [mean, scale]: [T::Wide; 2],
    ) -> [T::Wide; 2] {
        let mut plain = [T::Wide::ZERO; LANES];
        let mut with_x = [T::Wide::ZERO; LANES];
        let mut add = inlined!(|x: &[T], dy: &[T], weight: Option<&[T]>| {
            for lane in 0..x.len().min(LANES) {
                let weight = weight.map_or(T::Wide::ONE, |weight| weight[lane].wide());
                let g = dy[lane].wide() * weight;
                plain[lane] += g;
                with_x[lane] = (x[lane].wide() - mean).mul_add(g, with_x[lane]);
            }
        });
        let (x, x_rest) = x.as_chunks::<LANES>();
        let (dy, dy_rest) = dy.as_chunks::<LANES>();
        match weight.map(|weight| weight.as_chunks::<LANES>()) {
            Some((weight, weight_rest)) => {
                x.iter().zip(dy).zip(weight).for_each(|((x, dy), weight)| add(x, dy, Some(weight)));
                add(x_rest, dy_rest, Some(weight_rest));
            }
            None => {
                x.iter().zip(dy).for_each(|(x, dy)| add(x, dy, None));
                add(x_rest, dy_rest, None);
            }
        }
        let count = T::Wide::of(self.width as f64);
        let plain = match self.kind {
            NormKind::Rms => Real::ZERO,
            _ => total(plain) / count,
        };
        [plain, total(with_x) * scale / count]
    }
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::execute::kernels::trial::{close, dot, gradient, random, threads};

    fn norms(width: usize) -> [Norm; 2] {
        [NormKind::Layer, NormKind::Rms].map(|kind| Norm { kind, width, epsilon: 1e-5 })
    }

    fn run(norm: Norm, x: &[f64], weight: Option<&[f64]>, bias: Option<&[f64]>) -> Vec<f64> {
        let mut y = vec![0.0; x.len()];
        forward(Pool::Serial, norm, x, (weight, bias), &mut y, None);
        y
    }

    #[test]
    fn forward_is_the_formula() {
        let width = 37;
        let x = random::<f64>(3 * width, 1);
        let (weight, bias) = (random::<f64>(width, 2), random::<f64>(width, 3));
        for norm in norms(width) {
            for (weight, bias) in
                [(None, None), (Some(&weight[..]), None), (Some(&weight[..]), Some(&bias[..]))]
            {
                let expected: Vec<f64> = x
                    .chunks(width)
                    .flat_map(|row| {
                        let mean = row.iter().sum::<f64>() / width as f64;
                        let mean = if norm.kind == NormKind::Layer { mean } else { 0.0 };
                        let square = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / width as f64;
                        let value = move |i: usize| (row[i] - mean) / (square + 1e-5).sqrt();
                        let affine = move |i: usize| weight.map_or(1.0, |weight| weight[i]) * value(i);
                        (0..width).map(move |i| affine(i) + bias.map_or(0.0, |bias| bias[i]))
                    })
                    .collect();
                close(&run(norm, &x, weight, bias), &expected, 1e-13);
            }
        }
    }

    #[test]
    fn gradients_are_finite_differences() {
        let width = 21;
        let x = random::<f64>(5 * width, 1);
        let (weight, bias) = (random::<f64>(width, 2), random::<f64>(width, 3));
        let dy = random::<f64>(x.len(), 4);
        for norm in norms(width) {
            let mut statistics = vec![0.0; 10];
            let pool = Pool::Threads(threads());
            forward(
                pool,
                norm,
                &x,
                (Some(&weight), Some(&bias)),
                &mut vec![0.0; x.len()],
                Some(&mut statistics),
            );
            for kept in [None, Some(&statistics[..])] {
                for weight in [None, Some(&weight[..])] {
                    let expected = gradient(&x, |x| dot(&run(norm, x, weight, None), &dy));
                    let mut dx = dy.clone();
                    backward(pool, norm, &x, weight, kept, InputGradient::InPlace(&mut dx));
                    close(&dx, &expected, 1e-8);
                    let (dy, write) = (&dy[..], Into::Add);
                    backward(pool, norm, &x, weight, kept, InputGradient::Apart { dy, dx: &mut dx, write });
                    close(&dx, &expected.iter().map(|dx| 2.0 * dx).collect::<Vec<_>>(), 1e-8);
                }
                let (mut dweight, mut dbias) = (vec![1.0; width], vec![1.0; width]);
                weight_gradient(pool, norm, &x, kept, &dy, (&mut dweight[..], Some(&mut dbias[..])));
                let expected = gradient(&weight, |weight| dot(&run(norm, &x, Some(weight), None), &dy));
                close(&dweight, &expected.iter().map(|value| value + 1.0).collect::<Vec<_>>(), 1e-8);
                let expected = gradient(&bias, |bias| dot(&run(norm, &x, Some(&weight), Some(bias)), &dy));
                close(&dbias, &expected.iter().map(|value| value + 1.0).collect::<Vec<_>>(), 1e-8);
            }
        }
    }

    #[test]
    fn bf16_is_close_to_f32_and_threads_change_no_bit() {
        let width = 200;
        let x = random::<bf16>(70 * width, 1);
        let wide: Vec<f32> = x.iter().map(|x| x.wide()).collect();
        for norm in norms(width) {
            let (mut y, mut exact) = (vec![bf16::ZERO; x.len()], vec![0f32; x.len()]);
            forward(Pool::Serial, norm, &x, (None, None), &mut y, None);
            forward(Pool::Threads(threads()), norm, &wide, (None, None), &mut exact, None);
            assert_eq!(y, exact.iter().map(|&y| bf16::narrow(y)).collect::<Vec<_>>());
            let run = |pool| {
                let mut dweight = vec![0f32; width];
                weight_gradient(pool, norm, &wide, None, &exact, (&mut dweight[..], None));
                dweight
            };
            assert_eq!(run(Pool::Serial), run(Pool::Threads(threads())));
        }
    }
}
