//! Where there is no trace: the folders nearby that hold some.

use std::fs;
use std::path::{Path, PathBuf};

use super::read::file;
use crate::spelling::distance;

/// Folders that are looked into.
const MOST_FOLDERS: usize = 12;
/// Entries of a folder that are looked at.
const MOST_ENTRIES: usize = 1000;
/// Bytes of a file that is read to see whether it is a trace.
const LARGEST_FILE: u64 = 4 << 20;

/// What stands beside `path` or in the folders beside it and holds a trace, those with the nearest names first; at most
/// three.
pub fn neighbours(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let parent = path.parent().unwrap_or(Path::new(""));
    let mut beside = entries(if parent.as_os_str().is_empty() { Path::new(".") } else { parent });
    // As it would be typed.
    beside = beside.iter().filter_map(|found| Some(parent.join(found.file_name()?))).collect();
    beside.sort_by_key(|found| distance(&name, &found.file_name().unwrap_or_default().to_string_lossy()));
    let near = beside.into_iter().filter(|found| found != path && (found.is_dir() || is_trace(found)));
    let inside = |found: PathBuf| {
        if found.is_file() || has_trace(&found) {
            return vec![found];
        }
        entries(&found).into_iter().filter(|inner| inner.is_dir() && has_trace(inner)).collect()
    };
    near.take(MOST_FOLDERS).flat_map(inside).take(3).collect()
}

/// Whether the first `.json` file of `folder` is a trace.
fn has_trace(folder: &Path) -> bool {
    let first = entries(folder)
        .into_iter()
        .find(|path| path.extension().is_some_and(|extension| extension == "json"));
    first.is_some_and(|path| is_trace(&path))
}

fn is_trace(path: &Path) -> bool {
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    is_json && path.metadata().is_ok_and(|found| found.len() <= LARGEST_FILE) && file(path).is_ok()
}

/// What stands in `folder`, by name.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(found) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> =
        found.filter_map(Result::ok).map(|entry| entry.path()).take(MOST_ENTRIES).collect();
    paths.sort();
    paths
}
