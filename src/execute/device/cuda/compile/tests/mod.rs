//! Kernels are compiled, kept in the cache and found there again. Damaged entries, wrong sources and a missing compiler
//! give errors that name them.
//!
//! Those that compile need NVRTC in the folder that MESHWRIGHT_NVRTC names, and say so where it is not set.

mod carrying;
mod compiling;
mod keeping;
mod looking;

use std::io::Write;
use std::path::PathBuf;

use super::cache::{Cache, Key};
use super::nvrtc::{NVRTC, Program, Version};
use super::search::Search;

const OLD: Version = Version { major: 12, minor: 9 };
const NEW: Version = Version { major: 13, minor: 0 };

/// Kernel `twice`, in a file of its own: nothing that the program carries.
const SOURCE: &str = "#include \"cuda/twice.cuh\"\n\
    extern \"C\" __global__ void twice(float* x) { x[threadIdx.x] = FACTOR * x[threadIdx.x]; }\n";
const HEADERS: &[(&str, &str)] = &[("cuda/twice.cuh", "#define FACTOR 2.0f\n")];

fn program(options: &[String]) -> Program<'_> {
    Program { file: "twice/twice.cu", source: SOURCE, headers: HEADERS, options, architecture: "sm_90" }
}

/// No NVRTC is found there.
fn nowhere() -> Search {
    Search { loader: false, folders: vec![PathBuf::from("/nonexistent/nvrtc")], driver: None }
}

/// NVRTC of the folder that MESHWRIGHT_NVRTC names.
fn named() -> Option<Search> {
    if std::env::var_os("MESHWRIGHT_NVRTC").is_none() {
        // Past the capture of tests, which shows only what failing ones say.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: MESHWRIGHT_NVRTC names no folder, so nothing is compiled here"
        );
        return None;
    }
    Some(Search::from_environment(&NVRTC))
}
