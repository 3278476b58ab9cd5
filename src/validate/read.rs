//! Traces from files: our own, one a file, and arrays of published runs.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use thiserror::Error;

use crate::plan;
use crate::trace::published::{PublishedRun, PublishedTrace};
use crate::trace::{Trace, VERSION};

/// A measured run.
#[derive(Clone, Debug)]
pub enum Measured {
    /// What `execute --trace` wrote.
    Own(Box<Trace>),
    /// A run of somebody else's.
    Published(Box<PublishedRun>),
    /// An entry of an array that is no run: what is wrong with which field.
    Unread { reason: String },
}

/// A file that holds no measured run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{}` {reason}", path.display())]
pub struct UnreadTrace {
    pub path: PathBuf,
    pub reason: String,
}

/// The runs in the file at `path`, or in all `.json` files of the folder there, with their names.
///
/// # Errors
/// If a file cannot be read, or is neither a trace nor an array of runs.
pub fn read(path: &Path) -> Result<Vec<(String, Measured)>, UnreadTrace> {
    let failed = |reason: String| UnreadTrace { path: path.to_owned(), reason };
    if !path.is_dir() {
        return file(path);
    }
    let entries = fs::read_dir(path).map_err(|error| failed(format!("cannot be read: {error}")))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    if files.is_empty() {
        return Err(failed("holds no .json file".to_owned()));
    }
    Ok(files.iter().map(|path| file(path)).collect::<Result<Vec<_>, _>>()?.concat())
}

fn file(path: &Path) -> Result<Vec<(String, Measured)>, UnreadTrace> {
    let failed = |reason: String| UnreadTrace { path: path.to_owned(), reason };
    if path.exists() && !path.is_file() {
        return Err(failed("is no regular file".to_owned()));
    }
    let text = fs::read_to_string(path).map_err(|error| failed(format!("cannot be read: {error}")))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| failed(format!("is no JSON: {error}")))?;
    let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    match value {
        Value::Array(list) => {
            Ok(list.into_iter().enumerate().map(|(place, run)| published(place, run)).collect())
        }
        value => {
            let version = value.get("version").cloned().unwrap_or(Value::Null);
            if version != VERSION {
                return Err(failed(format!("is a document of version {version}; traces have {VERSION}")));
            }
            if value.get("kind").is_some() {
                let trace: PublishedTrace = serde_json::from_value(value)
                    .map_err(|error| failed(format!("is no trace of published runs: {error}")))?;
                let runs = trace.runs.into_iter();
                return Ok(runs.map(|run| (run.id.clone(), Measured::Published(Box::new(run)))).collect());
            }
            let trace: Trace =
                serde_json::from_value(value).map_err(|error| failed(format!("is no trace: {error}")))?;
            let expected = plan::digest(&trace.plan);
            if trace.plan.digest != expected {
                return Err(failed(format!(
                    "holds a plan that was changed: its digest is {}, not {expected}",
                    trace.plan.digest
                )));
            }
            Ok(vec![(name, Measured::Own(Box::new(trace)))])
        }
    }
}

fn published(place: usize, run: Value) -> (String, Measured) {
    let id = run.get("id").and_then(Value::as_str).map_or_else(|| place.to_string(), str::to_owned);
    let measured = match serde_json::from_value(run) {
        Ok(run) => Measured::Published(Box::new(run)),
        Err(error) => Measured::Unread { reason: format!("is no published run: {error}") },
    };
    (id, measured)
}
