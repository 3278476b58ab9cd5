//! What every model must keep: sizes within limits, widths that fit, blocks in order, losses that stand.

use std::collections::HashSet;

use super::error::ModelError;
use super::graph::{LossWeight, Model};
use super::layer::{Attention, LayerKind, LossFunction, Norm, Projection};
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
/// The most parameters of a model.
const PARAMETER_LIMIT: u128 = 1_000_000_000_000_000;

/// Checks all rules of a model; after it, counts and widths fit in 64 bits.
pub(super) fn check(model: &Model) -> Result<(), ModelError> {
    names(model)?;
    model.layers().try_for_each(|layer| sizes(&layer.name, &layer.kind))?;
    widths(model)?;
    blocks(model)?;
    losses(model)?;
    parameter_count(model)
}

fn names(model: &Model) -> Result<(), ModelError> {
    if model.graph.node_count() > LAYER_LIMIT {
        let rule = format!("is too many; at most {LAYER_LIMIT}");
        return Err(ModelError::rule("layers", model.graph.node_count(), rule, [LAYER_LIMIT]));
    }
    let mut seen = HashSet::new();
    for layer in model.layers() {
        if layer.name.is_empty() {
            return Err(ModelError::graph("", "has no name"));
        }
        if !seen.insert(layer.name.as_str()) {
            return Err(ModelError::graph(&layer.name, "stands twice; names are unique"));
        }
    }
    Ok(())
}

fn sizes(layer: &str, kind: &LayerKind) -> Result<(), ModelError> {
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
            attention.window.map_or(Ok(()), |window| within("window", window, 1, u64::MAX))?;
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
            norm("norm", &moe.norm, moe.hidden)
        }
        LayerKind::Head(head) => {
            width("hidden", head.hidden)?;
            width("vocabulary", head.vocabulary)?;
            head.table_width.map_or(Ok(()), |table| width("table_width", table))?;
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
    let above = (kv_heads + 1..=heads).find(|part| heads.is_multiple_of(*part));
    let rule = format!("does not divide {heads} heads");
    Err(ModelError::rule(field, kv_heads, rule, below.into_iter().chain(above)))
}

fn widths(model: &Model) -> Result<(), ModelError> {
    for (index, layer) in model.layers().enumerate() {
        let inputs = model.inputs(index);
        let (least, most) = match layer.kind {
            LayerKind::Embedding(_) => (0, 0),
            LayerKind::Attention(_) | LayerKind::Mlp(_) | LayerKind::Moe(_) => (1, 2),
            LayerKind::Head(_) | LayerKind::Loss(_) => (1, 1),
        };
        if !(least..=most).contains(&inputs.len()) {
            let count = if least == most { least.to_string() } else { format!("{least} or {most}") };
            let rule = format!("has {} inputs; a layer of its kind has {count}", inputs.len());
            return Err(ModelError::graph(&layer.name, rule));
        }
        let wanted = match &layer.kind {
            LayerKind::Attention(attention) => Some(attention.hidden),
            LayerKind::Mlp(mlp) => Some(mlp.hidden),
            LayerKind::Moe(moe) => Some(moe.hidden),
            LayerKind::Head(head) => Some(head.hidden),
            LayerKind::Embedding(_) | LayerKind::Loss(_) => None,
        };
        for input in inputs {
            let source = model.layer(input);
            let width = model.output_width(input);
            if matches!(source.kind, LayerKind::Loss(_)) {
                return Err(ModelError::graph(&layer.name, format!("reads the loss `{}`", source.name)));
            }
            if let Some(wanted) = wanted.filter(|wanted| *wanted != width) {
                let rule = format!("has hidden {wanted}, and its input `{}` is {width} wide", source.name);
                return Err(ModelError::graph(&layer.name, rule));
            }
        }
        if model.readers(index).is_empty() && !matches!(layer.kind, LayerKind::Loss(_)) {
            return Err(ModelError::graph(&layer.name, "is read by no other layer"));
        }
        if let LayerKind::Head(head) = &layer.kind
            && head.tied
        {
            let table = (head.vocabulary, head.table_width.unwrap_or(head.hidden));
            let found = model.layers().any(|other| match &other.kind {
                LayerKind::Embedding(embedding) => {
                    table == (embedding.vocabulary, embedding.table_width.unwrap_or(embedding.hidden))
                }
                _ => false,
            });
            if !found {
                let rule = format!("is tied, and no embedding has a table of {} by {}", table.0, table.1);
                return Err(ModelError::graph(&layer.name, rule));
            }
        }
    }
    Ok(())
}

/// Blocks are numbered from 0 in model order without gaps; layers outside blocks stand before or after them all.
fn blocks(model: &Model) -> Result<(), ModelError> {
    let mut last: Option<u32> = None;
    let mut left: Option<&str> = None;
    for layer in model.layers() {
        match (layer.block, last) {
            (None, Some(_)) => left = left.or(Some(&layer.name)),
            (None, None) => {}
            (Some(block), _) => {
                if let Some(outside) = left {
                    let rule = format!("is in no block and stands between blocks (before `{}`)", layer.name);
                    return Err(ModelError::graph(outside, rule));
                }
                let next = last.map_or(0, |last| last + 1);
                if Some(block) != last && block != next {
                    let rule = format!("has block {block}; blocks are numbered in order, so {next} is next");
                    return Err(ModelError::graph(&layer.name, rule));
                }
                if u64::from(block) >= BLOCK_LIMIT {
                    let rule = format!("is too many; at most {BLOCK_LIMIT}");
                    return Err(ModelError::rule("blocks", u64::from(block) + 1, rule, [BLOCK_LIMIT]));
                }
                last = Some(block);
            }
        }
    }
    match last {
        Some(_) => Ok(()),
        None => Err(ModelError::rule("blocks", 0, "are too few; mark at least one `block`", [1])),
    }
}

fn losses(model: &Model) -> Result<(), ModelError> {
    if model.losses.is_empty() {
        return Err(ModelError::rule("losses", "[]", "is empty; a model has at least one", [1]));
    }
    let mut names = HashSet::new();
    let mut layers = HashSet::new();
    for term in &model.losses {
        let layer = model.layer(term.layer.index());
        if !matches!(layer.kind, LayerKind::Loss(_)) {
            let rule = format!("is of kind {}, and the loss `{}` names it", layer.kind.name(), term.name);
            return Err(ModelError::graph(&layer.name, rule));
        }
        if !names.insert(term.name.as_str()) {
            return Err(ModelError::rule("losses", &term.name, "stands twice; names are unique", [""; 0]));
        }
        if !layers.insert(term.layer) {
            return Err(ModelError::graph(&layer.name, "is named by two losses"));
        }
        let LossWeight::Adaptive { of, at } = &term.weight else { continue };
        if !model.losses.iter().any(|other| other.name == *of) {
            let known = model.losses.iter().map(|other| &other.name);
            return Err(ModelError::rule("adaptive.of", of, "names no loss", known));
        }
        let weight = model.layers().find(|layer| layer.name == *at);
        if weight.is_none_or(|layer| layer.frozen || parameters(&layer.kind).is_empty()) {
            let rule = "names no layer with a trained weight";
            return Err(ModelError::rule("adaptive.at", at, rule, [""; 0]));
        }
    }
    for (index, layer) in model.layers().enumerate() {
        let LayerKind::Loss(function) = layer.kind else { continue };
        if !layers.contains(&petgraph::graph::NodeIndex::new(index)) {
            return Err(ModelError::graph(&layer.name, "is a loss that `losses` does not name"));
        }
        let headed =
            model.inputs(index).iter().all(|input| matches!(model.layer(*input).kind, LayerKind::Head(_)));
        if function == LossFunction::CrossEntropy && !headed {
            return Err(ModelError::graph(&layer.name, "is a cross-entropy, and its input is no head"));
        }
    }
    Ok(())
}

fn parameter_count(model: &Model) -> Result<(), ModelError> {
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
