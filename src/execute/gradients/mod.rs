//! Gradients by the names of their weights: the part that each rank holds, the whole, and its norm.
//!
//! Under ZeRO no rank has a weight's whole gradient. It is spread over the flat buffers of the weight's unit on the
//! ranks that share its state, cut again by tensor, expert and pipeline parallelism. [`Fleet::gradients`] finds it
//! there, between the last backward pass of a step and the next step.

mod file;
mod places;
mod record;

use std::collections::HashSet;

use crate::execute::error::ExecuteError;
use crate::execute::fleet::Fleet;
use crate::execute::kernels::gradient_norm::{SquareSum, square_sum};
use crate::execute::pool::Pool;
use crate::execute::weights::trained;
use crate::model::Model;
use crate::model::tensors::{NamedTensor, tensors};
use crate::spelling::nearest;

pub use file::{GradientFile, Wanted};
pub use places::{Place, Run};

/// The gradients that a fleet holds, summed over micro-batches and ranks, and not clipped.
///
/// ```no_run
/// use meshwright::execute::error::ExecuteError;
/// use meshwright::execute::fleet::Fleet;
///
/// /// To be called where a [`Watcher`](meshwright::execute::fleet::Watcher) is told of gradients.
/// fn look(fleet: &Fleet, name: &str) -> Result<String, ExecuteError> {
///     let gradients = fleet.gradients()?;
///     let whole = gradients.whole(name)?;
///     let mut text = format!("{name} {:?}: norm {}", whole.shape, gradients.norm(name)?);
///     for shard in gradients.shards(name)? {
///         let place = &shard.place;
///         text += &format!("\n  rank {}, elements {:?} of unit {}", place.rank, place.elements, place.unit);
///         text += &format!(": {} and so on in {}", shard.values[0], place.element_type);
///     }
///     Ok(text)
/// }
/// ```
pub struct Gradients<'f> {
    fleet: &'f Fleet,
    trained: Vec<NamedTensor>,
}

/// A rank's part of a weight's gradient.
#[derive(Clone, Debug, PartialEq)]
pub struct GradientShard {
    pub place: Place,
    /// In the order of [`Place::elements`], widened from [`Place::element_type`].
    pub values: Vec<f64>,
}

/// The whole gradient of a weight.
#[derive(Clone, Debug, PartialEq)]
pub struct WholeGradient {
    /// That of the weight's tensor in a checkpoint.
    pub shape: Vec<u64>,
    /// Row-major.
    pub values: Vec<f64>,
}

impl Fleet {
    /// The gradients of the step that halts before its optimizer, or of the last step between two.
    ///
    /// # Errors
    /// Before the first step, while a step computes, and after one that failed.
    pub fn gradients(&self) -> Result<Gradients<'_>, ExecuteError> {
        if !self.has_gradients() {
            return Err(ExecuteError::NoGradients);
        }
        Ok(Gradients { fleet: self, trained: trained(&self.run.model) })
    }
}

impl Gradients<'_> {
    /// The names of all trained weights, in model order. A tied weight is named once.
    pub fn names(&self) -> Vec<&str> {
        names(&self.trained)
    }

    /// The shape of the weight `name` in a checkpoint.
    ///
    /// # Errors
    /// A name that no trained weight has.
    pub fn shape(&self, name: &str) -> Result<Vec<u64>, ExecuteError> {
        Ok(parts(&self.fleet.run.model, &self.trained, name)?[0].shape.clone())
    }

    /// Where the gradient of `name` lies: all places on all ranks, copies too, in the order of ranks.
    ///
    /// # Errors
    /// A name that no trained weight has.
    pub fn places(&self, name: &str) -> Result<Vec<Place>, ExecuteError> {
        let parts = parts(&self.fleet.run.model, &self.trained, name)?;
        Ok(self.fleet.ranks.iter().flat_map(|rank| places::places(self.fleet, rank, &parts)).collect())
    }

    /// What each rank holds of the gradient of `name`, in the order of ranks. Ranks that hold copies give them too.
    ///
    /// # Errors
    /// A name that no trained weight has.
    pub fn shards(&self, name: &str) -> Result<Vec<GradientShard>, ExecuteError> {
        let shard = |place: Place| GradientShard { values: self.values(&place), place };
        Ok(self.places(name)?.into_iter().map(shard).collect())
    }

    /// The gradient of `name`, gathered from the ranks that hold its parts.
    ///
    /// # Errors
    /// A name that no trained weight has.
    pub fn whole(&self, name: &str) -> Result<WholeGradient, ExecuteError> {
        let parts = parts(&self.fleet.run.model, &self.trained, name)?;
        let mut values = vec![0.0; parts[0].elements() as usize];
        for place in self.places(name)?.into_iter().filter(|place| place.counts) {
            place.indices().zip(self.values(&place)).for_each(|(index, value)| values[index] = value);
        }
        Ok(WholeGradient { shape: parts[0].shape.clone(), values })
    }

    /// The Euclidean norm of the gradient of `name`: the root of the sum of what each part's squares sum to. It is
    /// the same to the bit however the gradient is cut.
    ///
    /// # Errors
    /// A name that no trained weight has.
    pub fn norm(&self, name: &str) -> Result<f64, ExecuteError> {
        Ok(self.squares(name)?.total().sqrt())
    }

    /// The sum of the squares of what counts of `name` on the ranks of this process.
    fn squares(&self, name: &str) -> Result<SquareSum, ExecuteError> {
        let places = self.places(name)?;
        let squares = places
            .iter()
            .filter(|place| place.counts)
            .map(|place| square_sum(Pool::Serial, &self.values(place)));
        Ok(squares.fold(SquareSum::default(), SquareSum::plus))
    }

    fn values(&self, place: &Place) -> Vec<f64> {
        self.fleet.numbers(place.rank, place.view)
    }
}

/// The names of `tensors`, each once, in their order.
fn names(tensors: &[NamedTensor]) -> Vec<&str> {
    let mut seen = HashSet::new();
    tensors.iter().map(|tensor| tensor.name.as_str()).filter(|name| seen.insert(*name)).collect()
}

/// The parts of the tensor `name` among `trained`: at least one.
fn parts<'t>(
    model: &Model,
    trained: &'t [NamedTensor],
    name: &str,
) -> Result<Vec<&'t NamedTensor>, ExecuteError> {
    let parts: Vec<_> = trained.iter().filter(|tensor| tensor.name == name).collect();
    if !parts.is_empty() {
        return Ok(parts);
    }
    let name = name.to_owned();
    if tensors(model).iter().any(|tensor| tensor.name == name) {
        return Err(ExecuteError::FrozenParameter { name });
    }
    let near = nearest(&name, trained.iter().map(|tensor| tensor.name.as_str()));
    let nearest = near.first().map(ToString::to_string).or_else(|| Some(trained.first()?.name.clone()));
    Err(ExecuteError::UnknownParameter { nearest: nearest.unwrap_or_default(), name })
}
