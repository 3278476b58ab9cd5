//! The names that each Hugging Face family gives to its tensors.

use crate::model::graph::Model;
use crate::model::hugging_face::model_type;
use crate::model::layer::{Layer, LayerKind};
use crate::model::roles::Role;

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

type Rows = &'static [(Role, Form)];

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
    pub fn find(&self, layer: &Layer, role: Role) -> Option<(String, Form)> {
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
    embedding: &[(Role::Tokens, Whole("transformer.wte")), (Role::Positions, Whole("transformer.wpe"))],
    attention: &[
        (Role::Norm, Whole("ln_1")),
        (Role::Query, StackedTransposed("attn.c_attn")),
        (Role::Key, StackedTransposed("attn.c_attn")),
        (Role::Value, StackedTransposed("attn.c_attn")),
        (Role::Output, Transposed("attn.c_proj")),
    ],
    mlp: &[
        (Role::Norm, Whole("ln_2")),
        (Role::Up, Transposed("mlp.c_fc")),
        (Role::Down, Transposed("mlp.c_proj")),
    ],
    moe: &[],
    head: &[(Role::Norm, Whole("transformer.ln_f")), (Role::Vocabulary, Whole("lm_head"))],
};

const GPT_NEOX: Names = Names {
    blocks: "gpt_neox.layers",
    embedding: &[(Role::Tokens, Whole("gpt_neox.embed_in"))],
    attention: &[
        (Role::Norm, Whole("input_layernorm")),
        (Role::Query, ByHead("attention.query_key_value")),
        (Role::Key, ByHead("attention.query_key_value")),
        (Role::Value, ByHead("attention.query_key_value")),
        (Role::Output, Whole("attention.dense")),
    ],
    mlp: WIDE_MLP,
    moe: &[],
    head: &[(Role::Norm, Whole("gpt_neox.final_layer_norm")), (Role::Vocabulary, Whole("embed_out"))],
};

/// The MLP of GPT-NeoX, BLOOM and Falcon.
const WIDE_MLP: Rows = &[
    (Role::Norm, Whole("post_attention_layernorm")),
    (Role::Up, Whole("mlp.dense_h_to_4h")),
    (Role::Down, Whole("mlp.dense_4h_to_h")),
];

/// Norms after the residual add bear the same names as those before.
const OPT: Names = Names {
    blocks: "model.decoder.layers",
    embedding: &[
        (Role::Tokens, Whole("model.decoder.embed_tokens")),
        (Role::Widen, Whole("model.decoder.project_in")),
        (Role::Positions, Whole("model.decoder.embed_positions")),
    ],
    attention: &[
        (Role::Norm, Whole("self_attn_layer_norm")),
        (Role::Query, Whole("self_attn.q_proj")),
        (Role::Key, Whole("self_attn.k_proj")),
        (Role::Value, Whole("self_attn.v_proj")),
        (Role::Output, Whole("self_attn.out_proj")),
        (Role::ResidualNorm, Whole("self_attn_layer_norm")),
    ],
    mlp: &[
        (Role::Norm, Whole("final_layer_norm")),
        (Role::Up, Whole("fc1")),
        (Role::Down, Whole("fc2")),
        (Role::ResidualNorm, Whole("final_layer_norm")),
    ],
    moe: &[],
    head: &[
        (Role::Norm, Whole("model.decoder.final_layer_norm")),
        (Role::Narrow, Whole("model.decoder.project_out")),
        (Role::Vocabulary, Whole("lm_head")),
    ],
};

const BLOOM: Names = Names {
    blocks: "transformer.h",
    embedding: &[
        (Role::Tokens, Whole("transformer.word_embeddings")),
        (Role::Norm, Whole("transformer.word_embeddings_layernorm")),
    ],
    attention: &[
        (Role::Norm, Whole("input_layernorm")),
        (Role::Query, ByHead("self_attention.query_key_value")),
        (Role::Key, ByHead("self_attention.query_key_value")),
        (Role::Value, ByHead("self_attention.query_key_value")),
        (Role::Output, Whole("self_attention.dense")),
    ],
    mlp: WIDE_MLP,
    moe: &[],
    head: &[(Role::Norm, Whole("transformer.ln_f")), (Role::Vocabulary, Whole("lm_head"))],
};

const FALCON: Names = Names { embedding: &[(Role::Tokens, Whole("transformer.word_embeddings"))], ..BLOOM };

const FALCON_TWO_NORMS: Names = Names {
    attention: &[
        (Role::Norm, Whole("ln_attn")),
        (Role::Query, ByHead("self_attention.query_key_value")),
        (Role::Key, ByHead("self_attention.query_key_value")),
        (Role::Value, ByHead("self_attention.query_key_value")),
        (Role::Output, Whole("self_attention.dense")),
    ],
    mlp: &[
        (Role::Norm, Whole("ln_mlp")),
        (Role::Up, Whole("mlp.dense_h_to_4h")),
        (Role::Down, Whole("mlp.dense_4h_to_h")),
    ],
    ..FALCON
};

const MPT: Names = Names {
    blocks: "transformer.blocks",
    embedding: &[(Role::Tokens, Whole("transformer.wte")), (Role::Positions, Whole("transformer.wpe"))],
    attention: &[
        (Role::Norm, Whole("norm_1")),
        (Role::Query, Stacked("attn.Wqkv")),
        (Role::Key, Stacked("attn.Wqkv")),
        (Role::Value, Stacked("attn.Wqkv")),
        (Role::Output, Whole("attn.out_proj")),
    ],
    mlp: &[
        (Role::Norm, Whole("norm_2")),
        (Role::Up, Whole("ffn.up_proj")),
        (Role::Down, Whole("ffn.down_proj")),
    ],
    moe: &[],
    head: &[(Role::Norm, Whole("transformer.norm_f")), (Role::Vocabulary, Whole("lm_head"))],
};

const GATED: Form = Gated { gate: "mlp.gate_proj", up: "mlp.up_proj" };

const LLAMA: Names = Names {
    blocks: "model.layers",
    embedding: &[(Role::Tokens, Whole("model.embed_tokens"))],
    attention: &[
        (Role::Norm, Whole("input_layernorm")),
        (Role::Query, Whole("self_attn.q_proj")),
        (Role::Key, Whole("self_attn.k_proj")),
        (Role::Value, Whole("self_attn.v_proj")),
        (Role::QueryNorm, Whole("self_attn.q_norm")),
        (Role::KeyNorm, Whole("self_attn.k_norm")),
        (Role::Sinks, Bare("self_attn.sinks")),
        (Role::Output, Whole("self_attn.o_proj")),
        (Role::OutputNorm, Whole("post_attention_layernorm")),
    ],
    mlp: &[
        (Role::Norm, Whole("post_attention_layernorm")),
        (Role::Up, GATED),
        (Role::Down, Whole("mlp.down_proj")),
    ],
    moe: &[
        (Role::Norm, Whole("post_attention_layernorm")),
        (Role::Router, Whole("mlp.gate")),
        (Role::ExpertUp, Experts(&["mlp.experts.{}.gate_proj", "mlp.experts.{}.up_proj"])),
        (Role::ExpertDown, Experts(&["mlp.experts.{}.down_proj"])),
    ],
    head: &[(Role::Norm, Whole("model.norm")), (Role::Vocabulary, Whole("lm_head"))],
};

const GEMMA2: Names = Names {
    mlp: &[
        (Role::Norm, Whole("pre_feedforward_layernorm")),
        (Role::Up, GATED),
        (Role::Down, Whole("mlp.down_proj")),
        (Role::OutputNorm, Whole("post_feedforward_layernorm")),
    ],
    ..LLAMA
};

const MIXTRAL: Names = Names {
    moe: &[
        (Role::Norm, Whole("post_attention_layernorm")),
        (Role::Router, Whole("block_sparse_moe.gate")),
        (Role::ExpertUp, Experts(&["block_sparse_moe.experts.{}.w1", "block_sparse_moe.experts.{}.w3"])),
        (Role::ExpertDown, Experts(&["block_sparse_moe.experts.{}.w2"])),
    ],
    ..LLAMA
};

const PHI3: Names = Names {
    attention: &[
        (Role::Norm, Whole("input_layernorm")),
        (Role::Query, Stacked("self_attn.qkv_proj")),
        (Role::Key, Stacked("self_attn.qkv_proj")),
        (Role::Value, Stacked("self_attn.qkv_proj")),
        (Role::Output, Whole("self_attn.o_proj")),
    ],
    mlp: &[
        (Role::Norm, Whole("post_attention_layernorm")),
        (Role::Up, Whole("mlp.gate_up_proj")),
        (Role::Down, Whole("mlp.down_proj")),
    ],
    ..LLAMA
};
