//! A unit of layers under a strategy and an engine profile becomes the ops of one rank, with what each
//! reads, writes, keeps and recomputes.
//!
//! A **unit** is a block, an embedding, or a head with its loss: what ZeRO gathers, checkpointing recomputes and
//! pipeline cuts keep whole. A unit is first written down as a graph of ops ([`graph::UnitGraph`]), forward and
//! backward; a checkpoint mode then says which values are kept, and liveness gives the rest ([`unit::lower`]).

mod attention;
mod embedding;
pub mod graph;
mod head;
pub mod kernel;
mod liveness;
mod mlp;
mod moe;
pub mod parameters;
pub mod placeholders;
mod shape;
pub mod unit;

pub use graph::{Stream, UnitGraph, Value, ValueId, ValueIds};
pub use kernel::Kernel;
pub use parameters::UnitParameters;
pub use shape::Shape;
pub use unit::{LoweredUnit, Step, units};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What memory is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    Parameters,
    Gradients,
    Optimizer,
    Activations,
    Logits,
    Buffers,
    Overhead,
}

impl Category {
    /// All categories, in the order of reports.
    pub const ALL: [Self; 7] = [
        Self::Parameters,
        Self::Gradients,
        Self::Optimizer,
        Self::Activations,
        Self::Logits,
        Self::Buffers,
        Self::Overhead,
    ];

    /// The name in reports and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parameters => "parameters",
            Self::Gradients => "gradients",
            Self::Optimizer => "optimizer",
            Self::Activations => "activations",
            Self::Logits => "logits",
            Self::Buffers => "buffers",
            Self::Overhead => "overhead",
        }
    }
}
