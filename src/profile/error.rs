//! What can be wrong with a cost model or an engine profile.

use thiserror::Error;

use crate::json::Fault;

/// Why a cost model or an engine profile cannot be used.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ProfileError {
    #[error(
        "device `{name}` is unknown{}; `meshwright clusters` lists those that are known, and a cost-model file stands \
         for any other",
        nearest_are(nearest)
    )]
    UnknownDevice { name: String, nearest: Vec<String> },
    #[error("device `{name}` may be any of {}; name one", nearest.join(", "))]
    SeveralDevices { name: String, nearest: Vec<String> },
    #[error("cost model is not readable: {0}")]
    Json(Fault),
    #[error("cost model `{model}` has version {version}; 1 and 2 are read")]
    Version { model: String, version: u32 },
    #[error("cost model `{model}`: {field} is {value}; {rule} is needed")]
    Value { model: String, field: String, value: String, rule: &'static str },
    #[error("engine profile `{profile}`: inherits is `{parent}`, which is no profile; nearest: {}", nearest.join(", "))]
    UnknownParent { profile: String, parent: String, nearest: Vec<String> },
    #[error(
        "engine profile `{profile}`: inherits is `{parent}`, which inherits from `{root}` itself; name `{root}`"
    )]
    Chain { profile: String, parent: String, root: String },
    #[error("engine profile `{profile}`: {field}: {reason}")]
    Engine { profile: String, field: String, reason: String },
}

impl ProfileError {
    /// The same of the file at `path`, which is the value at fault where no field is.
    pub fn in_file(self, path: &str) -> Self {
        match self {
            Self::Json(fault) => Self::Json(fault.in_file(path)),
            other => other,
        }
    }

    /// The field at fault.
    pub fn field(&self) -> &str {
        match self {
            Self::UnknownDevice { .. } | Self::SeveralDevices { .. } => "device",
            Self::Json(fault) => fault.field.as_deref().unwrap_or("cost_model"),
            Self::Version { .. } => "version",
            Self::UnknownParent { .. } | Self::Chain { .. } => "inherits",
            Self::Value { field, .. } | Self::Engine { field, .. } => field,
        }
    }

    /// The value at fault, as text; empty where there is none.
    pub fn value(&self) -> String {
        match self {
            Self::UnknownDevice { name, .. } | Self::SeveralDevices { name, .. } => name.clone(),
            Self::Json(fault) => fault.value.clone().unwrap_or_default(),
            Self::Engine { .. } => String::new(),
            Self::UnknownParent { parent, .. } | Self::Chain { parent, .. } => parent.clone(),
            Self::Version { version, .. } => version.to_string(),
            Self::Value { value, .. } => value.clone(),
        }
    }

    /// The nearest legal values.
    pub fn nearest(&self) -> Vec<String> {
        match self {
            Self::UnknownDevice { nearest, .. }
            | Self::SeveralDevices { nearest, .. }
            | Self::UnknownParent { nearest, .. } => nearest.clone(),
            Self::Json(_) | Self::Value { .. } | Self::Engine { .. } => Vec::new(),
            Self::Chain { root, .. } => vec![root.clone()],
            Self::Version { .. } => vec!["2".to_owned()],
        }
    }
}

fn nearest_are(nearest: &[String]) -> String {
    if nearest.is_empty() { String::new() } else { format!("; nearest: {}", nearest.join(", ")) }
}
