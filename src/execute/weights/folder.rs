//! The folder of a save. Its files are written to a folder of their own, which then takes the place of the old one in one
//! call, or, where the system cannot do that, is a save by itself until its files have moved in.
//!
//! Whoever reads or changes a folder holds its lock. A killed run gives its locks back, so what it left is known by them.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::{Builder, TempDir};

use super::SAVED;
use super::exchange::{self, is_same};
use crate::files::Place;

/// In the folder: a whole save whose files are on their way into it. What is there counts more than the folder's own.
const ARRIVING: &str = ".meshwright-save";

/// In the folder or beside it: files that are being written, or an old save on its way out.
const STAGING: &str = ".meshwright-save-";

/// How long another run may take to put its files in their place.
const PATIENCE: Duration = Duration::from_secs(30);

/// A folder that is read, locked.
pub(super) struct Folder<'a> {
    path: &'a Path,
    _lock: Option<File>,
}

impl<'a> Folder<'a> {
    pub fn open(path: &'a Path) -> Self {
        // Where nobody can lock it, nobody waits for a reader either.
        Self { path, _lock: locked(path, File::try_lock_shared).ok().flatten() }
    }

    /// Where the file `name` is, which may be on its way.
    pub fn file(&self, name: &str) -> PathBuf {
        let arriving = self.path.join(ARRIVING).join(name);
        if SAVED.contains(&name) && arriving.exists() { arriving } else { self.path.join(name) }
    }

    /// The name of the file `name` in messages.
    pub fn shown(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// The folder at `path`, locked: the one that is still there once the lock is held. Not all systems have locks of folders.
fn locked(path: &Path, lock: impl Fn(&File) -> Result<(), TryLockError>) -> io::Result<Option<File>> {
    if cfg!(not(unix)) {
        return Ok(None);
    }
    let began = Instant::now();
    loop {
        let folder = File::open(path)?;
        match lock(&folder) {
            Ok(()) if is_same(&folder.metadata()?, &fs::metadata(path)?) => return Ok(Some(folder)),
            Err(TryLockError::Error(_)) => return Ok(None),
            _ if began.elapsed() > PATIENCE => {
                // What was trained is worth more than the order of two saves.
                return Ok(None);
            }
            _ => thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// A save that is being written. Dropped without [`Self::commit`], it leaves nothing.
pub(super) struct Staging {
    /// Where it goes, with links followed.
    folder: PathBuf,
    files: TempDir,
    /// Held for as long as it is written, so that no other run takes it for one that was left.
    lock: Option<File>,
}

impl Staging {
    /// A place for the files of a save in `folder`; its parents are made. What killed runs left there is taken away.
    pub fn new(folder: &Path) -> io::Result<Self> {
        if !folder.exists() {
            // A link may lead to what is not there yet.
            let folder = Place::of(folder)?.path;
            let parent = folder.parent().ok_or_else(|| io::Error::other("it names no folder"))?.to_owned();
            fs::create_dir_all(&parent)?;
            return Self::within(&parent, folder);
        }
        let folder = fs::canonicalize(folder)?;
        if let Some(name) = SAVED.into_iter().find(|name| folder.join(name).is_dir()) {
            return Err(io::Error::other(format!("`{name}` in it is a folder")));
        }
        // Beside it, it can take its place. Where nothing can be put there, or moved in from there, it is written inside.
        if let Some(Ok(staging)) = folder.parent().map(|parent| Self::within(parent, folder.clone())) {
            let _alone = locked(&folder, File::try_lock)?;
            if staging.moves_in().is_ok() {
                sweep(&folder);
                return Ok(staging);
            }
        }
        Self::within(&folder.clone(), folder)
    }

    /// A staging folder in `place`, which is `folder` or its parent.
    fn within(place: &Path, folder: PathBuf) -> io::Result<Self> {
        let _alone = locked(place, File::try_lock)?;
        sweep(place);
        let mut builder = Builder::new();
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
        let files = builder.prefix(STAGING).tempdir_in(place)?;
        let lock = locked(files.path(), File::try_lock)?;
        Ok(Self { folder, files, lock })
    }

    /// That the staging folder, which is empty, can be moved into the folder.
    fn moves_in(&self) -> io::Result<()> {
        let beside = self.files.path();
        let inside = self.folder.join(beside.file_name().unwrap_or_default());
        fs::rename(beside, &inside)?;
        fs::rename(inside, beside)
    }

    /// Where the file `name` is to be written.
    pub fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// Puts the files in their place; all of them are written.
    ///
    /// # Errors
    /// If that is not possible: then what was there is there, or the new save is on its way into it.
    pub fn commit(self) -> io::Result<()> {
        let Self { folder, files, lock: _lock } = self;
        sync(files.path());
        // From here on another folder may have its name.
        let files = files.keep();
        put(&files, &folder).inspect_err(|_| drop(fs::remove_dir_all(&files)))
    }
}

/// Makes `files`, a folder of its own, a save in `folder`.
///
/// # Errors
/// If that is not possible: then `files` is still there, or on its way into `folder`.
fn put(files: &Path, folder: &Path) -> io::Result<()> {
    if folder.exists() || fs::rename(files, folder).is_err() {
        let _alone = locked(folder, File::try_lock)?;
        settle(folder)?;
        let exchanged = exchange::carry(folder, files, is_ours)
            .and_then(|()| exchange::take_place(files, folder, is_ours));
        if exchanged.is_err() {
            fs::rename(files, folder.join(ARRIVING))?;
            settle(folder)?;
            sync(folder);
        }
    }
    folder.parent().into_iter().for_each(sync);
    Ok(())
}

/// Waits until the disk has what `folder` holds by name, if its system can say so.
fn sync(folder: &Path) {
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
}

/// Whether a save writes an entry of this name.
fn is_ours(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    SAVED.contains(&name.as_ref()) || name == ARRIVING || name.starts_with(STAGING)
}

/// Moves the files of a save that is arriving in `folder` to their places.
fn settle(folder: &Path) -> io::Result<()> {
    let arriving = folder.join(ARRIVING);
    if !arriving.exists() {
        return Ok(());
    }
    for name in SAVED {
        match fs::rename(arriving.join(name), folder.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    // Links to the folder's other files, if the system could not exchange folders.
    fs::remove_dir_all(arriving)
}

/// Takes away what killed runs were writing in `place`, which is locked. What cannot be looked at or taken away is left.
fn sweep(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        let is_staging = entry.file_name().to_string_lossy().starts_with(STAGING);
        if is_staging && File::open(entry.path()).is_ok_and(|left| left.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
