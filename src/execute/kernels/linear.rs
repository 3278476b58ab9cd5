//! Linear layers: outputs, and the gradients of inputs, weights and biases.

use super::each::each;
use super::gemm;
use crate::execute::element::{Element, Real};
use crate::execute::matrix::{Matrix, MatrixMut};
use crate::execute::pool::{Pool, Rows};
use crate::lower::kernel::Into;

/// Wide elements of scratch that each product here needs at least, for `rows` rows of `inputs` and `outputs`.
pub fn scratch(rows: usize, inputs: usize, outputs: usize) -> usize {
    let products = [(rows, outputs, inputs), (rows, inputs, outputs), (outputs, inputs, rows)];
    products.map(|(rows, columns, depth)| gemm::scratch(rows, columns, depth)).into_iter().fold(0, usize::max)
}

/// y (=|+=) x · Wᵀ (+ bias), with x (rows, inputs), `weight` W (outputs, inputs), `bias` (outputs), y (rows, outputs).
pub fn forward<T: Element>(
    pool: Pool<'_>,
    x: Matrix<'_, T>,
    weight: &[T],
    bias: Option<&[T]>,
    (y, write): (MatrixMut<'_, T>, Into),
    scratch: &mut [T::Wide],
) {
    let weight = shaped(weight, y.columns, x.columns);
    gemm::product(pool, (x, weight.transposed()), y, write, bias, scratch);
}

/// dx (=|+=) dy · W, with dy (rows, outputs), `weight` W (outputs, inputs), dx (rows, inputs).
pub fn input_gradient<T: Element>(
    pool: Pool<'_>,
    dy: Matrix<'_, T>,
    weight: &[T],
    (dx, write): (MatrixMut<'_, T>, Into),
    scratch: &mut [T::Wide],
) {
    let weight = shaped(weight, dy.columns, dx.columns);
    gemm::product(pool, (dy, weight), dx, write, None, scratch);
}

/// dW (=|+=) dyᵀ · x, with dy (rows, outputs), x (rows, inputs), dW (outputs, inputs).
pub fn weight_gradient<T: Element, G: Element<Wide = T::Wide>>(
    pool: Pool<'_>,
    dy: Matrix<'_, T>,
    x: Matrix<'_, T>,
    (dweight, write): (&mut [G], Into),
    scratch: &mut [T::Wide],
) {
    assert_eq!(dweight.len(), dy.columns * x.columns, "the weight's gradient");
    let dweight = MatrixMut { data: dweight, rows: dy.columns, columns: x.columns, stride: x.columns };
    gemm::product(pool, (dy.transposed(), x), dweight, write, None, scratch);
}

/// db (=|+=) the sums of dy's columns, with dy (rows, outputs), db (outputs).
pub fn bias_gradient<T: Element, G: Element<Wide = T::Wide>>(
    pool: Pool<'_>,
    dy: Matrix<'_, T>,
    (dbias, write): (&mut [G], Into),
) {
    assert_eq!(dbias.len(), dy.columns, "the bias's gradient");
    each!(pool, dbias.len(), COLUMNS, Rows(dbias, 1), |columns, out| {
        for (start, out) in columns.step_by(COLUMNS).zip(out.0.chunks_mut(COLUMNS)) {
            let mut sums = [T::Wide::ZERO; COLUMNS];
            for first in (0..dy.rows).step_by(GROUP) {
                let mut group = [T::Wide::ZERO; COLUMNS];
                for row in first..dy.rows.min(first + GROUP) {
                    let values = &dy.row(row)[start..][..out.len()];
                    group.iter_mut().zip(values).for_each(|(sum, value)| *sum += value.wide());
                }
                sums.iter_mut().zip(&group).for_each(|(sum, &group)| *sum += group);
            }
            add(out, &sums, write);
        }
    });
}

/// Columns that are summed at a time, and rows that are summed before they are added to the others.
pub(super) const COLUMNS: usize = 64;
pub(super) const GROUP: usize = 64;

/// `out` (=|+=) the first of `sums`.
#[inline(always)]
pub(super) fn add<G: Element>(out: &mut [G], sums: &[G::Wide], write: Into) {
    for (out, &sum) in out.iter_mut().zip(sums) {
        let before = if write == Into::Add { out.wide() } else { Real::ZERO };
        *out = G::narrow(before + sum);
    }
}

fn shaped<T>(weight: &[T], outputs: usize, inputs: usize) -> Matrix<'_, T> {
    assert_eq!(weight.len(), outputs * inputs, "the weight");
    Matrix { data: weight, rows: outputs, columns: inputs, row_stride: inputs, column_stride: 1 }
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::execute::kernels::trial::{close, random, threads};

    /// Rows, inputs, outputs: below, at and beyond every block and tile.
    const SHAPES: [(usize, usize, usize); 7] =
        [(1, 1, 1), (7, 5, 3), (8, 48, 48), (65, 33, 97), (3, 800, 50), (520, 9, 1540), (130, 400, 20)];

    fn naive(
        a: impl Fn(usize, usize) -> f64,
        b: impl Fn(usize, usize) -> f64,
        size: (usize, usize, usize),
    ) -> Vec<f64> {
        let (rows, columns, depth) = size;
        let element = |at: usize| (0..depth).map(|k| a(at / columns, k) * b(k, at % columns)).sum();
        (0..rows * columns).map(element).collect()
    }

    #[test]
    fn products_are_the_naive_ones() {
        for (rows, inputs, outputs) in SHAPES {
            let x = random::<f64>(rows * inputs, 1);
            let weight = random::<f64>(outputs * inputs, 2);
            let bias = random::<f64>(outputs, 3);
            let dy = random::<f64>(rows * outputs, 4);
            let mut scratch = vec![f64::NAN; scratch(rows, inputs, outputs)];
            for pool in [Pool::Serial, Pool::Threads(threads())] {
                let mut y = random::<f64>(rows * outputs, 5);
                let before = y.clone();
                let product =
                    naive(|r, k| x[r * inputs + k], |k, o| weight[o * inputs + k], (rows, outputs, inputs));
                let view = Matrix::new(&x, inputs);
                forward(
                    pool,
                    view,
                    &weight,
                    None,
                    (MatrixMut::new(&mut y, outputs), Into::Add),
                    &mut scratch,
                );
                close(&y, &before.iter().zip(&product).map(|(a, b)| a + b).collect::<Vec<_>>(), 1e-12);
                let out = (MatrixMut::new(&mut y, outputs), Into::Set);
                forward(pool, view, &weight, Some(&bias), out, &mut scratch);
                close(
                    &y,
                    &(0..y.len()).map(|at| product[at] + bias[at % outputs]).collect::<Vec<_>>(),
                    1e-12,
                );

                let mut dx = vec![f64::NAN; rows * inputs];
                let out = (MatrixMut::new(&mut dx, inputs), Into::Set);
                input_gradient(pool, Matrix::new(&dy, outputs), &weight, out, &mut scratch);
                let size = (rows, inputs, outputs);
                close(&dx, &naive(|r, k| dy[r * outputs + k], |k, i| weight[k * inputs + i], size), 1e-12);

                let mut dweight = vec![f64::NAN; outputs * inputs];
                let out = (&mut dweight[..], Into::Set);
                weight_gradient(pool, Matrix::new(&dy, outputs), view, out, &mut scratch);
                let size = (outputs, inputs, rows);
                close(&dweight, &naive(|o, k| dy[k * outputs + o], |k, i| x[k * inputs + i], size), 1e-12);

                let mut dbias = vec![0.5; outputs];
                bias_gradient(pool, Matrix::new(&dy, outputs), (&mut dbias[..], Into::Add));
                let ones = naive(|_, _| 1.0, |k, o| dy[k * outputs + o], (1, outputs, rows));
                close(&dbias, &ones.iter().map(|sum| sum + 0.5).collect::<Vec<_>>(), 1e-12);
            }
        }
    }

    #[test]
    fn threads_and_cuts_of_the_weight_change_no_bit() {
        let (rows, inputs, outputs) = (70, 1000, 130);
        let x = random::<f32>(rows * inputs, 1);
        let weight = random::<f32>(outputs * inputs, 2);
        let mut space = vec![0.0; scratch(rows, inputs, outputs)];
        let mut run = |pool, rows: std::ops::Range<usize>, columns: std::ops::Range<usize>| {
            let mut y = vec![0f32; rows.len() * columns.len()];
            let x = Matrix::new(&x[rows.start * inputs..rows.end * inputs], inputs);
            let weight = &weight[columns.start * inputs..columns.end * inputs];
            let out = (MatrixMut::new(&mut y, columns.len()), Into::Set);
            forward(pool, x, weight, None, out, &mut space);
            y
        };
        let whole = run(Pool::Serial, 0..rows, 0..outputs);
        assert_eq!(whole, run(Pool::Threads(threads()), 0..rows, 0..outputs));
        for columns in [0..1, 1..48, 48..130, 63..64] {
            for rows in [0..1, 3..70, 10..18] {
                let part = run(Pool::Threads(threads()), rows.clone(), columns.clone());
                let expected = rows.flat_map(|row| &whole[row * outputs..][columns.clone()]);
                assert!(part.iter().eq(expected), "{columns:?}");
            }
        }
    }

    #[test]
    fn windows_of_wider_matrices_are_products_of_their_columns() {
        let (rows, inputs, outputs) = (9, 6, 10);
        let wide_x = random::<f32>(rows * 20, 1);
        let weight = random::<f32>(outputs * inputs, 2);
        let mut scratch = vec![0.0; scratch(rows, inputs, outputs)];
        let narrow: Vec<f32> = wide_x.chunks(20).flat_map(|row| &row[7..7 + inputs]).copied().collect();
        let mut expected = vec![0.0; rows * outputs];
        let out = (MatrixMut::new(&mut expected, outputs), Into::Set);
        forward(Pool::Serial, Matrix::new(&narrow, inputs), &weight, None, out, &mut scratch);
        let mut wide = vec![-1f32; rows * 30];
        let out = (MatrixMut::window(&mut wide, 30, 20, outputs), Into::Set);
        forward(
            Pool::Threads(threads()),
            Matrix::window(&wide_x, 20, 7, inputs),
            &weight,
            None,
            out,
            &mut scratch,
        );
        for (row, expected) in wide.chunks(30).zip(expected.chunks(outputs)) {
            assert_eq!(&row[20..], expected);
            assert!(row[..20].iter().all(|&untouched| untouched == -1.0));
        }
    }

    #[test]
    fn bf16_sums_in_f32_and_rounds_once() {
        let (rows, inputs, outputs) = (5, 1000, 7);
        let x = random::<bf16>(rows * inputs, 1);
        let weight = random::<bf16>(outputs * inputs, 2);
        let widened = |values: &[bf16]| values.iter().map(|value| value.to_f32()).collect::<Vec<_>>();
        let mut scratch = vec![0.0; scratch(rows, inputs, outputs)];
        let mut exact = vec![0f32; rows * outputs];
        let out = (MatrixMut::new(&mut exact, outputs), Into::Set);
        forward(Pool::Serial, Matrix::new(&widened(&x), inputs), &widened(&weight), None, out, &mut scratch);
        let mut y = vec![bf16::ZERO; rows * outputs];
        let out = (MatrixMut::new(&mut y, outputs), Into::Set);
        forward(Pool::Serial, Matrix::new(&x, inputs), &weight, None, out, &mut scratch);
        assert_eq!(y, exact.iter().map(|&value| bf16::from_f32(value)).collect::<Vec<_>>());
        let mut dweight = vec![0f32; outputs * inputs];
        let views = (Matrix::new(&y, outputs), Matrix::new(&x, inputs));
        weight_gradient(Pool::Serial, views.0, views.1, (&mut dweight[..], Into::Set), &mut scratch);
        assert!(dweight.iter().all(|value| value.is_finite()));
    }

    #[test]
    #[should_panic(expected = "the weight")]
    fn a_weight_of_the_wrong_size_is_found() {
        let mut y = [0f32; 2];
        let out = (MatrixMut::new(&mut y, 2), Into::Set);
        forward(Pool::Serial, Matrix::new(&[1f32], 1), &[1.0; 3], None, out, &mut [0.0; 4096]);
    }
}
