//! The layers that models are made of, with every number that shapes their parameters, time and memory.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One node of a layer graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// Unique in its graph, e.g. `block 3 attention`.
    pub name: String,
    /// The transformer block this layer belongs to, counted from 0 in model order; none for embedding, head
    /// and loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<u32>,
    /// A frozen layer has no weight gradient and no optimizer state.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub frozen: bool,
    pub kind: LayerKind,
}

/// What a layer computes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LayerKind {
    Embedding(Embedding),
    Attention(Attention),
    Mlp(Mlp),
    Moe(Moe),
    Head(Head),
    Loss(LossFunction),
}

/// Token table, learned positions and what follows them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Embedding {
    pub vocabulary: u64,
    pub hidden: u64,
    /// Rows of the learned position table (GPT-2: 1024; OPT: 2050); 0 for none.
    #[serde(default)]
    pub positions: u64,
    /// A norm right after the table (BLOOM).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm: Option<Norm>,
    /// Width of the table where it differs from `hidden` (OPT-350m); a linear layer without bias widens it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table_width: Option<u64>,
}

/// A norm over the last dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Norm {
    pub kind: NormKind,
    /// Elements that are normalised together.
    pub width: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NormKind {
    /// Layer norm with weight and bias.
    Layer,
    /// Layer norm with a weight and no bias (MPT).
    LayerWithoutBias,
    /// Root-mean-square norm with a weight.
    Rms,
    /// Layer norm without parameters.
    Plain,
}

/// Norm, projections, attention core, output projection and residual add.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Attention {
    pub hidden: u64,
    pub heads: u64,
    pub projection: Projection,
    /// Norm on the way in; none where another layer's norm is shared (Falcon's parallel block).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm: Option<Norm>,
    /// Norm on the way out, before the residual add (Gemma 2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_norm: Option<Norm>,
    /// Norm of the sum after the residual add (OPT-350m's post-norm).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residual_norm: Option<Norm>,
    /// Norm of queries and keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query_key_norm: Option<NormKind>,
    /// What that norm spans.
    #[serde(default, skip_serializing_if = "NormSpan::is_head")]
    pub query_key_span: NormSpan,
    /// Bias on the query, key and value projections.
    #[serde(default)]
    pub input_bias: bool,
    /// Bias on the output projection.
    #[serde(default)]
    pub output_bias: bool,
    pub position: Position,
    /// Keys a query sees, where a sliding window limits them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// Scores pass through a soft cap (Gemma 2).
    #[serde(default)]
    pub soft_cap: bool,
    /// One learned sink a head (gpt-oss).
    #[serde(default)]
    pub sinks: bool,
    /// False where every query sees every key.
    #[serde(default = "yes")]
    pub causal: bool,
}

/// Over what queries and keys are normalised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NormSpan {
    /// Each head by itself (Qwen 3).
    #[default]
    Head,
    /// All heads together (OLMo 2).
    AllHeads,
}

impl NormSpan {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
    fn is_head(&self) -> bool {
        *self == Self::Head
    }
}

/// How queries, keys and values are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Projection {
    /// Multi-head, grouped-query (`kv_heads` < heads) or multi-query (`kv_heads` = 1) attention.
    Grouped { kv_heads: u64, head_dim: u64 },
    /// Multi-head latent attention (DeepSeek-V2): keys and values come from a low-rank latent.
    Latent {
        /// Rank of the query latent; none projects queries directly.
        query_rank: Option<u64>,
        key_value_rank: u64,
        /// Part of a query/key head without rotary positions.
        plain_dim: u64,
        /// Part of a query/key head with rotary positions; its key is shared by all heads.
        rotary_dim: u64,
        value_dim: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Position {
    /// None here: learned positions at the embedding, or none at all.
    None,
    Rotary,
    Alibi,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// The exact GELU.
    Gelu,
    /// Its tanh form (`gelu_new`, `gelu_pytorch_tanh`).
    GeluTanh,
    Silu,
    Relu,
    Relu2,
}

/// Norm, up projection(s), activation, down projection and residual add.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mlp {
    pub hidden: u64,
    pub intermediate: u64,
    /// Two up projections, one of them through the activation (SwiGLU, GeGLU).
    #[serde(default)]
    pub gated: bool,
    pub activation: Activation,
    #[serde(default)]
    pub bias: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm: Option<Norm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_norm: Option<Norm>,
    /// Norm of the sum after the residual add (OPT-350m's post-norm).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residual_norm: Option<Norm>,
}

/// Norm, router, routed experts, shared experts and residual add.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Moe {
    pub hidden: u64,
    pub experts: u64,
    /// Experts a token is sent to.
    pub top_k: u64,
    /// Width inside one routed expert.
    pub intermediate: u64,
    /// Width of the shared experts taken together; 0 for none.
    #[serde(default)]
    pub shared_intermediate: u64,
    /// A gate of `hidden` weights on the shared expert (Qwen 2 MoE).
    #[serde(default)]
    pub shared_gate: bool,
    #[serde(default)]
    pub gated: bool,
    pub activation: Activation,
    /// Biases inside the experts (gpt-oss).
    #[serde(default)]
    pub bias: bool,
    /// A bias on the router's logits that is a trained parameter (gpt-oss).
    #[serde(default)]
    pub router_bias: bool,
    /// Norm on the way in; none where attention's is shared (Cohere 2 MoE).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm: Option<Norm>,
    /// Norm on the way out, before the residual add (FlexOlmo).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_norm: Option<Norm>,
}

/// Final norm and the projection to the vocabulary.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Head {
    pub hidden: u64,
    pub vocabulary: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm: Option<Norm>,
    /// The matrix is the embedding's table.
    #[serde(default)]
    pub tied: bool,
    #[serde(default)]
    pub bias: bool,
    /// Logits pass through a soft cap (Gemma 2).
    #[serde(default)]
    pub soft_cap: bool,
    /// Width of the matrix where it differs from `hidden` (OPT-350m); a linear layer without bias narrows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table_width: Option<u64>,
    /// Times that each token goes through it: 1, and one more for each multi-token prediction layer.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub passes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LossFunction {
    /// Mean cross-entropy over the vocabulary; its input is a head.
    CrossEntropy,
    /// Mean squared error over its input's width.
    MeanSquaredError,
}

const fn yes() -> bool {
    true
}

const fn one() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_one(number: &u64) -> bool {
    *number == 1
}

impl LayerKind {
    /// The word for this kind in messages and files.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Embedding(_) => "embedding",
            Self::Attention(_) => "attention",
            Self::Mlp(_) => "mlp",
            Self::Moe(_) => "moe",
            Self::Head(_) => "head",
            Self::Loss(_) => "loss",
        }
    }
}

impl Attention {
    /// Elements of one query (and key) head.
    pub const fn query_dim(&self) -> u64 {
        match self.projection {
            Projection::Grouped { head_dim, .. } => head_dim,
            Projection::Latent { plain_dim, rotary_dim, .. } => plain_dim + rotary_dim,
        }
    }

    /// Elements of one value head.
    pub const fn value_dim(&self) -> u64 {
        match self.projection {
            Projection::Grouped { head_dim, .. } => head_dim,
            Projection::Latent { value_dim, .. } => value_dim,
        }
    }

    /// Heads of keys and values; latent attention expands its latent to all heads.
    pub const fn kv_heads(&self) -> u64 {
        match self.projection {
            Projection::Grouped { kv_heads, .. } => kv_heads,
            Projection::Latent { .. } => self.heads,
        }
    }
}
