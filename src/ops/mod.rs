//! The operator vocabulary: shapes, FLOPs and bytes moved. One file an operator.

pub mod adamw;
pub mod attention;
pub mod collective;
pub mod cross_entropy;
pub mod elementwise;
pub mod embedding;
pub mod kernel_kind;
pub mod linear;
pub mod norm;
pub mod routing;

pub use adamw::AdamW;
pub use attention::{AttentionCore, CorePass};
pub use collective::{Collective, CollectiveKind, Group};
pub use cross_entropy::CrossEntropy;
pub use elementwise::{Elementwise, ElementwiseKind};
pub use embedding::EmbeddingLookup;
pub use kernel_kind::KernelKind;
pub use linear::Linear;
pub use norm::RowNorm;
pub use routing::Routing;

use crate::units::{Bytes, Flops};

/// One thing that an instruction does, for one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    Linear(Linear),
    Attention(AttentionCore),
    Norm(RowNorm),
    Elementwise(Elementwise),
    Embedding(EmbeddingLookup),
    CrossEntropy(CrossEntropy),
    Routing(Routing),
    AdamW(AdamW),
    Collective(Collective),
    /// One activation or gradient to a neighbouring pipeline rank.
    Send(Bytes),
    /// Its arrival.
    Receive(Bytes),
    /// Device to host memory.
    CopyOut(Bytes),
    /// Host to device memory.
    CopyIn(Bytes),
    /// Frees buffers once their last users are done; takes no time.
    Release,
}

impl Op {
    /// The name that reports and traces show.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Linear(_) => "linear",
            Self::Attention(_) => "attention",
            Self::Norm(_) => "norm",
            Self::Elementwise(op) => op.kind.name(),
            Self::Embedding(_) => "embedding",
            Self::CrossEntropy(_) => "cross-entropy",
            Self::Routing(_) => "routing",
            Self::AdamW(_) => "adamw",
            Self::Collective(op) => op.kind.name(),
            Self::Send(_) => "send",
            Self::Receive(_) => "receive",
            Self::CopyOut(_) => "copy out",
            Self::CopyIn(_) => "copy in",
            Self::Release => "release",
        }
    }

    /// Whether other ranks take part in it.
    pub const fn is_communication(&self) -> bool {
        matches!(self, Self::Collective(_) | Self::Send(_) | Self::Receive(_))
    }

    /// Arithmetic that this op does; nothing for what only moves data.
    pub fn flops(&self) -> Flops {
        match self {
            Self::Linear(op) => op.flops(),
            Self::Attention(op) => op.flops(),
            _ => Flops::ZERO,
        }
    }

    /// Bytes that this op reads and writes in device (on the host: host) memory.
    pub fn bytes_moved(&self) -> Bytes {
        match self {
            Self::Linear(op) => op.bytes_moved(),
            Self::Attention(op) => op.bytes_moved(),
            Self::Norm(op) => op.bytes_moved(),
            Self::Elementwise(op) => op.bytes_moved(),
            Self::Embedding(op) => op.bytes_moved(),
            Self::CrossEntropy(op) => op.bytes_moved(),
            Self::Routing(op) => op.bytes_moved(),
            Self::AdamW(op) => op.bytes_moved(),
            Self::Collective(op) => op.bytes,
            Self::Send(bytes) | Self::Receive(bytes) | Self::CopyOut(bytes) | Self::CopyIn(bytes) => *bytes,
            Self::Release => Bytes::ZERO,
        }
    }
}
