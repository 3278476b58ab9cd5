//! The names that each Hugging Face family gives to its tensors.

use crate::model::graph::Model;
use crate::model::hugging_face::model_type;
use crate::model::layer::{Layer, LayerKind};

/// How a family stores a parameter; the strings are stems, to which `.weight` or `.bias` is appended.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// One tensor, as it is.
    Whole(&'static str),
    /// One tensor, whose name is not appended to.
    Bare(&'static str),
    /// Stored the other way round (GPT-2's Conv1D: inputs × outputs).
    Transposed(&'static str),
    /// Gate rows in one tensor, up rows in another.
    Gated { gate: &'static str, up: &'static str },
    /// Tensors of each expert, whose number replaces `{}`: gate and up, or one.
    Experts(&'static [&'static str]),
    /// Queries, keys and values one behind the other in one tensor.
    Stacked(&'static str),
    /// The same, stored the other way round.
    StackedTransposed(&'static str),
    /// For each key-value head its queries, its key and its value, in one tensor.
    ByHead(&'static str),
}

use Form::{Bare, ByHead, Experts, Gated, Stacked, StackedTransposed, Transposed, Whole};

type Rows = &'static [(&'static str, Form)];

/// The names of one family: what stands before the number of a block, and forms by role.
pub(super) struct Names {
    blocks: &'static str,
    embedding: Rows,
    attention: Rows,
    mlp: Rows,
    moe: Rows,
    head: Rows,
}

impl Names {
    /// The names of the family that the model was imported from; none for a layer graph of one's own.
    pub fn of(model: &Model) -> Option<&'static Self> {
        Some(match model_type(model.config.as_ref()?)? {
            "gpt2" => &GPT2,
            "gpt_neox" => &GPT_NEOX,
            "opt" => &OPT,
            "bloom" => &BLOOM,
            "mpt" => &MPT,
            "falcon" if norms_apart(model) => &FALCON_TWO_NORMS,
            "falcon" => &FALCON,
            "llama" | "mistral" | "qwen2" | "qwen3" | "qwen3_moe" | "gemma" => &LLAMA,
            "gemma2" | "gemma3" | "gemma3_text" => &GEMMA2,
            "mixtral" => &MIXTRAL,
            "phi3" => &PHI3,
            _ => return None,
        })
    }

    /// What stands before the stem of a parameter's name (a block's prefix, or nothing), and its form.
    pub fn find(&self, layer: &Layer, role: &str) -> Option<(String, Form)> {
        let rows = match layer.kind {
            LayerKind::Embedding(_) => self.embedding,
            LayerKind::Attention(_) => self.attention,
            LayerKind::Mlp(_) => self.mlp,
            LayerKind::Moe(_) => self.moe,
            LayerKind::Head(_) => self.head,
            LayerKind::Loss(_) => return None,
        };
        let (_, form) = rows.iter().find(|(name, _)| *name == role)?;
        let prefix = layer.block.map_or_else(String::new, |block| format!("{}.{block}.", self.blocks));
        Some((prefix, *form))
    }
}

/// Whether a parallel block of Falcon norms twice.
fn norms_apart(model: &Model) -> bool {
    (0..model.layers().len()).any(|index| match &model.layer(index).kind {
        LayerKind::Mlp(mlp) => mlp.norm.is_some() && model.inputs(index).len() == 2,
        _ => false,
    })
}

const GPT2: Names = Names {
    blocks: "transformer.h",
    embedding: &[("tokens", Whole("transformer.wte")), ("positions", Whole("transformer.wpe"))],
    attention: &[
        ("norm", Whole("ln_1")),
        ("query", StackedTransposed("attn.c_attn")),
        ("key", StackedTransposed("attn.c_attn")),
        ("value", StackedTransposed("attn.c_attn")),
        ("output", Transposed("attn.c_proj")),
    ],
    mlp: &[("norm", Whole("ln_2")), ("up", Transposed("mlp.c_fc")), ("down", Transposed("mlp.c_proj"))],
    moe: &[],
    head: &[("norm", Whole("transformer.ln_f")), ("vocabulary", Whole("lm_head"))],
};

const GPT_NEOX: Names = Names {
    blocks: "gpt_neox.layers",
    embedding: &[("tokens", Whole("gpt_neox.embed_in"))],
    attention: &[
        ("norm", Whole("input_layernorm")),
        ("query", ByHead("attention.query_key_value")),
        ("key", ByHead("attention.query_key_value")),
        ("value", ByHead("attention.query_key_value")),
        ("output", Whole("attention.dense")),
    ],
    mlp: WIDE_MLP,
    moe: &[],
    head: &[("norm", Whole("gpt_neox.final_layer_norm")), ("vocabulary", Whole("embed_out"))],
};

/// The MLP of GPT-NeoX, BLOOM and Falcon.
const WIDE_MLP: Rows = &[
    ("norm", Whole("post_attention_layernorm")),
    ("up", Whole("mlp.dense_h_to_4h")),
    ("down", Whole("mlp.dense_4h_to_h")),
];

/// Norms after the residual add bear the same names as those before.
const OPT: Names = Names {
    blocks: "model.decoder.layers",
    embedding: &[
        ("tokens", Whole("model.decoder.embed_tokens")),
        ("widen", Whole("model.decoder.project_in")),
        ("positions", Whole("model.decoder.embed_positions")),
    ],
    attention: &[
        ("norm", Whole("self_attn_layer_norm")),
        ("query", Whole("self_attn.q_proj")),
        ("key", Whole("self_attn.k_proj")),
        ("value", Whole("self_attn.v_proj")),
        ("output", Whole("self_attn.out_proj")),
        ("residual norm", Whole("self_attn_layer_norm")),
    ],
    mlp: &[
        ("norm", Whole("final_layer_norm")),
        ("up", Whole("fc1")),
        ("down", Whole("fc2")),
        ("residual norm", Whole("final_layer_norm")),
    ],
    moe: &[],
    head: &[
        ("norm", Whole("model.decoder.final_layer_norm")),
        ("narrow", Whole("model.decoder.project_out")),
        ("vocabulary", Whole("lm_head")),
    ],
};

const BLOOM: Names = Names {
    blocks: "transformer.h",
    embedding: &[
        ("tokens", Whole("transformer.word_embeddings")),
        ("norm", Whole("transformer.word_embeddings_layernorm")),
    ],
    attention: &[
        ("norm", Whole("input_layernorm")),
        ("query", ByHead("self_attention.query_key_value")),
        ("key", ByHead("self_attention.query_key_value")),
        ("value", ByHead("self_attention.query_key_value")),
        ("output", Whole("self_attention.dense")),
    ],
    mlp: WIDE_MLP,
    moe: &[],
    head: &[("norm", Whole("transformer.ln_f")), ("vocabulary", Whole("lm_head"))],
};

const FALCON: Names = Names { embedding: &[("tokens", Whole("transformer.word_embeddings"))], ..BLOOM };

const FALCON_TWO_NORMS: Names = Names {
    attention: &[
        ("norm", Whole("ln_attn")),
        ("query", ByHead("self_attention.query_key_value")),
        ("key", ByHead("self_attention.query_key_value")),
        ("value", ByHead("self_attention.query_key_value")),
        ("output", Whole("self_attention.dense")),
    ],
    mlp: &[
        ("norm", Whole("ln_mlp")),
        ("up", Whole("mlp.dense_h_to_4h")),
        ("down", Whole("mlp.dense_4h_to_h")),
    ],
    ..FALCON
};

const MPT: Names = Names {
    blocks: "transformer.blocks",
    embedding: &[("tokens", Whole("transformer.wte")), ("positions", Whole("transformer.wpe"))],
    attention: &[
        ("norm", Whole("norm_1")),
        ("query", Stacked("attn.Wqkv")),
        ("key", Stacked("attn.Wqkv")),
        ("value", Stacked("attn.Wqkv")),
        ("output", Whole("attn.out_proj")),
    ],
    mlp: &[("norm", Whole("norm_2")), ("up", Whole("ffn.up_proj")), ("down", Whole("ffn.down_proj"))],
    moe: &[],
    head: &[("norm", Whole("transformer.norm_f")), ("vocabulary", Whole("lm_head"))],
};

const GATED: Form = Gated { gate: "mlp.gate_proj", up: "mlp.up_proj" };

const LLAMA: Names = Names {
    blocks: "model.layers",
    embedding: &[("tokens", Whole("model.embed_tokens"))],
    attention: &[
        ("norm", Whole("input_layernorm")),
        ("query", Whole("self_attn.q_proj")),
        ("key", Whole("self_attn.k_proj")),
        ("value", Whole("self_attn.v_proj")),
        ("query norm", Whole("self_attn.q_norm")),
        ("key norm", Whole("self_attn.k_norm")),
        ("sinks", Bare("self_attn.sinks")),
        ("output", Whole("self_attn.o_proj")),
        ("output norm", Whole("post_attention_layernorm")),
    ],
    mlp: &[("norm", Whole("post_attention_layernorm")), ("up", GATED), ("down", Whole("mlp.down_proj"))],
    moe: &[
        ("norm", Whole("post_attention_layernorm")),
        ("router", Whole("mlp.gate")),
        ("expert up", Experts(&["mlp.experts.{}.gate_proj", "mlp.experts.{}.up_proj"])),
        ("expert down", Experts(&["mlp.experts.{}.down_proj"])),
    ],
    head: &[("norm", Whole("model.norm")), ("vocabulary", Whole("lm_head"))],
};

const GEMMA2: Names = Names {
    mlp: &[
        ("norm", Whole("pre_feedforward_layernorm")),
        ("up", GATED),
        ("down", Whole("mlp.down_proj")),
        ("output norm", Whole("post_feedforward_layernorm")),
    ],
    ..LLAMA
};

const MIXTRAL: Names = Names {
    moe: &[
        ("norm", Whole("post_attention_layernorm")),
        ("router", Whole("block_sparse_moe.gate")),
        ("expert up", Experts(&["block_sparse_moe.experts.{}.w1", "block_sparse_moe.experts.{}.w3"])),
        ("expert down", Experts(&["block_sparse_moe.experts.{}.w2"])),
    ],
    ..LLAMA
};

const PHI3: Names = Names {
    attention: &[
        ("norm", Whole("input_layernorm")),
        ("query", Stacked("self_attn.qkv_proj")),
        ("key", Stacked("self_attn.qkv_proj")),
        ("value", Stacked("self_attn.qkv_proj")),
        ("output", Whole("self_attn.o_proj")),
    ],
    mlp: &[
        ("norm", Whole("post_attention_layernorm")),
        ("up", Whole("mlp.gate_up_proj")),
        ("down", Whole("mlp.down_proj")),
    ],
    ..LLAMA
};
