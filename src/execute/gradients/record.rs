//! Gradients by name as a trace documents them.

use serde::{Deserialize, Serialize};

use crate::execute::error::ExecuteError;
use crate::execute::gradients::{Gradients, Place};
use crate::execute::kernels::gradient_norm::SquareSum;
use crate::trace::{NamedGradient, ShardRecord};

impl Gradients<'_> {
    /// Where the gradients of `names` lie on all ranks, and their norms. Where ranks are processes all of them call it, and
    /// rank 0 learns it.
    ///
    /// # Errors
    /// A name that no trained weight has.
    pub fn records(&self, names: &[&str]) -> Result<Vec<NamedGradient>, ExecuteError> {
        let own: Vec<Held> = names.iter().map(|name| self.held(name)).collect::<Result<_, _>>()?;
        let all = match &self.fleet.world {
            Some(world) => world.gather(&own)?.unwrap_or_default(),
            None => vec![own],
        };
        let record = |(index, name): (usize, &&str)| {
            let of_ranks = || all.iter().map(|ranks| &ranks[index]);
            let squares = of_ranks().map(|held| SquareSum(held.squares.map(f64::from_bits)));
            let norm = squares.fold(SquareSum::default(), SquareSum::plus).total().sqrt();
            Ok(NamedGradient {
                name: (*name).to_owned(),
                shape: self.shape(name)?,
                element_type: self.fleet.run.rules.gradient,
                norm: norm.is_finite().then_some(norm),
                shards: of_ranks().flat_map(|held| held.shards.clone()).collect(),
            })
        };
        names.iter().enumerate().map(record).collect()
    }

    /// What the ranks of this process hold of the gradient of `name`.
    fn held(&self, name: &str) -> Result<Held, ExecuteError> {
        let shards = self.places(name)?.iter().map(shard).collect();
        Ok(Held { shards, squares: self.squares(name)?.0.map(f64::to_bits) })
    }
}

/// What the ranks of a process hold of a gradient.
#[derive(Serialize, Deserialize)]
struct Held {
    shards: Vec<ShardRecord>,
    /// The sum of the squares of what counts here, as bits.
    squares: [u64; 4],
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
