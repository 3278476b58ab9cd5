//! What a command hands out: text on stdout, and files that appear whole, by rename.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::error::{CliError, Kind};
use super::interrupt;
use crate::spelling::hidden::{escape, shown_but};

/// Files that a command is to write.
#[derive(Debug, Default)]
pub struct Outputs {
    targets: Vec<Target>,
}

#[derive(Debug)]
struct Target {
    field: &'static str,
    /// As it was typed.
    path: PathBuf,
}

/// A file that is written and not yet in its place.
struct Staged<'a> {
    target: &'a Target,
    file: NamedTempFile,
    /// With links followed, so that what they point to is replaced and not they.
    place: PathBuf,
}

impl Outputs {
    /// Outputs at the paths that are given, each with its flag; a path that could not be written is an error now.
    pub fn new<const N: usize>(paths: [(&'static str, Option<PathBuf>); N]) -> Result<Self, CliError> {
        let mut outputs = Self::default();
        for (field, path) in paths {
            let Some(path) = path else { continue };
            if let Some(other) = outputs.targets.iter().find(|other| other.path == path) {
                let rule = format!("--{} writes there too", other.field);
                return Err(CliError::usage(field, &path.display().to_string(), rule));
            }
            let target = Target { field, path };
            target.probe().map_err(|error| target.failure(&error, &[]))?;
            outputs.targets.push(target);
        }
        Ok(outputs)
    }

    /// Whether the flag `field` asked for a file.
    pub fn wants(&self, field: &str) -> bool {
        self.targets.iter().any(|target| target.field == field)
    }

    /// Writes `texts`, by flag. No file is put in its place before all are written; where one cannot be put there,
    /// the error says which were.
    pub fn write(&self, texts: &[(&'static str, String)]) -> Result<(), CliError> {
        let mut done = Vec::new();
        let mut files = Vec::new();
        for (field, text) in texts {
            let Some(target) = self.targets.iter().find(|target| target.field == *field) else { continue };
            if target.is_special() {
                target.stream(text).map_err(|error| target.failure(&error, &done))?;
                done.push(target);
            } else {
                files.push((target, text.as_str()));
            }
        }
        put(&files, done)
    }

    /// Writes `files` (path and text) that the flag `field` asked for, like [`Self::write`]; folders are made.
    pub fn write_all(field: &'static str, files: Vec<(PathBuf, &str)>) -> Result<(), CliError> {
        let targets = files.into_iter().map(|(path, text)| (Target { field, path }, text));
        let targets: Vec<(Target, &str)> = targets.collect();
        for (target, _) in &targets {
            if let Some(folder) = target.path.parent() {
                fs::create_dir_all(folder).map_err(|error| target.failure(&error, &[]))?;
            }
        }
        let files: Vec<(&Target, &str)> = targets.iter().map(|(target, text)| (target, *text)).collect();
        put(&files, Vec::new())
    }
}

/// Writes all `files` and then puts them in their places; `done` were put there before.
fn put<'a>(files: &[(&'a Target, &str)], mut done: Vec<&'a Target>) -> Result<(), CliError> {
    let _guard = interrupt::hold();
    let mut staged = Vec::new();
    for (target, text) in files {
        staged.push(target.stage(text).map_err(|error| target.failure(&error, &done))?);
    }
    for Staged { target, file, place } in staged {
        file.persist(&place).map_err(|error| target.failure(&error.error, &done))?;
        done.push(target);
    }
    Ok(())
}

impl Target {
    /// Whether a device or pipe stands there, which must not be replaced by a file.
    fn is_special(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|found| !found.is_file() && !found.is_dir())
    }

    /// That a file could be made here now; leaves nothing behind.
    fn probe(&self) -> io::Result<()> {
        if self.path.is_dir() {
            return Err(io::Error::other("it is a directory"));
        }
        if self.is_special() {
            return Ok(());
        }
        let _guard = interrupt::hold();
        temporary(&self.place()).map(drop)
    }

    fn stream(&self, text: &str) -> io::Result<()> {
        File::options().write(true).open(&self.path)?.write_all(text.as_bytes())
    }

    /// Writes `text` beside the path.
    fn stage(&self, text: &str) -> io::Result<Staged<'_>> {
        let place = self.place();
        let mut file = temporary(&place)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        Ok(Staged { target: self, file, place })
    }

    fn place(&self) -> PathBuf {
        fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone())
    }

    /// The error that this target was not written, though `done` were.
    fn failure(&self, error: &io::Error, done: &[&Self]) -> CliError {
        let path = self.path.display().to_string();
        let reason = match error.kind() {
            ErrorKind::NotFound => "its folder does not exist".to_owned(),
            _ => error.to_string(),
        };
        let mut message = format!("cannot write `{path}`: {reason}");
        let done: Vec<_> = done.iter().map(|target| format!("`{}`", target.path.display())).collect();
        match done.as_slice() {
            [] => {}
            [one] => message += &format!("; {one} was written"),
            several => message += &format!("; {} were written", several.join(" and ")),
        }
        CliError { kind: Kind::Output, message, ..CliError::usage(self.field, &path, "") }
    }
}

/// A file beside `place`, with the permissions of any new file.
fn temporary(place: &Path) -> io::Result<NamedTempFile> {
    if place.file_name().is_none() {
        return Err(io::Error::other("it names no file"));
    }
    let folder = match place.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.prefix(".meshwright-").tempfile_in(folder).map_err(|error| {
        // Without the temporary file's own name, which means nothing to the reader.
        error.raw_os_error().map_or(error, io::Error::from_raw_os_error)
    })
}

/// Prints `text` on stdout. A reader that went away is no error; a full disk is.
pub fn print(text: &str) -> Result<(), CliError> {
    let mut stdout = io::stdout().lock();
    let text = harmless(text, stdout.is_terminal());
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(CliError {
            kind: Kind::Output,
            message: format!("cannot write to stdout: {error}"),
            ..CliError::usage("stdout", "", "")
        }),
        _ => Ok(()),
    }
}

/// A line on stderr, or several. Nobody may be there to read it, and nothing more could be said.
pub fn say(text: &str) {
    let mut stderr = io::stderr().lock();
    let text = harmless(text, stderr.is_terminal());
    let _ = writeln!(stderr, "{text}");
}

/// `text` with what a terminal would obey spelt out: paths, names and values are others'. Left are the ends of lines and,
/// where a terminal reads it, the colours of this program.
fn harmless(text: &str, is_coloured: bool) -> Cow<'_, str> {
    let is_layout = |c: char| matches!(c, '\n' | '\t');
    if !is_coloured || !text.contains('\u{1b}') {
        return shown_but(text, is_layout);
    }
    let parts = text.split_inclusive('\u{1b}').map(|part| match part.strip_suffix('\u{1b}') {
        Some(before) => (before, true),
        None => (part, false),
    });
    let mut written = String::with_capacity(text.len());
    let mut is_escape = false;
    for (part, escapes_next) in parts {
        if is_escape {
            match colour(part) {
                true => written.push('\u{1b}'),
                false => escape('\u{1b}', &mut written),
            }
        }
        written.push_str(&shown_but(part, is_layout));
        is_escape = escapes_next;
    }
    if is_escape {
        escape('\u{1b}', &mut written);
    }
    Cow::Owned(written)
}

/// Whether `text` begins with what selects a colour or a weight: a bracket, numbers and an `m`.
fn colour(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('[') else { return false };
    rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').starts_with('m')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_spelt_out() {
        let text = "one\n\ttwo \u{1b}[1mbold\u{1b}[0m \u{1b}[2J\u{1b}]0;title\u{7}\r\u{9b}31m\u{1b}";
        let rest = "\\u001b[2J\\u001b]0;title\\u0007\\u000d\\u009b31m\\u001b";
        assert_eq!(harmless(text, false), format!("one\n\ttwo \\u001b[1mbold\\u001b[0m {rest}"));
        assert_eq!(harmless(text, true), format!("one\n\ttwo \u{1b}[1mbold\u{1b}[0m {rest}"));
        assert_eq!(harmless("{\n  \"a\": 1\n}\n", false), "{\n  \"a\": 1\n}\n");
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn files_appear_whole_and_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.json");
        let outputs = Outputs::new([("out", Some(path.clone())), ("report", None)]).unwrap();
        assert!(outputs.wants("out") && !outputs.wants("report"));
        assert_eq!(names(folder.path()), [""; 0], "the probe leaves nothing");
        outputs.write(&[("out", "1".to_owned()), ("report", "2".to_owned())]).unwrap();
        outputs.write(&[("out", "3".to_owned())]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "3");
        assert_eq!(names(folder.path()), ["plan.json"]);
    }

    #[test]
    fn what_cannot_be_written_is_said_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let kind = |path: &str| Outputs::new([("out", Some(folder.path().join(path)))]).unwrap_err();
        assert_eq!(kind("missing/plan.json").kind, Kind::Output);
        assert!(kind("missing/plan.json").message.ends_with("its folder does not exist"));
        assert!(kind("").message.ends_with("it is a directory"));
        fs::write(folder.path().join("file"), "").unwrap();
        assert_eq!(kind("file/plan.json").kind, Kind::Output);
        let same = folder.path().join("same");
        let error = Outputs::new([("out", Some(same.clone())), ("report", Some(same))]).unwrap_err();
        assert_eq!((error.kind, error.field.as_str()), (Kind::Usage, "report"));
    }

    #[test]
    fn a_second_output_that_fails_names_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ["plan.json", "page.html"].map(|name| folder.path().join(name));
        let outputs = Outputs::new([("out", Some(first.clone())), ("report", Some(second.clone()))]).unwrap();
        fs::create_dir(&second).unwrap();
        fs::write(second.join("in the way"), "").unwrap();
        let error = outputs.write(&[("out", "1".to_owned()), ("report", "2".to_owned())]).unwrap_err();
        assert_eq!(error.field, "report");
        assert!(error.message.ends_with("plan.json` was written"), "{}", error.message);
        assert_eq!(names(folder.path()), ["page.html", "plan.json"]);
    }

    #[cfg(unix)]
    #[test]
    fn devices_are_written_and_links_followed() {
        let folder = tempfile::tempdir().unwrap();
        let null = Outputs::new([("out", Some(PathBuf::from("/dev/null")))]).unwrap();
        null.write(&[("out", "1".to_owned())]).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let [file, link] = ["file", "link"].map(|name| folder.path().join(name));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        Outputs::new([("out", Some(link.clone()))]).unwrap().write(&[("out", "new".to_owned())]).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}
