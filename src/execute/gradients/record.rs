//! Gradients by name as a trace documents them.

use crate::execute::error::ExecuteError;
use crate::execute::gradients::{Gradients, Place};
use crate::trace::{NamedGradient, ShardRecord};

impl Gradients<'_> {
    /// Where the gradient of `name` lies, and its norm.
    ///
    /// # Errors
    /// A name that no trained weight has.
    pub fn record(&self, name: &str) -> Result<NamedGradient, ExecuteError> {
        let (places, norm) = (self.places(name)?, self.norm(name)?);
        Ok(NamedGradient {
            name: name.to_owned(),
            shape: self.shape(name)?,
            element_type: self.fleet.run.rules.gradient,
            norm: norm.is_finite().then_some(norm),
            shards: places.iter().map(shard).collect(),
        })
    }
}

fn shard(place: &Place) -> ShardRecord {
    let pair = |range: std::ops::Range<usize>| [range.start as u64, range.end as u64];
    ShardRecord {
        rank: place.rank as u64,
        stage: place.stage,
        unit: place.unit,
        buffer: place.buffer,
        elements: pair(place.elements.clone()),
        flat: pair(place.flat.clone()),
        span: pair(place.span()),
        is_copy: !place.counts,
    }
}
