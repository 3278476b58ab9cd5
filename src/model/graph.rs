//! The layer graph: a directed acyclic graph of layers whose edges carry one tensor a token.

use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;
use serde_json::{Map, Value};

use super::constants::Constants;
use super::layer::{Layer, LayerKind};
use super::parameters::{ParameterTensor, parameters};

/// What flows along an edge of the layer graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Elements a token.
    pub width: u64,
}

/// How much a loss counts in the sum whose gradient is taken.
#[derive(Clone, Debug, PartialEq)]
pub enum LossWeight {
    Fixed(f64),
    /// `clamp(|dL_of/dW_at| / (|dL/dW_at| + 1e-4), 0, 1e4)`, taken anew each micro-batch.
    Adaptive {
        /// Name of the loss whose gradient norm is the numerator.
        of: String,
        /// Name of the layer at whose weight both norms are taken.
        at: String,
    },
}

/// One loss of a model: a named layer of kind loss and its weight.
#[derive(Clone, Debug, PartialEq)]
pub struct LossTerm {
    pub name: String,
    pub layer: NodeIndex,
    pub weight: LossWeight,
}

/// A model: its layer graph in topological order, its losses and what else shapes a run.
#[derive(Clone, Debug)]
pub struct Model {
    pub name: String,
    pub graph: DiGraph<Layer, Flow>,
    /// Never empty; each micro-batch runs one backward for each, in this order
    /// unless an adaptive weight needs another first.
    pub losses: Vec<LossTerm>,
    /// The longest sequence the configuration allows, in tokens.
    pub max_sequence: Option<u64>,
    /// What changes its numbers and none of its costs.
    pub constants: Constants,
    /// The Hugging Face configuration that it was made from, whose tensor names its weights bear.
    pub config: Option<Map<String, Value>>,
    /// What a reader of the configuration should know (unknown fields, families only planned for).
    pub warnings: Vec<String>,
}

impl Model {
    /// Layers in model order. Nodes are added in topological order, so their indices are that order.
    pub fn layers(&self) -> impl ExactSizeIterator<Item = &Layer> {
        self.graph.node_weights().collect::<Vec<_>>().into_iter()
    }

    /// The layer at `index` in model order.
    pub fn layer(&self, index: usize) -> &Layer {
        &self.graph[NodeIndex::new(index)]
    }

    /// Indices of the layers that feed layer `index`, in the order in which their edges were added.
    pub fn inputs(&self, index: usize) -> Vec<usize> {
        let mut edges: Vec<_> = self
            .graph
            .edges_directed(NodeIndex::new(index), Direction::Incoming)
            .map(|edge| (edge.id(), edge.source().index()))
            .collect();
        edges.sort_unstable();
        edges.into_iter().map(|(_, source)| source).collect()
    }

    /// Indices of the layers that read the output of layer `index`, ascending.
    pub fn readers(&self, index: usize) -> Vec<usize> {
        let mut readers: Vec<_> = self
            .graph
            .neighbors_directed(NodeIndex::new(index), Direction::Outgoing)
            .map(NodeIndex::index)
            .collect();
        readers.sort_unstable();
        readers.dedup();
        readers
    }

    /// Elements a token of the output of layer `index`.
    pub fn output_width(&self, index: usize) -> u64 {
        match &self.layer(index).kind {
            LayerKind::Embedding(embedding) => embedding.hidden,
            LayerKind::Attention(attention) => attention.hidden,
            LayerKind::Mlp(mlp) => mlp.hidden,
            LayerKind::Moe(moe) => moe.hidden,
            LayerKind::Head(head) => head.vocabulary,
            LayerKind::Loss(_) => 0,
        }
    }

    /// Number of blocks (transformer layers).
    pub fn blocks(&self) -> u32 {
        self.layers().filter_map(|layer| layer.block).max().map_or(0, |last| last + 1)
    }

    /// All parameters, a tied matrix counted once.
    pub fn parameter_count(&self) -> u64 {
        self.layers().map(layer_parameter_count).sum()
    }

    /// Parameters that are trained.
    pub fn trainable_count(&self) -> u64 {
        self.layers().filter(|layer| !layer.frozen).map(layer_parameter_count).sum()
    }
}

/// Parameters of one layer; a tied head owns only its norm and biases.
pub fn layer_parameter_count(layer: &Layer) -> u64 {
    parameters(&layer.kind).iter().map(ParameterTensor::elements).sum()
}
