//! Our own layer-graph JSON: its document, and the way from document to model and back.

use std::collections::HashMap;

use petgraph::graph::{DiGraph, NodeIndex};
use schemars::{JsonSchema, Schema, schema_for};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::check::check;
use super::constants::Constants;
use super::error::ModelError;
use super::graph::{Flow, LossTerm, Model};
use super::layer::{Layer, LayerKind};
use super::loss_weight::Weight;
use super::repeat::{Repeat, repeated};
use crate::json;

/// The version of the document that this program reads and writes.
pub const VERSION: u32 = 1;

/// A layer-graph file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Meshwright layer graph")]
pub struct Document {
    /// 1.
    pub version: u32,
    pub name: String,
    /// The longest sequence the model allows, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_sequence: Option<u64>,
    /// What changes its numbers and none of its costs; defaults where it is left out.
    #[serde(default)]
    pub constants: Constants,
    /// The Hugging Face `config.json` that the layers were made from: weights then bear its family's names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Map<String, Value>>,
    /// In topological order: a layer stands after its inputs.
    pub layers: Vec<LayerEntry>,
    /// Runs of layers that stand several times in a row; each copy becomes a block.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeat: Vec<Repeat>,
    /// Each micro-batch runs one backward for each, in this order.
    pub losses: Vec<LossEntry>,
}

/// A layer and the layers that it reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LayerEntry {
    /// Unique in the document.
    pub name: String,
    /// The transformer block this layer belongs to, counted from 0 in model order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<u32>,
    /// A frozen layer has no weight gradient and no optimizer state.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub frozen: bool,
    pub kind: LayerKind,
    /// Names of the layers it reads. A layer with a residual add may read two: what its norm reads, then the
    /// residual stream.
    #[serde(default)]
    pub inputs: Vec<String>,
}

/// A loss by name, the layer that computes it and its weight in the sum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LossEntry {
    pub name: String,
    /// Name of a layer of kind loss.
    pub layer: String,
    #[serde(default)]
    pub weight: Weight,
}

/// The JSON schema of the document.
pub fn schema() -> Schema {
    schema_for!(Document)
}

/// The model that the text of a layer-graph file describes; `path` is named in errors.
///
/// # Errors
/// When the text is not of the document's form, or its layers do not make up a model.
pub fn read(text: &str, path: &str) -> Result<Model, ModelError> {
    let document =
        json::read(text).map_err(|fault| ModelError::NotALayerGraph { path: path.to_owned(), fault })?;
    model(document)
}

/// The model that a document describes.
///
/// # Errors
/// When its layers do not make up a model.
pub fn model(document: Document) -> Result<Model, ModelError> {
    if document.version != VERSION {
        return Err(ModelError::rule("version", document.version, "is not one we read", [VERSION]));
    }
    let layers = repeated(document.layers, &document.repeat)?;
    let mut graph = DiGraph::new();
    let mut indices: HashMap<String, NodeIndex> = HashMap::new();
    let mut edges = Vec::new();
    for LayerEntry { name, block, frozen, kind, inputs } in layers {
        let index = NodeIndex::new(indices.len());
        for input in inputs {
            let source = indices.get(&input).ok_or_else(|| {
                let rule = format!(
                    "reads `{input}`, which does not stand before it; layers are listed after their inputs, \
                     so that there is no cycle"
                );
                ModelError::graph(&name, rule)
            })?;
            edges.push((*source, index));
        }
        if indices.insert(name.clone(), index).is_some() {
            return Err(ModelError::graph(name, "stands twice; names are unique"));
        }
        graph.add_node(Layer { name, block, frozen, kind });
    }
    let losses = document
        .losses
        .into_iter()
        .map(|LossEntry { name, layer, weight }| match indices.get(&layer) {
            Some(index) => Ok(LossTerm { name, layer: *index, weight: weight.into() }),
            None => {
                Err(ModelError::graph(layer, format!("is named by the loss `{name}` and does not exist")))
            }
        })
        .collect::<Result<Vec<_>, _>>()?;
    let mut model = Model {
        name: document.name,
        graph,
        losses,
        max_sequence: document.max_sequence,
        constants: document.constants,
        config: document.config,
        warnings: Vec::new(),
    };
    for (source, target) in edges {
        let width = model.output_width(source.index());
        model.graph.add_edge(source, target, Flow { width });
    }
    check(&model)?;
    Ok(model)
}

/// The document of a model, every layer written out.
pub fn document(model: &Model) -> Document {
    let name = |index: usize| model.layer(index).name.clone();
    let entry = |(index, layer): (usize, &Layer)| LayerEntry {
        name: layer.name.clone(),
        block: layer.block,
        frozen: layer.frozen,
        kind: layer.kind.clone(),
        inputs: model.inputs(index).into_iter().map(name).collect(),
    };
    let loss = |term: &LossTerm| LossEntry {
        name: term.name.clone(),
        layer: name(term.layer.index()),
        weight: term.weight.clone().into(),
    };
    Document {
        version: VERSION,
        name: model.name.clone(),
        max_sequence: model.max_sequence,
        constants: model.constants.clone(),
        config: model.config.clone(),
        layers: model.layers().enumerate().map(entry).collect(),
        repeat: Vec::new(),
        losses: model.losses.iter().map(loss).collect(),
    }
}
