//! Where the machine may keep NVRTC.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Places in order; the first that has a library that works is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// Whether the system's loader is asked before any folder.
    pub loader: bool,
    pub folders: Vec<PathBuf>,
}

impl Search {
    pub fn from_environment() -> Self {
        Self::from_variables(|name| std::env::var_os(name))
    }

    /// The folder that MESHWRIGHT_NVRTC names and no other, or else: the system's loader, a CUDA toolkit, then the wheels
    /// that pip puts among a Python's packages.
    pub fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let path = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(folder) = path("MESHWRIGHT_NVRTC") {
            return Self { loader: false, folders: vec![folder] };
        }
        let toolkits = [path("CUDA_HOME"), path("CUDA_PATH"), Some(PathBuf::from("/usr/local/cuda"))];
        let pythons = [
            path("VIRTUAL_ENV"),
            path("CONDA_PREFIX"),
            path("HOME").map(|home| home.join(".local")),
            Some(PathBuf::from("/usr/local")),
            Some(PathBuf::from("/usr")),
        ];
        let mut folders: Vec<PathBuf> =
            toolkits.iter().flatten().map(|toolkit| toolkit.join("lib64")).collect();
        for packages in pythons.iter().flatten().flat_map(|python| packages_of(python)) {
            folders.extend(wheels_in(&packages));
        }
        let mut seen = Vec::new();
        folders.retain(|folder| {
            !seen.contains(folder) && {
                seen.push(folder.clone());
                true
            }
        });
        Self { loader: true, folders }
    }
}

/// The folders of packages of the Pythons installed at `prefix`.
fn packages_of(prefix: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(prefix.join("lib")) else { return Vec::new() };
    let mut pythons: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    pythons.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3")));
    pythons.sort();
    let packages =
        pythons.iter().flat_map(|python| [python.join("site-packages"), python.join("dist-packages")]);
    packages.filter(|path| path.is_dir()).collect()
}

/// Where NVIDIA's wheels put NVRTC: those of CUDA 13, those before.
fn wheels_in(packages: &Path) -> [PathBuf; 2] {
    ["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"].map(|folder| packages.join(folder))
}
