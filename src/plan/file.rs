//! Reading plan documents: their size, version and digest are checked before anything is believed.

use std::path::Path;

use serde_json::Value;
use thiserror::Error;

use super::assemble::digest;
use super::document::Plan;
use super::shell::quoted;
use crate::files;
use crate::json::{self, Fault};
use crate::units::Bytes;

/// The version of the document that this program writes and reads.
pub const VERSION: u32 = 3;

/// The largest file that is read as a plan.
const LARGEST_FILE: Bytes = Bytes::mib(256);

/// Why a file cannot be used as a plan.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum PlanFileError {
    #[error("cannot read `{path}`: {reason}")]
    Unreadable { path: String, reason: String },
    #[error("`{path}` is not JSON: {reason}")]
    NotJson { path: String, reason: String },
    #[error("`{path}` is not a plan: {reason}")]
    NotAPlan { path: String, reason: String },
    #[error("`{path}` is not a plan: {fault}")]
    Text { path: String, fault: Fault },
    #[error("`{path}` has version {version}, and this program reads version {VERSION}; {remedy}")]
    Version { path: String, version: String, remedy: String },
    #[error("`{path}` has no digest, so nothing says that it is as it was written; {remedy}")]
    NoDigest { path: String, remedy: String },
    #[error(
        "`{path}` was changed after it was written: its digest is {found}, and the rest of it has {expected}"
    )]
    Digest { path: String, found: String, expected: String },
}

impl PlanFileError {
    /// The field at fault.
    pub fn field(&self) -> &str {
        match self {
            Self::Text { fault, .. } => fault.field.as_deref().unwrap_or("plan"),
            Self::Unreadable { .. } | Self::NotJson { .. } | Self::NotAPlan { .. } => "plan",
            Self::Version { .. } => "version",
            Self::NoDigest { .. } | Self::Digest { .. } => "digest",
        }
    }

    /// The value at fault: the path, or what the field holds.
    pub fn value(&self) -> String {
        match self {
            Self::Unreadable { path, .. } | Self::NotJson { path, .. } | Self::NotAPlan { path, .. } => {
                path.clone()
            }
            Self::Text { fault, .. } => fault.value.clone().unwrap_or_default(),
            Self::Version { version, .. } => version.clone(),
            Self::NoDigest { .. } => String::new(),
            Self::Digest { found, .. } => found.clone(),
        }
    }

    /// The nearest legal values.
    pub fn nearest(&self) -> Vec<String> {
        match self {
            Self::Version { .. } => vec![VERSION.to_string()],
            _ => Vec::new(),
        }
    }
}

/// The plan in the file at `path`.
///
/// # Errors
/// When the file cannot be read, holds no plan, is of another version, or was changed since it was written.
pub fn read(path: &Path) -> Result<Plan, PlanFileError> {
    let shown = path.display().to_string();
    let text = files::text(path, LARGEST_FILE)
        .map_err(|unread| PlanFileError::Unreadable { path: shown.clone(), reason: unread.to_string() })?;
    parse(&text, &shown)
}

/// The plan that `text` holds; `path` is for messages.
fn parse(text: &str, path: &str) -> Result<Plan, PlanFileError> {
    let path = path.to_owned();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let value: Value = serde_json::from_str(text)
        .map_err(|error| PlanFileError::NotJson { path: path.clone(), reason: error.to_string() })?;
    // Before the fields: those of another version may differ.
    match value.get("version") {
        None => {
            let reason = "it has no field `version`".to_owned();
            return Err(PlanFileError::NotAPlan { path, reason });
        }
        Some(version) if *version != VERSION => {
            let version: String = version.to_string().chars().take(40).collect();
            let remedy = remedy(&value, &path);
            return Err(PlanFileError::Version { path, version, remedy });
        }
        Some(_) => {}
    }
    if value.get("digest").is_none_or(|digest| digest.is_null() || digest.as_str() == Some("")) {
        let remedy = remedy(&value, &path);
        return Err(PlanFileError::NoDigest { path, remedy });
    }
    json::plain(&value).map_err(|fault| PlanFileError::Text { path: path.clone(), fault })?;
    let plan: Plan = serde_json::from_value(value)
        .map_err(|error| PlanFileError::NotAPlan { path: path.clone(), reason: error.to_string() })?;
    let expected = digest(&plan);
    if plan.digest == expected {
        return Ok(plan);
    }
    let found = plan.digest.chars().take(64).collect();
    Err(PlanFileError::Digest { path, found, expected })
}

/// What makes a plan of this version in place of `value`, one of another.
fn remedy(value: &Value, path: &str) -> String {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(quoted);
    let number = |pointer: &str| value.pointer(pointer).filter(|value| value.is_number());
    let command = || {
        Some(format!(
            "`meshwright simulate {} --cluster {} --global-batch {} --seq-len {} --precision {} --dropout {} \
             --clip {} --engine {} --strategy {} --out {}` predicts the same strategy anew",
            text("/model/name")?,
            text("/cluster/name")?,
            number("/workload/global_batch")?,
            number("/workload/seq_len")?,
            text("/workload/precision")?,
            number("/workload/dropout")?,
            number("/workload/clip")?,
            text("/engine")?,
            text("/strategy/text")?,
            quoted(path),
        ))
    };
    command().unwrap_or_else(|| "`meshwright plan` makes a new one".to_owned())
}
