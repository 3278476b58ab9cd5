//! Kinds of kernels that stream over their operands, as cost models name them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AttentionCore, CorePass, CrossEntropy, ElementwiseKind, EmbeddingLookup, Op, RowNorm};

/// A kind of kernel whose time goes with the bytes of its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KernelKind {
    Norm,
    NormBackward,
    Rotary,
    Activation,
    ActivationBackward,
    /// Of gate and up together.
    GatedActivation,
    GatedActivationBackward,
    Residual,
    DropoutBackward,
    Add,
    Quantise,
    Dequantise,
    Cast,
    GradientNorm,
    MeanSquaredError,
    Embedding,
    EmbeddingBackward,
    CrossEntropy,
    CrossEntropyBackward,
    Routing,
    Adamw,
    /// The passes over scores of attention that is not fused.
    Softmax,
    SoftmaxBackward,
}

impl KernelKind {
    /// The name in cost models.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Norm => "norm",
            Self::NormBackward => "norm_backward",
            Self::Rotary => "rotary",
            Self::Activation => "activation",
            Self::ActivationBackward => "activation_backward",
            Self::GatedActivation => "gated_activation",
            Self::GatedActivationBackward => "gated_activation_backward",
            Self::Residual => "residual",
            Self::DropoutBackward => "dropout_backward",
            Self::Add => "add",
            Self::Quantise => "quantise",
            Self::Dequantise => "dequantise",
            Self::Cast => "cast",
            Self::GradientNorm => "gradient_norm",
            Self::MeanSquaredError => "mean_squared_error",
            Self::Embedding => "embedding",
            Self::EmbeddingBackward => "embedding_backward",
            Self::CrossEntropy => "cross_entropy",
            Self::CrossEntropyBackward => "cross_entropy_backward",
            Self::Routing => "routing",
            Self::Adamw => "adamw",
            Self::Softmax => "softmax",
            Self::SoftmaxBackward => "softmax_backward",
        }
    }
}

impl Op {
    /// The kind of kernel that performs it; none for products, fused attention and what only moves data between
    /// ranks or memories.
    pub const fn kernel_kind(&self) -> Option<KernelKind> {
        Some(match self {
            Self::Norm(RowNorm { backward: false, .. }) => KernelKind::Norm,
            Self::Norm(_) => KernelKind::NormBackward,
            Self::Elementwise(op) => elementwise(op.kind, op.operands),
            Self::Embedding(EmbeddingLookup { backward: false, .. }) => KernelKind::Embedding,
            Self::Embedding(_) => KernelKind::EmbeddingBackward,
            Self::CrossEntropy(CrossEntropy { backward: false, .. }) => KernelKind::CrossEntropy,
            Self::CrossEntropy(_) => KernelKind::CrossEntropyBackward,
            Self::Routing(_) => KernelKind::Routing,
            Self::AdamW(_) => KernelKind::Adamw,
            Self::Attention(AttentionCore { fused: false, pass: CorePass::Forward, .. }) => {
                KernelKind::Softmax
            }
            Self::Attention(AttentionCore { fused: false, .. }) => KernelKind::SoftmaxBackward,
            _ => return None,
        })
    }
}

const fn elementwise(kind: ElementwiseKind, operands: u64) -> KernelKind {
    match kind {
        ElementwiseKind::Rotary => KernelKind::Rotary,
        ElementwiseKind::Activation if operands > 2 => KernelKind::GatedActivation,
        ElementwiseKind::Activation => KernelKind::Activation,
        ElementwiseKind::ActivationBackward if operands > 3 => KernelKind::GatedActivationBackward,
        ElementwiseKind::ActivationBackward => KernelKind::ActivationBackward,
        ElementwiseKind::Residual => KernelKind::Residual,
        ElementwiseKind::DropoutBackward => KernelKind::DropoutBackward,
        ElementwiseKind::Add | ElementwiseKind::Accumulate | ElementwiseKind::Scale => KernelKind::Add,
        ElementwiseKind::Quantise => KernelKind::Quantise,
        ElementwiseKind::Dequantise => KernelKind::Dequantise,
        ElementwiseKind::Cast => KernelKind::Cast,
        ElementwiseKind::GradientNorm => KernelKind::GradientNorm,
        ElementwiseKind::MeanSquaredError => KernelKind::MeanSquaredError,
    }
}
