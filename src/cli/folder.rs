//! A folder of files that appears whole: written beside its place, then put there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::error::{CliError, Kind};
use super::interrupt;
use crate::export::File;

/// Where a folder is to be written.
#[derive(Debug)]
pub struct Folder {
    field: &'static str,
    path: PathBuf,
}

impl Folder {
    /// The folder at `path`, which flag `field` asked for. Unless `is_forced`, it must be empty or not be there.
    ///
    /// # Errors
    /// If something else stands there, it holds files, or nothing can be written beside it.
    pub fn new(field: &'static str, path: PathBuf, is_forced: bool) -> Result<Self, CliError> {
        let folder = Self { field, path };
        match fs::read_dir(&folder.path) {
            Ok(mut entries) => {
                if !is_forced && entries.next().is_some() {
                    let rule = "it holds files; name another folder, or put these over them with --force";
                    return Err(folder.failure(rule));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(folder.failure(&error.to_string())),
        }
        drop(folder.stage()?);
        Ok(folder)
    }

    /// Writes `files`. None is in its place before all are written.
    ///
    /// # Errors
    /// If one cannot be written; where the folder is new, nothing is left of it.
    pub fn write(&self, files: &[File]) -> Result<(), CliError> {
        let _guard = interrupt::hold();
        let staged = self.stage()?;
        let failed = |error: io::Error| self.failure(&error.to_string());
        for file in files {
            let path = staged.path().join(&file.name);
            fs::write(&path, &file.text).map_err(failed)?;
            permit(&path, file.is_executable).map_err(failed)?;
        }
        if self.path.is_dir() {
            for file in files {
                fs::rename(staged.path().join(&file.name), self.path.join(&file.name)).map_err(failed)?;
            }
            return Ok(());
        }
        permit(staged.path(), true).map_err(failed)?;
        fs::rename(staged.keep(), &self.path).map_err(failed)
    }

    /// A folder beside the place.
    fn stage(&self) -> Result<TempDir, CliError> {
        let beside = match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        // Inside one that is there: it may be all that can be written.
        let beside = if self.path.is_dir() { &self.path } else { beside };
        if self.path.file_name().is_none() && !self.path.is_dir() {
            return Err(self.failure("it names no folder"));
        }
        tempfile::Builder::new().prefix(".meshwright-").tempdir_in(beside).map_err(|error| {
            let reason = match error.kind() {
                io::ErrorKind::NotFound => "the folder that is to hold it does not exist".to_owned(),
                _ => error.raw_os_error().map_or(error, io::Error::from_raw_os_error).to_string(),
            };
            self.failure(&reason)
        })
    }

    fn failure(&self, reason: &str) -> CliError {
        let path = self.path.display().to_string();
        let message = format!("cannot write `{path}`: {reason}");
        CliError { kind: Kind::Output, message, ..CliError::usage(self.field, &path, "") }
    }
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
        Folder::new("out", path.clone(), false).unwrap().write(&files()).unwrap();
        assert_eq!(names(&path), ["run.sh", "train.toml"]);
        assert_eq!(names(home.path()), ["run"], "nothing is left beside it");
        let error = Folder::new("out", path.clone(), false).unwrap_err();
        assert_eq!((error.kind, error.field.as_str()), (Kind::Output, "out"));
        assert!(error.message.contains("--force"), "{}", error.message);
        fs::write(path.join("notes"), "mine").unwrap();
        Folder::new("out", path.clone(), true).unwrap().write(&files()).unwrap();
        assert_eq!(names(&path), ["notes", "run.sh", "train.toml"], "what else is there stays");
    }

    #[test]
    fn what_cannot_be_written_is_said_at_once() {
        let home = tempfile::tempdir().unwrap();
        let refused = |path: PathBuf| Folder::new("out", path, false).unwrap_err();
        assert!(refused(home.path().join("missing/run")).message.ends_with("does not exist"));
        fs::write(home.path().join("file"), "").unwrap();
        assert_eq!(refused(home.path().join("file")).kind, Kind::Output);
        assert_eq!(names(home.path()), ["file"]);
    }
}
