//! Memory of this process.

use std::fs;

use crate::units::Bytes;

/// Memory of this process that is resident and no file's; none where the system does not tell.
pub fn resident() -> Option<Bytes> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(Bytes::kib(line.trim().trim_end_matches(" kB").parse().ok()?))
}
