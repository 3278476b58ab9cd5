//! Limits of sizes, and the check that every layer keeps them, so that counts fit in 64 bits.

use super::error::ModelError;
use super::graph::Model;
use super::layer::{Attention, LayerKind, Norm, Projection};
use super::parameters::parameters;

/// The largest width, vocabulary or position table.
pub(super) const DIMENSION_LIMIT: u64 = 1 << 32;
/// The most blocks of a model.
pub(super) const BLOCK_LIMIT: u64 = 10_000;
/// The most layers of a model.
pub(super) const LAYER_LIMIT: usize = 100_000;
/// The most heads of a layer.
pub(super) const HEAD_LIMIT: u64 = 1 << 20;
/// The most experts of a layer.
pub(super) const EXPERT_LIMIT: u64 = 1 << 16;
/// The most multi-token prediction layers.
pub(super) const MULTI_TOKEN_LIMIT: u64 = 64;
/// The most parameters of a model.
const PARAMETER_LIMIT: u128 = 1_000_000_000_000_000;

/// That the sizes of one layer are within limits and its norms as wide as what they normalise.
pub(super) fn sizes(layer: &str, kind: &LayerKind) -> Result<(), ModelError> {
    let within = |field: &str, value: u64, least: u64, most: u64| {
        if (least..=most).contains(&value) {
            return Ok(());
        }
        let rule = format!("is outside {least} to {most}");
        Err(ModelError::rule(format!("{layer}: {field}"), value, rule, [value.clamp(least, most)]))
    };
    let width = |field: &str, value: u64| within(field, value, 1, DIMENSION_LIMIT);
    let norm = |field: &str, norm: &Option<Norm>, hidden: u64| match norm {
        Some(Norm { width, .. }) if *width != hidden => {
            let rule = "is not the width of what it normalises";
            Err(ModelError::rule(format!("{layer}: {field} width"), width, rule, [hidden]))
        }
        _ => Ok(()),
    };
    match kind {
        LayerKind::Embedding(embedding) => {
            width("vocabulary", embedding.vocabulary)?;
            width("hidden", embedding.hidden)?;
            within("positions", embedding.positions, 0, DIMENSION_LIMIT)?;
            embedding.table_width.map_or(Ok(()), |table| width("table_width", table))?;
            norm("norm", &embedding.norm, embedding.hidden)
        }
        LayerKind::Attention(attention) => {
            width("hidden", attention.hidden)?;
            within("heads", attention.heads, 1, HEAD_LIMIT)?;
            projection(layer, attention)?;
            attention.window.map_or(Ok(()), |window| width("window", window))?;
            norm("norm", &attention.norm, attention.hidden)?;
            norm("output_norm", &attention.output_norm, attention.hidden)?;
            norm("residual_norm", &attention.residual_norm, attention.hidden)
        }
        LayerKind::Mlp(mlp) => {
            width("hidden", mlp.hidden)?;
            width("intermediate", mlp.intermediate)?;
            norm("norm", &mlp.norm, mlp.hidden)?;
            norm("output_norm", &mlp.output_norm, mlp.hidden)?;
            norm("residual_norm", &mlp.residual_norm, mlp.hidden)
        }
        LayerKind::Moe(moe) => {
            width("hidden", moe.hidden)?;
            width("intermediate", moe.intermediate)?;
            within("shared_intermediate", moe.shared_intermediate, 0, DIMENSION_LIMIT)?;
            within("experts", moe.experts, 1, EXPERT_LIMIT)?;
            within("top_k", moe.top_k, 1, moe.experts)?;
            norm("norm", &moe.norm, moe.hidden)?;
            norm("output_norm", &moe.output_norm, moe.hidden)
        }
        LayerKind::Head(head) => {
            width("hidden", head.hidden)?;
            width("vocabulary", head.vocabulary)?;
            head.table_width.map_or(Ok(()), |table| width("table_width", table))?;
            within("passes", head.passes, 1, MULTI_TOKEN_LIMIT + 1)?;
            norm("norm", &head.norm, head.hidden)
        }
        LayerKind::Loss(_) => Ok(()),
    }
}

fn projection(layer: &str, attention: &Attention) -> Result<(), ModelError> {
    let heads = attention.heads;
    let within = |field: &str, value: u64| {
        if (1..=DIMENSION_LIMIT).contains(&value) {
            return Ok(());
        }
        let nearest = [value.clamp(1, DIMENSION_LIMIT)];
        let rule = format!("is outside 1 to {DIMENSION_LIMIT}");
        Err(ModelError::rule(format!("{layer}: {field}"), value, rule, nearest))
    };
    match attention.projection {
        Projection::Grouped { kv_heads, head_dim } => {
            within("head_dim", head_dim)?;
            within("heads times head_dim", heads * head_dim)?;
            kv_heads_divide(&format!("{layer}: kv_heads"), kv_heads, heads)
        }
        Projection::Latent { query_rank, key_value_rank, plain_dim, rotary_dim, value_dim } => {
            query_rank.map_or(Ok(()), |rank| within("query_rank", rank))?;
            within("key_value_rank", key_value_rank)?;
            within("plain_dim", plain_dim)?;
            within("rotary_dim", rotary_dim)?;
            within("value_dim", value_dim)?;
            within("heads times query head", heads * (plain_dim + rotary_dim))?;
            within("heads times key and value head", heads * (plain_dim + value_dim))
        }
    }
}

/// That key-value heads divide the heads; the error names the nearest divisors.
pub(super) fn kv_heads_divide(field: &str, kv_heads: u64, heads: u64) -> Result<(), ModelError> {
    if kv_heads > 0 && heads.is_multiple_of(kv_heads) {
        return Ok(());
    }
    let below = (1..=kv_heads.min(heads)).rev().find(|part| heads.is_multiple_of(*part));
    let above = (kv_heads.saturating_add(1)..=heads).find(|part| heads.is_multiple_of(*part));
    let rule = format!("does not divide {heads} heads");
    Err(ModelError::rule(field, kv_heads, rule, below.into_iter().chain(above)))
}

/// That all parameters together are within the limit.
pub(super) fn parameter_count(model: &Model) -> Result<(), ModelError> {
    let count: u128 = model
        .layers()
        .flat_map(|layer| parameters(&layer.kind))
        .map(|tensor| u128::from(tensor.rows) * u128::from(tensor.columns))
        .sum();
    if count <= PARAMETER_LIMIT {
        return Ok(());
    }
    let rule = format!("are too many; at most {PARAMETER_LIMIT}");
    Err(ModelError::rule("parameters", count, rule, [PARAMETER_LIMIT]))
}
