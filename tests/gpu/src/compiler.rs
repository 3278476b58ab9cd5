//! PTX and machine code of kernels, by the compiler of the shipped program.

use crate::cache;
use crate::compile;
use crate::compile::nvrtc::Program;
use crate::compile::search::Search;
use crate::compile::sources::{self, HEADERS};
use crate::compile::target::Capability;
use crate::fault::Fault;
use std::path::PathBuf;

/// PTX of this architecture runs everywhere that the kernels support; the emulator takes it.
const PORTABLE: &str = "compute_80";

pub struct Compiler {
    shipped: compile::Compiler,
    /// Architectures for which everything that the emulator runs is compiled too: the folder then serves a machine that
    /// has a GPU and no NVRTC.
    also: Vec<String>,
}

impl Compiler {
    /// Results are kept in the folder that `MESHWRIGHT_CUBINS` names, else in the target folder; `MESHWRIGHT_ARCHITECTURES`
    /// says what is compiled too, as `sm_80,sm_90`.
    ///
    /// What is made or kept must be right for a driver of version `driver`, as 13000, where there is one.
    pub fn new(driver: Option<i32>) -> Compiler {
        let named = std::env::var_os("MESHWRIGHT_CUBINS").map(PathBuf::from);
        let also = std::env::var("MESHWRIGHT_ARCHITECTURES").unwrap_or_default();
        let folder = named.unwrap_or_else(cache::folder);
        let search = Search::from_environment(&compile::nvrtc::NVRTC).for_driver(driver);
        Compiler {
            shipped: compile::Compiler::new(search, Some(folder)),
            also: also.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        }
    }

    /// The text of a kernel file.
    pub fn source(file: &str) -> Result<&'static str, Fault> {
        sources::kernel(file).ok_or_else(|| Fault(format!("no kernel source is called {file}")))
    }

    /// PTX for the emulator, or for what it says of parameters.
    pub fn portable(&self, file: &str, source: &str, options: &[String]) -> Result<String, Fault> {
        for architecture in &self.also {
            self.of(file, source, options, architecture)?;
        }
        let mut ptx = self.of(file, source, options, PORTABLE)?;
        // It ends as texts of C do.
        ptx.truncate(ptx.iter().position(|&byte| byte == 0).unwrap_or(ptx.len()));
        String::from_utf8(ptx).map_err(|error| Fault(format!("{file}: {error}")))
    }

    /// Machine code for a GPU, or PTX that its driver compiles.
    pub fn machine(
        &self,
        file: &str,
        source: &str,
        options: &[String],
        capability: Capability,
    ) -> Result<Vec<u8>, Fault> {
        let program = Program { file, source, headers: HEADERS, options, architecture: "" };
        let binary =
            self.shipped.binary_for(&program, capability).map_err(|fault| Fault(fault.to_string()))?;
        Ok(binary.cubin)
    }

    fn of(&self, file: &str, source: &str, options: &[String], architecture: &str) -> Result<Vec<u8>, Fault> {
        let program = Program { file, source, headers: HEADERS, options, architecture };
        let binary = self.shipped.binary_of(&program).map_err(|fault| Fault(fault.to_string()))?;
        Ok(binary.cubin)
    }
}
