//! What the operating system says of this machine.

use std::fs;
use std::thread;

use crate::profile::device::{Build, MachineKey};

/// Cores that threads of this process may use.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The processor's name, or its architecture where there is none.
pub fn name() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("model name"));
    let name = line.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim().to_owned());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// What a cost model that is measured here and now holds for.
pub fn key() -> MachineKey {
    MachineKey {
        processor: name(),
        cores: u32::try_from(cores()).unwrap_or(u32::MAX),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        build: if cfg!(debug_assertions) { Build::Debug } else { Build::Release },
    }
}

/// Bytes that can still be handed out; 4 GiB where nothing says.
pub fn available_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kibibytes.map_or(4 << 30, |kibibytes| kibibytes * 1024)
}

/// Bytes of the largest cache of the first core; 1 MiB where nothing says.
pub fn cache() -> u64 {
    let sizes = (0..8).filter_map(|index| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        let text = fs::read_to_string(path).ok()?;
        text.trim().strip_suffix('K')?.parse::<u64>().ok()
    });
    sizes.max().map_or(1 << 20, |kibibytes| kibibytes << 10)
}
