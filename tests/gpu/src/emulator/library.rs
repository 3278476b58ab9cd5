//! Compiles translated kernels with the machine's C++ compiler and loads them; libraries are kept by their content.

use super::host::HOST;
use super::thread::{Entry, Host};
use crate::cache;
use crate::fault::{Fault, fault};
use libloading::os::unix::{Library as Loaded, RTLD_LOCAL, RTLD_NOW};
use std::path::Path;
use std::process::Command;

/// Own symbols win over those of another library of the same names; no contraction, which would round otherwise.
const FLAGS: [&str; 11] = [
    "-std=c++20",
    "-O1",
    "-march=x86-64-v3",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-tree-pta",
    "-w",
    "-shared",
    "-fPIC",
    "-fvisibility=hidden",
    "-Wl,-Bsymbolic",
];

pub struct Library {
    loaded: Loaded,
}

impl Library {
    pub fn compile(cpp: &str) -> Result<Library, Fault> {
        let path = cache::place((cpp, FLAGS), "so");
        cache::alone(&path, || if path.exists() { Ok(()) } else { build(cpp, &path) })?;
        let problem = |error: libloading::Error| Fault(format!("{}: {error}", path.display()));
        let loaded = unsafe { Loaded::open(Some(&path), RTLD_NOW | RTLD_LOCAL) }.map_err(problem)?;
        unsafe {
            let attach = loaded.get::<unsafe extern "C" fn(*const Host)>(b"attach\0").map_err(problem)?;
            attach(&HOST);
        }
        Ok(Library { loaded })
    }

    /// The kernel of this name; it lives as long as the library.
    pub fn entry(&self, kernel: &str) -> Result<Entry, Fault> {
        let symbol = format!("kernel_{kernel}\0");
        match unsafe { self.loaded.get::<Entry>(symbol.as_bytes()) } {
            Ok(entry) => Ok(*entry),
            Err(error) => fault(format!("kernel {kernel}: {error}")),
        }
    }
}

fn build(cpp: &str, path: &Path) -> Result<(), Fault> {
    let (source, object) = (cache::own(path, "cpp"), cache::own(path, "so"));
    let written =
        path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&source, cpp));
    written.map_err(|error| Fault(format!("{}: {error}", source.display())))?;
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "g++".into());
    let output = Command::new(&compiler)
        .args(FLAGS)
        .arg("-o")
        .arg(&object)
        .arg(&source)
        .output()
        .map_err(|error| {
            Fault(format!("`{compiler}`, which compiles translated kernels, can't be started: {error}; CXX names another"))
        })?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let first: Vec<&str> = text.lines().take(12).collect();
        return fault(format!("{compiler} refuses {}:\n{}", source.display(), first.join("\n")));
    }
    let _ = std::fs::remove_file(&source);
    std::fs::rename(&object, path).map_err(|error| Fault(format!("{}: {error}", path.display())))
}
