//! Where a rank's parameters, gradients, optimizer state and numbers of the step lie in its memory: what instructions
//! work on, and what is filled before a run and read between its steps.

use std::ops::Range;

use crate::execute::call::View;
use crate::execute::ranks::layout::Section;
use crate::execute::ranks::placement::State;
use crate::execute::ranks::rank::Rank;
use crate::execute::ranks::state::Piece;
use crate::execute::ranks::unit::Unit;
use crate::execute::storage::Storage;
use crate::program::instruction::Holds;
use crate::program::placing::Region;
use crate::program::scalars::{SCALAR_SIZE, Scalar, Scalars};
use crate::units::ElementType;

/// What numbers of the step are.
const SCALAR: Storage = Storage::Number(ElementType::Fp64);

/// A tensor of the optimizer's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plane {
    FirstMoments,
    SecondMoments,
    /// Parameters in full precision, where those that work are rounded copies of them.
    Master,
}

impl Rank {
    /// Elements `range` of `section` of the parameters that `unit` stores, whole or sharded.
    pub fn stored(&self, unit: &Unit, section: Section, range: Range<usize>) -> View {
        let tensors = &unit.tensors;
        let start = if self.rules.shards_parameters {
            let shard = tensors.shard(section, self.shard_index(section));
            tensors.shard_start(section) + range.start - shard.start
        } else {
            tensors.whole_start(section) + range.start
        };
        let storage = self.types.compute;
        let region = unit.state.parameters.elements(start, range.len(), storage.size());
        View::new(unit.offloads_parameters, region, storage)
    }

    /// Elements `range` of `section` of a unit's gradient, which this rank owns, between passes and the step.
    pub fn owned_gradient(&self, unit: &Unit, section: Section, range: Range<usize>) -> View {
        let start = self.owned_gradient_start(unit, (section, range.start));
        let storage = self.types.gradient;
        View::device(unit.state.gradient.elements(start, range.len(), storage.size()), storage)
    }

    /// The place of element `element` of `section` of a unit's gradient in the buffer of the rank that owns it.
    pub fn owned_gradient_start(&self, unit: &Unit, (section, element): (Section, usize)) -> usize {
        let tensors = &unit.tensors;
        if self.rules.keeps_whole_gradients {
            return tensors.gradient_start(section) + element;
        }
        let shard = tensors.shard(section, self.shard_index(section));
        tensors.trained_shard_start(section) + element - shard.start
    }

    /// What the optimizer keeps of `piece`, on the host or on the device: planes lie one behind the other.
    pub fn plane(&self, plane: Plane, piece: &Piece, on_host: bool) -> View {
        let (region, first, count) = self.optimizer_state(on_host);
        let start = plane as usize * count + piece.owned - first;
        let storage = self.types.wide;
        View::new(on_host, region.elements(start, piece.range.len(), storage.size()), storage)
    }

    /// Where the gradient and the parameters of `piece` are staged on the host, behind the planes there.
    pub fn staged(&self, piece: &Piece) -> (View, View) {
        let (state, first, count) = self.optimizer_state(true);
        let behind = state.offset + self.rules.optimizer_planes() * count * self.types.wide.size();
        let view = |start: usize, storage: Storage| {
            let offset = start + (piece.owned - first) * storage.size();
            View::new(true, Region { offset, bytes: piece.range.len() * storage.size() }, storage)
        };
        let gradients = view(behind, self.types.gradient);
        (gradients, view(behind + count * self.types.gradient.size(), self.types.compute))
    }

    /// The optimizer's state on the host or the device, the first owned element in it, and how many there are.
    fn optimizer_state(&self, on_host: bool) -> (Region, usize, usize) {
        let (owned, split) = (self.owned(), self.owned_on_host);
        let region = |state: &State| if on_host { state.host } else { state.device };
        let region = self.state(Holds::OptimizerState, None).map_or(Region::default(), region);
        if on_host { (region, 0, split) } else { (region, split, owned - split) }
    }

    /// All numbers of the step.
    pub fn all_scalars(&self) -> View {
        View::device(self.region(Holds::Scalars), SCALAR)
    }

    /// One of them.
    pub fn scalar(&self, scalar: Scalar) -> View {
        let places = self.scalars.places(scalar);
        let region = self.region(Holds::Scalars).elements(places.start, places.len(), SCALAR_SIZE as usize);
        View::device(region, SCALAR)
    }

    /// The first numbers of the step on the device with the losses behind them, and how many losses there are.
    pub fn head_and_losses(&self) -> (View, usize) {
        let (head, losses) = (Scalars::HEAD as usize, self.scalars.all_losses());
        let region = self.region(Holds::Scalars).elements(0, head + losses, SCALAR_SIZE as usize);
        (View::device(region, SCALAR), losses)
    }

    /// The first numbers of the step on the device, and their copy on the host.
    pub fn scalar_heads(&self) -> [View; 2] {
        let state = self.state(Holds::Scalars, None);
        let head = |state: &State| state.device.elements(0, Scalars::HEAD as usize, SCALAR_SIZE as usize);
        let device = state.map_or(Region::default(), head);
        let host = state.map_or(Region::default(), |state| state.host);
        [View::new(false, device, SCALAR), View::new(true, host, SCALAR)]
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
