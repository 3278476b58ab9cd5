//! A folder of files that appears whole: written beside its place, then put there.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::claims::Claims;
use super::error::{CliError, Kind};
use super::{interrupt, output};
use crate::export::File;
use crate::files::Place;

/// Where a folder is to be written.
#[derive(Debug)]
pub struct Folder {
    field: &'static str,
    /// As it was given.
    path: PathBuf,
    /// Where that leads.
    place: PathBuf,
}

impl Folder {
    /// The folder at `path`, which flag `field` asked for. Unless `is_forced`, it must be empty or not be there.
    ///
    /// # Errors
    /// If something else is there or in `claims`, it holds files, or nothing can be written beside it.
    pub fn new(
        claims: &mut Claims,
        field: &'static str,
        path: PathBuf,
        is_forced: bool,
    ) -> Result<Self, CliError> {
        let place = claim(claims, field, &path)?;
        let folder = Self { field, path, place: place.path.clone() };
        if place.found.is_some() {
            let mut entries =
                fs::read_dir(&folder.place).map_err(|error| folder.failure(&error.to_string()))?;
            if !is_forced && entries.next().is_some() {
                let rule = "it holds files; name another folder, or put these over them with --force";
                return Err(folder.failure(rule));
            }
        } else if !place.has_folder() {
            return Err(folder.failure("the folder that is to hold it does not exist"));
        }
        drop(folder.stage()?);
        Ok(folder)
    }

    /// Writes `files`. None is in its place before all are written.
    ///
    /// # Errors
    /// If `claims` has something else for one, or one cannot be written; where the folder is new, nothing is left of it.
    pub fn write(&self, claims: &mut Claims, files: &[File]) -> Result<(), CliError> {
        for file in files {
            output::claim(claims, self.field, &self.place.join(&file.name))?;
        }
        let _guard = interrupt::hold();
        let staged = self.stage()?;
        let failed = |error: io::Error| self.failure(&error.to_string());
        for file in files {
            let path = staged.path().join(&file.name);
            fs::write(&path, &file.text).map_err(failed)?;
            permit(&path, file.is_executable).map_err(failed)?;
        }
        if self.place.is_dir() {
            for file in files {
                fs::rename(staged.path().join(&file.name), self.place.join(&file.name)).map_err(failed)?;
            }
            return Ok(());
        }
        permit(staged.path(), true).map_err(failed)?;
        fs::rename(staged.keep(), &self.place).map_err(failed)
    }

    /// A folder beside the place, or inside one that is there: it may be all that can be written.
    fn stage(&self) -> Result<TempDir, CliError> {
        let beside = if self.place.is_dir() { Some(self.place.as_path()) } else { self.place.parent() };
        let made =
            tempfile::Builder::new().prefix(".meshwright-").tempdir_in(beside.unwrap_or(Path::new("/")));
        made.map_err(|error| {
            let own = error.raw_os_error().map_or(error, io::Error::from_raw_os_error);
            self.failure(&own.to_string())
        })
    }

    fn failure(&self, reason: &str) -> CliError {
        failure(self.field, &self.path, reason)
    }
}

/// That the folder at `path`, which flag `field` asked for, is there or can be made with all folders above it, and that
/// `files` can be written there.
///
/// # Errors
/// If something else is there or in `claims`.
pub fn makeable(
    claims: &mut Claims,
    field: &'static str,
    path: &Path,
    files: &[&str],
) -> Result<(), CliError> {
    let place = claim(claims, field, path)?;
    let mut ground = place.path.as_path();
    while !ground.exists() {
        ground = ground.parent().unwrap_or(Path::new("/"));
    }
    let _guard = interrupt::hold();
    tempfile::tempfile_in(ground).map_err(|error| {
        let own = error.raw_os_error().map_or(error, io::Error::from_raw_os_error);
        failure(field, path, &own.to_string())
    })?;
    for file in files {
        let inside = path.join(file);
        if let Ok(place) = Place::of(&inside) {
            claims.writes(field, &inside, &place)?;
        }
    }
    Ok(())
}

/// The place of a folder, as far as `claims` go.
fn claim(claims: &mut Claims, field: &'static str, path: &Path) -> Result<Place, CliError> {
    if path.as_os_str() == "-" {
        return Err(CliError::usage(field, "-", "a folder of this name is called ./-").or(["./-"]));
    }
    let place = Place::of(path).map_err(|error| match error.kind() {
        ErrorKind::NotADirectory => failure(field, path, "what stands before it is no folder"),
        _ => failure(field, path, &error.to_string()),
    })?;
    if place.found.as_ref().is_some_and(|found| !found.is_dir()) {
        return Err(failure(field, path, "it is no folder"));
    }
    claims.fills(field, path, &place)?;
    Ok(place)
}

fn failure(field: &str, path: &Path, reason: &str) -> CliError {
    let path = path.display().to_string();
    let message = format!("cannot write `{path}`: {reason}");
    CliError { kind: Kind::Output, message, ..CliError::usage(field, &path, "") }
}

/// The permissions of any new file or script.
#[cfg(unix)]
fn permit(path: &Path, is_executable: bool) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(if is_executable { 0o755 } else { 0o644 }))
}

#[cfg(not(unix))]
fn permit(_: &Path, _: bool) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(path: PathBuf, is_forced: bool) -> Result<Folder, CliError> {
        Folder::new(&mut Claims::default(), "out", path, is_forced)
    }

    fn written(path: &Path, is_forced: bool) {
        folder(path.to_owned(), is_forced).unwrap().write(&mut Claims::default(), &files()).unwrap();
    }

    fn files() -> Vec<File> {
        let file =
            |name: &str, is_executable| File { name: name.to_owned(), text: name.to_owned(), is_executable };
        vec![file("train.toml", false), file("run.sh", true)]
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_folder_appears_whole() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("run");
        written(&path, false);
        assert_eq!(names(&path), ["run.sh", "train.toml"]);
        assert_eq!(names(home.path()), ["run"], "nothing is left beside it");
        let error = folder(path.clone(), false).unwrap_err();
        assert_eq!((error.kind, error.field.as_str()), (Kind::Output, "out"));
        assert!(error.message.contains("--force"), "{}", error.message);
        fs::write(path.join("notes"), "mine").unwrap();
        written(&path, true);
        assert_eq!(names(&path), ["notes", "run.sh", "train.toml"], "what else is there stays");
    }

    #[test]
    fn what_cannot_be_written_is_said_at_once() {
        let home = tempfile::tempdir().unwrap();
        let refused = |path: PathBuf| folder(path, false).unwrap_err();
        assert!(refused(home.path().join("missing/run")).message.ends_with("does not exist"));
        fs::write(home.path().join("file"), "").unwrap();
        assert_eq!(refused(home.path().join("file")).kind, Kind::Output);
        assert_eq!(names(home.path()), ["file"]);
    }
}
