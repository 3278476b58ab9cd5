//! What the layers of a family are, as data: norms, biases, positions, windows and experts, for one builder to read.

mod build;
mod experts;
mod positions;

pub(super) use build::build;

use crate::model::layer::{NormKind, NormSpan};

/// The layers of one family. Every field that it names is one of the family's fields, in its usual spelling.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub norm: NormKind,
    pub norms: Norms,
    pub projection: Heads,
    /// Biases of queries, keys and values.
    pub input_bias: Switch,
    pub output_bias: Switch,
    pub query_key: Option<QueryKey>,
    pub sinks: bool,
    pub position: Positions,
    pub unrotated: Unrotated,
    pub windows: Windows,
    pub gated: bool,
    pub width: Width,
    pub mlp_bias: Switch,
    pub experts: Option<Experts>,
    pub head_bias: Switch,
    /// The field of the norms' epsilon, and what it is where that is left out.
    pub epsilon: (&'static str, f64),
    /// The base of rotary positions where the file says none.
    pub theta: f64,
    /// The share of a head that is rotated where the file says none.
    pub share: f64,
    /// Rotary positions turn neighbouring elements.
    pub interleaved: bool,
    /// What it computes otherwise than its layers say; sizes and costs are theirs.
    pub otherwise: Option<&'static str>,
}

/// Where the norms of a block stand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Norms {
    Before,
    /// On what attention and MLP return (OLMo 2).
    Behind,
    /// On both ends of both (Gemma 2), if the switch is on; else before.
    Around(Switch),
    /// Before both, and behind experts alone (A.X K1).
    BehindExperts,
    /// Behind the residual adds, with none at the end of the model (GPT).
    OfSums,
    /// Attention and MLP stand side by side and read one norm (GPT-J, Cohere).
    Shared,
}

/// A choice that a family leaves to a field, or not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Switch {
    Off,
    On,
    Field(&'static str),
    /// On in the last block alone (GPT-NeoX Japanese).
    Last,
}

/// How queries, keys and values are made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Heads {
    Grouped,
    /// One key-value head if the flag is set, else as many as query heads (GPT BigCode).
    OneIf(&'static str),
    Latent,
}

/// Norms of queries and keys.
#[derive(Clone, Copy)]
pub(super) struct QueryKey {
    pub kind: NormKind,
    pub span: NormSpan,
    pub when: Switch,
    /// Only where queries and keys are rotated (Llama 4).
    pub rotated: bool,
}

/// How a token's place enters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Positions {
    Rotary,
    /// A learned table of `max_position_embeddings` rows and so many more.
    Learned(u64),
    /// A table that is computed and not learned.
    Sinusoidal,
}

/// Layers without rotary positions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unrotated {
    None,
    /// Those with a 0 in `no_rope_layers`; without the list, every `no_rope_layer_interval`-th.
    Listed,
    /// Those that see everything, if others have a window (EXAONE 4).
    WithoutWindow,
    /// The same, whether or not others have a window (Cohere 2).
    Full,
}

/// Which layers have the window of `sliding_window` where `layer_types` is not given.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Windows {
    Never,
    /// None: only `layer_types` says so.
    Listed,
    /// It must be given.
    Required,
    All,
    /// All but every n-th.
    AllBut(u64),
    /// All but every n-th, n being `sliding_window_pattern`.
    AllButPattern,
    /// All but the first of each n.
    AllButFirst(u64),
    /// Those that are not rotated, if `use_sliding_window` (SmolLM 3).
    Unrotated,
    /// Those that are rotated: attention in chunks of `attention_chunk_size` (Llama 4).
    Chunks,
}

/// The width inside a dense MLP.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// `intermediate_size`.
    Given,
    /// `intermediate_size`, or where it is not given four times the model's.
    OrFourTimes,
    /// `intermediate_multiple_size` times the model's.
    Multiple,
    /// Half of `intermediate_size`, which counts gate and up together (Moshi, Qwen 1).
    Half,
    /// That of the field.
    Of(&'static str),
}

/// Routed experts.
#[derive(Clone, Copy)]
pub(super) struct Experts {
    /// The field of the width of one.
    pub width: &'static str,
    pub shared: Shared,
    pub shared_gate: bool,
    pub sparse: Sparse,
}

/// The width of the experts that every token goes through, taken together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shared {
    None,
    /// So many as the field says, each as wide as a routed one.
    Count(&'static str),
    /// As wide as the field says.
    Width(&'static str),
    /// One that is as wide as a routed one.
    One,
}

/// Which blocks have experts, where `mlp_layer_types` does not say.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sparse {
    All,
    /// All but the first `first_k_dense_replace`.
    Behind,
    /// All but the first so many.
    BehindFirst(u64),
    /// Every `decoder_sparse_step`-th but those of `mlp_only_layers`, or where that is not given the first so many.
    Steps(u64),
    /// Every `moe_layer_interval`-th from `moe_layer_start_index` to `moe_layer_end_index` (ERNIE 4.5).
    Between,
    /// Those of `moe_layers`, or every `interleave_moe_layer_step`-th (Llama 4).
    Interleaved,
}

/// RMS norms before attention and a gated MLP, rotary positions, no biases but those that a file asks for.
pub(super) const LLAMA: Shape = Shape {
    norm: NormKind::Rms,
    norms: Norms::Before,
    projection: Heads::Grouped,
    input_bias: Switch::Field("attention_bias"),
    output_bias: Switch::Field("attention_bias"),
    query_key: None,
    sinks: false,
    position: Positions::Rotary,
    unrotated: Unrotated::None,
    windows: Windows::Never,
    gated: true,
    width: Width::Given,
    mlp_bias: Switch::Off,
    experts: None,
    head_bias: Switch::Off,
    epsilon: ("rms_norm_eps", 1e-6),
    theta: 10_000.0,
    share: 1.0,
    interleaved: false,
    otherwise: None,
};

/// Layer norms before attention and a plain MLP, biases everywhere, learned positions.
pub(super) const GPT: Shape = Shape {
    norm: NormKind::Layer,
    input_bias: Switch::On,
    output_bias: Switch::On,
    position: Positions::Learned(0),
    gated: false,
    width: Width::OrFourTimes,
    mlp_bias: Switch::On,
    epsilon: ("layer_norm_epsilon", 1e-5),
    ..LLAMA
};

/// Norms of each head of queries and keys by itself.
pub(super) const HEAD_NORMS: Option<QueryKey> =
    Some(QueryKey { kind: NormKind::Rms, span: NormSpan::Head, when: Switch::On, rotated: false });

/// Norms over all heads of queries, and over all of keys.
pub(super) const ALL_HEADS_NORMS: Option<QueryKey> =
    Some(QueryKey { kind: NormKind::Rms, span: NormSpan::AllHeads, when: Switch::On, rotated: false });

/// Routed experts of `moe_intermediate_size` in every block.
pub(super) const EXPERTS: Experts =
    Experts { width: "moe_intermediate_size", shared: Shared::None, shared_gate: false, sparse: Sparse::All };
