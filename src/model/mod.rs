//! Layers, the layer graph, parameter counts, and where models come from.

mod check;
mod checkpoint;
pub mod constants;
pub mod decoder;
pub mod dimensions;
mod error;
pub mod graph;
pub mod hugging_face;
pub mod layer;
pub mod layer_graph;
mod loss_weight;
mod naming;
pub mod outline;
pub mod parameters;
mod presets;
mod repeat;
pub mod roles;
mod sizes;
mod source;
pub mod tensors;
mod weighing;

pub use constants::Constants;
pub use dimensions::Dimensions;
pub use error::ModelError;
pub use graph::{Flow, LossTerm, LossWeight, Model};
pub use hugging_face::MultiToken;
pub use layer::{Layer, LayerKind};
pub use loss_weight::{Adaptive, Weight};
pub use naming::preset_named;
pub use presets::{Preset, preset, presets};
pub use repeat::Repeat;
pub use source::{from_text, load, load_with, source_of};
pub use weighing::Watch;
