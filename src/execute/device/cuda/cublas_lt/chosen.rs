//! How cublasLt computes a product: what describes it, and the algorithm that was chosen.
//!
//! The library's matrices have their columns in memory one after the other, ours their rows: what lies in memory is the
//! transposed matrix to it. So it is asked for outputᵀ = rightᵀ · leftᵀ.

#![expect(unsafe_code, reason = "cublasLt is a C library")]

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::cublaslt::sys::{
    cublasLtEpilogue_t, cublasLtMatmulAlgo_t, cublasLtMatmulDesc_t,
    cublasLtMatmulDescAttributes_t as Attribute, cublasLtMatrixLayout_t, cudaDataType,
};
use cudarc::driver::sys::CUstream;
use smallvec::SmallVec;

use super::super::error::CudaError;
use super::super::launch::gemm::Element;
use super::super::span::{Access, Span};
use super::CublasLt;
use super::functions::{Functions, Owned, Proposal, checked};
use super::product::{ALIGNMENT, Matrix, Product, Question};

const NOT_SUPPORTED: i32 = 15;

/// An algorithm and the workspace that it needs.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    algorithm: cublasLtMatmulAlgo_t,
    workspace: usize,
}

/// A product as the library knows it.
#[derive(Debug)]
pub struct Described {
    product: Owned<cublasLtMatmulDesc_t>,
    first: Owned<cublasLtMatrixLayout_t>,
    second: Owned<cublasLtMatrixLayout_t>,
    output: Owned<cublasLtMatrixLayout_t>,
}

impl Described {
    /// # Errors
    /// What the library says.
    pub fn new(functions: &Functions, asked: &Product) -> Result<Self, CudaError> {
        let product = functions.product()?;
        let [m, n, k] = [asked.m, asked.n, asked.k].map(u64::from);
        // Lines of our matrices are the library's columns.
        let layout = |matrix: Matrix, (lines, length): (u64, u64)| {
            let (lines, length) = if matrix.transposed { (length, lines) } else { (lines, length) };
            functions.layout(data_type(matrix.element), (length, lines), matrix.stride)
        };
        let described = Self {
            product,
            first: layout(asked.right, (k, n))?,
            second: layout(asked.left, (m, k))?,
            output: layout(asked.output, (m, n))?,
        };
        let set = |attribute, value: i32| functions.set_product(&described.product, attribute, &value);
        set(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, i32::from(asked.right.transposed))?;
        set(Attribute::CUBLASLT_MATMUL_DESC_TRANSB, i32::from(asked.left.transposed))?;
        if let Some((bias, _)) = asked.bias {
            set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS as i32)?;
            let pointer = Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER;
            functions.set_product(&described.product, pointer, &bias.address)?;
        }
        Ok(described)
    }

    /// The library's algorithm; none if it has none.
    ///
    /// # Errors
    /// What the library says.
    pub fn ask(&self, library: &CublasLt, question: &Question) -> Result<Option<Answer>, CudaError> {
        let functions = &library.functions;
        let preference = question.preference(functions)?;
        let mut proposal = Proposal::default();
        let mut count = 0;
        let handle = library.handle();
        let [first, second, output] = [&self.first, &self.second, &self.output].map(|layout| layout.object);
        // SAFETY: all of it lives, with places for one proposal and its count.
        let status = unsafe {
            (functions.propose)(
                handle.object,
                self.product.object,
                first,
                second,
                output,
                output,
                preference.object,
                1,
                &raw mut proposal,
                &raw mut count,
            )
        };
        if status == NOT_SUPPORTED {
            return Ok(None);
        }
        checked(status, "choosing an algorithm")?;
        let is_usable = count > 0 && proposal.state == 0 && proposal.workspace as u64 <= question.workspace;
        Ok(is_usable.then_some(Answer { algorithm: proposal.algorithm, workspace: proposal.workspace }))
    }
}

/// A product whose algorithm is chosen.
#[derive(Debug)]
pub struct Chosen {
    library: Arc<CublasLt>,
    asked: Product,
    described: Described,
    answer: Answer,
}

// SAFETY: what the library describes a product by is bound to no thread.
unsafe impl Send for Chosen {}
// SAFETY: it is only read.
unsafe impl Sync for Chosen {}

impl PartialEq for Chosen {
    fn eq(&self, other: &Self) -> bool {
        self.asked == other.asked
    }
}

impl Chosen {
    pub const fn new(library: Arc<CublasLt>, asked: Product, described: Described, answer: Answer) -> Self {
        Self { library, asked, described, answer }
    }

    /// What the algorithm takes of the workspace.
    fn workspace(&self) -> Span {
        let all = self.asked.workspace;
        let start = all.address.next_multiple_of(ALIGNMENT) - all.address;
        all.behind(start).first(self.answer.workspace as u64)
    }

    pub fn touches(&self) -> SmallVec<[(Span, Access); 8]> {
        let Product { left, right, output, bias, adds, .. } = self.asked;
        let written = if adds { Access::Both } else { Access::Write };
        let mut touches = SmallVec::from_slice(&[
            (left.span, Access::Read),
            (right.span, Access::Read),
            (output.span, written),
        ]);
        touches.extend(bias.map(|(bias, _)| (bias, Access::Read)));
        let workspace = self.workspace();
        touches.extend((workspace.bytes > 0).then_some((workspace, Access::Both)));
        touches
    }

    /// Does the product behind all that was submitted to `stream`.
    ///
    /// # Safety
    /// Its operands lie where the product says, and nobody else uses them until it is done.
    ///
    /// # Errors
    /// What the library says.
    pub unsafe fn submit(&self, stream: CUstream) -> Result<(), CudaError> {
        let Product { left, right, output, adds, .. } = self.asked;
        let (alpha, beta) = (1f32, if adds { 1f32 } else { 0.0 });
        let at = |span: Span| span.address as *mut c_void;
        let Described { product, first, second, output: layout } = &self.described;
        let handle = self.library.handle();
        // SAFETY: as the caller vouches; what describes the product is its own.
        let status = unsafe {
            (self.library.functions.multiply)(
                handle.object,
                product.object,
                (&raw const alpha).cast(),
                at(right.span),
                first.object,
                at(left.span),
                second.object,
                (&raw const beta).cast(),
                at(output.span),
                layout.object,
                at(output.span),
                layout.object,
                &raw const self.answer.algorithm,
                at(self.workspace()),
                self.answer.workspace,
                stream,
            )
        };
        checked(status, "a product")
    }
}

const fn data_type(element: Element) -> cudaDataType {
    match element {
        Element::Bf16 => cudaDataType::CUDA_R_16BF,
        Element::F32 => cudaDataType::CUDA_R_32F,
    }
}
