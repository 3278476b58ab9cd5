//! What a command hands out: text on stdout, and files that appear whole, by rename.

use std::borrow::Cow;
use std::fs;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::claims::Claims;
use super::error::{CliError, Kind};
use super::interrupt;
use crate::files::{Place, Target};
use crate::spelling::hidden::{escape, shown_but};

/// Files that a command is to write.
#[derive(Debug, Default)]
pub struct Outputs {
    targets: Vec<(&'static str, Target)>,
}

impl Outputs {
    /// Outputs at the paths that are given, each with its flag. A path that could not be written is an error now, and so
    /// is one where `claims` has something else.
    pub fn new<const N: usize>(
        claims: &mut Claims,
        paths: [(&'static str, Option<PathBuf>); N],
    ) -> Result<Self, CliError> {
        for (field, path) in &paths {
            path.as_deref().map_or(Ok(()), |path| claim(claims, field, path))?;
        }
        let mut outputs = Self::default();
        let _guard = interrupt::hold();
        for (field, path) in paths {
            let Some(path) = path else { continue };
            let target = Target::new(path.clone()).map_err(|error| failure((field, &path), &error, &[]))?;
            outputs.targets.push((field, target));
        }
        Ok(outputs)
    }

    /// Whether the flag `field` asked for a file.
    pub fn wants(&self, field: &str) -> bool {
        self.targets.iter().any(|(own, _)| *own == field)
    }

    /// The file that flag `field` asked for, to be written by others.
    pub fn take(&mut self, field: &str) -> Option<Target> {
        let index = self.targets.iter().position(|(own, _)| *own == field)?;
        Some(self.targets.remove(index).1)
    }

    /// That none of them is read, by what came to light since they were looked at.
    pub fn spare(&self, claims: &Claims) -> Result<(), CliError> {
        self.targets
            .iter()
            .try_for_each(|(field, target)| claims.spares(field, target.path(), target.place()))
    }

    /// Writes `texts`, by flag. No file is put in its place before all are written; where one cannot be put there,
    /// the error says which were.
    pub fn write(&self, texts: &[(&'static str, String)]) -> Result<(), CliError> {
        write(texts.iter().filter_map(|(field, text)| {
            let (field, target) = self.targets.iter().find(|(own, _)| own == field)?;
            Some((*field, target, text.as_str()))
        }))
    }

    /// The same by path.
    pub fn write_at(&self, texts: &[(PathBuf, &str)]) -> Result<(), CliError> {
        write(texts.iter().filter_map(|(path, text)| {
            let (field, target) = self.targets.iter().find(|(_, target)| target.path() == path)?;
            Some((*field, target, *text))
        }))
    }
}

fn write<'a>(texts: impl Iterator<Item = (&'static str, &'a Target, &'a str)>) -> Result<(), CliError> {
    let (streams, files): (Vec<_>, Vec<_>) = texts.partition(|(_, target, _)| target.is_stream());
    let mut done = Vec::new();
    for (field, target, text) in streams {
        let written = target.write(|out| out.write_all(text.as_bytes()));
        written.map_err(|error| failure((field, target.path()), &error, &done))?;
        done.push(target.path());
    }
    put(&files, done)
}

/// Writes `files` (path and text) that the flag `field` asked for, into folders that are made. None is put in its place
/// before all are written.
pub fn write_all(field: &'static str, files: Vec<(PathBuf, &str)>) -> Result<(), CliError> {
    let mut targets = Vec::new();
    // To look whether a file can be written makes one.
    let guard = interrupt::hold();
    for (path, text) in files {
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        let target = made.and_then(|()| Target::new(path.clone()));
        targets.push((target.map_err(|error| failure((field, &path), &error, &[]))?, text));
    }
    drop(guard);
    let files: Vec<_> = targets.iter().map(|(target, text)| (field, target, *text)).collect();
    put(&files, Vec::new())
}

/// Writes all `files` and then puts them in their places; `done` were put there before.
fn put<'a>(files: &[(&str, &'a Target, &str)], mut done: Vec<&'a Path>) -> Result<(), CliError> {
    let _guard = interrupt::hold();
    let mut staged = Vec::new();
    for (field, target, text) in files {
        let file = target.stage(|out| out.write_all(text.as_bytes()));
        staged.push(file.map_err(|error| failure((field, target.path()), &error, &done))?);
    }
    for ((field, target, _), file) in files.iter().zip(staged) {
        target.put(file).map_err(|error| failure((field, target.path()), &error, &done))?;
        done.push(target.path());
    }
    Ok(())
}

/// That flag `field` may write a file at `path`, as far as `claims` and what is printed go.
pub fn claim(claims: &mut Claims, field: &'static str, path: &Path) -> Result<(), CliError> {
    if path.as_os_str() == "-" {
        let rule = "the standard output is called /dev/stdout, and a file of this name ./-";
        return Err(CliError::usage(field, "-", rule).or(["/dev/stdout", "./-"]));
    }
    // What leads nowhere is no place of anything else either.
    let Ok(place) = Place::of(path) else { return Ok(()) };
    claims.writes(field, path, &place)?;
    let is_own = |(_, own): &(_, Place)| place.descriptor.is_none() && own.is(&place);
    match streams().into_iter().find(is_own) {
        Some((name, _)) => {
            let rule = format!("the {name} goes there too");
            Err(CliError::usage(field, &path.display().to_string(), rule))
        }
        None => Ok(()),
    }
}

/// Where what is printed goes, if into a file.
fn streams() -> Vec<(&'static str, Place)> {
    let named = [("standard output", "/dev/stdout"), ("standard error", "/dev/stderr")];
    let place = |path: &str| Place::of(Path::new(path)).ok();
    let is_file = |place: &Place| place.found.as_ref().is_some_and(fs::Metadata::is_file);
    named.into_iter().filter_map(|(name, path)| Some((name, place(path).filter(is_file)?))).collect()
}

/// The error that the file at `path`, which `field` asked for, was not written, though `done` were.
pub fn failure((field, path): (&str, &Path), error: &io::Error, done: &[&Path]) -> CliError {
    let path = path.display().to_string();
    let reason = match error.kind() {
        ErrorKind::NotFound => "its folder does not exist".to_owned(),
        _ => error.to_string(),
    };
    let mut message = format!("cannot write `{path}`: {reason}");
    let done: Vec<_> = done.iter().map(|path| format!("`{}`", path.display())).collect();
    match done.as_slice() {
        [] => {}
        [one] => message += &format!("; {one} was written"),
        several => message += &format!("; {} were written", several.join(" and ")),
    }
    CliError { kind: Kind::Output, message, ..CliError::usage(field, &path, "") }
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

/// Another process says what is to be said.
static HUSHED: AtomicBool = AtomicBool::new(false);

/// From here on [`say`] says nothing, if `hushed`: another process of the job does.
pub fn hush(hushed: bool) {
    HUSHED.store(hushed, Ordering::Release);
}

/// A line on stderr, or several. Nobody may be there to read it, and nothing more could be said.
pub fn say(text: &str) {
    if HUSHED.load(Ordering::Acquire) {
        return;
    }
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

    fn outputs<const N: usize>(paths: [(&'static str, Option<PathBuf>); N]) -> Result<Outputs, CliError> {
        Outputs::new(&mut Claims::default(), paths)
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
        let whole = outputs([("out", Some(path.clone())), ("report", None)]).unwrap();
        assert!(whole.wants("out") && !whole.wants("report"));
        assert_eq!(names(folder.path()), [""; 0], "the probe leaves nothing");
        whole.write(&[("out", "1".to_owned()), ("report", "2".to_owned())]).unwrap();
        whole.write(&[("out", "3".to_owned())]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "3");
        assert_eq!(names(folder.path()), ["plan.json"]);
    }

    #[test]
    fn what_cannot_be_written_is_said_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let kind = |path: &str| outputs([("out", Some(folder.path().join(path)))]).unwrap_err();
        assert_eq!(kind("missing/plan.json").kind, Kind::Output);
        assert!(kind("missing/plan.json").message.ends_with("its folder does not exist"));
        assert!(kind("").message.ends_with("it is a directory"));
        fs::write(folder.path().join("file"), "").unwrap();
        assert_eq!(kind("file/plan.json").kind, Kind::Output);
        let same = folder.path().join("same");
        let error = outputs([("out", Some(same.clone())), ("report", Some(same))]).unwrap_err();
        assert_eq!((error.kind, error.field.as_str()), (Kind::Usage, "report"));
    }

    #[test]
    fn a_second_output_that_fails_names_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ["plan.json", "page.html"].map(|name| folder.path().join(name));
        let whole = outputs([("out", Some(first.clone())), ("report", Some(second.clone()))]).unwrap();
        fs::create_dir(&second).unwrap();
        fs::write(second.join("in the way"), "").unwrap();
        let error = whole.write(&[("out", "1".to_owned()), ("report", "2".to_owned())]).unwrap_err();
        assert_eq!(error.field, "report");
        assert!(error.message.ends_with("plan.json` was written"), "{}", error.message);
        assert_eq!(names(folder.path()), ["page.html", "plan.json"]);
    }

    #[cfg(unix)]
    #[test]
    fn devices_are_written_and_links_followed() {
        let folder = tempfile::tempdir().unwrap();
        let null = outputs([("out", Some(PathBuf::from("/dev/null")))]).unwrap();
        null.write(&[("out", "1".to_owned())]).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let [file, link] = ["file", "link"].map(|name| folder.path().join(name));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        outputs([("out", Some(link.clone()))]).unwrap().write(&[("out", "new".to_owned())]).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}
