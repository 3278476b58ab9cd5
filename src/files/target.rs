//! A file that is written: looked at before the work begins; it appears whole, by rename, where its path leads.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::pipe;
use super::place::{Place, folder_of};

/// A file that is to be written, at a place where that can be done.
#[derive(Debug)]
pub struct Target {
    /// As it was given.
    path: PathBuf,
    place: Place,
    way: Way,
}

/// How it is written.
#[derive(Debug)]
enum Way {
    /// Beside its place, and then put there.
    Rename,
    /// Into a device or pipe, which is open since it was looked at.
    Stream(File),
    Stdout,
    Stderr,
}

/// A file that is written and not yet in its place.
pub struct Staged(Stage);

enum Stage {
    File {
        file: NamedTempFile,
        place: PathBuf,
    },
    /// For a device or pipe.
    Text(Vec<u8>),
}

impl Target {
    /// A file at `path`.
    ///
    /// # Errors
    /// If none could be written there now. Nothing is left behind.
    pub fn new(path: PathBuf) -> io::Result<Self> {
        let place = Place::of(&path)?;
        if place.found.as_ref().is_some_and(fs::Metadata::is_dir)
            || path.as_os_str().as_encoded_bytes().ends_with(b"/")
        {
            return Err(io::Error::other("it is a directory"));
        }
        if !place.has_folder() {
            return Err(ErrorKind::NotFound.into());
        }
        let way = match (place.descriptor, &place.found) {
            (Some(1), _) => Way::Stdout,
            (Some(2), _) => Way::Stderr,
            // What a shell has opened is added to, as a redirection would.
            (Some(_), Some(found)) if found.is_file() => {
                Way::Stream(File::options().append(true).open(&path)?)
            }
            (_, Some(found)) if !found.is_file() => {
                refuse_disks(found)?;
                Way::Stream(pipe::open_to_write(&path)?)
            }
            _ => Way::Rename,
        };
        if matches!(way, Way::Rename) {
            drop(beside(&place.path, None)?);
        }
        Ok(Self { path, place, way })
    }

    /// As it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub const fn place(&self) -> &Place {
        &self.place
    }

    /// Writes what `fill` writes.
    ///
    /// # Errors
    /// If it cannot be written; a regular file is then as it was.
    pub fn write(&self, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let staged = self.stage(fill)?;
        self.put(staged)
    }

    /// Writes what `fill` writes beside the place; for a device or pipe it is kept until it is put there.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn stage(&self, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<Staged> {
        if !matches!(self.way, Way::Rename) {
            let mut text = Vec::new();
            fill(&mut text)?;
            return Ok(Staged(Stage::Text(text)));
        }
        let old = self.place.found.as_ref().map(fs::Metadata::permissions);
        let file = filled(&self.place.path, old, fill)?;
        Ok(Staged(Stage::File { file, place: self.place.path.clone() }))
    }

    /// Whether what is put there cannot be taken back, and may fail in the middle.
    pub const fn is_stream(&self) -> bool {
        !matches!(self.way, Way::Rename)
    }

    /// Puts what was written in its place.
    ///
    /// # Errors
    /// If it cannot be put there.
    pub fn put(&self, staged: Staged) -> io::Result<()> {
        let text = match staged.0 {
            Stage::File { file, place } => return file.persist(place).map(drop).map_err(|error| error.error),
            Stage::Text(text) => text,
        };
        match &self.way {
            Way::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(&text).and_then(|()| stdout.flush())
            }
            Way::Stderr => io::stderr().write_all(&text),
            Way::Stream(file) => pipe::Writer(file).write_all(&text),
            Way::Rename => Ok(()),
        }
    }
}

/// Puts `bytes` at `path` in place of whatever is there, which is not followed if it is a link.
///
/// # Errors
/// If it cannot be written there.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = filled(path, None, |file| file.write_all(bytes))?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// A file beside `place` that holds what `fill` writes.
fn filled(
    place: &Path,
    old: Option<Permissions>,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<NamedTempFile> {
    let mut buffered = io::BufWriter::with_capacity(1 << 20, beside(place, old)?);
    fill(&mut buffered)?;
    let file = buffered.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// An empty file beside `place`, with the permissions of what is there, or of any new file.
fn beside(place: &Path, old: Option<Permissions>) -> io::Result<NamedTempFile> {
    if place.file_name().is_none() {
        return Err(io::Error::other("it names no file"));
    }
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let file = builder.prefix(".meshwright-").tempfile_in(folder_of(place)).map_err(|error| {
        // Without the temporary file's own name, which means nothing to the reader.
        error.raw_os_error().map_or(error, io::Error::from_raw_os_error)
    })?;
    if let Some(old) = old {
        file.as_file().set_permissions(old)?;
    }
    Ok(file)
}

/// Whoever names a disk or a part of one did not mean to write a document over it.
#[cfg(unix)]
fn refuse_disks(found: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    if found.file_type().is_block_device() { Err(io::Error::other("it is a disk")) } else { Ok(()) }
}

#[cfg(not(unix))]
fn refuse_disks(_: &fs::Metadata) -> io::Result<()> {
    Ok(())
}
