//! The fragment layouts of the PTX manual (sections "Matrix Fragments for mma.m16n8k16 with floating point type",
//! "Matrix Fragments for mma.m16n8k8" and "ldmatrix"), written down from its figures and not from the emulator.

/// Which lane holds an element of a matrix, and which of the lane's elements that is, row by row of the figure. The
/// lower eight rows of the tall matrices have the lanes of the upper ones and elements of their own.
pub struct Layout {
    lanes: &'static [&'static [usize]],
    /// One row for all, or one for each eight rows, or one for each row.
    elements: &'static [&'static [usize]],
    pub rows: usize,
    pub columns: usize,
}

impl Layout {
    /// The lane and the element.
    pub fn place(&self, row: usize, column: usize) -> (usize, usize) {
        let step = self.rows / self.elements.len();
        (self.lanes[row % self.lanes.len()][column], self.elements[row / step][column])
    }

    pub fn per_lane(&self) -> usize {
        self.rows * self.columns / 32
    }
}

/// A of m16n8k16 in bf16.
pub const BF16_A: Layout = Layout {
    lanes: &[
        &[0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 1, 1, 2, 2, 3, 3],
        &[4, 4, 5, 5, 6, 6, 7, 7, 4, 4, 5, 5, 6, 6, 7, 7],
        &[8, 8, 9, 9, 10, 10, 11, 11, 8, 8, 9, 9, 10, 10, 11, 11],
        &[12, 12, 13, 13, 14, 14, 15, 15, 12, 12, 13, 13, 14, 14, 15, 15],
        &[16, 16, 17, 17, 18, 18, 19, 19, 16, 16, 17, 17, 18, 18, 19, 19],
        &[20, 20, 21, 21, 22, 22, 23, 23, 20, 20, 21, 21, 22, 22, 23, 23],
        &[24, 24, 25, 25, 26, 26, 27, 27, 24, 24, 25, 25, 26, 26, 27, 27],
        &[28, 28, 29, 29, 30, 30, 31, 31, 28, 28, 29, 29, 30, 30, 31, 31],
    ],
    elements: &[
        &[0, 1, 0, 1, 0, 1, 0, 1, 4, 5, 4, 5, 4, 5, 4, 5],
        &[2, 3, 2, 3, 2, 3, 2, 3, 6, 7, 6, 7, 6, 7, 6, 7],
    ],
    rows: 16,
    columns: 16,
};

/// B of m16n8k16 in bf16; a row of the figure is a k.
pub const BF16_B: Layout = Layout {
    lanes: &[
        &[0, 4, 8, 12, 16, 20, 24, 28],
        &[0, 4, 8, 12, 16, 20, 24, 28],
        &[1, 5, 9, 13, 17, 21, 25, 29],
        &[1, 5, 9, 13, 17, 21, 25, 29],
        &[2, 6, 10, 14, 18, 22, 26, 30],
        &[2, 6, 10, 14, 18, 22, 26, 30],
        &[3, 7, 11, 15, 19, 23, 27, 31],
        &[3, 7, 11, 15, 19, 23, 27, 31],
        &[0, 4, 8, 12, 16, 20, 24, 28],
        &[0, 4, 8, 12, 16, 20, 24, 28],
        &[1, 5, 9, 13, 17, 21, 25, 29],
        &[1, 5, 9, 13, 17, 21, 25, 29],
        &[2, 6, 10, 14, 18, 22, 26, 30],
        &[2, 6, 10, 14, 18, 22, 26, 30],
        &[3, 7, 11, 15, 19, 23, 27, 31],
        &[3, 7, 11, 15, 19, 23, 27, 31],
    ],
    elements: &[
        &[0, 0, 0, 0, 0, 0, 0, 0],
        &[1, 1, 1, 1, 1, 1, 1, 1],
        &[0, 0, 0, 0, 0, 0, 0, 0],
        &[1, 1, 1, 1, 1, 1, 1, 1],
        &[0, 0, 0, 0, 0, 0, 0, 0],
        &[1, 1, 1, 1, 1, 1, 1, 1],
        &[0, 0, 0, 0, 0, 0, 0, 0],
        &[1, 1, 1, 1, 1, 1, 1, 1],
        &[2, 2, 2, 2, 2, 2, 2, 2],
        &[3, 3, 3, 3, 3, 3, 3, 3],
        &[2, 2, 2, 2, 2, 2, 2, 2],
        &[3, 3, 3, 3, 3, 3, 3, 3],
        &[2, 2, 2, 2, 2, 2, 2, 2],
        &[3, 3, 3, 3, 3, 3, 3, 3],
        &[2, 2, 2, 2, 2, 2, 2, 2],
        &[3, 3, 3, 3, 3, 3, 3, 3],
    ],
    rows: 16,
    columns: 8,
};

/// C and D of both products in f32.
pub const SUMS: Layout = Layout {
    lanes: &[
        &[0, 0, 1, 1, 2, 2, 3, 3],
        &[4, 4, 5, 5, 6, 6, 7, 7],
        &[8, 8, 9, 9, 10, 10, 11, 11],
        &[12, 12, 13, 13, 14, 14, 15, 15],
        &[16, 16, 17, 17, 18, 18, 19, 19],
        &[20, 20, 21, 21, 22, 22, 23, 23],
        &[24, 24, 25, 25, 26, 26, 27, 27],
        &[28, 28, 29, 29, 30, 30, 31, 31],
    ],
    elements: &[&[0, 1, 0, 1, 0, 1, 0, 1], &[2, 3, 2, 3, 2, 3, 2, 3]],
    rows: 16,
    columns: 8,
};

/// A of m16n8k8 in tf32.
pub const TF32_A: Layout = Layout {
    lanes: &[
        &[0, 1, 2, 3, 0, 1, 2, 3],
        &[4, 5, 6, 7, 4, 5, 6, 7],
        &[8, 9, 10, 11, 8, 9, 10, 11],
        &[12, 13, 14, 15, 12, 13, 14, 15],
        &[16, 17, 18, 19, 16, 17, 18, 19],
        &[20, 21, 22, 23, 20, 21, 22, 23],
        &[24, 25, 26, 27, 24, 25, 26, 27],
        &[28, 29, 30, 31, 28, 29, 30, 31],
    ],
    elements: &[&[0, 0, 0, 0, 2, 2, 2, 2], &[1, 1, 1, 1, 3, 3, 3, 3]],
    rows: 16,
    columns: 8,
};

/// B of m16n8k8 in tf32.
pub const TF32_B: Layout = Layout {
    lanes: &[
        &[0, 4, 8, 12, 16, 20, 24, 28],
        &[1, 5, 9, 13, 17, 21, 25, 29],
        &[2, 6, 10, 14, 18, 22, 26, 30],
        &[3, 7, 11, 15, 19, 23, 27, 31],
        &[0, 4, 8, 12, 16, 20, 24, 28],
        &[1, 5, 9, 13, 17, 21, 25, 29],
        &[2, 6, 10, 14, 18, 22, 26, 30],
        &[3, 7, 11, 15, 19, 23, 27, 31],
    ],
    elements: &[&[0, 0, 0, 0, 0, 0, 0, 0], &[1, 1, 1, 1, 1, 1, 1, 1]],
    rows: 8,
    columns: 8,
};

/// An 8 x 8 matrix after `ldmatrix`.
pub const MATRIX: Layout = Layout {
    lanes: &[
        &[0, 0, 1, 1, 2, 2, 3, 3],
        &[4, 4, 5, 5, 6, 6, 7, 7],
        &[8, 8, 9, 9, 10, 10, 11, 11],
        &[12, 12, 13, 13, 14, 14, 15, 15],
        &[16, 16, 17, 17, 18, 18, 19, 19],
        &[20, 20, 21, 21, 22, 22, 23, 23],
        &[24, 24, 25, 25, 26, 26, 27, 27],
        &[28, 28, 29, 29, 30, 30, 31, 31],
    ],
    elements: &[&[0, 1, 0, 1, 0, 1, 0, 1]],
    rows: 8,
    columns: 8,
};
