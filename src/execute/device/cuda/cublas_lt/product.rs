//! What cublasLt is asked: a product of matrices, and all that its algorithm depends on.

use cudarc::cublaslt::sys::{
    cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t as Preference, cublasLtReductionScheme_t,
};

use super::super::error::CudaError;
use super::super::launch::gemm::Element;
use super::super::span::Span;
use super::functions::{Functions, Owned};

/// What the library wants a workspace to begin at, and the best that it knows of a matrix.
pub const ALIGNMENT: u64 = 256;

/// A bias that begins elsewhere is not left to the library: users of it report accesses that were not aligned.
const BIAS_ALIGNMENT: u32 = 16;

/// A matrix as it lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    pub span: Span,
    pub element: Element,
    /// From one line to the next, in elements.
    pub stride: u64,
    /// Its lines are columns of the factor.
    pub transposed: bool,
}

/// output (m, n) (=|+=) left (m, k) · right (k, n) (+ bias).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    pub m: u32,
    pub n: u32,
    pub k: u32,
    pub left: Matrix,
    pub right: Matrix,
    pub output: Matrix,
    pub bias: Option<(Span, Element)>,
    pub adds: bool,
    pub workspace: Span,
}

/// All that an algorithm depends on: products that agree in it are computed alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    sizes: [u32; 3],
    /// Of left, right and output.
    elements: [Element; 3],
    strides: [u64; 3],
    transposed: [bool; 2],
    alignments: [u32; 3],
    /// With its alignment, which the library reads off its address.
    bias: Option<(Element, u32)>,
    /// The most bytes of it that an algorithm may use.
    pub workspace: u64,
}

impl Product {
    /// Whether the library has such products: both factors of one type, the output of theirs or wider, a bias of the
    /// output's type that is well aligned.
    pub fn is_known(&self) -> bool {
        let output = self.output.element;
        let types = match (self.left.element, self.right.element) {
            (Element::Bf16, Element::Bf16) => true,
            (Element::F32, Element::F32) => output == Element::F32,
            (Element::Bf16, Element::F32) | (Element::F32, Element::Bf16) => false,
        };
        let is_bias_known = |(bias, element)| element == output && alignment(bias) >= BIAS_ALIGNMENT;
        types && self.k > 0 && self.bias.is_none_or(is_bias_known)
    }

    pub fn question(&self) -> Question {
        let matrices = [self.left, self.right, self.output];
        Question {
            sizes: [self.m, self.n, self.k],
            elements: matrices.map(|matrix| matrix.element),
            strides: matrices.map(|matrix| matrix.stride),
            transposed: [self.left.transposed, self.right.transposed],
            alignments: matrices.map(|matrix| alignment(matrix.span)),
            bias: self.bias.map(|(bias, element)| (element, alignment(bias))),
            // The same wherever the workspace begins.
            workspace: self.workspace.bytes.saturating_sub(ALIGNMENT),
        }
    }
}

impl Question {
    /// What an algorithm may do and rely on.
    ///
    /// # Errors
    /// What the library says.
    pub fn preference(&self, functions: &Functions) -> Result<Owned<cublasLtMatmulPreference_t>, CudaError> {
        let preference = functions.preference()?;
        let workspace = Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        functions.set_preference(&preference, workspace, &self.workspace)?;
        let set = |attribute, value: u32| functions.set_preference(&preference, attribute, &value);
        // Parts of a sum are kept in f32 in the workspace and added in their order.
        let parts = cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE as u32;
        set(Preference::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, parts)?;
        let [left, right, output] = self.alignments;
        set(Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, right)?;
        set(Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, left)?;
        set(Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, output)?;
        set(Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, output)?;
        Ok(preference)
    }
}

/// The largest power of two that `span` begins at a multiple of, as far as the library cares.
fn alignment(span: Span) -> u32 {
    1 << span.address.trailing_zeros().min(ALIGNMENT.trailing_zeros())
}
