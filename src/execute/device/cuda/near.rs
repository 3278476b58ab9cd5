//! The cores of the host that are near a GPU: what runs there, and what is first written there, need not cross the host.

#![cfg_attr(target_os = "linux", expect(unsafe_code, reason = "the standard library has no affinities"))]

use std::fs;
use std::path::Path;

/// Where Linux lists the devices of the PCI bus.
const DEVICES: &str = "/sys/bus/pci/devices";

/// The cores near a GPU; none if the system does not say, or they are all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Near(Option<Vec<usize>>);

impl Near {
    /// The cores near the GPU at `address` of the PCI bus, of which `cores` are needed.
    pub fn of(address: &str, cores: usize) -> Self {
        Self::among(&allowed(), &near(Path::new(DEVICES), address), cores)
    }

    /// Those `near` cores that are `allowed`, unless they are all of them or fewer than `cores`.
    fn among(allowed: &[usize], near: &[usize], cores: usize) -> Self {
        let both: Vec<usize> = allowed.iter().copied().filter(|core| near.contains(core)).collect();
        Self(Some(both).filter(|both| both.len() < allowed.len() && both.len() >= cores.max(1)))
    }

    /// Does `work` on these cores. Threads that it begins stay there.
    pub fn during<R>(&self, work: impl FnOnce() -> R) -> R {
        let Some(cores) = &self.0 else { return work() };
        let before = allowed();
        allow(cores);
        let done = work();
        allow(&before);
        done
    }

    /// From here on this thread stays on these cores.
    pub fn stay(&self) {
        if let Some(cores) = &self.0 {
            allow(cores);
        }
    }
}

/// The cores near the device at `address`, as `devices` says.
fn near(devices: &Path, address: &str) -> Vec<usize> {
    let list = fs::read_to_string(devices.join(address).join("local_cpulist"));
    list.map_or_else(|_| Vec::new(), |list| numbers(&list))
}

/// The numbers of a list such as `0-3,8`.
fn numbers(list: &str) -> Vec<usize> {
    let ranges = list.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?)
    });
    ranges.flatten().collect()
}

/// The cores that this thread may use.
#[cfg(target_os = "linux")]
fn allowed() -> Vec<usize> {
    // SAFETY: a set may be all zeros, the call fills it, and no number beyond its end is looked at.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) != 0 {
            return Vec::new();
        }
        (0..8 * size_of_val(&set)).filter(|core| libc::CPU_ISSET(*core, &set)).collect()
    }
}

/// Has this thread use `cores` alone. Where the system refuses, it uses all as before.
#[cfg(target_os = "linux")]
fn allow(cores: &[usize]) {
    // SAFETY: as above.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let count = 8 * size_of_val(&set);
        cores.iter().filter(|core| **core < count).for_each(|core| libc::CPU_SET(*core, &mut set));
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}

#[cfg(not(target_os = "linux"))]
const fn allowed() -> Vec<usize> {
    Vec::new()
}

#[cfg(not(target_os = "linux"))]
const fn allow(_: &[usize]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_near_a_device_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("0000:1b:00.0");
        fs::create_dir(&device).unwrap();
        fs::write(device.join("local_cpulist"), "0-2,8,10-11\n").unwrap();
        assert_eq!(near(folder.path(), "0000:1b:00.0"), [0, 1, 2, 8, 10, 11]);
        assert!(near(folder.path(), "0000:1c:00.0").is_empty());
        assert!(numbers("").is_empty() && numbers("a-b").is_empty());
    }

    #[test]
    fn all_cores_or_too_few_are_none() {
        let allowed: Vec<usize> = (0..8).collect();
        let near = |near: &[usize], cores| Near::among(&allowed, near, cores).0;
        assert_eq!(near(&[0, 1, 2, 9], 2), Some(vec![0, 1, 2]));
        assert_eq!(near(&[0, 1, 2], 4), None);
        assert_eq!(near(&allowed, 2), None);
        assert_eq!(near(&[], 1), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn threads_that_begin_near_stay_there() {
        let before = allowed();
        let near = Near(Some(vec![before[0]]));
        let (own, of_thread) = near.during(|| (allowed(), std::thread::spawn(allowed).join().unwrap()));
        assert_eq!((own, of_thread), (vec![before[0]], vec![before[0]]));
        assert_eq!(allowed(), before);
        let stays = std::thread::spawn(move || {
            near.stay();
            allowed()
        });
        assert_eq!(stays.join().unwrap(), [before[0]]);
    }
}
