//! What the ranks' memory holds, seen as the model's own tensors: filled before a run, read between its steps.

use std::collections::HashMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::execute::call::View;
use crate::execute::comm::small_numbers;
use crate::execute::data::{Batches, DataError};
use crate::execute::fleet::Fleet;
use crate::execute::pool::Pool;
use crate::execute::ranks::layout::{LocalTensor, Section};
use crate::execute::ranks::mapping::Mapping;
use crate::execute::ranks::places::Plane;
use crate::execute::ranks::rank::Rank;
use crate::execute::ranks::state::Piece;
use crate::execute::ranks::unit::Unit;
use crate::execute::storage::Storage;
use crate::execute::threads::{Work, together};
use crate::execute::weights::Weights;
use crate::model::layer::LayerKind;
use crate::model::roles::Role;
use crate::program::instruction::{Holds, Owned};
use crate::program::scalars::Scalar;
use crate::units::ElementType;

/// The pieces of `rank` whose optimizer state is on the host, then those of the device.
fn owned(rank: &Rank) -> impl Iterator<Item = (bool, Piece)> {
    let split = rank.owned_on_host as u64;
    let spaces = [(true, Owned { start: 0, end: split }), (false, Owned { start: split, end: u64::MAX })];
    let within = |(on_host, owned): (bool, Owned)| {
        rank.pieces.iter().filter_map(move |piece| Some((on_host, piece.within(owned)?)))
    };
    spaces.into_iter().flat_map(within)
}

/// Something that is kept for each parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kept {
    Parameters,
    Gradients,
    FirstMoments,
    SecondMoments,
}

/// Where values are read from, and the threads that read them.
#[derive(Clone, Copy, Debug)]
struct Values<'a> {
    weights: &'a Weights,
    pool: Pool<'a>,
}

/// A parameter of the model: layer and role.
pub type Parameter = (usize, Role);

/// Takes a run of a parameter's elements: the parameter, how many elements it has in all, the first of the run, the values.
pub(super) type TakeRun<'t> = dyn FnMut(Parameter, usize, usize, &[f64]) + 't;

/// Which parameters are asked for.
type IsWanted<'w> = dyn Fn(Parameter) -> bool + 'w;

/// Whole tensors, row-major, by parameter.
pub type Tensors = HashMap<Parameter, Vec<f64>>;

impl Fleet {
    /// Every rank's parameters (and master weights) become those of `weights`.
    pub fn set_parameters(&self, weights: &Weights) {
        let threads = self.loading_threads();
        let from = Values { weights, pool: threads.as_ref().map_or(Pool::Serial, Pool::Threads) };
        let fill = |rank: &Rank| {
            for unit in &rank.units {
                self.set_unit(rank, unit, from);
            }
            self.set_owned(rank, from);
        };
        let fill = &fill;
        let all = self.ranks.iter().map(|rank| -> Work<'_> { Box::new(move || fill(rank)) }).collect();
        if together(all, || ()).is_err() {
            // With one thread it takes longer.
            self.ranks.iter().for_each(fill);
        }
    }

    /// Threads that all ranks load by; none where the system gives none.
    fn loading_threads(&self) -> Option<rayon::ThreadPool> {
        rayon::ThreadPoolBuilder::new().num_threads(self.run.settings.cores.max(1)).build().ok()
    }

    /// The parameters that `unit` stores: whole, or its shards.
    fn set_unit(&self, rank: &Rank, unit: &Unit, from: Values<'_>) {
        for tensor in &unit.tensors.tensors {
            let held = self.stored_range(rank, unit, tensor);
            if held.start >= held.end {
                continue;
            }
            let values = self.local_values((rank, unit, tensor), &held, from);
            self.set_numbers(rank.index, rank.stored(unit, tensor.section, held), &values);
        }
    }

    /// Master weights, and the parameters that the host keeps beside its optimizer state.
    fn set_owned(&self, rank: &Rank, from: Values<'_>) {
        let has_master = rank.rules.has_separate_master;
        for (on_host, piece) in owned(rank).filter(|(on_host, _)| has_master || *on_host) {
            let values = self.piece_values(rank, &piece, from);
            if has_master {
                self.set_numbers(rank.index, rank.plane(Plane::Master, &piece, on_host), &values);
            }
            if on_host {
                self.set_numbers(rank.index, rank.staged(&piece).1, &values);
            }
        }
    }

    /// Small numbers become what lies in every rank's inboxes.
    pub(super) fn fill_inboxes(&self) {
        for rank in &self.ranks {
            let inboxes = rank.placement.states.iter().filter(|state| matches!(state.holds, Holds::Inbox(_)));
            for inbox in inboxes {
                let view = View::device(inbox.device, rank.types.compute);
                let numbers: Vec<f64> = small_numbers().take(view.len()).collect();
                self.set_numbers(rank.index, view, &numbers);
            }
        }
    }

    /// The moments of the optimizer become these, which have those of all trained parameters.
    pub fn set_moments(&self, first: &Weights, second: &Weights) {
        let threads = self.loading_threads();
        let pool = threads.as_ref().map_or(Pool::Serial, Pool::Threads);
        for rank in &self.ranks {
            for (plane, weights) in [(Plane::FirstMoments, first), (Plane::SecondMoments, second)] {
                for (on_host, piece) in owned(rank) {
                    let values = self.piece_values(rank, &piece, Values { weights, pool });
                    self.set_numbers(rank.index, rank.plane(plane, &piece, on_host), &values);
                }
            }
        }
    }

    /// The values of a piece of a local tensor.
    fn piece_values(&self, rank: &Rank, piece: &Piece, from: Values<'_>) -> Vec<f64> {
        let unit = &rank.units[piece.unit];
        self.local_values((rank, unit, &unit.tensors.tensors[piece.tensor]), &piece.range, from)
    }

    /// The values of those elements of a local tensor that are at `wanted` in its section; padding is 0. No more rows are
    /// made than these elements are in: a shard may be a small part of its tensor.
    fn local_values(
        &self,
        (rank, unit, tensor): (&Rank, &Unit, &LocalTensor),
        wanted: &Range<usize>,
        from: Values<'_>,
    ) -> Vec<f64> {
        let start = tensor.range().start;
        let (first, end) = (wanted.start - start, wanted.end - start);
        let width = tensor.columns.max(1);
        let rows = first / width..end.div_ceil(width);
        let mut values = vec![0.0; rows.len() * width];
        let (parameter, mapping) = self.mapping(rank, unit, tensor);
        let columns = mapping.first_column..mapping.first_column + tensor.columns as u64;
        for segment in &mapping.segments {
            let begin = segment.local_row.max(rows.start);
            let held = begin..(segment.local_row + segment.rows).min(rows.end);
            if held.is_empty() {
                continue;
            }
            let row = segment.row + (held.start - segment.local_row) as u64;
            let target = &mut values[(held.start - rows.start) * width..(held.end - rows.start) * width];
            let of_parameter = row..row + held.len() as u64;
            from.weights.read(parameter.0, parameter.1, of_parameter, columns.clone(), target, from.pool);
        }
        values.truncate(end - rows.start * width);
        values.drain(..first - rows.start * width);
        values
    }

    /// The parameter that a local tensor is part of, and which part.
    pub(super) fn mapping(&self, rank: &Rank, unit: &Unit, tensor: &LocalTensor) -> (Parameter, Mapping) {
        let kind = &unit.layers[usize::from(tensor.layer)].kind;
        (self.parameter(unit, tensor), Mapping::new(kind, tensor, &rank.slot))
    }

    /// The parameter that a local tensor is part of. A copy of a tied table is the embedding's.
    fn parameter(&self, unit: &Unit, tensor: &LocalTensor) -> Parameter {
        let kind = &unit.layers[usize::from(tensor.layer)].kind;
        let layer = unit.tensors.first_layer + usize::from(tensor.layer);
        if matches!(tensor.section, Section::Table | Section::FrozenTable)
            && matches!(kind, LayerKind::Head(_))
        {
            let is_embedding = |layer: &crate::model::Layer| matches!(layer.kind, LayerKind::Embedding(_));
            let table = self.run.model.layers().position(is_embedding).unwrap_or(layer);
            return (table, Role::Tokens);
        }
        (layer, tensor.tensor.role)
    }

    /// All tensors of what is kept, gathered from the ranks that own them. Frozen parameters have no gradients and
    /// no moments. Under mixed precision, parameters are the master weights.
    pub fn read(&self, kept: Kept) -> Tensors {
        self.read_those(kept, &|_| true)
    }

    /// One of them, whole; none where no rank has it.
    pub fn read_one(&self, kept: Kept, parameter: Parameter) -> Option<Vec<f64>> {
        self.read_those(kept, &|other| other == parameter).remove(&parameter)
    }

    fn read_those(&self, kept: Kept, is_wanted: &IsWanted<'_>) -> Tensors {
        let mut tensors = Tensors::new();
        self.read_runs(kept, is_wanted, &mut |parameter, elements, start, values| {
            let target = tensors.entry(parameter).or_insert_with(|| vec![0.0; elements]);
            target[start..start + values.len()].copy_from_slice(values);
        });
        tensors
    }

    /// Hands out what the ranks of this process are the first to hold, run by run.
    pub(super) fn read_runs(&self, kept: Kept, is_wanted: &IsWanted<'_>, take: &mut TakeRun<'_>) {
        for rank in self.ranks.iter().rev().filter(|rank| rank.is_first_holder || rank.is_first_expert_holder)
        {
            for (on_host, piece) in owned(rank) {
                let unit = &rank.units[piece.unit];
                let tensor = &unit.tensors.tensors[piece.tensor];
                if is_wanted(self.parameter(unit, tensor)) {
                    let values = self.numbers(rank.index, Self::view(rank, (on_host, &piece), kept));
                    self.runs(rank, unit, tensor, (piece.range.start - tensor.start, &values), take);
                }
            }
            if kept == Kept::Parameters {
                self.read_frozen(rank, is_wanted, take);
            }
        }
    }

    /// A parameter of which this process holds a value that is not finite as `element` stores it, and that value.
    pub(super) fn first_odd(&self, element: ElementType) -> Option<(String, f64)> {
        let mut odd = None;
        self.read_runs(Kept::Parameters, &|_| true, &mut |(layer, role), _, _, values| {
            let is_odd = |value: &&f64| match element {
                ElementType::Fp64 => !value.is_finite(),
                _ => !(**value as f32).is_finite(),
            };
            if let Some(value) = values.iter().find(is_odd) {
                odd.get_or_insert_with(|| (format!("{}.{role}", self.run.model.layer(layer).name), *value));
            }
        });
        odd
    }

    fn view(rank: &Rank, (on_host, piece): (bool, &Piece), kept: Kept) -> View {
        let unit = &rank.units[piece.unit];
        let (section, range) = (piece.section, piece.range.clone());
        match kept {
            Kept::Gradients => rank.owned_gradient(unit, section, range),
            Kept::Parameters if rank.rules.has_separate_master => rank.plane(Plane::Master, piece, on_host),
            Kept::Parameters => rank.stored(unit, section, range),
            Kept::FirstMoments => rank.plane(Plane::FirstMoments, piece, on_host),
            Kept::SecondMoments => rank.plane(Plane::SecondMoments, piece, on_host),
        }
    }

    fn read_frozen(&self, rank: &Rank, is_wanted: &IsWanted<'_>, take: &mut TakeRun<'_>) {
        for unit in &rank.units {
            for tensor in unit.tensors.tensors.iter().filter(|tensor| !tensor.section.is_trained()) {
                if !is_wanted(self.parameter(unit, tensor)) {
                    continue;
                }
                let range = self.stored_range(rank, unit, tensor);
                if range.start >= range.end {
                    continue;
                }
                let stored = rank.stored(unit, tensor.section, range.clone());
                let values = self.numbers(rank.index, stored);
                self.runs(rank, unit, tensor, (range.start - tensor.start, &values), take);
            }
        }
    }

    /// The elements of `tensor` that the rank stores: all, or those in its shard of the tensor's section.
    fn stored_range(&self, rank: &Rank, unit: &Unit, tensor: &LocalTensor) -> Range<usize> {
        let range = tensor.range();
        if !self.run.rules.shards_parameters {
            return range;
        }
        let shard = unit.tensors.shard(tensor.section, rank.shard_index(tensor.section));
        range.start.max(shard.start)..range.end.min(shard.end)
    }

    /// Hands out local elements from `start` on by where they stand in the whole tensor.
    fn runs(
        &self,
        rank: &Rank,
        unit: &Unit,
        tensor: &LocalTensor,
        (start, values): (usize, &[f64]),
        take: &mut TakeRun<'_>,
    ) {
        let (parameter, mapping) = self.mapping(rank, unit, tensor);
        let whole = &tensor.tensor;
        let place = |offset: usize| {
            let (row, column) = ((start + offset) / tensor.columns, (start + offset) % tensor.columns);
            let row = mapping.row(row)? as usize;
            Some(row * whole.columns as usize + mapping.first_column as usize + column)
        };
        let mut first = 0;
        while first < values.len() {
            let Some(at) = place(first) else {
                first += 1;
                continue;
            };
            let mut end = first + 1;
            while end < values.len() && place(end) == Some(at + end - first) {
                end += 1;
            }
            take(parameter, whole.elements() as usize, at, &values[first..end]);
            first = end;
        }
    }

    /// The numbers that step `step` reads into the memory of all ranks; sums start at zero, and gradients are not clipped
    /// until their norm is known.
    pub(super) fn load_scalars(&self, step: u64) {
        let settings = &self.run.settings;
        let head = [step as f64, f64::from_bits(settings.seed), settings.learning_rate, 1.0];
        for rank in &self.ranks {
            let view = rank.all_scalars();
            let mut scalars = vec![0.0; view.len()];
            scalars[..head.len()].copy_from_slice(&head);
            self.set_numbers(rank.index, view, &scalars);
        }
    }

    /// What `rank` holds of `scalar`.
    pub(super) fn scalar(&self, rank: &Rank, scalar: Scalar) -> Vec<f64> {
        self.numbers(rank.index, rank.scalar(scalar))
    }

    /// The ids of step `step` into the memory of all ranks.
    ///
    /// # Errors
    /// If the data cannot be read any more.
    pub fn load(&self, batches: &Batches, step: u64) -> Result<(), DataError> {
        let strategy = &self.run.strategy;
        let tokens = self.run.workload.seq_len as usize;
        let sequences = strategy.micro_batch as usize;
        let mut inputs = vec![0; sequences * tokens];
        let mut targets = inputs.clone();
        for data_rank in 0..strategy.data {
            let ranks: Vec<_> = self.ranks.iter().filter(|rank| rank.data_rank == data_rank).collect();
            if ranks.is_empty() {
                continue;
            }
            for micro in 0..strategy.accumulation {
                batches.read(step, data_rank, micro, &mut inputs, &mut targets)?;
                for rank in &ranks {
                    let positions = &self.run.positions(rank.context);
                    for (holds, ids) in [(Holds::Tokens, &inputs), (Holds::Targets, &targets)] {
                        let Some(state) = rank.state(holds, None) else { continue };
                        let count = sequences * positions.len();
                        let region = state.device.elements(micro as usize * count, count, 4);
                        let of_sequence = |ids: &[u32]| {
                            positions.iter().map(|&position| ids[position as usize]).collect::<Vec<_>>()
                        };
                        let local: Vec<u8> = ids
                            .chunks_exact(tokens)
                            .flat_map(of_sequence)
                            .flat_map(u32::to_ne_bytes)
                            .collect();
                        let view = View::device(region, Storage::Index);
                        self.set_bytes(rank.index, view, &local);
                    }
                }
            }
        }
        Ok(())
    }
}
