//! What can be wrong with stored weights: found when they are opened, before anything runs.

use thiserror::Error;

/// Why weights could not be read or written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WeightsError {
    #[error("cannot read `{path}`: {reason}")]
    Unreadable { path: String, reason: String },
    /// The file is there and is not of its form.
    #[error("`{path}` is no safetensors file: {reason}")]
    Malformed { path: String, reason: String },
    #[error("`{path}` has no tensor `{name}`")]
    Missing { path: String, name: String },
    #[error("tensor `{name}` has shape {found:?} in `{path}`, and the model wants {wanted:?}")]
    Shape { path: String, name: String, found: Vec<u64>, wanted: Vec<u64> },
    #[error("tensor `{name}` in `{path}` is of type {found}; F64, F32, F16 and BF16 can be read")]
    Type { path: String, name: String, found: String },
    #[error("cannot write `{path}`: {reason}")]
    Unwritable { path: String, reason: String },
}

impl WeightsError {
    /// The path or tensor at fault.
    pub fn value(&self) -> &str {
        match self {
            Self::Unreadable { path, .. } | Self::Malformed { path, .. } | Self::Unwritable { path, .. } => {
                path
            }
            Self::Missing { name, .. } | Self::Shape { name, .. } | Self::Type { name, .. } => name,
        }
    }
}
