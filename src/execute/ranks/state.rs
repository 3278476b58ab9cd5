//! Where the elements of a rank's parameters, gradients and optimizer state lie.

use std::ops::Range;

use crate::execute::error::ExecuteError;
use crate::execute::ranks::layout::{Section, UnitTensors};
use crate::execute::ranks::placement::{Placement, State};
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
