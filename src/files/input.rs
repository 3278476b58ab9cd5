//! A file that is read: what is at its path is looked at first, and no more is read than it may hold.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use thiserror::Error;

use super::pipe::{self, Broken};
use crate::units::Bytes;

/// Why a file cannot be read; reads on after its path.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unread {
    #[error("the path is empty")]
    NoPath,
    #[error("there is no such file")]
    Missing,
    #[error("there is no such file (/dev/stdin is the standard input)")]
    Dash,
    #[error("it is a directory")]
    Folder,
    #[error("it is a device, not a regular file")]
    Device,
    #[error("it is a pipe, not a regular file")]
    Pipe,
    #[error("it is a pipe, and nobody writes to it")]
    NoWriter,
    #[error("it is larger than {limit}{}", .bytes.map_or_else(String::new, |bytes| format!(": it has {bytes}")))]
    TooLarge { limit: Bytes, bytes: Option<Bytes> },
    #[error("it is not UTF-8 text ({0})")]
    NotText(String),
    /// In the system's words.
    #[error("{0}")]
    System(String),
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound => Self::Missing,
            _ => Self::System(error.to_string()),
        }
    }
}

/// Kinds of files that may be read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kinds {
    RegularFiles,
    /// Also pipes: another program may be writing what a person names.
    PipesToo,
}

/// The bytes of the regular file or pipe at `path`, which holds at most `limit`.
///
/// # Errors
/// If something else or nothing is there, it is larger, or the system does not let it be read.
pub fn bytes(path: &Path, limit: Bytes) -> Result<Vec<u8>, Unread> {
    read(path, limit, Kinds::PipesToo)
}

fn read(path: &Path, limit: Bytes, kinds: Kinds) -> Result<Vec<u8>, Unread> {
    let (file, found) = open(path, kinds)?;
    let too_large = |bytes| Unread::TooLarge { limit, bytes };
    if found.is_file() && found.len() > limit.0 {
        return Err(too_large(Some(Bytes(found.len()))));
    }
    let bytes = if found.is_file() {
        let mut bytes = Vec::new();
        // It may be longer than it says: it grows, or the system makes it up.
        file.take(limit.0.saturating_add(1)).read_to_end(&mut bytes)?;
        bytes
    } else {
        pipe::read(&file, limit.0).map_err(|broken| match broken {
            Broken::NoWriter => Unread::NoWriter,
            Broken::System(error) => error.into(),
        })?
    };
    if bytes.len() as u64 > limit.0 { Err(too_large(None)) } else { Ok(bytes) }
}

/// The text of the regular file or pipe at `path`, as [`bytes`].
///
/// # Errors
/// As [`bytes`], or if it is no UTF-8.
pub fn text(path: &Path, limit: Bytes) -> Result<String, Unread> {
    decoded(bytes(path, limit)?)
}

fn decoded(bytes: Vec<u8>) -> Result<String, Unread> {
    String::from_utf8(bytes).map_err(|error| Unread::NotText(error.utf8_error().to_string()))
}

/// The text of a file that nobody named, but that was found: it is a regular one.
///
/// # Errors
/// As [`text`], or if it is a pipe.
pub fn regular_text(path: &Path, limit: Bytes) -> Result<String, Unread> {
    decoded(read(path, limit, Kinds::RegularFiles)?)
}

/// The regular file at `path`, of any size, of which parts are read or mapped into memory.
///
/// # Errors
/// If something else or nothing is there, or the system does not let it be read.
pub fn regular(path: &Path) -> Result<File, Unread> {
    Ok(open(path, Kinds::RegularFiles)?.0)
}

fn open(path: &Path, kinds: Kinds) -> Result<(File, Metadata), Unread> {
    // Before it is opened, which would do something to some devices; and once more what was opened then.
    look(path, kinds)?;
    let file = pipe::open(File::options().read(true), path)?;
    let found = file.metadata()?;
    judge(&found, kinds)?;
    Ok((file, found))
}

/// That what is at `path` may be read.
fn look(path: &Path, kinds: Kinds) -> Result<(), Unread> {
    if path.as_os_str().is_empty() {
        return Err(Unread::NoPath);
    }
    let found = fs::metadata(path).map_err(|error| match error.into() {
        Unread::Missing if path.as_os_str() == "-" => Unread::Dash,
        other => other,
    })?;
    judge(&found, kinds)
}

fn judge(found: &Metadata, kinds: Kinds) -> Result<(), Unread> {
    if found.is_file() {
        return Ok(());
    }
    if found.is_dir() {
        return Err(Unread::Folder);
    }
    match (is_pipe(found), kinds) {
        (true, Kinds::PipesToo) => Ok(()),
        (true, Kinds::RegularFiles) => Err(Unread::Pipe),
        (false, _) => Err(Unread::Device),
    }
}

#[cfg(unix)]
fn is_pipe(found: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    found.file_type().is_fifo() || found.file_type().is_socket()
}

#[cfg(not(unix))]
fn is_pipe(_: &Metadata) -> bool {
    false
}
