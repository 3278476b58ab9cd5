//! What every model must keep: widths that fit, blocks in order, losses that stand.

use std::collections::HashSet;

use super::error::ModelError;
use super::graph::{LossWeight, Model};
use super::layer::{LayerKind, LossFunction};
use super::parameters::parameters;
use super::sizes::{BLOCK_LIMIT, DIMENSION_LIMIT, LAYER_LIMIT, parameter_count, sizes};
use crate::json;
use crate::spelling::hidden::{first_hidden, shown};

/// Checks all rules of a model; after it, counts and widths fit in 64 bits.
pub(super) fn check(model: &Model) -> Result<(), ModelError> {
    names(model)?;
    model.constants.check()?;
    if let Some(length) = model.max_sequence.filter(|length| !(1..=DIMENSION_LIMIT).contains(length)) {
        let rule = format!("is outside 1 to {DIMENSION_LIMIT}");
        return Err(ModelError::rule("max_sequence", length, rule, [length.clamp(1, DIMENSION_LIMIT)]));
    }
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
    one_line("name", &model.name)?;
    model.losses.iter().try_for_each(|loss| one_line("losses", &loss.name))?;
    let mut seen = HashSet::new();
    for layer in model.layers() {
        one_line("layer", &layer.name)?;
        if layer.name.is_empty() {
            return Err(ModelError::graph("", "has no name"));
        }
        if !seen.insert(layer.name.as_str()) {
            return Err(ModelError::graph(&layer.name, "stands twice; names are unique"));
        }
    }
    Ok(())
}

/// Names go into scripts, tables and onto terminals. That of a configuration is its folder's or file's.
pub(super) fn one_line(field: &str, name: &str) -> Result<(), ModelError> {
    match first_hidden(name) {
        None => Ok(()),
        Some(c) => Err(ModelError::rule(
            field,
            format!("`{}`", shown(name)),
            format!("will not do: {}", json::hidden(c)),
            [""; 0],
        )),
    }
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
        return Err(ModelError::rule("losses", "[]", "is empty; a model has at least one", [""; 0]));
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
