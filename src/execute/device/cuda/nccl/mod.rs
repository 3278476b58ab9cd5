//! GPUs that are joined by NCCL, NVIDIA's library of collectives between GPUs of one process or of many.
//!
//! NCCL asks for three things, and gets them by how ranks submit. One thread of a rank calls it. All ranks issue what they do
//! together in one order, which [`crate::program::submission`] gives. And a receiver posts room for messages in the order in
//! which they are sent.

pub mod circles;
pub mod collectives;
pub mod communicator;
mod config;
mod functions;
pub mod links;
mod messages;
pub mod network;
mod pause;
mod registration;

use std::ffi::c_void;
use std::path::PathBuf;

use self::functions::{Functions, NCCL};
use super::compile::library::file_of;
use super::compile::search::Search;
use super::error::CudaError;

/// The library of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Nccl(Functions);

impl Nccl {
    /// The first that is found.
    ///
    /// # Errors
    /// Where it was looked for.
    pub fn find() -> Result<Self, CudaError> {
        let search = Search::from_environment(&NCCL);
        Functions::find(&search).map(Self).map_err(|looked| {
            let [wheel, before] = NCCL.wheels;
            CudaError::NoNccl(format!(
                "NCCL, which joins GPUs, was not found. Looked for libnccl {looked}. `pip install {wheel}` brings it (for \
                 drivers of CUDA 12, {before}); MESHWRIGHT_NCCL names the folder it lies in"
            ))
        })
    }

    pub fn version(&self) -> String {
        functions::written(self.0.version)
    }

    /// The file that it was opened from.
    pub fn file(&self) -> Option<PathBuf> {
        file_of(self.0.send as *const c_void)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs NVIDIA's own library, which `.ci/gpu nccl` brings"]
    fn the_library_is_found_and_makes_ids() {
        let nccl = Nccl::find().unwrap();
        let folder = std::env::var("MESHWRIGHT_NCCL").expect("MESHWRIGHT_NCCL names its folder");
        let file = nccl.file().unwrap();
        assert!(file.starts_with(std::fs::canonicalize(folder).unwrap()), "{}", file.display());
        assert!(nccl.version().starts_with("2."), "{}", nccl.version());
        let [one, other] = [(); 2].map(|()| nccl.id().unwrap().internal);
        assert!(one != other && one.iter().any(|byte| *byte != 0));
    }
}
