//! What the environment says of the device. A setting that isn't understood ends the program: a test would otherwise
//! pass for the wrong reason.

use std::path::PathBuf;
use std::str::FromStr;

/// When queued work runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eagerness {
    /// Once somebody waits for it.
    Lazy,
    /// As soon as it's submitted.
    Eager,
}

#[derive(Debug)]
pub struct Settings {
    /// `FAKE_CUDA_DEVICES`; as many as have a name where it is not set.
    pub devices: usize,
    /// `FAKE_CUDA_MEMORY`, the bytes of each device.
    pub memory: usize,
    /// `FAKE_CUDA_NAME`: one for all devices, or one for each, separated by commas.
    names: Vec<String>,
    /// `FAKE_CUDA_DRIVER`, such as 13000 for 13.0.
    pub version: i32,
    /// `FAKE_CUDA_CUBLASLT`, such as 130002 for 13.0.2.
    pub library: usize,
    /// `FAKE_CUDA_CAPABILITY`, such as 8.0.
    pub capability: (i32, i32),
    /// `FAKE_CUDA_PROCESSORS`, the multiprocessors of each device.
    pub processors: i32,
    /// `FAKE_CUDA_MAPPING`: `off` is a device that maps no physical memory to addresses.
    pub mapping: bool,
    /// `FAKE_CUDA_FABRIC`: `on` is a device that says it has handles for a network of GPUs, which is not set up.
    pub fabric: bool,
    /// `FAKE_CUDA_PEERS`: whether devices reach each other's memory.
    pub peers: bool,
    /// `FAKE_CUDA_SEED`, of the order in which streams run.
    pub seed: u64,
    /// `FAKE_CUDA_ORDER`: `lazy` or `eager`.
    pub eagerness: Eagerness,
    /// `FAKE_CUDA_CHECK`: `off` runs kernels faster and looks at their bounds only.
    pub checking: bool,
    pub nccl: Nccl,
}

/// What it says of NCCL.
#[derive(Debug)]
pub struct Nccl {
    /// `FAKE_NCCL_VERSION`, such as 23203 for 2.32.3.
    pub version: i32,
    /// `FAKE_NCCL_FOLDER`, where the files lie that members share.
    pub folder: PathBuf,
    /// `FAKE_NCCL_SLOW`: 1 has calls of non-blocking communicators answer "in progress" by chance.
    pub slow: bool,
    /// `FAKE_NCCL_LOG`: a folder in which each process notes what it gives its devices to do, in order.
    pub log: Option<PathBuf>,
}

impl Settings {
    pub fn from_environment() -> Settings {
        let capability = text("FAKE_CUDA_CAPABILITY", "8.0");
        let capability = capability
            .split_once('.')
            .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        let names = text("FAKE_CUDA_NAME", "Fake GPU");
        let names: Vec<String> = names.split(',').map(|name| name.trim().to_owned()).collect();
        Settings {
            devices: number("FAKE_CUDA_DEVICES", names.len()),
            memory: number("FAKE_CUDA_MEMORY", 2 << 30),
            names,
            version: number("FAKE_CUDA_DRIVER", 13000),
            library: number("FAKE_CUDA_CUBLASLT", 130_002),
            capability: capability
                .unwrap_or_else(|| wrong("FAKE_CUDA_CAPABILITY", "two numbers such as 8.0")),
            processors: number("FAKE_CUDA_PROCESSORS", 8),
            mapping: choice("FAKE_CUDA_MAPPING", &[("on", true), ("off", false)]),
            fabric: choice("FAKE_CUDA_FABRIC", &[("off", false), ("on", true)]),
            peers: choice("FAKE_CUDA_PEERS", &[("on", true), ("off", false)]),
            seed: number("FAKE_CUDA_SEED", 0),
            eagerness: choice("FAKE_CUDA_ORDER", &[("lazy", Eagerness::Lazy), ("eager", Eagerness::Eager)]),
            checking: choice("FAKE_CUDA_CHECK", &[("on", true), ("off", false)]),
            nccl: Nccl {
                version: number("FAKE_NCCL_VERSION", 23_203),
                folder: text("FAKE_NCCL_FOLDER", "/dev/shm").into(),
                slow: choice("FAKE_NCCL_SLOW", &[("0", false), ("1", true)]),
                log: std::env::var_os("FAKE_NCCL_LOG").map(PathBuf::from),
            },
        }
    }

    pub fn name(&self, device: i32) -> &str {
        &self.names[device as usize % self.names.len()]
    }
}

fn text(name: &str, otherwise: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| otherwise.to_owned())
}

fn number<T: FromStr>(name: &str, otherwise: T) -> T {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| wrong(name, "a number")),
        Err(_) => otherwise,
    }
}

/// The first choice is taken where there is none.
fn choice<T: Copy>(name: &str, choices: &[(&str, T)]) -> T {
    let Ok(text) = std::env::var(name) else {
        return choices[0].1;
    };
    let found = choices.iter().find(|(word, _)| *word == text);
    let words = || choices.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(" or ");
    found.map_or_else(|| wrong(name, &words()), |(_, choice)| *choice)
}

fn wrong(name: &str, expected: &str) -> ! {
    eprintln!("fake CUDA driver: {name} must be {expected}, not `{}`", text(name, ""));
    std::process::exit(70)
}
