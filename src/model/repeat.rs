//! Repetition in layer-graph files: a run of layers written once and chained several times.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::ModelError;
use super::layer_graph::LayerEntry;
use super::sizes::{BLOCK_LIMIT, LAYER_LIMIT};

/// The layers from `first` to `last` stand `count` times in a row. The copies are called `block 3 NAME` and are
/// numbered on as blocks. The first copy reads what the run as written reads; in the others that becomes the
/// `last` of the copy before. What reads `last` from behind the run reads it in the last copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// Name of the first layer of the run.
    pub first: String,
    /// Name of the last layer of the run.
    pub last: String,
    #[schemars(range(min = 1, max = 10_000))]
    pub count: u64,
}

/// The layers with every run written out.
pub(super) fn repeated(
    mut layers: Vec<LayerEntry>,
    repeats: &[Repeat],
) -> Result<Vec<LayerEntry>, ModelError> {
    for repeat in repeats {
        layers = written_out(layers, repeat)?;
    }
    Ok(layers)
}

fn written_out(mut layers: Vec<LayerEntry>, repeat: &Repeat) -> Result<Vec<LayerEntry>, ModelError> {
    let Repeat { first, last, count } = repeat;
    let position = |name: &str| {
        let found = layers.iter().position(|layer| layer.name == *name);
        found.ok_or_else(|| ModelError::graph(name, "is named by a repeat and is no layer before it"))
    };
    let (start, end) = (position(first)?, position(last)? + 1);
    if !(1..=BLOCK_LIMIT).contains(count) {
        let rule = format!("is outside 1 to {BLOCK_LIMIT}");
        return Err(ModelError::rule("repeat.count", count, rule, [(*count).clamp(1, BLOCK_LIMIT)]));
    }
    if start >= end {
        return Err(ModelError::graph(last, format!("ends a repeat and stands before its first, `{first}`")));
    }
    let total = layers.len() as u64 + (count - 1) * (end - start) as u64;
    if total > LAYER_LIMIT as u64 {
        let rule = format!("makes {total} layers; at most {LAYER_LIMIT}");
        return Err(ModelError::rule("repeat.count", count, rule, [""; 0]));
    }
    let mut after = layers.split_off(end);
    let run = layers.split_off(start);
    if let Some(layer) = run.iter().find(|layer| layer.block.is_some()) {
        return Err(ModelError::graph(
            &layer.name,
            "is in a repeat, whose copies are numbered by themselves",
        ));
    }
    let blocks =
        layers.iter().filter_map(|layer| layer.block).max().map_or(0, |block| block.saturating_add(1));
    let inside: std::collections::HashSet<String> = run.iter().map(|layer| layer.name.clone()).collect();
    let copy_name = |block: u32, name: &str| format!("block {block} {name}");
    for copy in 0..*count as u32 {
        let block = blocks.saturating_add(copy);
        for layer in &run {
            let input = |input: &String| match (inside.contains(input), copy) {
                (true, _) => copy_name(block, input),
                (false, 0) => input.clone(),
                (false, _) => copy_name(block - 1, last),
            };
            let inputs = layer.inputs.iter().map(input).collect();
            let name = copy_name(block, &layer.name);
            layers.push(LayerEntry { name, block: Some(block), inputs, ..layer.clone() });
        }
    }
    let end = blocks.saturating_add(*count as u32 - 1);
    for input in after.iter_mut().flat_map(|layer| &mut layer.inputs) {
        if inside.contains(input) {
            *input = copy_name(end, input);
        }
    }
    layers.append(&mut after);
    Ok(layers)
}
