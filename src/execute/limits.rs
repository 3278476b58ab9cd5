//! Limits that the system sets on this process: of memory, and of addresses.

use std::fs;
use std::path::Path;

use crate::units::Bytes;

/// Memory that this process may still take: of the machine what nobody uses, of a control group what it has left; as far
/// as the system tells.
pub fn free_memory() -> Bytes {
    let of_machine = kibibytes("/proc/meminfo", "MemAvailable:");
    of_machine.into_iter().chain(of_groups()).min().unwrap_or(Bytes(u64::MAX))
}

/// Addresses that this process may still map, by the limits on all of them and on those of data (`ulimit -v` and `-d`); none
/// where it may map as many as it likes.
pub fn addresses() -> Option<Bytes> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let left = |limit: &str, taken: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(limit))?;
        // `unlimited` is no number.
        let most = Bytes(line.split_whitespace().next()?.parse().ok()?);
        Some(most.saturating_sub(kibibytes("/proc/self/status", taken)?))
    };
    [left("Max address space", "VmSize:"), left("Max data size", "VmData:")].into_iter().flatten().min()
}

/// Memory of this process that is resident and no file's; none where the system does not tell.
pub fn resident() -> Option<Bytes> {
    kibibytes("/proc/self/status", "RssAnon:")
}

/// The number after `name` in a file of lines such as `VmSize:  1024 kB`.
fn kibibytes(path: &str, name: &str) -> Option<Bytes> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(Bytes::kib(line.trim().trim_end_matches(" kB").parse().ok()?))
}

/// Bytes left to the control group of this process and to each group above it (version 2).
fn of_groups() -> Vec<Bytes> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let root = Path::new("/sys/fs/cgroup");
    let folders = Path::new(own).ancestors().map(|group| root.join(group));
    folders.filter_map(|folder| left_to_group(&folder)).collect()
}

fn left_to_group(folder: &Path) -> Option<Bytes> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
    let (most, taken) = (number("memory.max")?, number("memory.current")?);
    // Pages of files that nobody has used of late are given up for others.
    let stat = read("memory.stat").unwrap_or_default();
    let idle = stat.lines().find_map(|line| line.strip_prefix("inactive_file ")?.parse().ok()).unwrap_or(0);
    Some(Bytes((most + idle).saturating_sub(taken)))
}

/// Bytes that the stack of the main thread may take (`ulimit -s`); none if there is no limit.
pub fn stack() -> Option<Bytes> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max stack size"))?;
    Some(Bytes(line.split_whitespace().next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_tells_what_there_is() {
        assert!(free_memory() < Bytes(1 << 50) && free_memory() > Bytes::ZERO);
        assert!(resident().unwrap() > Bytes::ZERO);
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(left_to_group(folder.path()), None);
        let files = [
            ("memory.max", "1000\n"),
            ("memory.current", "700\n"),
            ("memory.stat", "anon 5\ninactive_file 50\n"),
        ];
        files.into_iter().for_each(|(name, text)| fs::write(folder.path().join(name), text).unwrap());
        assert_eq!(left_to_group(folder.path()), Some(Bytes(350)));
        fs::write(folder.path().join("memory.max"), "max\n").unwrap();
        assert_eq!(left_to_group(folder.path()), None);
    }
}
