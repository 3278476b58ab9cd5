//! Matrices over slices: row-major buffers, windows of their columns, and what stands transposed.

/// A matrix that is read: element (i, j) stands at `i · row_stride + j · column_stride`.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, T> {
    pub data: &'a [T],
    pub rows: usize,
    pub columns: usize,
    pub row_stride: usize,
    pub column_stride: usize,
}

/// A row-major matrix that is written: rows stand `stride` apart.
#[derive(Debug)]
pub struct MatrixMut<'a, T> {
    pub data: &'a mut [T],
    pub rows: usize,
    pub columns: usize,
    pub stride: usize,
}

/// Elements from the first to behind the last of `rows` rows of `columns` that stand `stride` apart.
fn extent(rows: usize, columns: usize, stride: usize) -> usize {
    assert!(columns <= stride, "{columns} columns in rows of {stride}");
    if rows == 0 || columns == 0 { 0 } else { (rows - 1) * stride + columns }
}

impl<'a, T> Matrix<'a, T> {
    /// All of `data`, in rows of `columns`.
    pub fn new(data: &'a [T], columns: usize) -> Self {
        let rows = data.len().checked_div(columns).unwrap_or(0);
        assert_eq!(data.len(), rows * columns, "whole rows");
        Self { data, rows, columns, row_stride: columns, column_stride: 1 }
    }

    /// `columns` columns from `first` on of `data`, whose rows are `stride` wide.
    pub fn window(data: &'a [T], stride: usize, first: usize, columns: usize) -> Self {
        let whole = Self::new(data, stride);
        let end = first + extent(whole.rows, columns, stride);
        let data = if whole.rows == 0 { data } else { &data[first..end] };
        Self { data, columns, ..whole }
    }

    /// Rows as columns; nothing moves.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    /// Row `row` of a matrix that is not transposed.
    #[inline(always)]
    pub fn row(&self, row: usize) -> &'a [T] {
        debug_assert_eq!(self.column_stride, 1);
        &self.data[row * self.row_stride..][..self.columns]
    }
}

impl<'a, T> MatrixMut<'a, T> {
    /// All of `data`, in rows of `columns`.
    pub fn new(data: &'a mut [T], columns: usize) -> Self {
        let rows = data.len().checked_div(columns).unwrap_or(0);
        assert_eq!(data.len(), rows * columns, "whole rows");
        Self { data, rows, columns, stride: columns }
    }

    /// `columns` columns from `first` on of `data`, whose rows are `stride` wide.
    pub fn window(data: &'a mut [T], stride: usize, first: usize, columns: usize) -> Self {
        let rows = data.len().checked_div(stride).unwrap_or(0);
        assert_eq!(data.len(), rows * stride, "whole rows");
        let end = first + extent(rows, columns, stride);
        let data = if rows == 0 { data } else { &mut data[first..end] };
        Self { data, rows, columns, stride }
    }
}
