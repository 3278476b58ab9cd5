//! Blocks of matrices as panels that products read from end to end.

use std::ops::Range;

use crate::execute::element::{Element, Real};
use crate::execute::matrix::Matrix;

/// Depth of what is transposed at a time when packing.
const TURN: usize = 16;

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
            for (turn, piece) in panel.chunks_mut(width * TURN).enumerate() {
                let start = depth.start + turn * TURN;
                for row in 0..count {
                    let values = &from.data[(first + row) * from.row_stride + start..][..piece.len() / width];
                    for (value, line) in values.iter().zip(piece.chunks_exact_mut(width)) {
                        line[row] = value.wide();
                    }
                }
            }
        } else {
            assert_eq!(from.row_stride, 1, "one stride is 1");
            for (line, k) in panel.chunks_exact_mut(width).zip(depth.clone()) {
                let values = &from.data[k * from.column_stride + first..][..count];
                for (to, value) in line.iter_mut().zip(values) {
                    *to = value.wide();
                }
            }
        }
    }
}
