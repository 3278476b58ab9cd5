//! The operands of calls that have many, one struct a kernel.

use std::ops::Range;

use super::view::{Columns, Factor, List, Target, View};
use crate::execute::kernels::attention::{Heads, KeyValues, Score, Window};
use crate::execute::kernels::norm::Norm;
use crate::execute::kernels::rotary::{HeadColumns, Turn};
use crate::lower::kernel::Into;
use crate::model::constants::RotaryScaling;
use crate::model::layer::Activation;

/// The dropout of rows of the residual stream; the step's number and seed are read from `scalars`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowDropout {
    pub rate: f64,
    /// Tells the dropouts of a step apart.
    pub site: u64,
    /// The first row of the micro-batch in the whole batch.
    pub start: u64,
    pub width: usize,
    pub scalars: View,
}

/// The dropout of attention probabilities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairDropout {
    pub rate: f64,
    pub site: u64,
    pub first_sequence: u64,
    /// Among all heads of the layer.
    pub first_head: u64,
    pub heads: u64,
    /// Tokens of a sequence.
    pub tokens: u64,
    pub scalars: View,
}

/// What queries see of keys, and how scores are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Core {
    pub batch: usize,
    pub heads: Heads,
    pub causal: bool,
    pub window: Option<u32>,
    pub queries: List,
    pub keys: List,
    pub score: Score,
    pub dropout: Option<PairDropout>,
}

/// A number of the step that a kernel multiplies by: in memory, or 1.
pub type Weight = Option<View>;

/// How AdamW updates; step, learning rate and clip factor are read from `scalars`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Update {
    pub betas: (f64, f64),
    pub epsilon: f64,
    pub weight_decay: f64,
    /// The head of the numbers of the step, followed by `losses` losses. A GPU updates nothing if one of them is not
    /// finite.
    pub scalars: View,
    pub losses: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NormCall {
    pub norm: Norm,
    pub input: View,
    pub weight: Option<View>,
    pub bias: Option<View>,
    pub output: View,
    pub statistics: Option<View>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NormGradientCall {
    pub norm: Norm,
    pub input: View,
    pub weight: Option<View>,
    pub statistics: Option<View>,
    /// None where it lies in `input_gradient`, which it is replaced by.
    pub output_gradient: Option<View>,
    pub input_gradient: Target,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NormWeightCall {
    pub norm: Norm,
    pub input: View,
    pub statistics: Option<View>,
    pub output_gradient: View,
    /// Gradients of weight and bias, one behind the other.
    pub gradient: Target,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Gemm {
    pub a: Factor,
    pub b: Factor,
    pub bias: Option<View>,
    pub output: Columns,
    pub write: Into,
    pub scratch: View,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RotaryCall {
    pub data: View,
    pub heads: HeadColumns,
    pub positions: List,
    pub turn: Turn,
    pub theta: f64,
    pub dim: usize,
    pub scaling: RotaryScaling,
}

/// What attention keeps of its probabilities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Probabilities {
    LogSumExp(View),
    /// All of them, and what dropout left, where there is dropout.
    Whole {
        all: View,
        kept: Option<View>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct AttentionCall {
    pub core: Core,
    pub queries: Window<View>,
    pub keys_values: KeyValues<View>,
    pub output: Target,
    pub probabilities: Probabilities,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AttentionGradientCall {
    pub core: Core,
    pub queries: Window<View>,
    pub keys_values: KeyValues<View>,
    pub output: View,
    pub output_gradient: View,
    pub probabilities: Probabilities,
    /// Scratch for the gradients of scores; none where probabilities are made again.
    pub scores: Option<View>,
    pub query_gradients: Window<View>,
    pub query_write: Into,
    pub key_value_gradients: KeyValues<View>,
    pub key_value_write: Into,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ActivationCall {
    pub function: Activation,
    pub input: Gated,
    pub output: View,
}

/// What an activation reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gated {
    No {
        up: View,
    },
    Apart {
        gate: View,
        up: View,
    },
    /// Gate and up are columns of one matrix, `width` each.
    Together {
        both: View,
        width: usize,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct ActivationGradientCall {
    pub function: Activation,
    pub output_gradient: View,
    pub input: Gated,
    /// As `input` is laid out.
    pub gradient: Gated,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ResidualCall {
    pub width: usize,
    pub stream: View,
    pub branch: View,
    pub bias: Option<View>,
    pub dropout: Option<RowDropout>,
    pub output: View,
}

/// How the slots of experts lie: blocks, one for each expert and group of tokens, of rows and then their weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    pub slots: usize,
    pub hidden: usize,
    /// Width inside one expert on this rank.
    pub width: usize,
}

impl Blocks {
    /// Elements inside one expert for a block.
    pub const fn inside(&self) -> usize {
        self.slots * self.width
    }

    /// Where the weights of block `block` lie among blocks of slots that carry them.
    pub const fn weights(&self, block: usize) -> Range<usize> {
        let length = self.slots * (self.hidden + 1);
        block * length + self.slots * self.hidden..(block + 1) * length
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct ExpertActivationCall {
    pub function: Activation,
    pub blocks: Blocks,
    pub gate: Option<View>,
    pub up: View,
    /// Slots with their weights.
    pub input: View,
    pub output: View,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ExpertActivationGradientCall {
    pub function: Activation,
    pub blocks: Blocks,
    pub output_gradient: View,
    pub gate: Option<View>,
    pub up: View,
    pub input: View,
    pub gate_gradient: Option<View>,
    pub up_gradient: View,
    /// Of the slots' weights only.
    pub input_gradient: View,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LossWeightCall {
    /// Squares of a gradient, and what its loss started with.
    pub of: (View, f64),
    pub own: (View, f64),
    pub weight: View,
    /// The loss, for an error.
    pub loss: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AdamWCall {
    pub update: Update,
    pub gradient: View,
    pub parameters: View,
    pub moments: [View; 2],
    /// What is updated where parameters are only rounded copies of it.
    pub master: Option<View>,
}
