//! Where weights come from and where they are kept: random numbers, checkpoints, and what a run saves.

mod checkpoint;
mod error;
mod exchange;
mod folder;
mod opened;
mod random;
mod save;
mod seal;
mod state;
mod tensor_file;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use super::pool::Pool;
use crate::model::Model;
use crate::model::roles::Role;
use crate::model::tensors::{Initial, NamedTensor, tensors};
use checkpoint::Checkpoint;
pub use error::WeightsError;
pub use opened::{Begin, Opened, look};
pub use save::{Progress, Written, check, memory_of_saving, save_tensors, write};
pub use state::{State, trained};
pub use tensor_file::Source as Values;

/// The files of a save.
const WEIGHTS: &str = "model.safetensors";
const CONFIG: &str = "config.json";
const STATE: &str = "state.safetensors";

/// The files of a save.
pub const SAVED: [&str; 3] = [WEIGHTS, CONFIG, STATE];

/// The values of a model's parameters, to be read in the rows and columns of each parameter, so that any sharding
/// reads just its part.
#[derive(Debug)]
pub struct Weights {
    tensors: Vec<NamedTensor>,
    /// Which of the tensors hold the rows of a parameter, ascending, by layer and role.
    holders: HashMap<(usize, Role), Range<usize>>,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// By the key of each tensor.
    Random(Vec<u64>),
    Checkpoint(Checkpoint),
}

impl Weights {
    /// Freshly drawn weights. Every element depends on `seed`, the name of its stored tensor and its place in
    /// that tensor alone.
    pub fn random(model: &Model, seed: u64) -> Self {
        let tensors = tensors(model);
        let keys = tensors.iter().map(|tensor| random::key(seed, &tensor.name)).collect();
        Self::new(tensors, Source::Random(keys))
    }

    /// The weights in a folder: `model.safetensors`, or the files that `model.safetensors.index.json` names.
    /// Tensors are found with or without the prefix of the base model.
    ///
    /// # Errors
    /// When a file cannot be read, or a tensor is missing or has another shape or a type that is no float.
    pub fn open(model: &Model, folder: &Path) -> Result<Self, WeightsError> {
        Ok(Opened::new(model, folder, Begin::Fresh)?.weights)
    }

    fn new(tensors: Vec<NamedTensor>, source: Source) -> Self {
        let mut holders: HashMap<_, Range<usize>> = HashMap::new();
        for (index, tensor) in tensors.iter().enumerate() {
            holders.entry((tensor.layer, tensor.role)).or_insert(index..index).end = index + 1;
        }
        Self { tensors, holders, source }
    }

    /// Rows `rows`, of each the columns `columns`, of a parameter, row-major into `out`; a vector has one column.
    ///
    /// Rows and columns must be those of a parameter of the model, and `out` as long as they say.
    pub fn read(
        &self,
        layer: usize,
        role: Role,
        rows: Range<u64>,
        columns: Range<u64>,
        out: &mut [f64],
        pool: Pool<'_>,
    ) {
        let width = (columns.end - columns.start) as usize;
        assert_eq!(out.len() as u64, (rows.end - rows.start) * width as u64, "layer {layer} `{role}`");
        let holders = &self.holders[&(layer, role)];
        pool.rows(out, width, |first, chunk| {
            for (row, values) in (rows.start + first as u64..).zip(chunk.chunks_mut(width.max(1))) {
                self.row(holders, row, columns.start, values);
            }
        });
    }

    /// The columns from `column` on of one row.
    fn row(&self, holders: &Range<usize>, row: u64, column: u64, out: &mut [f64]) {
        let below = self.tensors[holders.clone()].partition_point(|tensor| tensor.first_row <= row);
        let index = holders.start + below - 1;
        let tensor = &self.tensors[index];
        let (start, stride) = (tensor.position(row, column), tensor.layout.column_stride);
        match (&self.source, tensor.initial) {
            (Source::Checkpoint(checkpoint), _) => checkpoint.read(index, start, stride, out),
            (Source::Random(_), Initial::Constant(value)) => out.fill(value),
            (Source::Random(keys), Initial::Normal { deviation }) => {
                for (value, place) in out.iter_mut().zip((start..).step_by(stride as usize)) {
                    *value = deviation * random::normal(keys[index], place);
                }
            }
        }
    }
}
