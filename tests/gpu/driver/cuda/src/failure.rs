//! Why a call fails: the code that the program gets, and words for whoever reads the log.

use std::fs::OpenOptions;
use std::io::Write;

pub use cudarc::driver::sys::cudaError_enum as Error;

#[derive(Debug)]
pub struct Failure {
    pub code: u32,
    pub text: Option<String>,
}

pub type Answer<T = ()> = Result<T, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { code: error as u32, text: None }
    }
}

pub fn refuse<T>(error: Error, text: impl Into<String>) -> Answer<T> {
    Err(Failure { code: error as u32, text: Some(text.into()) })
}

/// What the checker found: from here on, the device takes no work.
pub fn illegal<T>(text: impl Into<String>) -> Answer<T> {
    refuse(Error::CUDA_ERROR_ILLEGAL_ADDRESS, text)
}

/// Whether every later call must fail with this code, as NVIDIA documents of it.
pub fn is_sticky(code: u32) -> bool {
    let first = Error::CUDA_ERROR_ILLEGAL_ADDRESS as u32;
    let misuse = [
        Error::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
        Error::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
        Error::CUDA_ERROR_PEER_ACCESS_NOT_ENABLED,
        Error::CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE,
        Error::CUDA_ERROR_CONTEXT_IS_DESTROYED,
        Error::CUDA_ERROR_TOO_MANY_PEERS,
        Error::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
        Error::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
    ];
    (first..first + 20).contains(&code) && !misuse.iter().any(|error| *error as u32 == code)
}

/// Writes to standard error, and to the file that `FAKE_CUDA_LOG` names.
pub fn log(entry: &str, text: &str) {
    let line = format!("fake CUDA driver: {entry}: {text}\n");
    eprint!("{line}");
    if let Some(path) = std::env::var_os("FAKE_CUDA_LOG") {
        let written = OpenOptions::new().create(true).append(true).open(path);
        let _ = written.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}
