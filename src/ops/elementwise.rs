//! Ops that touch each element a fixed number of times: activations, residual adds, dropout, casts and their like.

use crate::units::{Bytes, ElementType};

/// What is done to each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementwiseKind {
    /// Rotary positions, in place.
    Rotary,
    /// GELU, SiLU and their like, forward.
    Activation,
    ActivationBackward,
    /// Residual add, with dropout where there is some.
    Residual,
    /// Gradient through a dropout mask.
    DropoutBackward,
    /// One tensor added into another.
    Add,
    /// A micro-batch's gradient added to the one that is kept over the step.
    Accumulate,
    /// A tensor times a number.
    Scale,
    /// Saved activations to integers.
    Quantise,
    Dequantise,
    Cast,
    /// Sum of squares of a gradient.
    GradientNorm,
    /// Mean squared error, forward and backward.
    MeanSquaredError,
}

impl ElementwiseKind {
    /// The name that reports show.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rotary => "rotary",
            Self::Activation => "activation",
            Self::ActivationBackward => "activation backward",
            Self::Residual => "residual",
            Self::DropoutBackward => "dropout backward",
            Self::Add => "add",
            Self::Accumulate => "accumulate",
            Self::Scale => "scale",
            Self::Quantise => "quantise",
            Self::Dequantise => "dequantise",
            Self::Cast => "cast",
            Self::GradientNorm => "gradient norm",
            Self::MeanSquaredError => "mean squared error",
        }
    }
}

/// One pass over `elements` elements of `operands` tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Elementwise {
    pub kind: ElementwiseKind,
    pub elements: u64,
    /// Tensors read and written.
    pub operands: u64,
    pub element: ElementType,
}

impl Elementwise {
    /// Each element of each operand, once.
    pub fn bytes_moved(&self) -> Bytes {
        Bytes(self.elements * self.operands * self.element.size())
    }
}
