//! What a device is asked to do: kernels, copies, collectives and messages, each with all its operands in their places.
//!
//! An instruction of a program becomes calls once, before a run ([`crate::execute::bind`]). A call names memory by views
//! and never by pointers, so it means the same on every device.

mod exchange;
mod memory;
mod operands;
mod view;

pub use exchange::{Exchange, HeadExchange, HeadRun};
pub use operands::*;
pub use view::{Columns, Factor, Indices, List, Lists, Space, Target, View};

use crate::execute::kernels::cross_entropy::Shard;
use crate::execute::kernels::quantise::Bits;
use crate::execute::kernels::routing::{Carried, Router};
use crate::lower::Kernel;
use crate::ops::Group;
use crate::program::instruction::Message;

/// One thing that a device does. Operands are named by what they are to the kernel.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// Rows `indices` of `table`, whose first row is number `first_row`; others are zero.
    Embed {
        table: View,
        first_row: usize,
        width: usize,
        indices: Indices,
        output: Target,
    },
    /// Adds rows to those of the table's gradient.
    EmbedGradient {
        indices: Indices,
        output_gradient: View,
        table: View,
        first_row: usize,
        width: usize,
    },
    Norm(Box<NormCall>),
    NormGradient(Box<NormGradientCall>),
    NormWeight(Box<NormWeightCall>),
    /// output (=|+=) a · b (+ bias).
    Gemm(Box<Gemm>),
    /// bias (=|+=) the sums of the columns of the output's gradient.
    BiasGradient {
        output_gradient: Columns,
        bias: Target,
    },
    Rotary(Box<RotaryCall>),
    /// Columns of one matrix become those of another.
    CopyColumns {
        from: Columns,
        to: Columns,
    },
    Attention(Box<AttentionCall>),
    AttentionGradient(Box<AttentionGradientCall>),
    Activation(Box<ActivationCall>),
    ActivationGradient(Box<ActivationGradientCall>),
    /// output = stream + dropout(branch + bias).
    Residual(Box<ResidualCall>),
    /// Drops out elements in place.
    Dropout {
        dropout: RowDropout,
        data: View,
    },
    Copy {
        from: View,
        to: View,
    },
    Add {
        from: View,
        to: View,
    },
    Zero {
        to: View,
    },
    /// Memory that nobody may read before it is written is filled with values that are not numbers.
    Poison {
        to: View,
    },
    /// data *= weight.
    Scale {
        weight: Weight,
        data: View,
    },
    /// to += weight · from.
    AddScaled {
        weight: Weight,
        from: View,
        to: View,
    },
    Quantise {
        bits: Bits,
        from: View,
        to: View,
    },
    Dequantise {
        bits: Bits,
        from: View,
        to: View,
    },
    /// Logits of the router become the weights of the experts that each token goes to.
    Route {
        router: Router,
        logits: View,
    },
    ToSlots {
        router: Router,
        assigned: View,
        tokens: View,
        slots: View,
        carried: Carried,
    },
    /// Tokens that no expert took are zero.
    FromSlots {
        router: Router,
        assigned: View,
        slots: View,
        tokens: View,
        carried: Carried,
    },
    RouterGradient {
        router: Router,
        assigned: View,
        slots: View,
        width: usize,
        gradient: View,
    },
    ExpertActivation(Box<ExpertActivationCall>),
    ExpertActivationGradient(Box<ExpertActivationGradientCall>),
    CrossEntropy {
        shard: Shard,
        logits: View,
        targets: View,
        statistics: View,
    },
    /// Statistics of all shards of a row become those of the row.
    MergeStatistics {
        shards: View,
        statistics: View,
    },
    /// Adds the losses of all rows to a number of the step.
    AddLoss {
        statistics: View,
        loss: View,
    },
    CrossEntropyGradient {
        shard: Shard,
        logits: View,
        targets: View,
        statistics: View,
        scale: f64,
    },
    /// Adds the squares of `values`, divided by `width`, to a number of the step.
    SquaredError {
        values: View,
        width: usize,
        loss: View,
    },
    SquaredErrorGradient {
        values: View,
        gradient: View,
        scale: f64,
    },
    /// Σ x² of all `parts`, in bins.
    Squares {
        parts: Box<[View]>,
        squares: View,
    },
    /// What gradients are multiplied by so that their norm is at most `limit`.
    ClipFactor {
        squares: View,
        limit: f64,
        clip: View,
    },
    /// The weight of a loss by the norms of two gradients, each divided by what its loss started with.
    LossWeight(Box<LossWeightCall>),
    /// A number of the step that is known before.
    SetNumber {
        number: f64,
        to: View,
    },
    AdamW(Box<AdamWCall>),
    Collective {
        group: Group,
        exchange: Exchange,
    },
    Send {
        to: usize,
        message: Message,
        micro: u32,
        from: View,
        inbox: View,
    },
    Receive {
        from: usize,
        message: Message,
        micro: u32,
        inbox: View,
        to: View,
    },
    /// Ends the run if a number is not finite.
    Check {
        values: View,
        kernel: Kernel,
        layer: Box<str>,
    },
}
