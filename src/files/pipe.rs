//! Pipes and devices that may have nobody at their other end: nobody is waited for for ever.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long somebody may take to open the other end.
const OPENING: Duration = Duration::from_secs(2);

/// How long a reader may take nothing.
const SILENCE: Duration = Duration::from_secs(30);

/// Between two looks.
const TURN: Duration = Duration::from_millis(5);

/// How reading a pipe ended early.
pub enum Broken {
    /// Nobody writes to it.
    NoWriter,
    System(io::Error),
}

/// Opens `path` so that nothing is waited for, neither by opening it nor by what is done with it.
pub fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(options, libc::O_NONBLOCK | libc::O_NOCTTY);
    options.open(path)
}

/// Reads the pipe `file` to its end, or until there are more than `most` bytes.
pub fn read(mut file: &File, most: u64) -> Result<Vec<u8>, Broken> {
    let mut bytes = Vec::new();
    let mut piece = vec![0; 1 << 16];
    let start = Instant::now();
    let mut has_writer = false;
    while bytes.len() as u64 <= most {
        match file.read(&mut piece) {
            // Without a writer there is nothing to read either, and one may yet come.
            Ok(0) if has_writer => break,
            Ok(0) if start.elapsed() >= OPENING => return Err(Broken::NoWriter),
            Ok(0) => sleep(TURN),
            Ok(count) => {
                bytes.extend_from_slice(&piece[..count]);
                has_writer = true;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                // A writer may think for as long as it likes: a plan may take minutes.
                has_writer = true;
                sleep(TURN);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Broken::System(error)),
        }
    }
    Ok(bytes)
}

/// Opens the pipe or device at `path` for writing.
///
/// # Errors
/// Also if nobody reads the pipe.
pub fn open_to_write(path: &Path) -> io::Result<File> {
    let start = Instant::now();
    loop {
        match open(File::options().write(true), path) {
            // A pipe without a reader.
            #[cfg(unix)]
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
                if start.elapsed() >= OPENING {
                    return Err(io::Error::other("it is a pipe or a socket, and nobody reads it"));
                }
                sleep(TURN);
            }
            opened => return opened,
        }
    }
}

/// Writes to a pipe or device.
pub struct Writer<'a>(pub &'a File);

impl Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let start = Instant::now();
        loop {
            match self.0.write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if start.elapsed() >= SILENCE {
                        let reason = format!("nobody has read from it for {} s", SILENCE.as_secs());
                        return Err(io::Error::other(reason));
                    }
                    sleep(TURN);
                }
                done => return done,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
