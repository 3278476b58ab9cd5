//! The files that a configuration names: in its folder, in one above it, or in memory.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::error::ImportError;
use crate::files::{self, Unread};
use crate::units::Bytes;

/// The largest file that a configuration names.
const LARGEST: Bytes = Bytes::mib(64);

/// Folders above that of the configuration in which a file is looked for: programs take names from the folder that they
/// are started in, which is most often the top of a repository.
const FOLDERS_ABOVE: usize = 6;

/// Where the files are that a configuration names.
#[derive(Clone, Copy, Debug)]
pub enum Beside<'a> {
    Nothing,
    /// On disk, in the folder of the configuration or above it.
    Folder(&'a Companions),
    /// Names and texts.
    Files(&'a [(String, String)]),
}

impl<'a> Beside<'a> {
    /// What the environment is said to be.
    pub(super) fn environment(self) -> &'a [(String, String)] {
        match self {
            Self::Nothing | Self::Files(_) => &[],
            Self::Folder(companions) => companions.environment.variables(),
        }
    }

    /// The text of `name`.
    ///
    /// # Errors
    /// In words, if there is none that can be read.
    pub(super) fn text(self, name: &str) -> Result<String, String> {
        match self {
            Self::Nothing => Err("it names a file, and none lies beside the settings".to_owned()),
            Self::Files(files) => {
                let file = files.iter().find(|(known, _)| known == name);
                file.map(|(_, text)| text.clone()).ok_or_else(|| "there is no such file".to_owned())
            }
            Self::Folder(companions) => companions.text(name).map_err(|error| error.to_string()),
        }
    }
}

/// The files that a configuration names, on disk.
#[derive(Clone, Debug, Default)]
pub struct Companions {
    folder: PathBuf,
    /// What the environment of scripts is said to be.
    environment: Environment,
    /// Those that were read.
    read: RefCell<Vec<PathBuf>>,
}

impl Companions {
    /// Those of a configuration in `folder`, of which `read` were read already.
    pub(super) fn new(folder: PathBuf, environment: Environment, read: Vec<PathBuf>) -> Self {
        Self { folder, environment, read: RefCell::new(read) }
    }

    /// Those that were read so far.
    pub(super) fn read(&self) -> Vec<PathBuf> {
        self.read.borrow().clone()
    }

    fn text(&self, name: &str) -> Result<String, ImportError> {
        let own = self.folder.join(name);
        let above = (1..=FOLDERS_ABOVE).map(|steps| self.folder.join("../".repeat(steps)).join(name));
        let is_there = |path: &PathBuf| Path::new(name).is_relative() && path.is_file();
        let path = if own.exists() { own } else { above.into_iter().find(is_there).unwrap_or(own) };
        let text = text_up_to(&path, LARGEST)?;
        self.read.borrow_mut().push(path);
        Ok(text)
    }
}

/// The text of the file at `path`, which is no larger than `largest`.
pub(super) fn text_up_to(path: &Path, largest: Bytes) -> Result<String, ImportError> {
    let text = files::text(path, largest).map_err(|unread| {
        let reason = match unread {
            Unread::Folder => "it is a directory; name the file that holds the settings".to_owned(),
            other => other.to_string(),
        };
        ImportError::Unreadable { path: path.display().to_string(), reason }
    })?;
    Ok(text.strip_prefix('\u{feff}').map_or_else(|| text.clone(), str::to_owned))
}
