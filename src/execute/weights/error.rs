//! What can be wrong with stored weights: found when they are opened, before anything runs.

use std::io;
use std::path::Path;

use thiserror::Error;

use crate::units::Bytes;

/// Advice for weights that are as they were saved.
const FRESH: &str = "; --fresh starts at step 0 from the weights alone";

/// Why weights could not be read or written.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum WeightsError {
    #[error("cannot read `{path}`: {reason}")]
    Unreadable { path: String, reason: String },
    #[error("`{path}` has {bytes}, which this process may not map: its memory is limited (ulimit -v)")]
    NoRoom { path: String, bytes: Bytes },
    /// The file is there and is not of its form.
    #[error("`{path}` is no safetensors file: {reason}")]
    Malformed { path: String, reason: String },
    #[error("`{path}` has no tensor `{name}`")]
    Missing { path: String, name: String },
    #[error("tensor `{name}` has shape {found:?} in `{path}`, and the model wants {wanted:?}")]
    Shape { path: String, name: String, found: Vec<u64>, wanted: Vec<u64> },
    #[error("tensor `{name}` in `{path}` is of type {found}; F64, F32, F16 and BF16 can be read")]
    Type { path: String, name: String, found: String },
    /// A byte of it is another than was written.
    #[error(
        "`{path}` was changed after it was saved: its {what} do not have the checksum that was written with them"
    )]
    Damaged { path: String, what: &'static str },
    /// Two files of one folder that are of two saves.
    #[error("`{path}` was not saved with `{weights}`: {why}{FRESH}")]
    Mixture { path: String, weights: String, why: String },
    #[error("`{weights}` was saved with a state after step {step}, and there is no `{path}`{FRESH}")]
    NoState { path: String, weights: String, step: u64 },
    #[error("cannot write `{path}`: {reason}")]
    Unwritable { path: String, reason: String },
    /// Weights or moments at the end of a run.
    #[error("`{name}` holds {value} after step {step}, so nothing is saved")]
    NotFinite { name: String, value: f64, step: u64 },
}

impl WeightsError {
    /// That `path` cannot be written, for what `error` says.
    pub(super) fn unwritable(path: &Path, error: &io::Error) -> Self {
        Self::Unwritable { path: path.display().to_string(), reason: error.to_string() }
    }

    /// The path or tensor at fault.
    pub fn value(&self) -> &str {
        match self {
            Self::Unreadable { path, .. }
            | Self::NoRoom { path, .. }
            | Self::Malformed { path, .. }
            | Self::Damaged { path, .. }
            | Self::Mixture { path, .. }
            | Self::NoState { path, .. }
            | Self::Unwritable { path, .. } => path,
            Self::Missing { name, .. }
            | Self::Shape { name, .. }
            | Self::Type { name, .. }
            | Self::NotFinite { name, .. } => name,
        }
    }
}
