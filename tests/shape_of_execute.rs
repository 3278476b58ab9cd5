//! The embedded backend's files: none too long, no folder too full, no circle of uses, `unsafe` only where it belongs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/execute")
}

/// All Rust files below `folder`.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_rust = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "rs");
    let inner = entries.map(|path| if path.is_dir() { files(&path) } else { vec![path] });
    inner.flatten().filter(is_rust).collect()
}

fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs")
}

/// The code of `path`: without comments, and without what is for tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// What a module is called: `src/execute/comm/mod.rs` is `comm`.
fn module(path: &Path) -> Vec<String> {
    let inner = path.strip_prefix(root()).unwrap().with_extension("");
    let mut parts: Vec<String> =
        inner.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    parts
}

/// The paths that a `use` names: its braces multiplied out.
fn paths(prefix: &[String], tree: &str) -> Vec<Vec<String>> {
    let tree = tree.trim();
    if let Some(inner) = tree.strip_prefix('{') {
        let inner = inner.strip_suffix('}').unwrap_or(inner);
        let mut depth = 0;
        let branches = inner.split(|letter| {
            depth += match letter {
                '{' => 1,
                '}' => -1,
                _ => 0,
            };
            letter == ',' && depth == 0
        });
        return branches.filter(|branch| !branch.trim().is_empty()).flat_map(|b| paths(prefix, b)).collect();
    }
    let (first, rest) = tree.split_once("::").map_or((tree, None), |(first, rest)| (first, Some(rest)));
    let name = first.split_whitespace().next().unwrap_or_default().to_owned();
    let path = [prefix, &[name]].concat();
    rest.map_or_else(|| vec![path.clone()], |rest| paths(&path, rest))
}

/// By module, the modules that it uses.
fn uses() -> BTreeMap<Vec<String>, BTreeSet<Vec<String>>> {
    let all: Vec<PathBuf> = files(&root()).into_iter().filter(|path| !is_test(path)).collect();
    let known: BTreeSet<Vec<String>> = all.iter().map(|path| module(path)).collect();
    let mut graph = BTreeMap::new();
    for path in &all {
        let own = module(path);
        let text = code(path);
        let mut used = BTreeSet::new();
        for statement in text.split(';') {
            let Some((before, tree)) = statement.rsplit_once("use ") else { continue };
            if !before.lines().next_back().unwrap_or_default().trim_start_matches("pub").trim().is_empty() {
                continue;
            }
            for named in paths(&[], tree) {
                let full = match named.first().map(String::as_str) {
                    Some("crate") if named.get(1).is_some_and(|floor| floor == "execute") => {
                        named[2..].to_vec()
                    }
                    Some("super") => {
                        let ups = named.iter().take_while(|part| *part == "super").count();
                        [&own[..own.len().saturating_sub(ups)], &named[ups..]].concat()
                    }
                    Some("self") => [&own[..], &named[1..]].concat(),
                    _ => continue,
                };
                let found = (0..=full.len()).rev().map(|end| &full[..end]).find(|part| known.contains(*part));
                used.extend(found.filter(|found| **found != own[..]).map(<[String]>::to_vec));
            }
        }
        graph.insert(own, used);
    }
    graph
}

#[test]
fn no_file_is_long_and_no_folder_full() {
    let mut by_folder: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for path in files(&root()) {
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= 400, "{} has {lines} lines", path.display());
        *by_folder.entry(path.parent().unwrap().to_path_buf()).or_default() += 1;
    }
    for (folder, count) in by_folder {
        assert!(count <= 25, "{} has {count} files", folder.display());
    }
}

#[test]
fn files_use_each_other_in_no_circle() {
    let mut graph = uses();
    assert!(graph.len() > 80 && graph.values().map(BTreeSet::len).sum::<usize>() > 200, "uses are seen");
    // Who is used by nobody, or uses nobody, is in no circle.
    loop {
        let targets: BTreeSet<Vec<String>> = graph.values().flatten().cloned().collect();
        let before = graph.len();
        graph.retain(|module, used| targets.contains(module) && !used.is_empty());
        let left: BTreeSet<Vec<String>> = graph.keys().cloned().collect();
        graph.values_mut().for_each(|used| used.retain(|one| left.contains(one)));
        if graph.len() == before {
            break;
        }
    }
    // A folder's files may use what its `mod.rs` holds, which uses them in turn.
    let is_in = |module: &[String], other: &[String]| module.starts_with(other) || other.starts_with(module);
    let between: Vec<_> = graph
        .iter()
        .flat_map(|(module, used)| {
            used.iter().map(move |other| (module.join("::"), other.join("::"), is_in(module, other)))
        })
        .filter(|(.., inner)| !inner)
        .collect();
    assert!(between.is_empty(), "{between:#?}");
}

#[test]
fn unsafe_code_is_where_memory_is() {
    let allowed = [
        "access.rs",
        "comm/",
        "data/file.rs",
        "device/",
        "kernels/blocks.rs",
        "kernels/multiply.rs",
        "kernels/shared.rs",
        "storage.rs",
        "weights/",
        "worker.rs",
        // What the standard library does not tell of a host.
        "world/host.rs",
    ];
    for path in files(&root()) {
        let text = code(&path);
        let inner = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        let is_allowed = allowed.iter().any(|place| inner.starts_with(place));
        assert!(is_allowed || !text.contains("unsafe"), "{inner} has unsafe code");
        // No safe function makes a slice to write from a shared reference.
        for function in text.split("fn ").skip(1) {
            let head = function.split(['{', ';']).next().unwrap_or_default();
            let gives = head.split("->").nth(1).unwrap_or_default();
            let makes = head.contains("(&self") && gives.contains("&") && gives.contains("mut ");
            let before = text.split(head).next().unwrap_or_default();
            assert!(!makes || before.trim_end().ends_with("unsafe fn"), "{inner}: fn {head}");
        }
    }
}
