//! Matrix products and sums of columns.

use super::queue::CpuQueue;
use crate::execute::call::{Columns, Factor, Gemm, Target};
use crate::execute::element::Element;
use crate::execute::kernels::gemm::product;
use crate::execute::kernels::linear;
use crate::execute::matrix::{Matrix, MatrixMut};
use crate::execute::storage::Plain;

impl<'r, T: Element, G: Element<Wide = T::Wide>> CpuQueue<'r, T, G> {
    /// # Safety
    /// As for [`crate::execute::device::Queue::submit`].
    unsafe fn matrix<E: Plain>(&self, columns: &Columns) -> Matrix<'r, E> {
        let Columns { view, stride, first, columns } = *columns;
        // SAFETY: as the caller vouches.
        Matrix::window(unsafe { self.memory.read(view) }, stride, first, columns)
    }

    /// # Safety
    /// As for [`crate::execute::device::Queue::submit`].
    unsafe fn factor<E: Plain>(&self, factor: &Factor) -> Matrix<'r, E> {
        // SAFETY: as the caller vouches.
        let matrix = unsafe { self.matrix(&factor.matrix) };
        if factor.transposed { matrix.transposed() } else { matrix }
    }

    /// # Safety
    /// As for [`crate::execute::device::Queue::submit`].
    pub(super) unsafe fn gemm(&self, gemm: &Gemm) {
        let [a, b, c] = [gemm.a.matrix.view, gemm.b.matrix.view, gemm.output.view].map(|view| view.storage);
        let (of_t, of_wide) = (T::STORAGE, T::Wide::STORAGE);
        // SAFETY: as the caller vouches.
        unsafe {
            match (a == of_t, c == of_t) {
                (true, true) => self.gemm_of::<T, T>(gemm),
                (true, false) if c == of_wide => self.gemm_of::<T, T::Wide>(gemm),
                (true, false) => self.gemm_of::<T, G>(gemm),
                (false, true) => self.gemm_of::<T::Wide, T>(gemm),
                (false, false) => self.gemm_of::<T::Wide, G>(gemm),
            }
        }
        debug_assert_eq!(b, of_t);
    }

    /// The product whose first factor is of `A`, whose second of `T` and whose result of `C`.
    ///
    /// # Safety
    /// As for [`crate::execute::device::Queue::submit`].
    unsafe fn gemm_of<A, C>(&self, gemm: &Gemm)
    where
        A: Element<Wide = T::Wide>,
        C: Element<Wide = T::Wide>,
    {
        let Columns { view, stride, first, columns } = gemm.output;
        // SAFETY: as the caller vouches.
        unsafe {
            let (a, b) = (self.factor::<A>(&gemm.a), self.factor::<T>(&gemm.b));
            let output = MatrixMut::window(self.memory.write::<C>(view), stride, first, columns);
            let bias = gemm.bias.map(|bias| self.memory.read::<A>(bias));
            let scratch = self.memory.write::<T::Wide>(gemm.scratch);
            product(self.pool, (a, b), output, gemm.write, bias, scratch);
        }
    }

    /// # Safety
    /// As for [`crate::execute::device::Queue::submit`].
    pub(super) unsafe fn bias_gradient(&self, output_gradient: &Columns, bias: &Target) {
        // SAFETY: as the caller vouches.
        unsafe {
            let target = (self.memory.write::<G>(bias.view), bias.write);
            linear::bias_gradient(self.pool, self.matrix::<T>(output_gradient), target);
        }
    }
}
