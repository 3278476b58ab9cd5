//! Which gradients are kept, by the names of their weights, and the file that they go to.

use std::path::{Path, PathBuf};

use crate::execute::contents::Tensors;
use crate::execute::error::ExecuteError;
use crate::execute::keep::copy_rows;
use crate::execute::weights::save_tensors;
use crate::model::Model;
use crate::model::tensors::{NamedTensor, tensors};
use crate::profile::spelling::nearest;
use crate::units::ElementType;

/// Gradients asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    All,
    Named(Vec<String>),
}

/// Gradients to be written, and where.
pub struct Gradients {
    tensors: Vec<NamedTensor>,
    path: PathBuf,
}

impl Gradients {
    /// The gradients of `model` that are `wanted`, for the file at `path`.
    ///
    /// # Errors
    /// A name that no trained weight has.
    pub fn new(model: &Model, wanted: &Wanted, path: &Path) -> Result<Self, ExecuteError> {
        let mut tensors = tensors(model);
        tensors.retain(|tensor| !model.layer(tensor.layer).frozen);
        if let Wanted::Named(names) = wanted {
            for name in names {
                if !tensors.iter().any(|tensor| tensor.name == *name) {
                    let near = nearest(name, tensors.iter().map(|tensor| tensor.name.as_str()));
                    let nearest = near.first().map_or_else(|| tensors[0].name.clone(), ToString::to_string);
                    return Err(ExecuteError::UnknownParameter { name: name.clone(), nearest });
                }
            }
            tensors.retain(|tensor| names.contains(&tensor.name));
        }
        Ok(Self { tensors, path: path.to_owned() })
    }

    /// Writes those of `gradients` that are wanted.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, gradients: &Tensors, element: ElementType) -> Result<(), ExecuteError> {
        save_tensors(&self.path, &self.tensors, element, &mut |layer, role, rows, out| {
            copy_rows(gradients, (layer, role), rows, out);
        })?;
        Ok(())
    }
}
