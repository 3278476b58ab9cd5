//! Floor 2: layers, the layer graph, parameter counts, and where models come from.

pub mod graph;
pub mod layer;
pub mod parameters;

pub use graph::{Flow, LossTerm, LossWeight, Model};
pub use layer::{Layer, LayerKind};
