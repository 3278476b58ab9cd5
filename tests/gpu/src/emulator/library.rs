//! Compiles translated kernels with the machine's C++ compiler and loads them; libraries are kept by their content.

use super::fiber::MOST_FRAME;
use super::host::HOST;
use super::thread::{Entry, Host};
use crate::cache;
use crate::fault::{Fault, fault};
use libloading::os::unix::{Library as Loaded, RTLD_LOCAL, RTLD_NOW};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// Own symbols win over those of another library of the same names; no contraction, which would round otherwise.
const FLAGS: [&str; 10] = [
    "-std=c++20",
    "-O1",
    "-march=x86-64-v3",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-tree-pta",
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
        let compiler = Compiler::of_machine()?;
        let path = cache::place((cpp, compiler), "so");
        cache::alone(&path, || if path.exists() { Ok(()) } else { compiler.build(cpp, &path) })?;
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

/// All that a library depends on but for its source.
#[derive(Debug, Hash)]
struct Compiler {
    command: String,
    /// What it says of itself.
    version: Vec<u8>,
    flags: Vec<String>,
}

impl Compiler {
    /// The one that CXX names, or g++; asked once.
    fn of_machine() -> Result<&'static Compiler, Fault> {
        static FOUND: OnceLock<Result<Compiler, Fault>> = OnceLock::new();
        FOUND.get_or_init(Compiler::find).as_ref().map_err(Clone::clone)
    }

    fn find() -> Result<Compiler, Fault> {
        let command = std::env::var("CXX").unwrap_or_else(|_| "g++".into());
        let output = Command::new(&command).arg("--version").output().map_err(|error| {
            Fault(format!(
                "`{command}`, which compiles translated kernels, can't be started: {error}; CXX names another"
            ))
        })?;
        let frames = format!("-Werror=frame-larger-than={MOST_FRAME}");
        let flags = FLAGS.into_iter().map(str::to_owned).chain([frames]).collect();
        Ok(Compiler { command, version: output.stdout, flags })
    }

    fn build(&self, cpp: &str, path: &Path) -> Result<(), Fault> {
        let (source, object) = (cache::own(path, "cpp"), cache::own(path, "so"));
        let written =
            path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&source, cpp));
        written.map_err(|error| Fault(format!("{}: {error}", source.display())))?;
        let output = Command::new(&self.command)
            .args(&self.flags)
            .arg("-o")
            .arg(&object)
            .arg(&source)
            .output()
            .map_err(|error| Fault(format!("{}: {error}", self.command)))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            let first: Vec<&str> = text.lines().filter(|line| line.contains("error")).take(12).collect();
            return fault(format!("{} refuses {}:\n{}", self.command, source.display(), first.join("\n")));
        }
        let _ = std::fs::remove_file(&source);
        std::fs::rename(&object, path).map_err(|error| Fault(format!("{}: {error}", path.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A library whose function `large` has a frame of at least so many bytes.
    fn compiled(bytes: usize) -> Result<Library, Fault> {
        Library::compile(&format!(
            "extern \"C\" __attribute__((visibility(\"default\"))) void attach(const void *) {{}}\n\
             void large() {{ volatile char bytes[{bytes}]; bytes[0] = 1; }}\n"
        ))
    }

    #[test]
    fn a_frame_that_a_fiber_cannot_hold_is_refused() {
        assert!(compiled(MOST_FRAME / 2).is_ok());
        let Err(Fault(text)) = compiled(MOST_FRAME + 1) else { panic!("the frame is taken") };
        assert!(text.contains("frame size"), "{text}");
    }
}
