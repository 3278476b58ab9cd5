//! The decoder of a config whose family is a [`Shape`].

use super::positions::{Place, places};
use super::{Heads, Norms, Positions, QueryKey, Shape, Switch, Width, experts};
use crate::model::decoder::{Block, Decoder, FeedForward, Residual};
use crate::model::error::ModelError;
use crate::model::hugging_face::config::Config;
use crate::model::layer::{
    Attention, Embedding, Head, Mlp, Moe, Norm, NormKind, NormSpan, Position, Projection,
};
use crate::model::sizes::kv_heads_divide;

/// The decoder that `config` describes.
///
/// # Errors
/// When a size cannot be, or a field asks for what we do not plan.
pub(in crate::model::hugging_face) fn build(
    config: &Config<'_>,
    shape: &Shape,
) -> Result<Decoder, ModelError> {
    let hidden = config.size("hidden_size")?;
    let vocabulary = config.size("vocab_size")?;
    let norm = Some(Norm { kind: shape.norm, width: hidden });
    let around = match shape.norms {
        Norms::Around(switch) => is_on(config, switch)?,
        _ => false,
    };
    let behind = |is_experts: bool| {
        let stands = match shape.norms {
            Norms::Behind => true,
            Norms::Around(_) => around,
            Norms::BehindExperts => is_experts,
            Norms::Before | Norms::OfSums | Norms::Shared => false,
        };
        norm.filter(|_| stands)
    };
    let before = norm.filter(|_| !matches!(shape.norms, Norms::Behind | Norms::OfSums));
    let of_sums = norm.filter(|_| shape.norms == Norms::OfSums);
    let is_shared = shape.norms == Norms::Shared;

    let attention = Attention {
        norm: before,
        output_norm: behind(false),
        residual_norm: of_sums,
        ..attention(config, shape, hidden)?
    };
    let in_mlp = before.filter(|_| !is_shared);
    let mlp = |width| {
        Ok::<_, ModelError>(Mlp {
            hidden,
            intermediate: width,
            gated: shape.gated,
            activation: config.activation(&["hidden_activation", "hidden_act"])?,
            bias: is_on(config, shape.mlp_bias)?,
            norm: in_mlp,
            output_norm: behind(false),
            residual_norm: of_sums,
        })
    };
    let layers = config.layers()?;
    let experts = match shape.experts {
        Some(experts) => experts::of(config, &experts, shape.gated, layers)?,
        None => None,
    };
    let feed_forward: Vec<FeedForward> = match experts {
        None => vec![FeedForward::Dense(mlp(dense_width(config, shape.width, hidden)?)?); layers as usize],
        Some((moe, sparse)) => {
            let moe = Moe { norm: in_mlp, output_norm: behind(true), ..moe };
            let dense = match sparse.contains(&false) {
                true => Some(mlp(dense_width(config, shape.width, hidden)?)?),
                false => None,
            };
            let layer = |has: bool| match &dense {
                Some(mlp) if !has => FeedForward::Dense(mlp.clone()),
                _ => FeedForward::Experts(moe.clone()),
            };
            sparse.into_iter().map(layer).collect()
        }
    };
    let query_key = match shape.query_key {
        Some(norm) if is_on(config, norm.when)? => Some(norm),
        _ => None,
    };
    let soft_cap = config.caps("attn_logit_softcapping")?;
    let places = places(config, shape, layers)?;
    let count = places.len();
    let blocks = places.into_iter().zip(feed_forward).enumerate().map(|(number, (place, feed_forward))| {
        let attention = placed(attention.clone(), place, query_key);
        let last = shape.output_bias == Switch::Last && number + 1 == count;
        Block {
            projection: None,
            attention: Attention { soft_cap, output_bias: attention.output_bias || last, ..attention },
            feed_forward,
            residual: if is_shared { Residual::Parallel } else { Residual::Sequential },
        }
    });
    Ok(Decoder {
        embedding: Embedding {
            vocabulary,
            hidden,
            positions: match shape.position {
                Positions::Learned(more) => config.size("max_position_embeddings")? + more,
                Positions::Rotary | Positions::Sinusoidal => 0,
            },
            norm: None,
            table_width: None,
        },
        blocks: blocks.collect(),
        head: Head {
            hidden,
            vocabulary,
            norm: norm.filter(|_| shape.norms != Norms::OfSums),
            tied: config.flag("tie_word_embeddings")?,
            bias: is_on(config, shape.head_bias)?,
            soft_cap: config.caps("final_logit_softcapping")?,
            table_width: None,
            passes: 1,
        },
        max_sequence: config.optional_size("max_position_embeddings")?,
    })
}

/// Whether the switch is on in every block.
pub(super) fn is_on(config: &Config<'_>, switch: Switch) -> Result<bool, ModelError> {
    match switch {
        Switch::On => Ok(true),
        Switch::Off | Switch::Last => Ok(false),
        Switch::Field(field) => config.flag(field),
    }
}

/// Attention as in every block, but for norms and for what a block's place changes.
fn attention(config: &Config<'_>, shape: &Shape, hidden: u64) -> Result<Attention, ModelError> {
    let heads = config.heads()?;
    let projection = match shape.projection {
        Heads::Latent => Projection::Latent {
            query_rank: config.optional_size("q_lora_rank")?,
            key_value_rank: config.size("kv_lora_rank")?,
            plain_dim: config.size("qk_nope_head_dim")?,
            rotary_dim: config.size("qk_rope_head_dim")?,
            value_dim: config.size("v_head_dim")?,
        },
        Heads::Grouped => {
            let kv_heads = config.optional_size("num_key_value_heads")?.unwrap_or(heads);
            kv_heads_divide("num_key_value_heads", kv_heads, heads)?;
            Projection::Grouped { kv_heads, head_dim: config.head_dim(hidden, heads)? }
        }
        Heads::OneIf(field) => {
            let kv_heads = if config.flag(field)? { 1 } else { heads };
            Projection::Grouped { kv_heads, head_dim: config.head_dim(hidden, heads)? }
        }
    };
    Ok(Attention {
        hidden,
        heads,
        projection,
        norm: None,
        output_norm: None,
        residual_norm: None,
        query_key_norm: None,
        query_key_span: NormSpan::Head,
        input_bias: is_on(config, shape.input_bias)?,
        output_bias: is_on(config, shape.output_bias)?,
        position: Position::None,
        window: None,
        soft_cap: false,
        sinks: shape.sinks,
        causal: true,
    })
}

/// The attention of one block.
fn placed(attention: Attention, place: Place, query_key: Option<QueryKey>) -> Attention {
    let query_key = query_key.filter(|norm| place.rotated || !norm.rotated);
    // Norms without weights are one, whatever they span.
    let span = query_key.filter(|norm| norm.kind != NormKind::Plain).map(|norm| norm.span);
    Attention {
        query_key_norm: query_key.map(|norm| norm.kind),
        query_key_span: span.unwrap_or_default(),
        position: if place.rotated { Position::Rotary } else { Position::None },
        window: place.window,
        ..attention
    }
}

fn dense_width(config: &Config<'_>, width: Width, hidden: u64) -> Result<u64, ModelError> {
    match width {
        Width::Given => config.size("intermediate_size"),
        Width::Of(field) => config.size(field),
        Width::OrFourTimes => Ok(config.optional_size("intermediate_size")?.unwrap_or(4 * hidden)),
        // Both are at most 2^32, and the check of the assembled model bounds the product.
        Width::Multiple => Ok(config.size("intermediate_multiple_size")?.saturating_mul(hidden)),
        Width::Half => {
            let both = config.size("intermediate_size")?;
            if both.is_multiple_of(2) {
                return Ok(both / 2);
            }
            let rule = "counts gate and up together, and is odd";
            Err(ModelError::rule("intermediate_size", both, rule, [both - 1, both + 1]))
        }
    }
}
