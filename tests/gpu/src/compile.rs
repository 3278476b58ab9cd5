//! From a kernel's source file to PTX and machine code.

use crate::cache;
use crate::fault::Fault;
use crate::nvrtc::{Compiled, Nvrtc};
use std::path::{Path, PathBuf};

/// PTX of this architecture runs everywhere that the kernels support; the emulator takes it.
pub const PORTABLE: &str = "compute_80";

pub struct Compiler {
    nvrtc: Option<Nvrtc>,
    kernels: PathBuf,
    /// A folder of compiled kernels for a machine without NVRTC: written by the emulator, read by the real device.
    kept: Option<PathBuf>,
}

impl Compiler {
    pub fn new() -> Compiler {
        let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../src/execute/kernels");
        let kernels = std::env::var_os("MESHWRIGHT_KERNELS").map_or(beside, PathBuf::from);
        Compiler { nvrtc: None, kernels, kept: std::env::var_os("MESHWRIGHT_CUBINS").map(PathBuf::from) }
    }

    pub fn source(&self, file: &str) -> Result<String, Fault> {
        let path = self.kernels.join(file);
        std::fs::read_to_string(&path).map_err(|error| Fault(format!("{}: {error}", path.display())))
    }

    /// PTX for the emulator. Where compiled kernels are kept, machine code of the architecture in
    /// `MESHWRIGHT_ARCHITECTURE` (`sm_90` without it) is made too.
    pub fn portable(&mut self, name: &str, source: &str, options: &[&str]) -> Result<String, Fault> {
        let nvrtc = self.nvrtc()?.version()?;
        let texts = cache::with_includes(source, &self.folders(name));
        let place = cache::place((texts, options, nvrtc, PORTABLE), "ptx");
        let ptx = cache::alone(&place, || match std::fs::read_to_string(&place) {
            Ok(ptx) => Ok(ptx),
            Err(_) => {
                let compiled = self.compile(name, source, options, PORTABLE)?;
                cache::keep(&place, compiled.ptx.as_bytes());
                Ok(compiled.ptx)
            }
        })?;
        if let Some(folder) = self.kept.clone() {
            let architecture = std::env::var("MESHWRIGHT_ARCHITECTURE").unwrap_or_else(|_| "sm_90".into());
            let machine = self.compile(name, source, options, &architecture)?;
            let path = self.kept_at(&folder, name, source, options, &architecture);
            let written = std::fs::create_dir_all(&folder)
                .and_then(|()| std::fs::write(path.with_extension("ptx"), &machine.ptx))
                .and_then(|()| std::fs::write(path.with_extension("cubin"), &machine.cubin));
            written.map_err(|error| Fault(format!("{}: {error}", path.display())))?;
        }
        Ok(ptx)
    }

    /// Machine code for a device, made here or kept from elsewhere.
    pub fn machine(
        &mut self,
        name: &str,
        source: &str,
        options: &[&str],
        architecture: &str,
    ) -> Result<Compiled, Fault> {
        let Some(folder) = self.kept.clone() else {
            return self.compile(name, source, options, architecture);
        };
        let path = self.kept_at(&folder, name, source, options, architecture);
        let problem = |error: std::io::Error| Fault(format!("{}: {error}", path.display()));
        Ok(Compiled {
            ptx: std::fs::read_to_string(path.with_extension("ptx")).map_err(problem)?,
            cubin: std::fs::read(path.with_extension("cubin")).map_err(problem)?,
        })
    }

    fn compile(
        &mut self,
        name: &str,
        source: &str,
        options: &[&str],
        architecture: &str,
    ) -> Result<Compiled, Fault> {
        let mut all = vec![format!("--gpu-architecture={architecture}")];
        all.extend(self.folders(name).iter().map(|folder| format!("--include-path={}", folder.display())));
        all.extend(options.iter().map(|option| (*option).to_owned()));
        self.nvrtc()?.compile(name, source, &all)
    }

    fn nvrtc(&mut self) -> Result<&Nvrtc, Fault> {
        match &mut self.nvrtc {
            Some(nvrtc) => Ok(nvrtc),
            none => Ok(none.insert(Nvrtc::open()?)),
        }
    }

    /// Where includes are looked for: among the kernels and beside the source.
    fn folders(&self, name: &str) -> Vec<PathBuf> {
        let beside = self.kernels.join(name).parent().map(Path::to_path_buf);
        let mut folders = vec![self.kernels.clone()];
        folders.extend(beside.filter(|beside| beside.is_dir() && *beside != self.kernels));
        folders
    }

    /// A name that changes with the source and what it includes.
    fn kept_at(
        &self,
        folder: &Path,
        name: &str,
        source: &str,
        options: &[&str],
        architecture: &str,
    ) -> PathBuf {
        let words = format!("{name} {} {architecture}", options.join(" "));
        let plain: String = words.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let hash = cache::hash(cache::with_includes(source, &self.folders(name)));
        folder.join(format!("{plain}_{hash:016x}"))
    }
}
