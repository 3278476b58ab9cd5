//! The floors: a module uses only modules that stand before it in the list of `src/lib.rs`.

use std::fs;
use std::path::{Path, PathBuf};

/// The modules of the numbered list in the documentation of `src/lib.rs`, lowest first.
fn floors() -> Vec<String> {
    let text = fs::read_to_string(source().join("lib.rs")).unwrap();
    let item = |line: &str| {
        let (number, rest) = line.strip_prefix("//! ")?.split_once(". [`")?;
        number.parse::<u32>().ok()?;
        rest.split_once('`').map(|(name, _)| name.to_owned())
    };
    let listed: Vec<String> = text.lines().filter_map(item).collect();
    let declared: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("pub mod ")).collect();
    assert_eq!(declared, listed.iter().map(|name| format!("{name};")).collect::<Vec<_>>());
    listed
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// All files of module `name`: `src/name.rs` and what lies under `src/name/`.
fn files(path: PathBuf) -> Vec<PathBuf> {
    match fs::read_dir(&path) {
        Ok(entries) => entries.flat_map(|entry| files(entry.unwrap().path())).collect(),
        Err(_) => [path.with_extension("rs")].into_iter().filter(|file| file.is_file()).collect(),
    }
}

/// Modules above `own` that `text` names behind `crate::`, one by one or in braces; comments do not count.
fn upward(text: &str, own: &str, floors: &[String]) -> Vec<String> {
    let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let code = code.join(" ");
    let height = |name: &str| floors.iter().position(|floor| floor == name);
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let above = |name: &&str| height(name).is_some_and(|other| Some(other) > height(own));
    let used = code.split("crate::").skip(1).flat_map(|rest| match rest.strip_prefix('{') {
        Some(list) => list.split(';').next().unwrap_or_default().split([',', '{', '}']).collect(),
        None => vec![rest],
    });
    let names = used.map(|path| path.trim().split(|c| !is_name(c)).next().unwrap_or_default());
    names.filter(above).map(str::to_owned).collect()
}

#[test]
fn no_module_uses_one_above_it() {
    let floors = floors();
    for own in &floors {
        let files = files(source().join(own));
        assert!(!files.is_empty(), "{own} has no file");
        for file in files {
            let found = upward(&fs::read_to_string(&file).unwrap(), own, &floors);
            assert!(found.is_empty(), "{} is of `{own}` and uses {found:?}", file.display());
        }
    }
}

#[test]
fn upward_uses_are_seen_in_every_form() {
    let floors = floors();
    let seen = |text| upward(text, "cost", &floors);
    assert_eq!(seen("use crate::search::Problem;"), ["search"]);
    assert_eq!(seen("use crate::{\n    ops::Op,\n    plan::{Plan, mfu},\n};"), ["plan"]);
    assert_eq!(seen("fn f() { crate::cli::run(); }"), ["cli"]);
    assert!(seen("use crate::cost::gemm;\nuse crate::units::Bytes; // crate::cli is far above").is_empty());
}

#[test]
fn nothing_below_the_command_line_prints_or_exits() {
    for own in floors().iter().filter(|own| *own != "cli") {
        for file in files(source().join(own)) {
            let text = fs::read_to_string(&file).unwrap();
            for word in ["println!", "print!", "dbg!", "process::exit", "process::abort"] {
                assert!(!text.contains(word), "{} has {word}", file.display());
            }
        }
    }
}

/// Calls that open, make or replace a file.
const OPENS: [&str; 8] = [
    "fs::read(",
    "read_to_string(",
    "File::open(",
    "File::create",
    "File::options(",
    "OpenOptions::new(",
    "fs::write(",
    ".persist(",
];

/// Where that is done: the one way to read and to write, what the system says of itself, and folders that appear whole.
const OPENERS: [&str; 8] = [
    "files/",
    "execute/weights/",
    "execute/device/",
    "execute/limits.rs",
    "execute/observe/load.rs",
    "execute/world/",
    "calibrate/machine.rs",
    "cli/folder.rs",
];

#[test]
fn files_are_read_and_written_one_way() {
    for own in floors() {
        for file in files(source().join(own)) {
            let name = file.strip_prefix(source()).unwrap().to_string_lossy().into_owned();
            if OPENERS.iter().any(|opener| name.starts_with(opener))
                || name.contains("tests")
                || name.contains("attacks")
            {
                continue;
            }
            let text = fs::read_to_string(&file).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            for call in OPENS {
                // Not the end of a longer name, like that of a type of ours.
                let is_whole =
                    |place: usize| !code[..place].ends_with(|c: char| c.is_alphanumeric() || c == '_');
                let is_called =
                    code.match_indices(call).any(|(place, _)| call.starts_with('.') || is_whole(place));
                assert!(!is_called, "{name} has {call}; crate::files reads and writes what is named");
            }
        }
    }
}
