//! What can be wrong with a model description: each error names the field, its value and the nearest legal ones.

use thiserror::Error;

use crate::json::Fault;
use crate::units::Bytes;

/// Why a model could not be read.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ModelError {
    /// Neither a preset nor something on disk.
    #[error("no model `{value}`: it is neither a preset nor a file or folder{}", nearest_are(.nearest))]
    NotFound { value: String, nearest: Vec<String> },
    /// It is there and cannot be read.
    #[error("cannot read `{path}`: {reason}")]
    Unreadable { path: String, reason: String },
    #[error("`{path}` holds {bytes}, and a model description at most {limit}")]
    TooLarge { path: String, bytes: Bytes, limit: Bytes },
    #[error("`{path}` is not JSON: {reason}")]
    NotJson { path: String, reason: String },
    #[error(
        "`{path}` is neither a Hugging Face config (an object with `model_type`) nor a layer graph (an object \
         with `version` and `layers`)"
    )]
    NotAModel { path: String },
    /// JSON, but not of the layer graph's form.
    #[error("`{path}` is not a layer graph: {fault}")]
    NotALayerGraph { path: String, fault: Fault },
    #[error(
        "model_type `{value}` is not known{}, by the names of its fields; `meshwright models` lists the {known} that are. \
         If its layers are those of one of them, give it that model_type", nearest_are(.nearest)
    )]
    UnknownType { value: String, nearest: Vec<String>, known: usize },
    /// A value outside what the field can hold.
    #[error("{field} {value} {rule}{}", nearest_are(.nearest))]
    Value { field: String, value: String, rule: String, nearest: Vec<String> },
    /// A value that has a meaning we do not plan for.
    #[error("{field} {value} is not supported: {remedy}")]
    Unsupported { field: String, value: String, remedy: String },
    /// The layers do not make up a model.
    #[error("layer `{layer}` {rule}")]
    Graph { layer: String, rule: String },
}

impl ModelError {
    /// The field at fault, where there is one.
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::UnknownType { .. } => Some("model_type"),
            Self::Value { field, .. } | Self::Unsupported { field, .. } => Some(field),
            Self::NotALayerGraph { fault, .. } => fault.field.as_deref(),
            Self::Graph { .. } => Some("layer"),
            _ => None,
        }
    }

    /// The value, path or layer at fault.
    pub fn value(&self) -> Option<&str> {
        match self {
            Self::NotFound { value, .. }
            | Self::UnknownType { value, .. }
            | Self::Value { value, .. }
            | Self::Unsupported { value, .. } => Some(value),
            Self::Unreadable { path, .. }
            | Self::TooLarge { path, .. }
            | Self::NotJson { path, .. }
            | Self::NotAModel { path } => Some(path),
            Self::NotALayerGraph { path, fault } => Some(fault.value.as_deref().unwrap_or(path)),
            Self::Graph { layer, .. } => Some(layer),
        }
    }

    /// Legal values near the one given; empty where there are none to name.
    pub fn nearest(&self) -> &[String] {
        match self {
            Self::NotFound { nearest, .. }
            | Self::UnknownType { nearest, .. }
            | Self::Value { nearest, .. } => nearest,
            _ => &[],
        }
    }

    /// A value that breaks a rule, with the nearest that keep it.
    pub(crate) fn rule<N: ToString>(
        field: impl Into<String>,
        value: impl ToString,
        rule: impl Into<String>,
        nearest: impl IntoIterator<Item = N>,
    ) -> Self {
        Self::Value {
            field: field.into(),
            value: value.to_string(),
            rule: rule.into(),
            nearest: nearest.into_iter().map(|value| value.to_string()).collect(),
        }
    }

    /// A layer that breaks a rule of the graph.
    pub(crate) fn graph(layer: impl Into<String>, rule: impl Into<String>) -> Self {
        Self::Graph { layer: layer.into(), rule: rule.into() }
    }
}

fn nearest_are(nearest: &[String]) -> String {
    if nearest.is_empty() { String::new() } else { format!("; nearest: {}", nearest.join(", ")) }
}
