//! A folder of the fake libraries, to stand first in `LD_LIBRARY_PATH`.

use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The names that programs ask the loader for, and the library that stands for them.
const NAMES: [(&str, &str); 10] = [
    ("libcuda.so.1", "libfake_cuda.so"),
    ("libcuda.so", "libfake_cuda.so"),
    // The loader opens a file once, whatever its names: driver, products and communicators know of each other.
    ("libcublasLt.so.13", "libfake_cuda.so"),
    ("libcublasLt.so.12", "libfake_cuda.so"),
    ("libcublasLt.so", "libfake_cuda.so"),
    ("libnccl.so.2", "libfake_cuda.so"),
    ("libnccl.so", "libfake_cuda.so"),
    ("libnvrtc.so.13", "libfake_nvrtc.so"),
    ("libnvrtc.so.12", "libfake_nvrtc.so"),
    ("libnvrtc.so", "libfake_nvrtc.so"),
];

/// Makes the folder beside the built libraries, whose own names no program asks for: cargo has the loader search their
/// folder.
pub fn folder() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let built = built(&program)?;
    let folder = built.join("fake-cuda-driver");
    std::fs::create_dir_all(&folder)?;
    for (name, library) in NAMES {
        let target = built.join(library);
        if !target.is_file() {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("{} isn't built", target.display())));
        }
        link(&target, &folder.join(name))?;
    }
    Ok(folder)
}

/// The folder of built libraries: a program lies there or beside it.
fn built(program: &Path) -> io::Result<PathBuf> {
    let beside = program.parent().unwrap_or(Path::new("."));
    let below = beside.join("deps");
    std::fs::canonicalize(if below.is_dir() { &below } else { beside })
}

/// Several processes and threads may do so at once.
fn link(target: &Path, place: &Path) -> io::Result<()> {
    if std::fs::read_link(place).is_ok_and(|there| there == target) {
        return Ok(());
    }
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let own = place.with_extension(std::process::id().to_string());
    let _ = std::fs::remove_file(&own);
    symlink(target, &own)?;
    std::fs::rename(own, place)
}
