//! Which elements of a model's parameter a rank's local tensor holds.

use crate::execute::ranks::layout::LocalTensor;
use crate::model::layer::LayerKind;
use crate::model::parameters::Split;
use crate::model::tensors::{Along, cut};

/// Where a rank stands in the groups that cut parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    pub tensor: u64,
    pub tensors: u64,
    pub expert: u64,
    pub experts: u64,
    pub expert_tensor: u64,
    pub expert_tensors: u64,
}

impl Slot {
    /// Whether a norm counts `local`, of a layer of kind `kind`, here: one of the ranks that hold the same gradient does.
    /// `is_first` says whether this one is the first of those that hold the same dense tensors, the same experts.
    pub const fn counts(&self, kind: &LayerKind, local: &LocalTensor, is_first: (bool, bool)) -> bool {
        match local.tensor.split {
            Split::Expert => is_first.1,
            Split::ExpertReplicated => is_first.1 && self.expert_tensor == 0,
            _ => is_first.0 && self.tensor.is_multiple_of(local.copies(kind, self.tensors)),
        }
    }
}

/// A run of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub local_row: usize,
    pub row: u64,
    pub rows: usize,
}

/// The rows and columns of the whole parameter that a local tensor holds; padded rows are in no segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub segments: Vec<Segment>,
    pub first_column: u64,
}

impl Mapping {
    /// What `local`, a tensor of a layer of kind `kind`, holds on the rank at `slot`.
    pub fn new(kind: &LayerKind, local: &LocalTensor, slot: &Slot) -> Self {
        let tensor = &local.tensor;
        let rows = local.rows as u64;
        let one = |row: u64, count: u64| vec![Segment { local_row: 0, row, rows: count as usize }];
        let cut = cut(kind, tensor.role);
        let (segments, first_column) = match tensor.split {
            Split::Replicated => (one(0, rows), 0),
            Split::Vocabulary => {
                let first = (slot.tensor * rows).min(tensor.rows);
                (one(first, rows.min(tensor.rows - first)), 0)
            }
            Split::KeyValueHeads => {
                let heads = match kind {
                    LayerKind::Attention(attention) => attention.kv_heads(),
                    _ => slot.tensors,
                };
                let head_rows = tensor.rows / heads.max(1);
                (one(slot.tensor * heads / slot.tensors * head_rows, rows), 0)
            }
            Split::Tensor if cut.along == Along::Columns => {
                (one(0, rows), slot.tensor * local.columns as u64)
            }
            Split::Tensor => (parts(0, tensor.rows, cut.parts, slot.tensor, slot.tensors, 0), 0),
            Split::Expert | Split::ExpertReplicated => {
                let experts = if let LayerKind::Moe(moe) = kind { moe.experts } else { 1 };
                let held = experts / slot.experts;
                let whole = tensor.rows / experts.max(1);
                let is_cut = tensor.split == Split::Expert;
                let by_columns = is_cut && cut.along == Along::Columns;
                let (place, places) =
                    if is_cut && !by_columns { (slot.expert_tensor, slot.expert_tensors) } else { (0, 1) };
                let per_expert = rows / held.max(1);
                let segments = (0..held)
                    .flat_map(|expert| {
                        let first = (slot.expert * held + expert) * whole;
                        parts(first, whole, cut.parts, place, places, (expert * per_expert) as usize)
                    })
                    .collect();
                (segments, if by_columns { slot.expert_tensor * local.columns as u64 } else { 0 })
            }
        };
        Self { segments, first_column }
    }

    /// The row of the whole parameter that local row `row` holds; none where it is padding.
    pub fn row(&self, row: usize) -> Option<u64> {
        let holds = |segment: &&Segment| (segment.local_row..segment.local_row + segment.rows).contains(&row);
        let segment = self.segments.iter().find(holds)?;
        Some(segment.row + (row - segment.local_row) as u64)
    }
}

/// Place `place` of `places` of each of `parts` equal runs of `rows` rows from `first` on.
fn parts(first: u64, rows: u64, parts: u64, place: u64, places: u64, local_row: usize) -> Vec<Segment> {
    let part = rows / parts;
    let own = part / places;
    (0..parts)
        .map(|index| Segment {
            local_row: local_row + (index * own) as usize,
            row: first + index * part + place * own,
            rows: own as usize,
        })
        .collect()
}
