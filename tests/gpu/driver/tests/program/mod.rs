//! What tests of programs share: a program with the fake libraries on the loader's path, and what it must say.

use std::process::{Command, Output};

pub struct Program {
    command: Command,
    name: String,
}

/// What a program said.
struct Said {
    well: bool,
    text: String,
}

pub fn program(name: &str) -> Program {
    let folder = driver::folder().expect("the folder of the fake libraries");
    let mut command = Command::new(env!("CARGO_BIN_EXE_driver-program"));
    let nvrtc = std::env::var_os("MESHWRIGHT_NVRTC").expect("MESHWRIGHT_NVRTC names the folder of NVRTC");
    command.arg(name).env("LD_LIBRARY_PATH", folder).env("FAKE_CUDA_NVRTC", nvrtc);
    Program { command, name: name.into() }
}

impl Program {
    pub fn with(mut self, setting: &str, value: impl AsRef<std::ffi::OsStr>) -> Program {
        self.command.env(setting, value);
        self
    }

    fn run(mut self) -> Said {
        let Output { status, stdout, stderr } = self.command.output().expect("the program starts");
        let text = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        Said { well: status.success(), text }
    }

    pub fn passes(self) {
        let name = self.name.clone();
        let said = self.run();
        assert!(said.well, "{name}: {}", said.text);
    }

    /// All of these words are in what it says when it fails.
    pub fn fails(self, words: &[&str]) {
        let name = self.name.clone();
        let said = self.run();
        assert!(!said.well, "{name} passes: {}", said.text);
        for words in words {
            assert!(said.text.contains(words), "{name}: `{words}` isn't in: {}", said.text);
        }
    }
}

/// The program under eager order and several lazy ones.
pub fn orders(name: &str) -> Vec<Program> {
    let lazy = (0..6).map(|seed| program(name).with("FAKE_CUDA_SEED", seed.to_string()));
    lazy.chain([program(name).with("FAKE_CUDA_ORDER", "eager")]).collect()
}
