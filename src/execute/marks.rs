//! How far into its arenas a step really writes: what it may take is filled with a pattern before, and looked at after.
//! Two steps have a pattern each, so that no byte that is written can look as if it were not.

use std::fs;
use std::sync::atomic::Ordering;

use rayon::prelude::*;

use crate::execute::arena::{Arena, Region};
use crate::execute::fleet::Fleet;
use crate::execute::rank::Rank;
use crate::program::placing::Space;
use crate::units::Bytes;

/// The patterns of the first steps of a run.
pub(super) const PATTERNS: [u8; 2] = [0xa5, 0x5a];

impl Rank {
    fn spaces(&self) -> [(&Arena, &Space); 2] {
        let placing = &self.placement.placing;
        [(&self.device, &placing.device), (&self.host, &placing.host)]
    }
}

/// What steps take of `space`: all behind what is kept.
fn taken(space: &Space) -> Region {
    let offset = space.kept_end();
    Region { offset, bytes: space.extent.0 as usize - offset }
}

impl Fleet {
    /// Fills what steps take of all arenas with `pattern`.
    #[expect(unsafe_code, reason = "no step is under way")]
    pub(super) fn mark(&self, pattern: u8) {
        self.ranks.par_iter().flat_map(Rank::spaces).for_each(|(arena, space)| {
            // SAFETY: no step is under way, and what steps take holds nothing between them.
            unsafe { arena.write::<u8>(taken(space)) }.fill(pattern);
        });
    }

    /// Notes how far a step has written that began with `pattern` in all arenas.
    #[expect(unsafe_code, reason = "no step is under way")]
    pub(super) fn look(&self, pattern: u8) {
        self.ranks.par_iter().for_each(|rank| {
            for ((arena, space), written) in rank.spaces().into_iter().zip(&rank.written) {
                let taken = taken(space);
                // SAFETY: no step is under way.
                let bytes = unsafe { arena.read::<u8>(taken) };
                let last = bytes.iter().rposition(|&byte| byte != pattern);
                let kept = space.kept.iter().map(|kept| kept.offset + kept.bytes).max().unwrap_or(0);
                written.fetch_max(last.map_or(kept, |last| taken.offset + last + 1), Ordering::Relaxed);
            }
        });
    }
}

/// Memory of this process that is resident and no file's; none where the system does not tell.
pub(super) fn resident() -> Option<Bytes> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(Bytes::kib(line.trim().trim_end_matches(" kB").parse().ok()?))
}
