//! Links that the groups of layers meet, numbered: strategies that meet the same ones share prices.

use std::sync::{Mutex, PoisonError};

use crate::cost::DevicePricing;
use crate::cost::collective::GroupShape;

/// The number of the links that the groups of layers meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Links(usize);

/// Links that were met.
#[derive(Debug, Default)]
pub struct KnownLinks(Mutex<Vec<[GroupShape; 4]>>);

impl KnownLinks {
    /// The number of the links under `pricing`.
    pub fn number(&self, pricing: &DevicePricing<'_>) -> Links {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let groups = pricing.layer_groups();
        let place = known.iter().position(|known| known.iter().eq(groups.iter().copied()));
        Links(place.unwrap_or_else(|| {
            known.push(groups.map(GroupShape::clone));
            known.len() - 1
        }))
    }
}
