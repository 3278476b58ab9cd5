//! What the passes of chunks hold and take, computed once for all chunks whose units are alike.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use crate::cost::calls::CallTimes;
use crate::cost::walk::PassPeak;
use crate::program::Action;
use crate::program::layout::{Chunk, Layout, PlacedUnit};

/// Chunks of strategies that differ in nothing but their inner choices: cuts, checkpoint modes and what is on the host.
#[derive(Debug, Default)]
pub struct KnownChunks {
    peaks: RefCell<HashMap<ChunkKey, [PassPeak; 3], FixedState>>,
    times: RefCell<HashMap<(ChunkKey, Runs), CallTimes, FixedState>>,
    orders: OnceCell<Vec<Vec<Action>>>,
    ends: RefCell<HashMap<Vec<u64>, Vec<f64>, FixedState>>,
}

/// Runs of like units: of each its lowered form, what of it is on the host, and how many units it has.
type Runs = SmallVec<[(u32, [bool; 2], u32); 4]>;

/// What two chunks must share to hold and take the same.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ChunkKey {
    /// Units of the first rank may hold a table that others copy; the first chunk receives nothing, the last sends
    /// nothing on.
    is_on_first_rank: bool,
    is_first: bool,
    is_last: bool,
    sends_gradient: bool,
    receives: SmallVec<[u8; 2]>,
    runs: Runs,
}

impl ChunkKey {
    /// The key of `chunk` of `layout`. None with several losses, where units of one form may differ, and for an empty
    /// chunk, which passes on what the next one takes.
    fn of(layout: &Layout, chunk: &Chunk) -> Option<Self> {
        if chunk.units.is_empty() || layout.losses > 1 || !layout.shaped().watches().is_empty() {
            return None;
        }
        Some(Self {
            is_on_first_rank: chunk.stage == 0,
            is_first: chunk.index == 0,
            is_last: chunk.index as usize + 1 == layout.chunks.len(),
            sends_gradient: chunk.sends_gradient,
            receives: SmallVec::from_slice(&chunk.receives),
            runs: runs(chunk),
        })
    }
}

/// Units of one lowered form are of one class, which says all else of them.
fn runs(chunk: &Chunk) -> Runs {
    let of = |(unit, count): (&PlacedUnit, u64)| {
        (unit.lowered as u32, [unit.offloads_parameters, unit.offloads_activations], count as u32)
    };
    chunk.runs().map(of).collect()
}

impl KnownChunks {
    /// How high the passes of `chunk` stand, forward, backward and weight; `make` computes it if it is not known.
    pub(super) fn peaks(
        &self,
        (layout, chunk): (&Layout, &Chunk),
        make: impl FnOnce() -> [PassPeak; 3],
    ) -> [PassPeak; 3] {
        match ChunkKey::of(layout, chunk) {
            Some(key) => remembered(&self.peaks, key, make),
            None => make(),
        }
    }

    /// What the passes of `chunk` take, but for what they send, if its activations are copied like those of `copied`.
    pub(super) fn times(
        &self,
        (layout, chunk, copied): (&Layout, &Chunk, &Chunk),
        make: impl FnOnce() -> CallTimes,
    ) -> CallTimes {
        match ChunkKey::of(layout, chunk) {
            Some(key) => remembered(&self.times, (key, runs(copied)), make),
            None => make(),
        }
    }

    /// The orders of all ranks, which `make` computes if they are not known.
    pub(super) fn orders(&self, make: impl FnOnce() -> Vec<Vec<Action>>) -> &[Vec<Action>] {
        self.orders.get_or_init(make)
    }

    /// When the last passes of ranks end whose chunks take `times` and that begin after their `leads`, in seconds; `make`
    /// computes it if it is not known.
    pub(super) fn ends(
        &self,
        times: &[CallTimes],
        leads: &[f64],
        make: impl FnOnce() -> Vec<f64>,
    ) -> Vec<f64> {
        let leads = leads.iter().map(|lead| lead.to_bits());
        remembered(&self.ends, times.iter().flat_map(CallTimes::bits).chain(leads).collect(), make)
    }
}

/// The value of `key`, which `make` computes if it is not known. One thread asks: no lock is needed.
fn remembered<K: Eq + std::hash::Hash, V: Clone>(
    known: &RefCell<HashMap<K, V, FixedState>>,
    key: K,
    make: impl FnOnce() -> V,
) -> V {
    let found = known.borrow().get(&key).cloned();
    found.unwrap_or_else(|| {
        let made = make();
        known.borrow_mut().insert(key, made.clone());
        made
    })
}
