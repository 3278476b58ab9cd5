//! A folder takes the place of another in one call of the system, with the other's files in it.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::path::Path;

/// Gives `new` the files of `old` but those that `is_replaced`, by links, and its permissions.
///
/// # Errors
/// If it cannot have them: `old` has folders in it or is somebody else's, or the file system has no such links.
pub(super) fn carry(old: &Path, new: &Path, is_replaced: impl Fn(&OsStr) -> bool) -> io::Result<()> {
    let was = fs::metadata(old)?;
    fs::set_permissions(new, was.permissions())?;
    if owner(&was) != owner(&fs::metadata(new)?) {
        return Err(io::Error::other("it is somebody else's"));
    }
    for entry in fs::read_dir(old)? {
        let entry = entry?;
        if !is_replaced(&entry.file_name()) {
            fs::hard_link(entry.path(), new.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Puts `new`, which has been given what `old` has, in the place of `old`, which is taken away.
///
/// # Errors
/// If the system cannot do that, as where `new` lies in `old`: then both are where they were.
pub(super) fn take_place(new: &Path, old: &Path, is_replaced: impl Fn(&OsStr) -> bool) -> io::Result<()> {
    // Whoever is in a folder stays in it wherever it goes, so it should not go.
    if std::env::current_dir()?.starts_with(old) {
        return Err(io::Error::other("it is the current folder"));
    }
    exchange(new, old)?;
    // What is not taken away now is by the next save.
    let _ = take_away(new, old, is_replaced);
    Ok(())
}

/// Takes `old` away, whose files `new` has been given; what has come to it since goes to `new`.
fn take_away(old: &Path, new: &Path, is_replaced: impl Fn(&OsStr) -> bool) -> io::Result<()> {
    for entry in fs::read_dir(old)? {
        let entry = entry?;
        let (path, target) = (entry.path(), new.join(entry.file_name()));
        let is_linked = || -> io::Result<bool> {
            Ok(is_same(&fs::symlink_metadata(&path)?, &fs::symlink_metadata(&target)?))
        };
        if is_replaced(&entry.file_name()) || is_linked().unwrap_or(false) {
            // What cannot go must not keep the rest from coming along.
            let _ = fs::remove_file(&path);
        } else {
            fs::rename(&path, &target)?;
        }
    }
    fs::remove_dir(old)
}

#[cfg(unix)]
fn owner(of: &Metadata) -> (u32, u32) {
    use std::os::unix::fs::MetadataExt;
    (of.uid(), of.gid())
}

#[cfg(not(unix))]
fn owner(_: &Metadata) {}

#[cfg(target_os = "linux")]
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;

    let [one, other] = [one, other].map(|path| CString::new(path.as_os_str().as_bytes()));
    let (one, other) = (one?, other?);
    let here = libc::AT_FDCWD;
    // SAFETY: both paths end with a zero and live until the call returns.
    #[expect(unsafe_code, reason = "a call of the system that the standard library has not")]
    let done = unsafe { libc::renameat2(here, one.as_ptr(), here, other.as_ptr(), libc::RENAME_EXCHANGE) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(not(target_os = "linux"))]
fn exchange(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether two looks were at one file.
#[cfg(unix)]
pub(super) fn is_same(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Folders are not exchanged here, so a path names one folder.
#[cfg(not(unix))]
pub(super) fn is_same(_: &Metadata, _: &Metadata) -> bool {
    true
}
