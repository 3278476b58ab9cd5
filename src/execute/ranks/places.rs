//! Where a rank's parameters, gradients and optimizer state lie in its memory.

use std::ops::Range;

use crate::execute::call::Space;
use crate::execute::ranks::layout::Section;
use crate::execute::ranks::rank::Rank;
use crate::execute::ranks::state::{Piece, Planes};
use crate::execute::ranks::unit::Unit;
use crate::program::instruction::Holds;
use crate::program::placing::Region;

impl Rank {
    /// Where elements `range` of `section` of the parameters that `unit` stores lie.
    pub fn stored(
        &self,
        unit: &Unit,
        (section, range): (Section, Range<usize>),
        (is_sharded, size): (bool, usize),
    ) -> (Space, Region) {
        let tensors = &unit.tensors;
        let start = if is_sharded {
            let shard = tensors.shard(section, self.shard_index(section));
            tensors.shard_start(section) + range.start - shard.start
        } else {
            tensors.whole_start(section) + range.start
        };
        let space = if unit.offloads_parameters { Space::Host } else { Space::Device };
        (space, unit.state.parameters.elements(start, range.len(), size))
    }

    /// Where this rank's shard of `section` of a unit's gradient lies between passes and the step, from element
    /// `range.start` on.
    pub fn owned_gradient(
        &self,
        unit: &Unit,
        (section, range): (Section, Range<usize>),
        (keeps_whole, size): (bool, usize),
    ) -> Region {
        let start = self.owned_gradient_start(unit, (section, range.start), keeps_whole);
        unit.state.gradient.elements(start, range.len(), size)
    }

    /// The place of element `element` of `section` of a unit's gradient in the buffer of the rank that owns it.
    pub fn owned_gradient_start(
        &self,
        unit: &Unit,
        (section, element): (Section, usize),
        keeps_whole: bool,
    ) -> usize {
        let tensors = &unit.tensors;
        if keeps_whole {
            return tensors.gradient_start(section) + element;
        }
        let shard = tensors.shard(section, self.shard_index(section));
        tensors.trained_shard_start(section) + element - shard.start
    }

    /// Optimizer state of `planes` planes of elements of `size` bytes, in host or device memory.
    pub fn planes(&self, on_host: bool, (planes, size): (usize, usize)) -> Planes {
        let (owned, split) = (self.owned(), self.owned_on_host);
        let (first, count) = if on_host { (0, split) } else { (split, owned - split) };
        let region = self
            .state(Holds::OptimizerState, None)
            .map_or(Region::default(), |state| if on_host { state.host } else { state.device });
        Planes { region, first, count, planes, size }
    }
}

/// The pieces of `rank`, in the order of its owned elements; its copy of a tied table may not be the one that counts.
pub fn pieces(rank: &Rank, copies_table: bool) -> Vec<Piece> {
    let is_first = (rank.is_first_holder, rank.is_first_expert_holder);
    let mut list = Vec::new();
    for (place, unit) in rank.units.iter().enumerate() {
        let tensors = &unit.tensors;
        for section in Section::TRAINED {
            let shard = tensors.shard(section, rank.shard_index(section));
            let base = unit.owned_start + tensors.trained_shard_start(section);
            for (index, tensor) in tensors.tensors.iter().enumerate() {
                if tensor.section != section {
                    continue;
                }
                let start = tensor.start.max(shard.start);
                let end = (tensor.start + tensor.elements()).min(shard.end);
                if start < end {
                    let kind = &unit.layers[usize::from(tensor.layer)].kind;
                    let is_copy = copies_table && section == Section::Table;
                    list.push(Piece {
                        unit: place,
                        tensor: index,
                        section,
                        range: start..end,
                        owned: base + start - shard.start,
                        decays: tensor.tensor.columns > 1,
                        counts: !is_copy && rank.slot.counts(kind, tensor, is_first),
                    });
                }
            }
        }
    }
    list
}
