//! Blocks of matrices as panels that products read from end to end.

use std::ops::Range;

use crate::execute::element::{Element, Real};
use crate::execute::matrix::Matrix;

/// Rows that are packed at a time: a divisor of most panels' widths.
const TURN: usize = 8;

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
    let panels = to.chunks_exact_mut((width * depth.len()).max(1));
    for (panel, first) in panels.zip((rows.start..rows.end).step_by(width)) {
        let count = width.min(rows.end - first);
        if count < width {
            panel.fill(Real::ZERO);
        }
        if from.column_stride == 1 {
            let row = |row: usize| &from.data[(first + row) * from.row_stride + depth.start..][..depth.len()];
            let turned = count - count % TURN;
            for start in (0..turned).step_by(TURN) {
                let values: [&[T]; TURN] = std::array::from_fn(|at| row(start + at));
                for (k, line) in panel.chunks_exact_mut(width).enumerate() {
                    let values: [T::Wide; TURN] = std::array::from_fn(|at| values[at][k].wide());
                    line[start..start + TURN].copy_from_slice(&values);
                }
            }
            for at in turned..count {
                for (line, value) in panel.chunks_exact_mut(width).zip(row(at)) {
                    line[at] = value.wide();
                }
            }
        } else {
            assert_eq!(from.row_stride, 1, "one stride is 1");
            for (line, k) in panel.chunks_exact_mut(width).zip(depth.clone()) {
                let values = &from.data[k * from.column_stride + first..][..count];
                let (turns, rest) = values.as_chunks::<TURN>();
                let (lines, ends) = line.as_chunks_mut::<TURN>();
                lines.iter_mut().zip(turns).for_each(|(to, turn)| *to = turn.map(Element::wide));
                let ends = lines[turns.len()..].as_flattened_mut().iter_mut().chain(ends);
                ends.zip(rest).for_each(|(to, value)| *to = value.wide());
            }
        }
    }
}
