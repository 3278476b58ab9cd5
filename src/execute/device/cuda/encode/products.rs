//! Matrix products, by NVIDIA's library where it has them, and sums of columns.

use std::sync::Arc;

use super::super::cublas_lt::{self, Chosen};
use super::super::launch::gemm::{self, Factor as Side, Product, is_aligned};
use super::super::work::{Kernel, Span, Work, Works};
use super::{CudaError, Encoded, Encoder, element, nothing, one, small, work};
use crate::execute::call::{Columns, Factor, Gemm, Target};
use crate::lower::kernel::Into;

impl Encoder<'_> {
    pub(super) fn gemm(&self, call: &Gemm) -> Encoded {
        let rows = call.output.view.len() / call.output.stride.max(1);
        let depth = match call.a.transposed {
            true => call.a.matrix.view.len() / call.a.matrix.stride.max(1),
            false => call.a.matrix.columns,
        };
        let [m, n, k] = [rows, call.output.columns, depth].map(|count| small("a product", count));
        let (m, n, k) = (m?, n?, k?);
        if m == 0 || n == 0 {
            return nothing();
        }
        let adds = call.write == Into::Add;
        let workspace = self.at(call.scratch);
        if let Some(chosen) = self.of_library(call, [m, n, k])? {
            return Ok(Works::from_iter([Work::Product(Arc::new(chosen))]));
        }
        let product = Product {
            m,
            n,
            k,
            batch: 1,
            batches: 1,
            left: self.side(&call.a)?,
            right: self.side(&call.b)?,
            output: element(call.output.view.storage)?,
            workspace: workspace.bytes / 4,
            multiprocessors: self.multiprocessors,
        };
        let plan = gemm::plan(&product);
        let bias = self.at_any(call.bias);
        let [a, b, c] = [&call.a.matrix, &call.b.matrix, &call.output].map(|matrix| self.columns(matrix));
        let strides = [call.a.matrix.stride, call.b.matrix.stride];
        let (count, split) = (plan.parts, plan.parts > 1);
        // A part of the depth is a product of its own.
        let depth = u64::from(plan.split_depth);
        let steps = [(strides[0], !call.a.transposed), (strides[1], call.b.transposed)]
            .map(|(stride, along)| if along { depth } else { depth * stride as u64 });
        let parts = workspace.first(4 * u64::from(count) * u64::from(m) * u64::from(n));
        let (output, bias_of_product, stride, step) = match split {
            true => (parts, None, u64::from(n), u64::from(m) * u64::from(n)),
            false => (c, bias, call.output.stride as u64, 0),
        };
        let [left, right] = strides.map(|stride| stride as u64);
        let strides = [[left, right, stride], [steps[0], steps[1], step], [0; 3]];
        let operands = ([a, b, output], bias_of_product);
        let mut works = Works::from_iter([launched(plan, operands, [m, n, k], strides, adds && !split)]);
        if split {
            let kernel = Kernel::new(gemm::split_sum(m, n, product.output)).reads(parts);
            let kernel = if adds { kernel.updates(c) } else { kernel.writes(c) }.reads_any(bias);
            let kernel = kernel.numbers([count, m, n]).number(call.output.stride as u64);
            works.push(work(kernel.flag(adds)));
        }
        Ok(works)
    }

    /// The product as the library does it, if it does.
    fn of_library(&self, call: &Gemm, [m, n, k]: [u32; 3]) -> Result<Option<Chosen>, CudaError> {
        let matrix = |columns: &Columns, transposed| {
            let element = element(columns.view.storage)?;
            let (span, stride) = (self.columns(columns), columns.stride as u64);
            Ok::<_, CudaError>(cublas_lt::Matrix { span, element, stride, transposed })
        };
        let bias = call.bias.map(|bias| Ok::<_, CudaError>((self.at(bias), element(bias.storage)?)));
        self.products.choose(&cublas_lt::Product {
            m,
            n,
            k,
            left: matrix(&call.a.matrix, call.a.transposed)?,
            right: matrix(&call.b.matrix, call.b.transposed)?,
            output: matrix(&call.output, false)?,
            bias: bias.transpose()?,
            adds: call.write == Into::Add,
            workspace: self.at(call.scratch),
        })
    }

    fn side(&self, factor: &Factor) -> Result<Side, CudaError> {
        let Columns { view, stride, .. } = factor.matrix;
        let aligned = is_aligned(self.columns(&factor.matrix).address, stride as u64, 0);
        Ok(Side { element: element(view.storage)?, transposed: factor.transposed, aligned })
    }

    /// From the first element of the columns on.
    fn columns(&self, columns: &Columns) -> Span {
        self.at(columns.view).behind((columns.first * columns.view.storage.size()) as u64)
    }

    pub(super) fn bias_gradient(&self, of: &Columns, bias: &Target) -> Encoded {
        let rows = small("rows", of.view.len() / of.stride.max(1))?;
        let columns = small("columns", of.columns)?;
        if columns == 0 {
            return nothing();
        }
        let launched = gemm::bias_gradient(columns, element(of.view.storage)?, element(bias.view.storage)?);
        let adds = bias.write == Into::Add;
        let to = self.at(bias.view);
        let kernel = Kernel::new(launched).reads(self.columns(of));
        let kernel = if adds { kernel.updates(to) } else { kernel.writes(to) };
        one(kernel.numbers([rows, columns]).number(of.stride as u64).flag(adds))
    }
}

/// The launch of a product of `size` (m, n, k), whose operands are both factors, the result and a bias. Strides are those of
/// lines, of the matrices of a batch and of batches, each of both factors and of the result.
pub(super) fn launched(
    plan: gemm::Plan,
    ([a, b, c], bias): ([Span; 3], Option<Span>),
    size: [u32; 3],
    strides: [[u64; 3]; 3],
    adds: bool,
) -> Work {
    let kernel = Kernel::new((plan.source, plan.launch)).reads(a).reads(b);
    let kernel = if adds { kernel.updates(c) } else { kernel.writes(c) }.reads_any(bias).numbers(size);
    let mut kernel = strides.into_iter().flatten().fold(kernel, Kernel::number);
    if kernel.launch.kernel == "gemm" {
        kernel = kernel.number(plan.split_depth);
    }
    work(kernel.flag(adds))
}
