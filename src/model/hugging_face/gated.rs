//! The dense families with RMS norms and gated MLPs: Llama, Granite, Mistral, Qwen, Gemma, Phi-3, OLMo 2, GLM 4.

use super::config::Config;
use super::windows::{Pattern, windows};
use crate::model::decoder::{Block, Decoder, FeedForward, Residual};
use crate::model::error::ModelError;
use crate::model::layer::{
    Activation, Attention, Embedding, Head, Mlp, Norm, NormKind, NormSpan, Position, Projection,
};
use crate::model::sizes::kv_heads_divide;

type Built = Result<Decoder, ModelError>;

/// An RMS norm over `width`.
pub(super) const fn rms(width: u64) -> Option<Norm> {
    Some(Norm { kind: NormKind::Rms, width })
}

/// Rotary grouped-query attention behind an RMS norm, without biases.
pub(super) fn attention(config: &Config<'_>) -> Result<Attention, ModelError> {
    let hidden = config.size("hidden_size")?;
    let heads = config.heads()?;
    let kv_heads = config.optional_size("num_key_value_heads")?.unwrap_or(heads);
    kv_heads_divide("num_key_value_heads", kv_heads, heads)?;
    let head_dim = config.head_dim(hidden, heads)?;
    Ok(rotary_attention(hidden, heads, Projection::Grouped { kv_heads, head_dim }))
}

/// Rotary attention behind an RMS norm, without biases, whatever makes its queries, keys and values.
pub(in crate::model) fn rotary_attention(hidden: u64, heads: u64, projection: Projection) -> Attention {
    Attention {
        hidden,
        heads,
        projection,
        norm: rms(hidden),
        output_norm: None,
        residual_norm: None,
        query_key_norm: None,
        query_key_span: NormSpan::Head,
        input_bias: false,
        output_bias: false,
        position: Position::Rotary,
        window: None,
        soft_cap: false,
        sinks: false,
        causal: true,
    }
}

/// A gated MLP behind an RMS norm, without biases.
pub(super) fn mlp(config: &Config<'_>, activation: Activation) -> Result<Mlp, ModelError> {
    let hidden = config.size("hidden_size")?;
    Ok(Mlp {
        hidden,
        intermediate: config.size("intermediate_size")?,
        gated: true,
        activation,
        bias: false,
        norm: rms(hidden),
        output_norm: None,
        residual_norm: None,
    })
}

/// Sequential blocks of one attention, with the window of each, between an embedding and a head.
pub(super) fn decoder(
    config: &Config<'_>,
    attention: &Attention,
    windows: impl IntoIterator<Item = Option<u64>>,
    feed_forward: impl Fn(u64) -> FeedForward,
) -> Built {
    let hidden = attention.hidden;
    let vocabulary = config.size("vocab_size")?;
    let block = |(number, window)| Block {
        projection: None,
        attention: Attention { window, ..attention.clone() },
        feed_forward: feed_forward(number),
        residual: Residual::Sequential,
    };
    Ok(Decoder {
        embedding: Embedding { vocabulary, hidden, positions: 0, norm: None, table_width: None },
        blocks: (0u64..).zip(windows).map(block).collect(),
        head: Head {
            hidden,
            vocabulary,
            norm: rms(hidden),
            tied: config.flag("tie_word_embeddings")?,
            bias: false,
            soft_cap: false,
            table_width: None,
            passes: 1,
        },
        max_sequence: config.optional_size("max_position_embeddings")?,
    })
}

/// Every layer with full attention.
pub(super) fn no_windows(config: &Config<'_>) -> Result<Vec<Option<u64>>, ModelError> {
    Ok(vec![None; config.layers()? as usize])
}

pub(super) fn llama(config: &Config<'_>) -> Built {
    let bias = config.flag("attention_bias")?;
    let attention = Attention { input_bias: bias, output_bias: bias, ..attention(config)? };
    let mlp = mlp(config, config.activation(&["hidden_act"])?)?;
    let mlp = Mlp { bias: config.flag("mlp_bias")?, ..mlp };
    decoder(config, &attention, no_windows(config)?, |_| FeedForward::Dense(mlp.clone()))
}

/// Mistral and Phi-3: every layer has the window, where there is one.
pub(super) fn mistral(config: &Config<'_>) -> Built {
    let mlp = mlp(config, config.activation(&["hidden_act"])?)?;
    let windows = windows(config, config.layers()?, Pattern::All)?;
    decoder(config, &attention(config)?, windows, |_| FeedForward::Dense(mlp.clone()))
}

pub(super) fn qwen2(config: &Config<'_>) -> Built {
    qwen(config, Attention { input_bias: true, ..attention(config)? })
}

pub(super) fn qwen3(config: &Config<'_>) -> Built {
    let bias = config.flag("attention_bias")?;
    let attention = attention(config)?;
    let query_key_norm = Some(NormKind::Rms);
    qwen(config, Attention { input_bias: bias, output_bias: bias, query_key_norm, ..attention })
}

fn qwen(config: &Config<'_>, attention: Attention) -> Built {
    let mlp = mlp(config, config.activation(&["hidden_act"])?)?;
    let windows = if config.flag("use_sliding_window")? {
        windows(config, config.layers()?, Pattern::From(config.count("max_window_layers")?))?
    } else {
        no_windows(config)?
    };
    decoder(config, &attention, windows, |_| FeedForward::Dense(mlp.clone()))
}

pub(super) fn gemma(config: &Config<'_>) -> Built {
    let bias = config.flag("attention_bias")?;
    let attention = Attention { input_bias: bias, output_bias: bias, ..attention(config)? };
    let mlp = mlp(config, config.activation(&["hidden_activation", "hidden_act"])?)?;
    decoder(config, &attention, no_windows(config)?, |_| FeedForward::Dense(mlp.clone()))
}

/// Norms before and after both layers; every second layer slides.
pub(super) fn gemma2(config: &Config<'_>) -> Built {
    sandwich(config, 2, None)
}

/// Like Gemma 2, with norms of queries and keys, and every sixth layer seeing everything.
pub(super) fn gemma3(config: &Config<'_>) -> Built {
    sandwich(config, config.size("sliding_window_pattern")?, Some(NormKind::Rms))
}

/// Norms behind both layers instead of before them, and over all queries and all keys.
pub(super) fn olmo2(config: &Config<'_>) -> Built {
    let bias = config.flag("attention_bias")?;
    let attention = attention(config)?;
    let after = attention.norm;
    let attention = Attention {
        norm: None,
        output_norm: after,
        query_key_norm: Some(NormKind::Rms),
        query_key_span: NormSpan::AllHeads,
        input_bias: bias,
        output_bias: bias,
        ..attention
    };
    let mlp = mlp(config, config.activation(&["hidden_act"])?)?;
    let mlp = Mlp { norm: None, output_norm: after, ..mlp };
    decoder(config, &attention, no_windows(config)?, |_| FeedForward::Dense(mlp.clone()))
}

/// Norms before and behind both layers; only queries, keys and values have biases.
pub(super) fn glm4(config: &Config<'_>) -> Built {
    let attention = attention(config)?;
    let (output_norm, input_bias) = (attention.norm, config.flag("attention_bias")?);
    let attention = Attention { output_norm, input_bias, ..attention };
    let mlp = mlp(config, config.activation(&["hidden_act"])?)?;
    let mlp = Mlp { output_norm, ..mlp };
    decoder(config, &attention, no_windows(config)?, |_| FeedForward::Dense(mlp.clone()))
}

fn sandwich(config: &Config<'_>, period: u64, query_key_norm: Option<NormKind>) -> Built {
    let bias = config.flag("attention_bias")?;
    let attention = attention(config)?;
    let hidden = attention.hidden;
    let attention = Attention {
        input_bias: bias,
        output_bias: bias,
        output_norm: rms(hidden),
        query_key_norm,
        soft_cap: config.caps("attn_logit_softcapping")?,
        ..attention
    };
    let mlp = mlp(config, config.activation(&["hidden_activation"])?)?;
    let mlp = Mlp { output_norm: rms(hidden), ..mlp };
    let windows = windows(config, config.layers()?, Pattern::AllBut(period))?;
    let mut decoder = decoder(config, &attention, windows, |_| FeedForward::Dense(mlp.clone()))?;
    decoder.head.soft_cap = config.caps("final_logit_softcapping")?;
    Ok(decoder)
}
