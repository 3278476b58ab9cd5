//! Where the parts of a weight's gradient lie: on which rank, in which buffer, and where in the whole weight.

use std::ops::Range;

use crate::execute::call::View;
use crate::execute::fleet::Fleet;
use crate::execute::ranks::layout::LocalTensor;
use crate::execute::ranks::mapping::Mapping;
use crate::execute::ranks::rank::Rank;
use crate::execute::ranks::state::Piece;
use crate::execute::ranks::unit::Unit;
use crate::model::tensors::NamedTensor;
use crate::program::GradientBuffer;
use crate::units::ElementType;

/// A run of a rank's gradient buffer that holds part of a weight's gradient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub rank: usize,
    /// Its pipeline stage.
    pub stage: u32,
    /// The unit whose buffer it is, in model order.
    pub unit: u32,
    pub buffer: GradientBuffer,
    /// In elements, within the rank's buffer.
    pub elements: Range<usize>,
    /// In elements, within the unit's whole flat gradient on this tensor and expert rank: each of its sections
    /// padded to whole shards.
    pub flat: Range<usize>,
    /// Where its elements stand in the flattened weight, in their order.
    pub runs: Vec<Run>,
    pub element_type: ElementType,
    /// The first of all places that hold these elements: those that count make up the weight, each element once.
    pub counts: bool,
    pub(super) view: View,
}

/// Elements of a flattened tensor: start, start + stride, ...
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub start: usize,
    pub stride: usize,
    pub length: usize,
}

impl Run {
    /// The elements that it names.
    pub fn indices(self) -> impl Iterator<Item = usize> {
        (0..self.length).map(move |place| self.start + place * self.stride)
    }

    /// Whether `next` goes on where this one ends; then it is taken in.
    fn takes(&mut self, next: Self) -> bool {
        // One element goes on at any distance.
        let distance = next.start.saturating_sub(self.start);
        let stride = if self.length == 1 { distance } else { self.stride };
        let is_even = next.length == 1 || next.stride == stride;
        let joins = stride > 0 && is_even && distance == self.length * stride;
        if joins {
            (self.stride, self.length) = (stride, self.length + next.length);
        }
        joins
    }
}

impl Place {
    /// Where each of its elements stands in the flattened weight.
    pub fn indices(&self) -> impl Iterator<Item = usize> + '_ {
        self.runs.iter().flat_map(|run| run.indices())
    }

    /// The smallest range of the flattened weight that its elements lie in.
    pub fn span(&self) -> Range<usize> {
        let last = |run: &Run| run.start + run.stride * (run.length - 1) + 1;
        let start = self.runs.iter().map(|run| run.start).min().unwrap_or_default();
        start..self.runs.iter().map(last).max().unwrap_or_default()
    }
}

/// The places of `rank` that hold parts of a weight whose tensor has these `parts`.
pub(super) fn places(fleet: &Fleet, rank: &Rank, parts: &[&NamedTensor]) -> Vec<Place> {
    let mut list = Vec::new();
    for piece in &rank.pieces {
        let unit = &rank.units[piece.unit];
        let tensor = &unit.tensors.tensors[piece.tensor];
        let (parameter, mapping) = fleet.mapping(rank, unit, tensor);
        for part in parts.iter().filter(|part| (part.layer, part.role) == parameter) {
            let found = within(piece, tensor, &mapping, part);
            list.extend(
                found.into_iter().map(|(range, runs)| place(fleet, (rank, unit), piece, range, runs)),
            );
        }
    }
    list
}

fn place(
    fleet: &Fleet,
    (rank, unit): (&Rank, &Unit),
    piece: &Piece,
    range: Range<usize>,
    runs: Vec<Run>,
) -> Place {
    let rules = &fleet.run.rules;
    let (tensors, section) = (&unit.tensors, piece.section);
    let (keeps_whole, count) = (rules.keeps_whole_gradients, range.len());
    let start = rank.owned_gradient_start(unit, (section, range.start));
    let padded = |before| tensors.shard_length(before) * tensors.shards_of(before);
    let flat = section.trained_before().map(padded).sum::<usize>() + range.start;
    Place {
        rank: rank.index,
        stage: rank.stage,
        unit: unit.index,
        buffer: if keeps_whole { GradientBuffer::Whole } else { GradientBuffer::Shard },
        elements: start..start + count,
        flat: flat..flat + count,
        runs,
        counts: piece.counts,
        view: rank.owned_gradient(unit, section, range),
        element_type: rules.gradient,
    }
}

/// The runs of `piece`, in elements of its section, that hold elements of `part`, and where these stand in it.
fn within(
    piece: &Piece,
    tensor: &LocalTensor,
    mapping: &Mapping,
    part: &NamedTensor,
) -> Vec<(Range<usize>, Vec<Run>)> {
    let mut found: Vec<(Range<usize>, Vec<Run>)> = Vec::new();
    let rows = part.first_row..part.first_row + part.rows;
    let mut at = piece.range.start;
    while at < piece.range.end {
        let (row, column) = ((at - tensor.start) / tensor.columns, (at - tensor.start) % tensor.columns);
        let end = (at + tensor.columns - column).min(piece.range.end);
        if let Some(row) = mapping.row(row).filter(|row| rows.contains(row)) {
            let start = part.position(row, mapping.first_column + column as u64) as usize;
            let run = Run { start, stride: part.layout.column_stride as usize, length: end - at };
            match found.last_mut().filter(|(range, _)| range.end == at) {
                Some((range, runs)) => {
                    range.end = end;
                    if !runs.last_mut().is_some_and(|last| last.takes(run)) {
                        runs.push(run);
                    }
                }
                None => found.push((at..end, vec![run])),
            }
        }
        at = end;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::Run;

    #[test]
    fn runs_that_follow_one_another_are_one() {
        let run = |start, stride, length| Run { start, stride, length };
        for (first, second, joined) in [
            (run(0, 1, 4), run(4, 1, 4), Some(run(0, 1, 8))),
            (run(0, 1, 4), run(5, 1, 4), None),
            (run(0, 1, 4), run(4, 2, 4), None),
            (run(3, 9, 1), run(5, 2, 3), Some(run(3, 2, 4))),
            (run(3, 9, 1), run(5, 1, 3), None),
            (run(0, 2, 3), run(6, 7, 1), Some(run(0, 2, 4))),
            (run(6, 1, 1), run(0, 1, 1), None),
        ] {
            let mut one = first;
            assert_eq!(one.takes(second).then_some(one), joined, "{first:?} {second:?}");
            if joined.is_none() {
                assert_eq!(one, first);
            }
        }
    }
}
