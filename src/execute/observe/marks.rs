//! How far into its arenas a step really writes: what it may take is filled with a pattern before, and looked at after.
//! Two steps have a pattern each, so that no byte that is written can look as if it were not.

use std::sync::atomic::Ordering;

use rayon::prelude::*;

use crate::execute::call::{Space, View};
use crate::execute::fleet::Fleet;
use crate::execute::ranks::rank::Rank;
use crate::execute::storage::Storage;
use crate::program::placing::{self, Region};

/// The patterns of the first steps of a run.
pub(super) const PATTERNS: [u8; 2] = [0xa5, 0x5a];

/// Bytes that are written or looked at in one piece.
const PIECE: usize = 1 << 20;

/// What steps take of `space`: all behind what is kept.
fn taken(space: &placing::Space) -> Region {
    let offset = space.kept_end();
    Region { offset, bytes: space.extent.0 as usize - offset }
}

/// Pieces of what steps take of a rank's spaces, first to last.
fn pieces(rank: &Rank) -> [(&placing::Space, Vec<View>); 2] {
    let placing = &rank.placement.placing;
    [(Space::Device, &placing.device), (Space::Host, &placing.host)].map(|(space, placed)| {
        let taken = taken(placed);
        let piece = |start: usize| {
            let region = Region { offset: taken.offset + start, bytes: PIECE.min(taken.bytes - start) };
            View { space, region, storage: Storage::Byte }
        };
        (placed, (0..taken.bytes).step_by(PIECE).map(piece).collect())
    })
}

impl Fleet {
    /// Fills what steps take of all ranks' memory with `pattern`.
    pub(super) fn mark(&self, pattern: u8) {
        let bytes = vec![pattern; PIECE];
        for rank in &self.ranks {
            for view in pieces(rank).into_iter().flat_map(|(_, pieces)| pieces) {
                self.set_bytes(rank.index, view, &bytes[..view.region.bytes]);
            }
        }
    }

    /// Notes how far a step has written that began with `pattern` in all memory.
    pub(super) fn look(&self, pattern: u8) {
        self.ranks.par_iter().for_each(|rank| {
            let mut bytes = vec![0; PIECE];
            for ((placed, pieces), written) in pieces(rank).into_iter().zip(&rank.written) {
                let last = pieces.iter().rev().find_map(|view| {
                    let bytes = &mut bytes[..view.region.bytes];
                    self.read_bytes(rank.index, *view, bytes);
                    let last = bytes.iter().rposition(|&byte| byte != pattern)?;
                    Some(view.region.offset + last + 1)
                });
                let kept = placed.kept.iter().map(|kept| kept.offset + kept.bytes).max().unwrap_or(0);
                written.fetch_max(last.unwrap_or(kept), Ordering::Relaxed);
            }
        });
    }
}
