//! Traces from files: our own, one a file, and arrays of published runs.

use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};
use std::{io, mem};

use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use super::neighbours::neighbours;
use crate::files::{self, Unread};
use crate::json::{self, Fault};
use crate::plan;
use crate::spelling::hidden::{first_hidden, shown};
use crate::trace::published::{PublishedRun, PublishedTrace, Quality};
use crate::trace::{Trace, VERSION, published};
use crate::units::Bytes;

/// Files and folders that are looked at for traces.
const MOST_ENTRIES: usize = 20_000;

/// The largest file that is read as a trace.
const LARGEST_FILE: Bytes = Bytes::mib(256);

/// A measured run.
#[derive(Clone, Debug)]
pub enum Measured {
    /// What `execute --trace` wrote.
    Own(Box<Trace>),
    /// A run of somebody else's.
    Published(Box<PublishedRun>),
    /// A record that is no run: what is wrong with which field.
    Unread { family: String, quality: Quality, reason: String },
}

/// A file that holds no measured run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{}` {reason}", path.display())]
pub struct UnreadTrace {
    pub path: PathBuf,
    pub reason: String,
    /// Paths that would do.
    pub nearest: Vec<PathBuf>,
}

impl UnreadTrace {
    fn new(path: &Path, reason: String) -> Self {
        Self { path: path.to_owned(), reason, nearest: Vec::new() }
    }
}

/// The runs in the file at `path`, or in all `.json` files of the folder there and of those inside, with their names.
///
/// # Errors
/// If a file cannot be read, is neither a trace nor an array of runs, or holds none.
pub fn read(path: &Path) -> Result<Vec<(String, Measured)>, UnreadTrace> {
    if !path.is_dir() {
        let text = files::text(path, LARGEST_FILE);
        return runs(path, text).map_err(|error| match path.try_exists() {
            Ok(false) => UnreadTrace { nearest: neighbours(path), ..error },
            _ => error,
        });
    }
    let files = inside(path)?;
    let read: Vec<_> = files.iter().map(|path| file(path)).collect();
    // Where some files are traces, those that are none are mistakes of their own.
    if read.iter().any(Result::is_ok) {
        return Ok(read.into_iter().collect::<Result<Vec<_>, _>>()?.concat());
    }
    let found = match read.into_iter().find_map(Result::err) {
        None => "it has no .json file".to_owned(),
        Some(other) => {
            format!("of {} .json files none is one; `{}` {}", files.len(), other.path.display(), other.reason)
        }
    };
    let reason = format!(
        "holds no trace: {found}; looked for were files that `meshwright execute --trace` wrote, and arrays or traces \
         of published runs, such as those in traces/published"
    );
    let nearest = neighbours(path);
    Err(UnreadTrace { nearest, ..UnreadTrace::new(path, reason) })
}

/// The files that [`read`] would read of `path`.
pub fn sources(path: &Path) -> Vec<PathBuf> {
    if path.is_dir() { inside(path).unwrap_or_default() } else { vec![path.to_owned()] }
}

/// All `.json` files under `folder`, by name; links to folders are not followed.
fn inside(folder: &Path) -> Result<Vec<PathBuf>, UnreadTrace> {
    let mut found = Vec::new();
    let mut left = MOST_ENTRIES;
    collect(folder, &mut found, &mut left)?;
    Ok(found)
}

/// Adds those under `folder` to `found`; so many entries may yet be looked at.
fn collect(folder: &Path, found: &mut Vec<PathBuf>, left: &mut usize) -> Result<(), UnreadTrace> {
    let failed = |error: io::Error| UnreadTrace::new(folder, format!("cannot be read: {error}"));
    let entries = fs::read_dir(folder).map_err(failed)?.take(*left + 1);
    let mut entries = entries.collect::<Result<Vec<DirEntry>, _>>().map_err(failed)?;
    *left = left.checked_sub(entries.len()).ok_or_else(|| {
        let reason =
            format!("is among more than {MOST_ENTRIES} files and folders; name the folder of the traces");
        UnreadTrace::new(folder, reason)
    })?;
    entries.sort_by_key(DirEntry::path);
    for entry in entries {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&path, found, left)?;
        } else if path.extension().is_some_and(|extension| extension == "json") {
            found.push(path);
        }
    }
    Ok(())
}

/// The runs in the regular file at `path`, which was found in a folder; at least one.
pub(super) fn file(path: &Path) -> Result<Vec<(String, Measured)>, UnreadTrace> {
    runs(path, files::regular_text(path, LARGEST_FILE))
}

/// The runs in `text`, read from `path`; at least one.
fn runs(path: &Path, text: Result<String, Unread>) -> Result<Vec<(String, Measured)>, UnreadTrace> {
    let text = text.map_err(|unread| {
        let reason = match unread {
            Unread::Missing => "does not exist".to_owned(),
            other => format!("cannot be read: {other}"),
        };
        UnreadTrace::new(path, reason)
    })?;
    let runs = contents(path, &text)?;
    if runs.is_empty() {
        return Err(UnreadTrace::new(path, "holds no run".to_owned()));
    }
    Ok(runs)
}

fn contents(path: &Path, text: &str) -> Result<Vec<(String, Measured)>, UnreadTrace> {
    let failed = |reason: String| UnreadTrace::new(path, reason);
    let value: Value = serde_json::from_str(text)
        .or_else(|error| serde_json::from_str(&quoted(text)).map_err(|_| error))
        .map_err(|error| failed(format!("is no JSON: {error}")))?;
    let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    match value {
        Value::Array(list) => Ok(list.into_iter().enumerate().map(|(place, run)| one(place, run)).collect()),
        value => {
            let version = value.get("version").cloned().unwrap_or(Value::Null);
            let is_published = value.get("kind").is_some();
            let known = if is_published { published::VERSION } else { VERSION };
            if version != known {
                let remedy = if is_published { "" } else { "; `meshwright execute` makes a new one" };
                let reason =
                    format!("is a document of version {version}, and such traces have {known}{remedy}");
                return Err(failed(reason));
            }
            if is_published {
                return family(value)
                    .map_err(|fault| failed(format!("is no trace of published runs: {fault}")));
            }
            json::plain(&value).map_err(|fault| failed(format!("is no trace: {fault}")))?;
            let trace: Trace =
                serde_json::from_value(value).map_err(|error| failed(format!("is no trace: {error}")))?;
            let expected = plan::digest(&trace.plan);
            if trace.plan.digest != expected {
                let reason = match trace.plan.digest.as_str() {
                    "" => "holds a plan without a digest, so nothing says that it is as it was written"
                        .to_owned(),
                    found => format!("holds a plan that was changed: its digest is {found}, not {expected}"),
                };
                return Err(failed(reason));
            }
            Ok(vec![(name, Measured::Own(Box::new(trace)))])
        }
    }
}

/// The runs of a trace of one family; one that does not read is left to be reported, like an entry of an array.
fn family(mut value: Value) -> Result<Vec<(String, Measured)>, Fault> {
    let runs = value.get_mut("runs").map_or(Value::Null, |runs| mem::replace(runs, Value::Array(Vec::new())));
    json::plain(&value)?;
    let _: PublishedTrace = serde_json::from_value(value)?;
    let runs: Vec<Value> = serde_json::from_value(runs)?;
    Ok(runs.into_iter().enumerate().map(|(place, run)| one(place, run)).collect())
}

/// One run, called by its id or, where it has none, by its place.
fn one(place: usize, run: Value) -> (String, Measured) {
    let text = |field: &str| run.get(field).and_then(Value::as_str).map(|text| shown(text).into_owned());
    let id = text("id").unwrap_or_else(|| place.to_string());
    let family = text("family").unwrap_or_else(|| "unread".to_owned());
    let quality = run.get("quality").and_then(|quality| Quality::deserialize(quality).ok());
    let measured = named(&run).and_then(|()| {
        serde_path_to_error::deserialize::<_, PublishedRun>(run).map_err(|error| {
            let field = error.path().to_string();
            format!("is no published run: {field}: {}", error.into_inner()).replace(" .: ", " ")
        })
    });
    let measured = match measured {
        Ok(run) => Measured::Published(Box::new(run)),
        Err(reason) => Measured::Unread { family, quality: quality.unwrap_or(Quality::C), reason },
    };
    (id, measured)
}

/// That the names in `run` are one line each; its notes need not be.
fn named(run: &Value) -> Result<(), String> {
    const NAMES: [&str; 5] = ["/id", "/family", "/model/name", "/hardware/gpu", "/framework"];
    for name in NAMES {
        let hidden = run.pointer(name).and_then(Value::as_str).and_then(first_hidden);
        if let Some(c) = hidden {
            let field = name[1..].replace('/', ".");
            return Err(format!("is no published run: {field}: {}", json::hidden(c)));
        }
    }
    Ok(())
}

/// `text` with the names that Python writes for numbers that JSON has not, as text, so that they are found at their
/// field.
fn quoted(text: &str) -> String {
    const NAMES: [&str; 3] = ["-Infinity", "Infinity", "NaN"];
    let mut result = String::with_capacity(text.len());
    let (mut rest, mut is_text) = (text, false);
    while let Some(next) = rest.chars().next() {
        let named = NAMES.iter().find(|name| !is_text && rest.starts_with(**name));
        let length = match (named, next) {
            (Some(name), _) => {
                result.push('"');
                result.push_str(name);
                result.push('"');
                rest = &rest[name.len()..];
                continue;
            }
            (None, '\\') => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            (None, '"') => {
                is_text = !is_text;
                1
            }
            (None, other) => other.len_utf8(),
        };
        result.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_json_has_not_are_text() {
        let text = r#"{"a": NaN, "b": [-Infinity, 1], "NaN": "a \" NaN \\", "c": "é"}"#;
        let expected = r#"{"a": "NaN", "b": ["-Infinity", 1], "NaN": "a \" NaN \\", "c": "é"}"#;
        assert_eq!(quoted(text), expected);
    }

    #[test]
    fn a_wrong_record_names_its_field() {
        let run = serde_json::json!({ "id": "x", "family": "f", "quality": "A", "framework": "NeMo", "model": {
            "name": "m", "type": "gpt", "seq_len": "NaN" } });
        let (id, measured) = one(3, run);
        let Measured::Unread { family, quality, reason } = measured else { panic!("it reads") };
        assert_eq!((id.as_str(), family.as_str(), quality), ("x", "f", Quality::A));
        assert!(reason.contains("model.seq_len: invalid type: string \"NaN\""), "{reason}");
        let (id, measured) = one(3, Value::Null);
        assert_eq!(id, "3");
        assert!(matches!(measured, Measured::Unread { quality: Quality::C, .. }));
    }
}
