//! What the ranks' memory holds, seen as the model's own tensors: filled before a run, read between its steps.

#![expect(unsafe_code, reason = "between steps nothing else uses the ranks' memory")]

use std::collections::HashMap;

use crate::execute::arena::{Arena, Region};
use crate::execute::data::Batches;
use crate::execute::element::{Element, Real};
use crate::execute::fleet::Fleet;
use crate::execute::layout::{LocalTensor, Section};
use crate::execute::mapping::Mapping;
use crate::execute::pool::Pool;
use crate::execute::rank::{Rank, Unit};
use crate::execute::state::{Piece, Planes};
use crate::execute::weights::Weights;
use crate::model::layer::LayerKind;
use crate::program::instruction::Holds;
use crate::program::scalars::Scalar;

/// Something that is kept for each parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kept {
    Parameters,
    Gradients,
    FirstMoments,
    SecondMoments,
}

/// A parameter of the model: layer and role.
pub type Parameter = (usize, &'static str);

/// Whole tensors, row-major, by parameter.
pub type Tensors = HashMap<Parameter, Vec<f64>>;

impl Fleet {
    /// Every rank's parameters (and master weights) become those of `weights`.
    pub fn set_parameters<T: Element>(&self, weights: &Weights) {
        std::thread::scope(|scope| {
            for rank in &self.ranks {
                scope.spawn(move || {
                    for place in 0..rank.units.len() {
                        self.set_unit::<T>(rank, &rank.units[place], weights);
                    }
                    self.set_owned::<T>(rank, weights);
                });
            }
        });
    }

    /// The parameters that `unit` stores: whole, or its shards.
    fn set_unit<T: Element>(&self, rank: &Rank, unit: &Unit, weights: &Weights) {
        let is_sharded = self.run.rules.shards_parameters;
        for tensor in &unit.tensors.tensors {
            let values = self.local_values(rank, unit, tensor, weights);
            let range = tensor.range();
            let held = if is_sharded {
                let shard = unit.tensors.shard(tensor.section, rank.shard_index(tensor.section));
                range.start.max(shard.start)..range.end.min(shard.end)
            } else {
                range.clone()
            };
            if held.start >= held.end {
                continue;
            }
            let target = rank.stored(unit, (tensor.section, held.clone()), (is_sharded, size_of::<T>()));
            // SAFETY: no step is under way.
            let target = unsafe { target.0.write::<T>(target.1) };
            let values = &values[held.start - range.start..held.end - range.start];
            for (to, value) in target.iter_mut().zip(values) {
                *to = T::narrow(T::Wide::of(*value));
            }
        }
    }

    /// Master weights, and the parameters that the host keeps beside its optimizer state.
    fn set_owned<T: Element>(&self, rank: &Rank, weights: &Weights) {
        let has_master = self.run.rules.has_separate_master;
        let mut last: Option<(usize, usize, Vec<f64>)> = None;
        for piece in &rank.pieces {
            let on_host = piece.owned < rank.owned_on_host;
            if !has_master && !on_host {
                continue;
            }
            let unit = &rank.units[piece.unit];
            let tensor = &unit.tensors.tensors[piece.tensor];
            if last.as_ref().is_none_or(|(unit, tensor, _)| (*unit, *tensor) != (piece.unit, piece.tensor)) {
                last = Some((piece.unit, piece.tensor, self.local_values(rank, unit, tensor, weights)));
            }
            let Some((_, _, values)) = &last else { continue };
            for (offset, element) in piece.range.clone().enumerate() {
                let value = values[element - tensor.start];
                let owned = piece.owned + offset;
                if has_master {
                    let (arena, planes) = self.planes::<T>(rank, owned < rank.owned_on_host);
                    // SAFETY: no step is under way.
                    let master = unsafe { arena.write::<T::Wide>(planes.plane(2, owned, 1)) };
                    master.fill(T::Wide::of(value));
                }
                if owned < rank.owned_on_host {
                    let staged = self.staged_parameter::<T>(rank, owned);
                    // SAFETY: no step is under way.
                    let staged = unsafe { rank.host.write::<T>(staged) };
                    staged.fill(T::narrow(T::Wide::of(value)));
                }
            }
        }
    }

    /// The moments of the optimizer become these, which have those of all trained parameters.
    pub fn set_moments<T: Element>(&self, first: &Weights, second: &Weights) {
        for rank in &self.ranks {
            for (index, weights) in [first, second].into_iter().enumerate() {
                for piece in &rank.pieces {
                    let unit = &rank.units[piece.unit];
                    let tensor = &unit.tensors.tensors[piece.tensor];
                    let values = self.local_values(rank, unit, tensor, weights);
                    let values = &values[piece.range.start - tensor.start..][..piece.range.len()];
                    for (owned, value) in (piece.owned..).zip(values) {
                        let (arena, planes) = self.planes::<T>(rank, owned < rank.owned_on_host);
                        // SAFETY: no step is under way.
                        let moment = unsafe { arena.write::<T::Wide>(planes.plane(index, owned, 1)) };
                        moment.fill(T::Wide::of(*value));
                    }
                }
            }
        }
    }

    /// The values of a local tensor; padding is 0.
    fn local_values(&self, rank: &Rank, unit: &Unit, tensor: &LocalTensor, weights: &Weights) -> Vec<f64> {
        let mut values = vec![0.0; tensor.elements()];
        let (parameter, mapping) = self.mapping(rank, unit, tensor);
        let columns = mapping.first_column..mapping.first_column + tensor.columns as u64;
        for segment in mapping.segments.iter().filter(|segment| segment.rows > 0) {
            let rows = segment.row..segment.row + segment.rows as u64;
            let start = segment.local_row * tensor.columns;
            let target = &mut values[start..start + segment.rows * tensor.columns];
            weights.read(parameter.0, parameter.1, rows, columns.clone(), target, Pool::Serial);
        }
        values
    }

    /// The parameter that a local tensor is part of, and which part. A copy of a tied table is the embedding's.
    pub(super) fn mapping(&self, rank: &Rank, unit: &Unit, tensor: &LocalTensor) -> (Parameter, Mapping) {
        let kind = &unit.layers[usize::from(tensor.layer)].kind;
        let mapping = Mapping::new(kind, tensor, &rank.slot);
        let layer = unit.tensors.first_layer + usize::from(tensor.layer);
        if matches!(tensor.section, Section::Table | Section::FrozenTable)
            && matches!(kind, LayerKind::Head(_))
        {
            let is_embedding = |layer: &crate::model::Layer| matches!(layer.kind, LayerKind::Embedding(_));
            let table = self.run.model.layers().position(is_embedding).unwrap_or(layer);
            return ((table, "tokens"), mapping);
        }
        ((layer, tensor.tensor.role), mapping)
    }

    fn planes<'a, T: Element>(&self, rank: &'a Rank, on_host: bool) -> (&'a Arena, Planes) {
        let planes = rank.planes(on_host, (self.run.rules.optimizer_planes(), size_of::<T::Wide>()));
        (if on_host { &rank.host } else { &rank.device }, planes)
    }

    fn staged_parameter<T: Element>(&self, rank: &Rank, owned: usize) -> Region {
        let gradient = self.run.rules.gradient.size() as usize;
        self.planes::<T>(rank, true).1.staged((owned, 1), (gradient, size_of::<T>())).1
    }

    /// All tensors of what is kept, gathered from the ranks that own them. Frozen parameters have no gradients and
    /// no moments. Under mixed precision, parameters are the master weights.
    pub fn read<T: Element, G: Element<Wide = T::Wide>>(&self, kept: Kept) -> Tensors {
        let mut tensors = Tensors::new();
        for rank in self.ranks.iter().rev().filter(|rank| rank.is_first_holder || rank.is_first_expert_holder)
        {
            for piece in &rank.pieces {
                self.read_piece::<T, G>(rank, piece, kept, &mut tensors);
            }
            if kept == Kept::Parameters {
                self.read_frozen::<T>(rank, &mut tensors);
            }
        }
        tensors
    }

    fn read_piece<T: Element, G: Element<Wide = T::Wide>>(
        &self,
        rank: &Rank,
        piece: &Piece,
        kept: Kept,
        tensors: &mut Tensors,
    ) {
        let unit = &rank.units[piece.unit];
        let tensor = &unit.tensors.tensors[piece.tensor];
        let count = piece.range.len();
        let mut values = vec![0.0; count];
        let rules = &self.run.rules;
        let plane = |index: usize, values: &mut [f64]| {
            for (offset, value) in values.iter_mut().enumerate() {
                let owned = piece.owned + offset;
                let (arena, planes) = self.planes::<T>(rank, owned < rank.owned_on_host);
                // SAFETY: no step is under way, or it waits.
                *value = unsafe { arena.read::<T::Wide>(planes.plane(index, owned, 1)) }[0].to_f64();
            }
        };
        match kept {
            Kept::Gradients => {
                let place = (rules.keeps_whole_gradients, size_of::<G>());
                let region = rank.owned_gradient(unit, (piece.section, piece.range.clone()), place);
                // SAFETY: no step is under way, or it waits.
                let gradient = unsafe { rank.device.read::<G>(region) };
                values.iter_mut().zip(gradient).for_each(|(to, from)| *to = from.wide().to_f64());
            }
            Kept::Parameters if rules.has_separate_master => plane(2, &mut values),
            Kept::Parameters => {
                let stored = (rules.shards_parameters, size_of::<T>());
                let (arena, region) = rank.stored(unit, (piece.section, piece.range.clone()), stored);
                // SAFETY: no step is under way.
                let parameters = unsafe { arena.read::<T>(region) };
                values.iter_mut().zip(parameters).for_each(|(to, from)| *to = from.wide().to_f64());
            }
            Kept::FirstMoments => plane(0, &mut values),
            Kept::SecondMoments => plane(1, &mut values),
        }
        self.place(rank, unit, tensor, (piece.range.start - tensor.start, &values), tensors);
    }

    fn read_frozen<T: Element>(&self, rank: &Rank, tensors: &mut Tensors) {
        let is_sharded = self.run.rules.shards_parameters;
        for unit in &rank.units {
            for tensor in unit.tensors.tensors.iter().filter(|tensor| !tensor.section.is_trained()) {
                let shard = unit.tensors.shard(tensor.section, rank.shard_index(tensor.section));
                let range = if is_sharded {
                    tensor.range().start.max(shard.start)..tensor.range().end.min(shard.end)
                } else {
                    tensor.range()
                };
                if range.start >= range.end {
                    continue;
                }
                let stored = (is_sharded, size_of::<T>());
                let (arena, region) = rank.stored(unit, (tensor.section, range.clone()), stored);
                // SAFETY: no step is under way.
                let values: Vec<f64> =
                    unsafe { arena.read::<T>(region) }.iter().map(|value| value.wide().to_f64()).collect();
                self.place(rank, unit, tensor, (range.start - tensor.start, &values), tensors);
            }
        }
    }

    /// Puts local elements from `start` on where they stand in the whole tensor.
    fn place(
        &self,
        rank: &Rank,
        unit: &Unit,
        tensor: &LocalTensor,
        (start, values): (usize, &[f64]),
        tensors: &mut Tensors,
    ) {
        let (parameter, mapping) = self.mapping(rank, unit, tensor);
        let whole = &tensor.tensor;
        let elements = whole.elements() as usize;
        let target = tensors.entry(parameter).or_insert_with(|| vec![0.0; elements]);
        for (offset, &value) in values.iter().enumerate() {
            let (row, column) = ((start + offset) / tensor.columns, (start + offset) % tensor.columns);
            let Some(row) = mapping.row(row) else { continue };
            let row = row as usize;
            target[row * whole.columns as usize + mapping.first_column as usize + column] = value;
        }
    }

    /// The numbers that step `step` reads into the memory of all ranks; sums start at zero, and gradients are not clipped
    /// until their norm is known.
    pub(super) fn load_scalars(&self, step: u64) {
        let settings = &self.run.settings;
        let head = [step as f64, f64::from_bits(settings.seed), settings.learning_rate, 1.0];
        for rank in &self.ranks {
            // SAFETY: no step is under way.
            let scalars = unsafe { rank.device.write::<f64>(rank.region(Holds::Scalars)) };
            scalars.fill(0.0);
            scalars[..head.len()].copy_from_slice(&head);
        }
    }

    /// What `rank` holds of `scalar`.
    pub(super) fn scalar<'a>(&self, rank: &'a Rank, scalar: Scalar) -> &'a [f64] {
        // SAFETY: no step is under way.
        unsafe { rank.device.read::<f64>(rank.scalar(scalar)) }
    }

    /// The ids of step `step` into the memory of all ranks.
    pub fn load(&self, batches: &Batches, step: u64) {
        let strategy = &self.run.strategy;
        let tokens = self.run.workload.seq_len as usize;
        let sequences = strategy.micro_batch as usize;
        let mut inputs = vec![0; sequences * tokens];
        let mut targets = inputs.clone();
        for data_rank in 0..strategy.data {
            for micro in 0..strategy.accumulation {
                batches.read(step, data_rank, micro, &mut inputs, &mut targets);
                for rank in self.ranks.iter().filter(|rank| rank.data_rank == data_rank) {
                    let positions = &rank.positions[rank.context as usize];
                    for (holds, ids) in [(Holds::Tokens, &inputs), (Holds::Targets, &targets)] {
                        let Some(state) = rank.state(holds, None) else { continue };
                        let count = sequences * positions.len();
                        let region = state.device.elements(micro as usize * count, count, 4);
                        // SAFETY: no step is under way.
                        let to = unsafe { rank.device.write_ids(region) };
                        let rows = to.chunks_exact_mut(positions.len()).zip(ids.chunks_exact(tokens));
                        for (to, ids) in rows {
                            for (to, &position) in to.iter_mut().zip(positions) {
                                *to = ids[position as usize];
                            }
                        }
                    }
                }
            }
        }
    }
}
