//! Floor 2: layers, the layer graph, parameter counts, and where models come from.

mod check;
mod decoder;
mod error;
pub mod graph;
pub mod hugging_face;
pub mod layer;
pub mod parameters;

pub use error::ModelError;
pub use graph::{Flow, LossTerm, LossWeight, Model};
pub use layer::{Layer, LayerKind};
