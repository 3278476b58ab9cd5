//! Blocks of matrices as panels that products read from end to end.

use std::ops::Range;

use crate::execute::element::{Element, Real};
use crate::execute::matrix::Matrix;

/// How many elements that lie side by side are read at a time, at least, so that whole cache lines are used.
const TOGETHER: usize = 48;

/// Copies rows `rows` of `from`, as deep as `depth`, into panels of `width` rows that stand depth by depth; rows that
/// are missing in the last panel become 0.
#[inline(always)]
pub(super) fn pack<T: Element>(
    to: &mut [T::Wide],
    width: usize,
    from: Matrix<'_, T>,
    rows: Range<usize>,
    depth: &Range<usize>,
) {
    let length = width * depth.len();
    if length == 0 {
        return;
    }
    let missing = rows.len().next_multiple_of(width) - rows.len();
    if missing > 0 {
        to[rows.len() / width * length..].fill(Real::ZERO);
    }
    if from.column_stride == 1 {
        for (panel, first) in to.chunks_exact_mut(length).zip(rows.clone().step_by(width)) {
            let count = width.min(rows.end - first);
            let mut done = 0;
            while done < count {
                let rows = (&from.data[(first + done) * from.row_stride..], from.row_stride);
                done += match count - done {
                    8.. => turn::<T, 8>(panel, (width, done), rows, depth),
                    6.. => turn::<T, 6>(panel, (width, done), rows, depth),
                    _ => turn::<T, 1>(panel, (width, done), rows, depth),
                };
            }
        }
        return;
    }
    assert_eq!(from.row_stride, 1, "one stride is 1");
    let together = TOGETHER.next_multiple_of(width);
    for (panels, first) in to.chunks_mut(together / width * length).zip(rows.clone().step_by(together)) {
        let count = together.min(rows.end - first);
        for (line, k) in depth.clone().enumerate() {
            let values = &from.data[k * from.column_stride + first..][..count];
            match width {
                6 => spread::<T, 6, 6>(panels, length, line, values),
                8 => spread::<T, 8, 8>(panels, length, line, values),
                16 => spread::<T, 16, 16>(panels, length, line, values),
                24 => spread::<T, 24, 8>(panels, length, line, values),
                48 => spread::<T, 48, 8>(panels, length, line, values),
                // Tiles of processors with other vectors.
                _ => values.chunks(width).enumerate().for_each(|(panel, run)| {
                    let places = panels[panel * length + line * width..].iter_mut();
                    places.zip(run).for_each(|(place, value)| *place = value.wide());
                }),
            }
        }
    }
}

/// Copies values to line `line` of panels of `WIDTH` columns and `length` elements.
#[inline(always)]
fn spread<T: Element, const WIDTH: usize, const PART: usize>(
    panels: &mut [T::Wide],
    length: usize,
    line: usize,
    values: &[T],
) {
    let (runs, rest) = values.as_chunks::<WIDTH>();
    for (panel, run) in runs.iter().enumerate() {
        let places = &mut panels[panel * length + line * WIDTH..][..WIDTH];
        // A few at a time, or compilers call a function that copies memory.
        for (places, values) in places.as_chunks_mut::<PART>().0.iter_mut().zip(run.as_chunks::<PART>().0) {
            *places = values.map(Element::wide);
        }
    }
    if !rest.is_empty() {
        let places = &mut panels[runs.len() * length + line * WIDTH..][..rest.len()];
        places.iter_mut().zip(rest).for_each(|(place, value)| *place = value.wide());
    }
}

/// Copies `COUNT` rows, which stand a stride apart from the start of a slice on, to columns from `start` on of a panel.
/// Returns `COUNT`.
#[inline(always)]
fn turn<T: Element, const COUNT: usize>(
    panel: &mut [T::Wide],
    (width, start): (usize, usize),
    (rows, stride): (&[T], usize),
    depth: &Range<usize>,
) -> usize {
    let rows: [&[T]; COUNT] = std::array::from_fn(|row| &rows[row * stride + depth.start..][..depth.len()]);
    for (k, line) in panel.chunks_exact_mut(width).enumerate() {
        let values: [T::Wide; COUNT] = std::array::from_fn(|row| rows[row][k].wide());
        line[start..start + COUNT].copy_from_slice(&values);
    }
    COUNT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_of_any_width_hold_the_rows_whichever_way_they_lie() {
        let (rows, depth) = (101, 7);
        let data: Vec<f64> = (0..rows * depth).map(|at| at as f64).collect();
        let down = Matrix::new(&data, depth);
        let across = Matrix { data: &data, rows, columns: depth, row_stride: 1, column_stride: rows };
        for width in [1, 2, 4, 6, 8, 12, 16, 24, 48] {
            for matrix in [down, across] {
                let (picked, deep) = (3..rows, 2..depth);
                let panels = picked.len().div_ceil(width);
                let mut packed = vec![f64::NAN; panels * width * deep.len()];
                pack(&mut packed, width, matrix, picked.clone(), &deep);
                for (at, &value) in packed.iter().enumerate() {
                    let (panel, line) = (at / (width * deep.len()), at / width % deep.len());
                    let (row, k) = (picked.start + panel * width + at % width, deep.start + line);
                    let held = || data[row * matrix.row_stride + k * matrix.column_stride];
                    assert_eq!(value, if row < rows { held() } else { 0.0 }, "width {width}, {row}, {k}");
                }
            }
        }
    }
}
