//! The families with layer norms and plain MLPs: GPT-2, GPT-NeoX, OPT, BLOOM, Falcon, MPT, StarCoder 2.

use super::config::{Config, shortened};
use super::windows::{Pattern, windows};
use crate::model::decoder::{Block, Decoder, FeedForward, Residual};
use crate::model::error::ModelError;
use crate::model::layer::{
    Activation, Attention, Embedding, Head, Mlp, Norm, NormKind, NormSpan, Position, Projection,
};
use crate::model::sizes::kv_heads_divide;

type Built = Result<Decoder, ModelError>;

/// What the families of this file share: one norm kind, one width, biases everywhere or nowhere.
struct Plain {
    hidden: u64,
    vocabulary: u64,
    layers: u64,
    norm: NormKind,
    bias: bool,
    tied: bool,
    max_sequence: Option<u64>,
}

impl Plain {
    fn norm(&self) -> Option<Norm> {
        Some(Norm { kind: self.norm, width: self.hidden })
    }

    fn attention(&self, heads: u64, kv_heads: u64, head_dim: u64, position: Position) -> Attention {
        Attention {
            hidden: self.hidden,
            heads,
            projection: Projection::Grouped { kv_heads, head_dim },
            norm: self.norm(),
            output_norm: None,
            residual_norm: None,
            query_key_norm: None,
            query_key_span: NormSpan::Head,
            input_bias: self.bias,
            output_bias: self.bias,
            position,
            window: None,
            soft_cap: false,
            sinks: false,
            causal: true,
        }
    }

    fn mlp(&self, intermediate: u64, activation: Activation) -> Mlp {
        Mlp {
            hidden: self.hidden,
            intermediate,
            gated: false,
            activation,
            bias: self.bias,
            norm: self.norm(),
            output_norm: None,
            residual_norm: None,
        }
    }

    /// Equal blocks between an embedding with `positions` learned positions and a head.
    fn decoder(&self, positions: u64, attention: Attention, mlp: Mlp, residual: Residual) -> Decoder {
        let Self { hidden, vocabulary, .. } = *self;
        let block = |_| Block {
            projection: None,
            attention: attention.clone(),
            feed_forward: FeedForward::Dense(mlp.clone()),
            residual,
        };
        Decoder {
            embedding: Embedding { vocabulary, hidden, positions, norm: None, table_width: None },
            blocks: (0..self.layers).map(block).collect(),
            head: Head {
                hidden,
                vocabulary,
                norm: self.norm(),
                tied: self.tied,
                bias: false,
                soft_cap: false,
                table_width: None,
                passes: 1,
            },
            max_sequence: self.max_sequence,
        }
    }
}

fn plain(config: &Config<'_>, sequence: &'static str) -> Result<Plain, ModelError> {
    Ok(Plain {
        hidden: config.size("hidden_size")?,
        vocabulary: config.size("vocab_size")?,
        layers: config.layers()?,
        norm: NormKind::Layer,
        bias: true,
        tied: config.flag("tie_word_embeddings")?,
        max_sequence: config.optional_size(sequence)?,
    })
}

/// Multi-head attention whose heads share out the width.
fn full_attention(config: &Config<'_>, plain: &Plain, position: Position) -> Result<Attention, ModelError> {
    let heads = config.heads()?;
    Ok(plain.attention(heads, heads, config.head_dim(plain.hidden, heads)?, position))
}

pub(super) fn gpt2(config: &Config<'_>) -> Built {
    let plain = plain(config, "max_position_embeddings")?;
    let positions = config.size("max_position_embeddings")?;
    let attention = full_attention(config, &plain, Position::None)?;
    let intermediate = config.optional_size("n_inner")?.unwrap_or(4 * plain.hidden);
    let mlp = plain.mlp(intermediate, config.activation(&["activation_function"])?);
    Ok(plain.decoder(positions, attention, mlp, Residual::Sequential))
}

pub(super) fn gpt_neox(config: &Config<'_>) -> Built {
    let plain = plain(config, "max_position_embeddings")?;
    let bias = config.flag("attention_bias")?;
    let attention = full_attention(config, &plain, Position::Rotary)?;
    let attention = Attention { input_bias: bias, output_bias: bias, ..attention };
    let mlp = plain.mlp(config.size("intermediate_size")?, config.activation(&["hidden_act"])?);
    let parallel = config.flag("use_parallel_residual")?;
    let residual = if parallel { Residual::Parallel } else { Residual::Sequential };
    Ok(plain.decoder(0, attention, mlp, residual))
}

/// Grouped queries, biases everywhere or nowhere, but always in the norms.
pub(super) fn starcoder2(config: &Config<'_>) -> Built {
    let plain = Plain { bias: config.flag("use_bias")?, ..plain(config, "max_position_embeddings")? };
    let heads = config.heads()?;
    let kv_heads = config.optional_size("num_key_value_heads")?.unwrap_or(heads);
    kv_heads_divide("num_key_value_heads", kv_heads, heads)?;
    let head_dim = config.head_dim(plain.hidden, heads)?;
    let attention = plain.attention(heads, kv_heads, head_dim, Position::Rotary);
    let mlp = plain.mlp(config.size("intermediate_size")?, config.activation(&["hidden_act"])?);
    let mut decoder = plain.decoder(0, attention, mlp, Residual::Sequential);
    for (block, window) in decoder.blocks.iter_mut().zip(windows(config, plain.layers, Pattern::All)?) {
        block.attention.window = window;
    }
    Ok(decoder)
}

/// OPT's position table has two rows more than positions; the 350m model norms after the residual add and
/// keeps its table narrower than the model.
pub(super) fn opt(config: &Config<'_>) -> Built {
    let affine = config.flag("layer_norm_elementwise_affine")?;
    let plain = Plain {
        norm: if affine { NormKind::Layer } else { NormKind::Plain },
        bias: config.flag("enable_bias")?,
        ..plain(config, "max_position_embeddings")?
    };
    let positions = config.size("max_position_embeddings")? + 2;
    let mut attention = full_attention(config, &plain, Position::None)?;
    let mut mlp = plain.mlp(config.size("ffn_dim")?, config.activation(&["activation_function"])?);
    let norm_before = config.flag("do_layer_norm_before")?;
    if !norm_before {
        (attention.norm, attention.residual_norm) = (None, plain.norm());
        (mlp.norm, mlp.residual_norm) = (None, plain.norm());
    }
    let mut decoder = plain.decoder(positions, attention, mlp, Residual::Sequential);
    if !norm_before || config.flag("_remove_final_layer_norm")? {
        decoder.head.norm = None;
    }
    let table = config.optional_size("word_embed_proj_dim")?.filter(|width| *width != plain.hidden);
    decoder.embedding.table_width = table;
    decoder.head.table_width = table;
    Ok(decoder)
}

pub(super) fn bloom(config: &Config<'_>) -> Built {
    let plain = plain(config, "seq_length")?;
    let attention = full_attention(config, &plain, Position::Alibi)?;
    let mlp = plain.mlp(4 * plain.hidden, Activation::GeluTanh);
    let mut decoder = plain.decoder(0, attention, mlp, Residual::Sequential);
    decoder.embedding.norm = plain.norm();
    Ok(decoder)
}

/// Falcon's parallel block has one norm for both layers (7B), or one each (40B, 180B).
pub(super) fn falcon(config: &Config<'_>) -> Built {
    let plain = Plain { bias: config.flag("bias")?, ..plain(config, "max_position_embeddings")? };
    let new_block = config.flag("new_decoder_architecture")?;
    let parallel = config.flag("parallel_attn")?;
    let heads = config.heads()?;
    let kv_heads = match (new_block, config.flag("multi_query")?) {
        (true, _) => config.optional_size("num_kv_heads")?.unwrap_or(heads),
        (false, true) => 1,
        (false, false) => heads,
    };
    kv_heads_divide("num_kv_heads", kv_heads, heads)?;
    let position = if config.flag("alibi")? { Position::Alibi } else { Position::Rotary };
    let attention = plain.attention(heads, kv_heads, config.head_dim(plain.hidden, heads)?, position);
    let intermediate = config.optional_size("ffn_hidden_size")?.unwrap_or(4 * plain.hidden);
    let mut mlp = plain.mlp(intermediate, config.activation(&["activation"])?);
    let norms = config.optional_size("num_ln_in_parallel_attn")?.unwrap_or(if new_block { 2 } else { 1 });
    let residual = match (parallel, new_block, norms) {
        (false, false, _) => Residual::Sequential,
        (true, true, 2) => Residual::Parallel,
        (true, _, 1) => {
            mlp.norm = None;
            Residual::Parallel
        }
        (true, _, _) => {
            let rule = "norms in a parallel block; the new architecture has 1 or 2, the old one 1";
            return Err(ModelError::rule("num_ln_in_parallel_attn", norms, rule, [1]));
        }
        (false, true, _) => {
            return Err(ModelError::Unsupported {
                field: "parallel_attn".to_owned(),
                value: "false".to_owned(),
                remedy: "the new decoder architecture is defined for parallel attention only".to_owned(),
            });
        }
    };
    Ok(plain.decoder(0, attention, mlp, residual))
}

/// ALiBi or learned positions; without biases the norms have none either.
pub(super) fn mpt(config: &Config<'_>) -> Built {
    let without_bias = config.flag("no_bias")?;
    let plain = Plain {
        norm: if without_bias { NormKind::LayerWithoutBias } else { NormKind::Layer },
        bias: !without_bias,
        ..plain(config, "max_seq_len")?
    };
    if let Some(kind) = config.word("norm_type")?
        && !["layernorm", "low_precision_layernorm"].contains(&kind)
    {
        return Err(ModelError::Unsupported {
            field: "norm_type".to_owned(),
            value: shortened(kind),
            remedy: "low_precision_layernorm and layernorm are".to_owned(),
        });
    }
    let heads = config.heads()?;
    let (mut kv_heads, mut alibi) = (heads, true);
    if let Some(inner) = config.inner()? {
        kv_heads = mpt_kv_heads(&inner, heads)?;
        alibi = inner.flag("alibi")?;
    }
    let learned = config.flag("learned_pos_emb")? && !alibi;
    let positions = if learned { config.size("max_seq_len")? } else { 0 };
    let position = if alibi { Position::Alibi } else { Position::None };
    let attention = plain.attention(heads, kv_heads, config.head_dim(plain.hidden, heads)?, position);
    // As transformers, whatever `expansion_ratio` says.
    let mlp = plain.mlp(4 * plain.hidden, Activation::Gelu);
    Ok(plain.decoder(positions, attention, mlp, Residual::Sequential))
}

fn mpt_kv_heads(inner: &Config<'_>, heads: u64) -> Result<u64, ModelError> {
    let kv_heads = match inner.word("attn_type")? {
        Some("multihead_attention") | None => heads,
        Some("multiquery_attention") => 1,
        Some("grouped_query_attention") => inner.size("kv_n_heads")?,
        Some(other) => {
            let known = ["multihead_attention", "multiquery_attention", "grouped_query_attention"];
            return Err(ModelError::rule("attn_type", shortened(other), "is no kind we know", known));
        }
    };
    kv_heads_divide("kv_n_heads", kv_heads, heads)?;
    Ok(kv_heads)
}
