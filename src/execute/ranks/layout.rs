//! Where each parameter tensor of a unit lies on a rank: whole, and sharded.
//!
//! A unit's parameters are one flat run of **sections**, each of which ZeRO shards by itself: dense trained ones,
//! a table that is tied, dense frozen ones, such a table that is frozen, trained and frozen experts. A section of n elements over s ranks has
//! shards of ⌈n/s⌉; the last ones may be short.

use std::ops::Range;

use crate::lower::parameters::{is_partial, local_elements};
use crate::lower::{Shape, UnitParameters};
use crate::model::Model;
use crate::model::layer::LayerKind;
use crate::model::parameters::{ParameterTensor, Split, parameters};
use crate::model::roles::Role;
use crate::model::tensors::{Along, cut};
use crate::program::instruction::Part;
use crate::program::layout::PlacedUnit;
use crate::program::state::StateRules;

/// A part of a unit's parameters that is sharded by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Section {
    Dense,
    Table,
    Frozen,
    /// A table that is tied, where it is frozen.
    FrozenTable,
    Expert,
    FrozenExpert,
}

impl Section {
    /// All sections, in the order in which they lie.
    pub const ALL: [Self; 6] =
        [Self::Dense, Self::Table, Self::Frozen, Self::FrozenTable, Self::Expert, Self::FrozenExpert];

    /// Those that have gradients and optimizer state.
    pub const TRAINED: [Self; 3] = [Self::Dense, Self::Table, Self::Expert];

    /// Whether it has gradients and optimizer state.
    pub const fn is_trained(self) -> bool {
        matches!(self, Self::Dense | Self::Table | Self::Expert)
    }

    /// The trained sections that lie before it.
    pub fn trained_before(self) -> impl Iterator<Item = Self> {
        Self::TRAINED.into_iter().filter(move |before| (*before as usize) < self as usize)
    }

    /// Which groups gather and sum it.
    pub const fn part(self) -> Part {
        match self {
            Self::Dense | Self::Table | Self::Frozen | Self::FrozenTable => Part::Dense,
            Self::Expert | Self::FrozenExpert => Part::Expert,
        }
    }
}

/// A parameter tensor on one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalTensor {
    /// Counted from the unit's first layer.
    pub layer: u16,
    pub tensor: ParameterTensor,
    pub section: Section,
    /// First element within the section.
    pub start: usize,
    pub rows: usize,
    pub columns: usize,
    /// Tensor ranks hold partial sums of its gradient.
    pub partial: bool,
}

impl LocalTensor {
    /// Elements on this rank.
    pub const fn elements(&self) -> usize {
        self.rows * self.columns
    }

    /// Tensor ranks that hold the same part of it: neighbours, where there are fewer key-value heads than ranks.
    pub const fn copies(&self, kind: &LayerKind, tensor_ranks: u64) -> u64 {
        match (self.tensor.split, kind) {
            (Split::Replicated, _) => tensor_ranks,
            (Split::KeyValueHeads, LayerKind::Attention(attention)) => {
                let heads = attention.kv_heads();
                if heads < tensor_ranks { tensor_ranks / heads } else { 1 }
            }
            _ => 1,
        }
    }

    /// Its elements within the section.
    pub const fn range(&self) -> Range<usize> {
        self.start..self.start + self.elements()
    }
}

/// The parameters of a unit on the ranks of its stage.
#[derive(Clone, Debug)]
pub struct UnitTensors {
    pub unit: u32,
    /// The model's layer that layer 0 of the unit is.
    pub first_layer: usize,
    /// Those whose gradients are partial first, so that they are one run of their section.
    pub tensors: Vec<LocalTensor>,
    /// Elements of each section.
    lengths: [usize; 6],
    /// Ranks that share dense and expert state.
    shards: [usize; 2],
    /// A tied head's table beside its embedding: elements that its passes find behind its own parameters.
    pub borrowed: usize,
}

impl UnitTensors {
    /// The tensors of `placed`, whose layers are `layers`.
    pub fn new(
        model: &Model,
        placed: &PlacedUnit,
        layers: Range<usize>,
        shape: &Shape<'_>,
        rules: &StateRules,
    ) -> Self {
        let mut tensors = Vec::new();
        for (place, index) in layers.clone().enumerate() {
            let layer = model.layer(index);
            let mut list = parameters(&layer.kind);
            if placed.parameters.table + placed.parameters.frozen_table > 0
                && let LayerKind::Head(head) = &layer.kind
                && head.tied
            {
                // The copy of a tied table that a head on another pipeline rank holds.
                list.push(ParameterTensor {
                    role: Role::Vocabulary,
                    rows: head.vocabulary,
                    columns: head.table_width.unwrap_or(head.hidden),
                    split: Split::Vocabulary,
                    multiplies: true,
                });
            }
            for tensor in list {
                let section = section(&layer.kind, &tensor, layer.frozen, &placed.parameters);
                let elements = local_elements(&layer.kind, &tensor, shape) as usize;
                // Cut by columns, a rank holds all rows of its experts.
                let (rows, columns) = match cut(&layer.kind, tensor.role).along {
                    Along::Columns if tensor.split != Split::Replicated => {
                        let experts = if tensor.split == Split::Expert { shape.expert } else { 1 };
                        let rows = (tensor.rows / experts) as usize;
                        (rows, elements / rows.max(1))
                    }
                    _ => (elements / (tensor.columns as usize).max(1), tensor.columns as usize),
                };
                tensors.push(LocalTensor {
                    layer: place as u16,
                    partial: !layer.frozen && is_partial(&layer.kind, &tensor, shape),
                    tensor,
                    section,
                    start: 0,
                    rows,
                    columns,
                });
            }
        }
        tensors.sort_by_key(|tensor| (tensor.section as usize, !tensor.partial));
        let mut lengths = [0; 6];
        for tensor in &mut tensors {
            let length = &mut lengths[tensor.section as usize];
            tensor.start = *length;
            *length += tensor.elements();
        }
        let sharded = |shards: u64| if rules.shards_optimizer { shards as usize } else { 1 };
        let shards = [sharded(rules.shards), sharded(rules.expert_shards)];
        let borrowed = placed.parameters.borrowed as usize;
        let this = Self { unit: placed.unit, first_layer: layers.start, tensors, lengths, shards, borrowed };
        debug_assert_eq!(this.total() as u64, placed.parameters.total());
        this
    }

    /// The section of a table that is tied, if there is one.
    pub fn table(&self) -> Section {
        if self.length(Section::FrozenTable) > 0 { Section::FrozenTable } else { Section::Table }
    }

    /// Elements of `section`.
    pub const fn length(&self, section: Section) -> usize {
        self.lengths[section as usize]
    }

    /// All elements.
    pub fn total(&self) -> usize {
        self.lengths.iter().sum()
    }

    /// Where `section` starts among a unit's whole parameters.
    pub fn whole_start(&self, section: Section) -> usize {
        self.lengths[..section as usize].iter().sum()
    }

    /// Where `section` starts in a unit's whole gradient, which has trained sections only.
    pub fn gradient_start(&self, section: Section) -> usize {
        section.trained_before().map(|before| self.length(before)).sum()
    }

    /// Trained elements.
    pub fn trained(&self) -> usize {
        Section::TRAINED.into_iter().map(|section| self.length(section)).sum()
    }

    /// Elements of one shard of `section`, padding counted.
    pub const fn shard_length(&self, section: Section) -> usize {
        self.length(section).div_ceil(self.shards_of(section))
    }

    /// Ranks that shard `section`.
    pub const fn shards_of(&self, section: Section) -> usize {
        self.shards[match section.part() {
            Part::Dense => 0,
            Part::Expert => 1,
        }]
    }

    /// Where the shard of `section` starts among a rank's shards of all sections.
    pub fn shard_start(&self, section: Section) -> usize {
        Section::ALL[..section as usize].iter().map(|&before| self.shard_length(before)).sum()
    }

    /// Where the shard of a trained section starts among a rank's shards of trained sections.
    pub fn trained_shard_start(&self, section: Section) -> usize {
        section.trained_before().map(|before| self.shard_length(before)).sum()
    }

    /// The elements of `section` in shard `index`, without padding.
    pub fn shard(&self, section: Section, index: usize) -> Range<usize> {
        let length = self.length(section);
        let shard = self.shard_length(section);
        (index * shard).min(length)..((index + 1) * shard).min(length)
    }

    /// The tensor of layer `layer` with this role.
    pub fn tensor(&self, layer: u16, role: Role) -> Option<&LocalTensor> {
        self.tensors.iter().find(|tensor| tensor.layer == layer && tensor.tensor.role == role)
    }
}

fn section(kind: &LayerKind, tensor: &ParameterTensor, frozen: bool, parameters: &UnitParameters) -> Section {
    let is_table = parameters.table + parameters.frozen_table > 0
        && tensor.split == Split::Vocabulary
        && tensor.columns > 1
        && match kind {
            LayerKind::Embedding(_) => true,
            LayerKind::Head(head) => head.tied,
            _ => false,
        };
    match tensor.split {
        _ if is_table && parameters.table > 0 => Section::Table,
        _ if is_table => Section::FrozenTable,
        Split::Expert | Split::ExpertReplicated if frozen => Section::FrozenExpert,
        Split::Expert | Split::ExpertReplicated => Section::Expert,
        _ if frozen => Section::Frozen,
        _ => Section::Dense,
    }
}
