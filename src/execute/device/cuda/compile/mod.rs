//! Binaries of CUDA kernels: from the cache on disk, else compiled on this machine by NVRTC from the sources that this
//! program carries.
//!
//! Which compiler there is decides which entries of the cache count, so NVRTC is opened first. Where there is none, the
//! entry of the newest compiler that made this kernel is taken: a full cache serves machines without NVRTC. A compiler whose
//! CUDA is newer than the driver's counts as none.

pub mod cache;
pub mod error;
pub mod library;
pub mod nvrtc;
pub mod search;
pub mod sources;
pub mod target;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use cache::{Cache, key};
use error::CompileError;
use nvrtc::{NVRTC, Nvrtc, Program, Version};
use search::Search;
use target::Capability;

/// A kernel's binary and where it comes from.
#[derive(Clone, Debug)]
pub struct Binary {
    pub cubin: Vec<u8>,
    #[cfg_attr(not(test), expect(dead_code, reason = "tests tell by it what the cache did"))]
    pub origin: Origin,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Cache,
    /// With the reason if it could not be kept: the next start compiles it again.
    Compiled {
        not_kept: Option<String>,
    },
}

/// Gives binaries of kernels to all threads of a process.
#[derive(Debug)]
pub struct Compiler {
    search: Search,
    cache: Option<Cache>,
    nvrtc: OnceLock<Result<Nvrtc, CompileError>>,
    compiling: Mutex<()>,
}

impl Compiler {
    /// With the NVRTC and the cache that the environment names, for a driver of this version, as 13000, if there is one.
    pub fn from_environment(driver: Option<i32>) -> Self {
        let search = Search::from_environment(&NVRTC).for_driver(driver);
        Self::new(search, cache_folder(|name| std::env::var_os(name)))
    }

    /// Looks for NVRTC, once it is needed, in `search`, and keeps binaries in `folder`, if any.
    pub fn new(search: Search, folder: Option<PathBuf>) -> Self {
        Self { search, cache: folder.map(Cache::new), nvrtc: OnceLock::new(), compiling: Mutex::new(()) }
    }

    /// The compiler itself.
    ///
    /// # Errors
    /// If there is none.
    pub fn nvrtc(&self) -> Result<&Nvrtc, CompileError> {
        self.nvrtc.get_or_init(|| Nvrtc::find(&self.search)).as_ref().map_err(Clone::clone)
    }

    /// Whether binaries of earlier runs are there.
    pub fn has_kept(&self) -> bool {
        self.versions().next().is_some()
    }

    /// The compilers that made what is kept and the driver takes, the newest first.
    fn versions(&self) -> impl Iterator<Item = Version> {
        let versions = self.cache.iter().flat_map(Cache::versions);
        versions.filter(|version| self.search.check(version.major).is_ok())
    }

    /// The binary of the kernel source `file`, as `norm/norm.cu`, under `options`, as `-DSTORAGE_BF16`, for a GPU of this
    /// compute capability.
    ///
    /// # Errors
    /// If it is neither in the cache nor can be compiled.
    pub fn binary(
        &self,
        file: &str,
        options: &[String],
        capability: Capability,
    ) -> Result<Binary, CompileError> {
        let source = sources::kernel(file).ok_or_else(|| CompileError::Unknown { file: file.into() })?;
        let program = Program { file, source, headers: sources::HEADERS, options, architecture: "" };
        self.binary_for(&program, capability)
    }

    /// The same for a source that may be another's. Of what architecture it is depends on what there is.
    ///
    /// # Errors
    /// If it is neither in the cache nor can be compiled.
    pub fn binary_for(&self, program: &Program, capability: Capability) -> Result<Binary, CompileError> {
        let of = |architecture: &str| self.binary_of(&Program { architecture, ..*program });
        match self.nvrtc() {
            Ok(nvrtc) => of(&target::of_compiler(capability, &nvrtc.architectures())),
            Err(missing) => {
                target::of_cache(capability).find_map(|architecture| of(&architecture).ok()).ok_or(missing)
            }
        }
    }

    /// The same for the program's own architecture, and no other.
    ///
    /// # Errors
    /// If it is neither in the cache nor can be compiled.
    pub fn binary_of(&self, program: &Program) -> Result<Binary, CompileError> {
        let kept = |version| self.cache.as_ref()?.get(version, &key(program, version));
        let from_cache = |cubin| Binary { cubin, origin: Origin::Cache };
        let nvrtc = match self.nvrtc() {
            Ok(nvrtc) => nvrtc,
            Err(missing) => {
                return self.versions().find_map(kept).map(from_cache).ok_or(missing);
            }
        };
        let version = nvrtc.version();
        if let Some(cubin) = kept(version) {
            return Ok(from_cache(cubin));
        }
        // The ranks of a process ask for the same kernels at the same time: the first compiles, the others then find it.
        let _one = self.compiling.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cubin) = kept(version) {
            return Ok(from_cache(cubin));
        }
        let (cubin, _) = nvrtc.compile(program)?;
        let not_kept = match &self.cache {
            Some(cache) => {
                cache.put(version, &key(program, version), &cubin).err().map(|error| error.to_string())
            }
            None => Some(String::from(
                "no folder for the cache: none of MESHWRIGHT_CACHE, XDG_CACHE_HOME, HOME is set",
            )),
        };
        Ok(Binary { cubin, origin: Origin::Compiled { not_kept } })
    }
}

/// Where binaries are kept: MESHWRIGHT_CACHE, or `meshwright` in the user's folder for caches.
pub fn cache_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // The XDG specification has relative paths ignored.
    let user = || path("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    let home = || path("HOME").map(|home| home.join(".cache"));
    let folder = path("MESHWRIGHT_CACHE").or_else(|| Some(user().or_else(home)?.join("meshwright")));
    Some(folder?.join("kernels"))
}
