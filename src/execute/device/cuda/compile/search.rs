//! Where the machine may keep a library of NVIDIA's.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// A library, and what only its search knows.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The variable that names the folders to look in.
    pub variable: &'static str,
    /// The folder of its wheel among NVIDIA's, before CUDA 13.
    pub folder: &'static str,
    /// What pip calls its wheel, of CUDA 13 and of CUDA 12.
    pub wheels: [&'static str; 2],
    /// Its file, by release, the newest first. The last may be a link that only toolkits have.
    pub files: &'static [&'static str],
}

/// Places in order; the first that has a library that works is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// Whether the system's loader is asked before any folder.
    pub loader: bool,
    pub folders: Vec<PathBuf>,
    /// Major release of the driver's CUDA. NVIDIA does not promise that libraries of a newer one work with it, nor what a
    /// newer compiler makes. None takes all.
    pub driver: Option<i32>,
}

impl Search {
    pub fn from_environment(wanted: &Wanted) -> Self {
        Self::from_variables(wanted, |name| std::env::var_os(name))
    }

    /// The folders that the library's variable names, as PATH names some, and no others; or else: the system's loader, a
    /// CUDA toolkit, then the wheels that pip puts among a Python's packages.
    pub fn from_variables(wanted: &Wanted, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let path = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(named) = path(wanted.variable) {
            return Self { loader: false, folders: std::env::split_paths(&named).collect(), driver: None };
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
            folders.extend(wheels_in(&packages, wanted));
        }
        let mut seen = Vec::new();
        folders.retain(|folder| {
            !seen.contains(folder) && {
                seen.push(folder.clone());
                true
            }
        });
        Self { loader: true, folders, driver: None }
    }

    /// The same places, for a driver of this version, as 13000; without one, any library will do.
    pub fn for_driver(self, version: Option<i32>) -> Self {
        Self { driver: version.map(|version| version / 1000), ..self }
    }

    /// Whether the driver takes what is of this release of CUDA.
    ///
    /// # Errors
    /// If the driver is older.
    pub fn check(&self, major: i32) -> Result<(), String> {
        match self.driver {
            Some(newest) if major > newest => {
                Err(format!("it is of CUDA {major}, and the driver is of CUDA {newest}"))
            }
            _ => Ok(()),
        }
    }

    /// The wheel to install: of the newest release that the driver takes.
    pub fn wheel(&self, wanted: &Wanted) -> &'static str {
        let [newest, before] = wanted.wheels;
        if self.check(13).is_ok() { newest } else { before }
    }

    /// What `open` makes of the first library that it can use, by its name or path; `prepare` comes before it in a folder.
    ///
    /// # Errors
    /// All places, and what was wrong with what lay there.
    pub fn first<T>(
        &self,
        wanted: &Wanted,
        prepare: impl Fn(&Path) -> Result<(), String>,
        open: impl Fn(&OsStr) -> Result<T, String>,
    ) -> Result<T, String> {
        let mut looked = Vec::new();
        if self.loader {
            let names = wanted.files.iter().map(OsString::from);
            match first_of(names, &open) {
                Ok(found) => return Ok(found),
                Err(reasons) => looked.push(format!("by the system's loader ({})", reasons.join("; "))),
            }
        }
        for folder in &self.folders {
            let paths = wanted.files.iter().map(|name| folder.join(name)).filter(|path| path.is_file());
            let open = |name: &OsStr| prepare(folder).and_then(|()| open(name));
            match first_of(paths.map(PathBuf::into_os_string), &open) {
                Ok(found) => return Ok(found),
                Err(reasons) if reasons.is_empty() => looked.push(format!("in {}", folder.display())),
                Err(reasons) => {
                    looked.push(format!("in {} (unusable: {})", folder.display(), reasons.join("; ")));
                }
            }
        }
        Err(looked.join(", "))
    }
}

/// What `open` makes of the first of `names` that it can use, or what was wrong with them, each reason once.
fn first_of<T>(
    names: impl Iterator<Item = OsString>,
    open: &impl Fn(&OsStr) -> Result<T, String>,
) -> Result<T, Vec<String>> {
    let mut reasons = Vec::new();
    for name in names {
        match open(&name) {
            Ok(found) => return Ok(found),
            Err(reason) if reasons.contains(&reason) => {}
            Err(reason) => reasons.push(reason),
        }
    }
    Err(reasons)
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

/// Where NVIDIA's wheels put a library: those of CUDA 13, those before.
fn wheels_in(packages: &Path, wanted: &Wanted) -> [PathBuf; 2] {
    ["cu13", wanted.folder].map(|folder| packages.join("nvidia").join(folder).join("lib"))
}
