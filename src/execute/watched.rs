//! Layers at which adaptive weights look: where their tensors lie in a unit's gradient and in a copy of it, and which
//! of them a rank counts.

use std::ops::Range;

use crate::execute::layout::UnitTensors;
use crate::execute::mapping::Slot;
use crate::model::Layer;
use crate::model::parameters::Split;
use crate::program::instruction::Part;

/// A tensor of a watched layer.
#[derive(Clone, Debug)]
pub struct WatchedTensor {
    /// First element in the unit's gradient, and in the copy.
    pub from: usize,
    pub to: usize,
    pub elements: usize,
    pub part: Part,
    /// Neighbours of the tensor group that hold parts of its gradient; 1 where it is whole.
    pub parts: usize,
    /// No other rank counts it in the norm.
    pub counts: bool,
}

/// A watched layer on one rank, dense tensors before experts.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    pub tensors: Vec<WatchedTensor>,
}

/// Where a rank stands among those that hold the same gradients.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    pub slot: Slot,
    /// It is the first that holds these dense gradients, these experts; of no account where only tensor ranks sum.
    pub is_first: bool,
    pub is_first_expert: bool,
}

impl Watched {
    /// Layer `layer` of the unit of `tensors`, whose layers are `layers`.
    pub fn new(tensors: &UnitTensors, layers: &[Layer], layer: u16, standing: Standing) -> Self {
        let slot = standing.slot;
        let kind = &layers[usize::from(layer)].kind;
        let of_layer = || tensors.tensors.iter().filter(|tensor| tensor.layer == layer);
        // Without experts, only tensor ranks sum up squares: ranks that sum gradients have the same.
        let has_experts = of_layer().any(|tensor| tensor.section.part() == Part::Expert);
        let is_first = standing.is_first || !has_experts;
        let mut list = Vec::new();
        let mut end = 0;
        for tensor in of_layer().filter(|tensor| tensor.section.is_trained()) {
            let copies = tensor.copies(kind, slot.tensors);
            let counts = match tensor.tensor.split {
                Split::Expert => standing.is_first_expert,
                Split::ExpertReplicated => standing.is_first_expert && slot.expert_tensor == 0,
                Split::Replicated | Split::KeyValueHeads => is_first && slot.tensor.is_multiple_of(copies),
                Split::Tensor | Split::Vocabulary => is_first,
            };
            list.push(WatchedTensor {
                from: tensors.gradient_start(tensor.section) + tensor.start,
                to: end,
                elements: tensor.elements(),
                part: tensor.section.part(),
                parts: if tensor.partial { copies as usize } else { 1 },
                counts,
            });
            end += tensor.elements();
        }
        Self { tensors: list }
    }

    /// The elements of `part` in a copy.
    pub fn part(&self, part: Part) -> Range<usize> {
        let mut range = 0..0;
        for tensor in self.tensors.iter().filter(|tensor| tensor.part == part) {
            if range.is_empty() {
                range.start = tensor.to;
            }
            range.end = tensor.to + tensor.elements;
        }
        range
    }
}
