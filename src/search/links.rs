//! Links that the groups of layers meet, numbered: strategies that meet the same ones share prices.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::cost::DevicePricing;

/// The number of the links that the groups of layers meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Links(usize);

/// Links that were met: of each group and level, members, and the bits of bandwidth and latency.
#[derive(Debug, Default)]
pub struct KnownLinks(Mutex<HashMap<Vec<[u64; 3]>, usize>>);

impl KnownLinks {
    /// The number of the links under `pricing`.
    pub fn number(&self, pricing: &DevicePricing<'_>) -> Links {
        let levels = pricing.layer_groups().into_iter().flat_map(|group| &group.levels);
        let met = levels.map(|level| [level.members, level.bandwidth.to_bits(), level.latency.to_bits()]);
        let met: Vec<[u64; 3]> = met.collect();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = known.len();
        Links(*known.entry(met).or_insert(next))
    }
}
