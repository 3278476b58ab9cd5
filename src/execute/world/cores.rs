//! How many of its host's cores a process computes on: those that it may use, shared with the processes that may use the same.

use super::World;
use super::control::JobFailure;

/// The cores of this process.
///
/// # Errors
/// Why the job failed.
pub fn share(world: &World) -> Result<usize, JobFailure> {
    let all = world.all_gather(&(world.own.host.key.to_vec(), allowed()))?;
    let own = &all[world.own.rank];
    let sharers = all.iter().filter(|other| *other == own).count();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok((cores / sharers.max(1)).max(1))
}

/// The cores that this process may use, as the system lists them.
fn allowed() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.unwrap_or_default().trim().to_owned()
}
