//! A file that processes share: made and locked without a race, and mapped.

use std::fs::{File, OpenOptions};
use std::io::{self, Error};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::ptr::null_mut;

/// The file of this name, locked, and made if there is none.
pub fn locked(path: &Path) -> io::Result<File> {
    loop {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        file.lock()?;
        // Whoever held the lock may have taken the name away.
        let named = std::fs::metadata(path).map(|named| (named.dev(), named.ino()));
        let own = file.metadata()?;
        if named.is_ok_and(|named| named == (own.dev(), own.ino())) {
            return Ok(file);
        }
    }
}

pub fn map(file: &File, bytes: usize) -> io::Result<*mut u8> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping of a file that is this long.
    let start = unsafe { libc::mmap(null_mut(), bytes, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    if start == libc::MAP_FAILED { Err(Error::last_os_error()) } else { Ok(start.cast()) }
}
