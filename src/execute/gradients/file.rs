//! Which gradients are kept, by the names of their weights, and the file that they go to.

use crate::execute::contents::Kept;
use crate::execute::error::ExecuteError;
use crate::execute::fleet::Fleet;
use crate::execute::gradients::{names, parts};
use crate::execute::weights::{save_tensors, trained};
use crate::files::Target;
use crate::model::Model;
use crate::model::tensors::NamedTensor;

/// Gradients asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    All,
    Named(Vec<String>),
}

/// Gradients to be written, and where.
pub struct GradientFile<'a> {
    tensors: Vec<NamedTensor>,
    /// None where another process writes.
    target: Option<&'a Target>,
}

impl<'a> GradientFile<'a> {
    /// The gradients of `model` that are `wanted`, for `target`.
    ///
    /// # Errors
    /// A name that no weight has, or a frozen one.
    pub fn new(model: &Model, wanted: &Wanted, target: Option<&'a Target>) -> Result<Self, ExecuteError> {
        let mut tensors = trained(model);
        if let Wanted::Named(names) = wanted {
            for name in names {
                parts(model, &tensors, name)?;
            }
            tensors.retain(|tensor| names.contains(&tensor.name));
        }
        Ok(Self { tensors, target })
    }

    /// The names of what is wanted, in model order.
    pub fn names(&self) -> Vec<&str> {
        names(&self.tensors)
    }

    /// Writes those gradients of `fleet` that are wanted.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, fleet: &Fleet) -> Result<(), ExecuteError> {
        let element = fleet.run.workload.state_type();
        fleet.read_for(|source| {
            let what = (self.tensors.as_slice(), Kept::Gradients);
            let Some(target) = self.target else { return Ok(()) };
            save_tensors(target, what, element, source).map_err(|error| {
                let path = target.path().display().to_string();
                ExecuteError::UnwrittenGradients { path, reason: error.to_string() }
            })
        })?;
        Ok(())
    }
}
