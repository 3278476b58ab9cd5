//! What can be wrong with a cost model.

use thiserror::Error;

/// Why a cost model cannot be used.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ProfileError {
    #[error("device `{name}` is unknown; nearest: {}", nearest.join(", "))]
    UnknownDevice { name: String, nearest: Vec<String> },
    #[error("cost model is not readable: {0}")]
    Json(String),
    #[error("cost model `{model}` has version {version}; 1 is read")]
    Version { model: String, version: u32 },
    #[error("cost model `{model}`: {field} is {value}; {rule} is needed")]
    Value { model: String, field: String, value: String, rule: &'static str },
}

impl ProfileError {
    /// The field at fault.
    pub fn field(&self) -> &str {
        match self {
            Self::UnknownDevice { .. } => "device",
            Self::Json(_) => "cost_model",
            Self::Version { .. } => "version",
            Self::Value { field, .. } => field,
        }
    }

    /// The value at fault, as text; empty where there is none.
    pub fn value(&self) -> String {
        match self {
            Self::UnknownDevice { name, .. } => name.clone(),
            Self::Json(_) => String::new(),
            Self::Version { version, .. } => version.to_string(),
            Self::Value { value, .. } => value.clone(),
        }
    }

    /// The nearest legal values.
    pub fn nearest(&self) -> Vec<String> {
        match self {
            Self::UnknownDevice { nearest, .. } => nearest.clone(),
            Self::Json(_) | Self::Value { .. } => Vec::new(),
            Self::Version { .. } => vec!["1".to_owned()],
        }
    }
}
