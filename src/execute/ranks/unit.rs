//! One unit on one rank.

use crate::execute::ranks::layout::UnitTensors;
use crate::execute::ranks::state::UnitState;
use crate::model::Layer;

/// A unit of a rank.
pub struct Unit {
    /// Index among the model's units.
    pub index: u32,
    /// The loss that it computes.
    pub loss: Option<u8>,
    pub layers: Vec<Layer>,
    pub tensors: UnitTensors,
    pub state: UnitState,
    pub offloads_parameters: bool,
    /// The first element of its share among the owned elements of the rank.
    pub owned_start: usize,
    /// Owned elements.
    pub owned: usize,
    /// For a tied head beside its embedding: the place of the embedding's unit on this rank.
    pub borrows_from: Option<usize>,
}
