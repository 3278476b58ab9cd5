//! Why a plan cannot be exported, or a configuration not be read.

use thiserror::Error;

use super::syntax::{Place, SyntaxError};
use crate::strategy::RuleBreak;

/// Why a configuration of an engine cannot be read.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ImportError {
    #[error("cannot read `{path}`: {reason}")]
    Unreadable { path: String, reason: String },
    #[error("`{path}`: {error}")]
    Syntax { path: String, error: SyntaxError },
    #[error("`{path}` is no configuration that is known: {reason}")]
    UnknownFile { path: String, reason: String, nearest: Vec<String> },
    #[error("line {line}: `{path}` is {value}: {rule}")]
    Value { path: String, value: String, line: usize, rule: String, nearest: Vec<String> },
    /// Of a value that stands in another file, or in none.
    #[error("{place}: `{path}` is {value}: {rule}")]
    Elsewhere { place: Box<Place>, path: String, value: String, rule: String, nearest: Vec<String> },
    #[error("`{path}` is missing: {rule}")]
    Missing { path: String, rule: String },
    #[error("line {line}: `{path}` is no setting of {engine}")]
    UnknownKey { path: String, line: usize, engine: String, nearest: Vec<String> },
    #[error("the file does not say {what}: give {flag}")]
    Unsaid { what: &'static str, flag: &'static str },
    #[error("`{path}` is run by {runner}, and --engine says {engine}")]
    OtherEngine { path: String, runner: String, engine: String },
    #[error("`{path}` means {key}={read}, and --strategy says {key}={typed}: change one of them")]
    Contradiction { path: String, key: String, read: String, typed: String },
    #[error("--assume {text}: {rule}")]
    Assumed { text: String, rule: String, nearest: Vec<String> },
    #[error("--env {text}: {rule}")]
    Environment { text: String, rule: String, nearest: Vec<String> },
    #[error("`{path}` trains in line {line} and again in line {other} with other settings: {advice}")]
    SeveralRuns { path: String, line: usize, other: usize, advice: String },
}

impl ImportError {
    /// The same with what would do instead.
    pub fn or(self, near: Vec<String>) -> Self {
        match self {
            Self::Value { path, value, line, rule, .. } => {
                Self::Value { path, value, line, rule, nearest: near }
            }
            Self::Elsewhere { place, path, value, rule, .. } => {
                Self::Elsewhere { place, path, value, rule, nearest: near }
            }
            other => other,
        }
    }

    /// The setting or flag at fault.
    pub fn field(&self) -> String {
        match self {
            Self::Unreadable { .. }
            | Self::Syntax { .. }
            | Self::UnknownFile { .. }
            | Self::SeveralRuns { .. } => "from".to_owned(),
            Self::Value { path, .. }
            | Self::Elsewhere { path, .. }
            | Self::Missing { path, .. }
            | Self::UnknownKey { path, .. } => path.clone(),
            Self::OtherEngine { .. } => "engine".to_owned(),
            Self::Contradiction { key, .. } => key.clone(),
            Self::Assumed { .. } => "assume".to_owned(),
            Self::Environment { .. } => "env".to_owned(),
            Self::Unsaid { flag, .. } => {
                flag.split(' ').next().unwrap_or_default().trim_start_matches('-').to_lowercase()
            }
        }
    }

    /// The value at fault.
    pub fn value(&self) -> String {
        match self {
            Self::Unreadable { path, .. }
            | Self::Syntax { path, .. }
            | Self::UnknownFile { path, .. }
            | Self::SeveralRuns { path, .. } => path.clone(),
            Self::Value { value, .. } | Self::Elsewhere { value, .. } => value.clone(),
            Self::OtherEngine { engine, .. } => engine.clone(),
            Self::Contradiction { typed, .. } => typed.clone(),
            Self::Assumed { text, .. } | Self::Environment { text, .. } => text.clone(),
            Self::UnknownKey { path, .. } => path.clone(),
            Self::Missing { .. } | Self::Unsaid { .. } => String::new(),
        }
    }

    /// What would do in its place.
    pub fn nearest(&self) -> Vec<String> {
        match self {
            Self::OtherEngine { runner, .. } => vec![runner.clone()],
            Self::Contradiction { key, read, .. } => vec![format!("{key}={read}")],
            Self::Value { nearest, .. }
            | Self::Elsewhere { nearest, .. }
            | Self::Assumed { nearest, .. }
            | Self::Environment { nearest, .. }
            | Self::UnknownKey { nearest, .. }
            | Self::UnknownFile { nearest, .. } => nearest.clone(),
            _ => Vec::new(),
        }
    }
}

/// Why a plan cannot be exported.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ExportError {
    /// Model or cluster of the plan cannot be made again.
    #[error("the plan's {part} cannot be used: {reason}")]
    Plan { part: &'static str, reason: String },
    #[error("{target} cannot run this strategy as it is: {}", broken.message)]
    AsIs { target: String, broken: Box<RuleBreak> },
    #[error("{target} has no word for {key}={value}; the nearest that it has is {key}={nearest}")]
    NoWord { target: String, key: String, value: String, nearest: String },
    #[error("{target} has no strategy for this: {reason}")]
    NoStrategy { target: String, reason: String },
    /// A rule of the engine that no capability says is broken.
    #[error("{target} refuses this: {rule} ({place})")]
    Refused { target: String, rule: String, place: String },
    /// The file that was written does not read back.
    #[error("what was written for {target} does not read back: {error}")]
    ReadBack { target: String, error: Box<ImportError> },
}
