//! Where the elements of a rank's parameters, gradients and optimizer state lie.

use std::ops::Range;

use crate::execute::call::Space;
use crate::execute::error::ExecuteError;
use crate::execute::layout::{Section, UnitTensors};
use crate::execute::placement::{Placement, State};
use crate::execute::rank::{Rank, Unit};
use crate::program::instruction::{Holds, Owned};
use crate::program::placing::Region;
use crate::program::state::StateRules;

/// A run of elements of one tensor whose optimizer state a rank owns.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Place of its unit on the rank, and of its tensor in the unit.
    pub unit: usize,
    pub tensor: usize,
    pub section: Section,
    /// Its elements within the section.
    pub range: Range<usize>,
    /// Its first element among the rank's owned elements.
    pub owned: usize,
    /// Weight decay applies.
    pub decays: bool,
    /// No other rank counts it in the gradient's norm.
    pub counts: bool,
}

impl Piece {
    /// The part of it that lies in `owned`.
    pub fn within(&self, owned: Owned) -> Option<Self> {
        let start = self.owned.max(owned.start as usize);
        let end = (self.owned + self.range.len()).min(owned.end as usize);
        (start < end).then(|| {
            let first = self.range.start + start - self.owned;
            Self { range: first..first + end - start, owned: start, ..self.clone() }
        })
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

/// Where the state of a unit lies over the step.
#[derive(Clone, Copy, Debug)]
pub struct UnitState {
    /// Its parameters, whole or this rank's shards; on the host where they are offloaded.
    pub parameters: Region,
    /// Its gradient, whole or this rank's shard; empty where nothing is trained.
    pub gradient: Region,
}

impl UnitState {
    /// The state of a unit with these `tensors` on rank `rank`, in the memory that its program keeps.
    ///
    /// # Errors
    /// [`ExecuteError::State`] if the program keeps more or less than the tensors have.
    pub fn find(
        placement: &Placement,
        rules: &StateRules,
        (rank, tensors, on_host): (usize, &UnitTensors, bool),
    ) -> Result<Self, ExecuteError> {
        let find = |holds, elements: usize, size: u64, on_host: bool| {
            let state = placement.state(holds, Some(tensors.unit));
            let region = |state: &State| if on_host { state.host } else { state.device };
            let region = state.map_or(Region::default(), region);
            let needed = elements * size as usize;
            if region.bytes == needed {
                return Ok(region);
            }
            Err(ExecuteError::State { rank, unit: tensors.unit, holds, found: region.bytes, needed })
        };
        let stored: usize = if rules.shards_parameters {
            Section::ALL.into_iter().map(|section| tensors.shard_length(section)).sum()
        } else {
            tensors.total()
        };
        let (kept, trained) = if rules.keeps_whole_gradients {
            (Holds::Gradients, tensors.trained())
        } else {
            let trained = Section::TRAINED.into_iter();
            (Holds::GradientShards, trained.map(|section| tensors.shard_length(section)).sum())
        };
        Ok(Self {
            parameters: find(Holds::Parameters, stored, rules.parameter.size(), on_host)?,
            gradient: find(kept, trained, rules.gradient.size(), false)?,
        })
    }
}

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

/// The planes of optimizer state in one arena: moments and master weights, one behind the other.
#[derive(Clone, Copy, Debug)]
pub struct Planes {
    pub region: Region,
    /// The first owned element in them, and how many there are.
    pub first: usize,
    pub count: usize,
    /// How many planes there are.
    pub planes: usize,
    /// Bytes of an element.
    pub size: usize,
}

impl Planes {
    /// Owned elements `start .. start + count` of plane `plane`.
    pub fn plane(&self, plane: usize, start: usize, count: usize) -> Region {
        self.region.elements(plane * self.count + start - self.first, count, self.size)
    }

    /// Host staging behind the planes: gradients of `gradient` bytes an element, and behind these parameters of
    /// `parameter` bytes, of owned elements `start .. start + count`.
    pub fn staged(
        &self,
        (start, count): (usize, usize),
        (gradient, parameter): (usize, usize),
    ) -> (Region, Region) {
        let behind = self.region.offset + self.planes * self.count * self.size;
        let skipped = start - self.first;
        let gradients = Region { offset: behind + skipped * gradient, bytes: count * gradient };
        let offset = behind + self.count * gradient + skipped * parameter;
        (gradients, Region { offset, bytes: count * parameter })
    }
}
