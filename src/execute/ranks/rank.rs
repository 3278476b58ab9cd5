//! One rank of a run: where it stands, its memory, and where its units' state lies in it.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use crate::execute::observe::span::Span;
use crate::execute::ranks::layout::Section;
use crate::execute::ranks::mapping::Slot;
use crate::execute::ranks::placement::{Placement, State};
use crate::execute::ranks::position::Position;
use crate::execute::ranks::state::Piece;
use crate::execute::ranks::unit::Unit;
use crate::execute::ranks::watched::Watched;
use crate::execute::storage::Types;
use crate::lower::Stream;
use crate::ops::Group;
use crate::program::instruction::{Holds, Part};
use crate::program::placing::Region;
use crate::program::scalars::Scalars;
use crate::program::state::StateRules;
use crate::simulate::Counters;

/// One rank.
pub struct Rank {
    pub index: usize,
    pub rules: StateRules,
    pub types: Types,
    pub stage: u32,
    pub slot: Slot,
    /// Its place in the group that shards dense state, and expert state.
    pub shard: usize,
    pub expert_shard: usize,
    /// Its place among the context ranks.
    pub context: u64,
    /// Which share of the sequences it takes.
    pub data_rank: u64,
    /// It is the first of all ranks that hold the same dense state, the same expert state.
    pub is_first_holder: bool,
    pub is_first_expert_holder: bool,
    pub placement: Arc<Placement>,
    pub units: Vec<Unit>,
    /// By watch, the tensors whose gradients are looked at.
    pub watched: Vec<Watched>,
    /// The tensors whose state it owns, in the order of owned elements.
    pub pieces: Vec<Piece>,
    /// Owned elements whose state is on the host: the first.
    pub owned_on_host: usize,
    /// By group, the ranks of the one that it is in.
    pub members: [Vec<usize>; Group::COUNT],
    /// By stream, when its instructions ran.
    pub spans: [Mutex<Vec<Span>>; Stream::ALL.len()],
    /// How far it is in its step.
    pub position: Arc<Position>,
    /// Behind the last byte of each arena that the state or a step has written to, device and host.
    pub written: [AtomicUsize; 2],
    /// Which numbers its buffer for those of a step holds.
    pub scalars: Scalars,
}

impl Rank {
    /// Elements whose optimizer state it owns, padding counted.
    pub fn owned(&self) -> usize {
        self.units.iter().map(|unit| unit.owned).sum()
    }

    /// The ranks of the group of kind `group` that it is in.
    pub fn members(&self, group: Group) -> &[usize] {
        &self.members[group as usize]
    }

    /// The place of the model's unit `index` on this rank.
    pub fn place_of(&self, index: u32) -> Option<usize> {
        self.units.iter().position(|unit| unit.index == index)
    }

    /// The index of this rank's shard of `section`.
    pub const fn shard_index(&self, section: Section) -> usize {
        match section.part() {
            Part::Dense => self.shard,
            Part::Expert => self.expert_shard,
        }
    }

    /// What it holds of device and host memory in a step, by the instructions that it performed in the last one.
    pub fn counted(&self) -> (Counters, Counters) {
        let mut performed = vec![false; self.placement.issues.len()];
        for (stream, issues) in Stream::ALL.into_iter().zip(&self.placement.streams) {
            let done = issues.iter().take(self.position.performed(stream));
            done.for_each(|&issue| performed[issue as usize] = true);
        }
        self.placement.counted(|issue| performed[issue])
    }

    /// The persistent buffer that holds `holds` of unit `unit`.
    pub fn state(&self, holds: Holds, unit: Option<u32>) -> Option<&State> {
        self.placement.state(holds, unit)
    }

    /// The device region of a persistent buffer that is not a unit's; empty if there is none.
    pub fn region(&self, holds: Holds) -> Region {
        self.state(holds, None).map_or(Region::default(), |state| state.device)
    }
}
