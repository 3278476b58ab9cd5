//! Losses and their gradients.

use super::super::launch::cross_entropy::{self, STATISTICS};
use super::super::launch::{elementwise, gradient_norm};
use super::super::work::{Kernel, Works};
use super::{Encoded, Encoder, nothing, one, small, types_of, work};
use crate::execute::call::Call;
use crate::execute::kernels::cross_entropy::Shard;

/// Bytes of one row of a sum of squares.
const SUM: u64 = 8 * gradient_norm::BINS as u64;

impl Encoder<'_> {
    pub(super) fn loss(&self, call: &Call) -> Encoded {
        let source = cross_entropy::source(self.types);
        match call {
            Call::CrossEntropy { shard, logits, targets, statistics } => {
                let rows = small("targets", targets.len())?;
                let sizes = sizes_of(shard)?;
                if rows == 0 {
                    return nothing();
                }
                one(Kernel::new((source, cross_entropy::forward(rows, sizes[0])))
                    .reads(self.at(*logits))
                    .reads(self.at(*targets))
                    .writes(self.at(*statistics))
                    .numbers(sizes))
            }
            Call::MergeStatistics { shards, statistics } => {
                let rows = small("targets", statistics.len() / STATISTICS as usize)?;
                if rows == 0 {
                    return nothing();
                }
                let count = small("shards", shards.len() / statistics.len())?;
                one(Kernel::new((source, cross_entropy::merge(rows)))
                    .reads(self.at(*shards))
                    .writes(self.at(*statistics))
                    .numbers([rows, count]))
            }
            Call::AddLoss { statistics, loss } => {
                let rows = small("targets", statistics.len() / STATISTICS as usize)?;
                one(Kernel::new((source, cross_entropy::loss()))
                    .reads(self.at(*statistics))
                    .updates(self.at(*loss))
                    .number(rows))
            }
            Call::CrossEntropyGradient { shard, logits, targets, statistics, scale } => {
                let rows = small("targets", targets.len())?;
                let sizes = sizes_of(shard)?;
                if rows == 0 {
                    return nothing();
                }
                one(Kernel::new((source, cross_entropy::gradient(rows, sizes[0])))
                    .updates(self.at(*logits))
                    .reads(self.at(*targets))
                    .reads(self.at(*statistics))
                    .numbers(sizes)
                    .number(*scale as f32))
            }
            Call::SquaredError { values, width, loss } => {
                let count = values.len() as u64;
                if count == 0 {
                    return nothing();
                }
                let source = gradient_norm::source(types_of(values.storage)?);
                let launch = gradient_norm::squares(count);
                let rows = launch.grid[0];
                let scratch = self.scratch("a squared error", (1 + u64::from(rows)) * SUM)?;
                let (sum, partials) = (scratch.first(SUM), scratch.behind(SUM));
                Ok(Works::from_iter(
                    [
                        Kernel::new((source.clone(), launch))
                            .reads(self.at(*values))
                            .writes(partials)
                            .number(count),
                        Kernel::new((source.clone(), gradient_norm::sum()))
                            .reads(partials)
                            .writes(sum)
                            .number(rows),
                        Kernel::new((source, gradient_norm::add_mean()))
                            .reads(sum)
                            .updates(self.at(*loss))
                            .number(*width as f64),
                    ]
                    .map(work),
                ))
            }
            Call::SquaredErrorGradient { values, gradient, scale } => {
                let count = values.len() as u64;
                if count == 0 {
                    return nothing();
                }
                let source = elementwise::source(types_of(values.storage)?);
                one(Kernel::new((source, elementwise::scaled_copy(count)))
                    .reads(self.at(*values))
                    .writes(self.at(*gradient))
                    .number(count)
                    .number(*scale as f32))
            }
            _ => unreachable!("{call:?} is no loss"),
        }
    }
}

/// Columns of a shard's logits, its first word, and its words.
fn sizes_of(shard: &Shard) -> Result<[u32; 3], super::CudaError> {
    Ok([
        small("words", shard.width)?,
        small("words", shard.vocabulary.start)?,
        small("words", shard.vocabulary.len())?,
    ])
}
