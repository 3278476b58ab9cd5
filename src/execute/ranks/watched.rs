//! Layers at which adaptive weights look: where their tensors lie in a unit's gradient and in a copy of it, and which
//! of them a rank counts.

use std::ops::Range;

use crate::execute::ranks::mapping::Slot;
use crate::execute::ranks::unit::Unit;
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

impl Watched {
    /// Layer `layer` of `unit` on a rank at `slot`; `is_first` as in [`Slot::counts`].
    pub fn new(unit: &Unit, layer: u16, slot: &Slot, is_first: (bool, bool)) -> Self {
        let Unit { tensors, layers, .. } = unit;
        let kind = &layers[usize::from(layer)].kind;
        let of_layer = || tensors.tensors.iter().filter(|tensor| tensor.layer == layer);
        // Without experts, only tensor ranks sum up squares: ranks that sum gradients have the same.
        let has_experts = of_layer().any(|tensor| tensor.section.part() == Part::Expert);
        let is_first = (is_first.0 || !has_experts, is_first.1);
        let mut list = Vec::new();
        let mut end = 0;
        for tensor in of_layer().filter(|tensor| tensor.section.is_trained()) {
            let copies = tensor.copies(kind, slot.tensors);
            list.push(WatchedTensor {
                from: tensors.gradient_start(tensor.section) + tensor.start,
                to: end,
                elements: tensor.elements(),
                part: tensor.section.part(),
                parts: if tensor.partial { copies as usize } else { 1 },
                counts: slot.counts(kind, tensor, is_first),
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
