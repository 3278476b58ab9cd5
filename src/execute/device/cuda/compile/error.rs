//! Why there is no binary of a kernel.

use thiserror::Error;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CompileError {
    #[error("no CUDA source is called `{file}`")]
    Unknown { file: String },
    #[error(
        "NVRTC, which compiles CUDA kernels that are not in the cache, was not found. Looked for libnvrtc {looked}. `pip \
         install {wheel}` brings it; MESHWRIGHT_NVRTC names the folder it lies in"
    )]
    Missing { looked: String, wheel: &'static str },
    /// The log is NVRTC's: it names file and line of each error.
    #[error("`{file}` does not compile for {architecture} with options {options:?}: {fault}\n{log}")]
    Source { file: String, architecture: String, options: Vec<String>, fault: String, log: String },
    /// Text that C cannot be given.
    #[error("`{file}`: a zero byte in its source, headers or options")]
    ZeroByte { file: String },
}
