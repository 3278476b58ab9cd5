//! What can be wrong with a cluster text or file.

use thiserror::Error;

use crate::json::{self, Fault};
use crate::profile::ProfileError;

/// Why a cluster cannot be used. Every variant names its field and value and, where there is one, what would do.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ClusterError {
    #[error(
        "cluster `{text}` is neither NODESxDEVICESxDEVICE, such as {}, nor a file",
        if nearest.is_empty() { "8x8xh100-sxm".to_owned() } else { nearest.join(" or ") }
    )]
    NotACluster { text: String, nearest: Vec<String> },
    #[error("cluster `{text}`: {field} is `{value}`; nearest legal: {nearest}")]
    Count { text: String, field: &'static str, value: String, nearest: u64 },
    #[error(
        "cluster `{text}`: a node of {devices} devices is larger than any; {device} are built {board} to a node, and no \
         fast link joins more than {most}; `{nearest}` has nodes of the usual size"
    )]
    Node { text: String, devices: u32, device: String, board: u64, most: u32, nearest: String },
    #[error("cluster file `{path}` cannot be read: {reason}")]
    File { path: String, reason: String },
    #[error("cluster file is not as its schema says: {0}")]
    Json(Fault),
    #[error("cluster file ends in the middle: {0}")]
    CutOff(Fault),
    #[error("cluster: {field} is {value}; {rule}")]
    Value { field: String, value: String, rule: String, nearest: Vec<String> },
    #[error(transparent)]
    Device(#[from] ProfileError),
}

impl ClusterError {
    /// The same of the file at `path` with this `text`: with the value as it is written there, or else the path.
    pub(super) fn in_file(self, path: &str, text: &str) -> Self {
        match self {
            Self::Json(fault) => Self::Json(fault.in_file(path)),
            Self::CutOff(fault) => Self::CutOff(fault.in_file(path)),
            Self::Value { field, value, rule, nearest } => {
                let value =
                    json::read(text).ok().and_then(|whole| json::written(&whole, &field)).unwrap_or(value);
                Self::Value { field, value, rule, nearest }
            }
            other => other,
        }
    }

    /// The field at fault.
    pub fn field(&self) -> &str {
        match self {
            Self::Count { field, .. } => field,
            Self::Node { .. } => "devices per node",
            Self::Value { field, .. } => field,
            Self::Device(error) => error.field(),
            Self::Json(fault) => fault.field.as_deref().unwrap_or("cluster"),
            Self::NotACluster { .. } | Self::File { .. } | Self::CutOff(_) => "cluster",
        }
    }

    /// The value at fault, as text; empty where there is none.
    pub fn value(&self) -> String {
        match self {
            Self::NotACluster { text, .. } => text.clone(),
            Self::Node { devices, .. } => devices.to_string(),
            Self::Count { value, .. } | Self::Value { value, .. } => value.clone(),
            Self::File { path, .. } => path.clone(),
            Self::Json(fault) | Self::CutOff(fault) => fault.value.clone().unwrap_or_default(),
            Self::Device(error) => error.value(),
        }
    }

    /// The nearest legal values.
    pub fn nearest(&self) -> Vec<String> {
        match self {
            Self::Count { nearest, .. } => vec![nearest.to_string()],
            Self::Node { nearest, .. } => vec![nearest.clone()],
            Self::Value { nearest, .. } | Self::NotACluster { nearest, .. } => nearest.clone(),
            Self::Device(error) => error.nearest(),
            Self::File { .. } | Self::Json(_) | Self::CutOff(_) => Vec::new(),
        }
    }
}
