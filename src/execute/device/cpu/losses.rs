//! Losses and their gradients, and the look at numbers that must be finite.

use super::Done;
use super::queue::CpuQueue;
use crate::execute::call::{Call, View};
use crate::execute::element::{Element, Real};
use crate::execute::error::ExecuteError;
use crate::execute::kernels::gradient_norm::square_sum;
use crate::execute::kernels::{cross_entropy, residual};
use crate::execute::observe::words;
use crate::execute::storage::number;
use crate::lower::Kernel;

impl<T: Element, G: Element<Wide = T::Wide>> CpuQueue<'_, T, G> {
    /// # Safety
    /// As for [`crate::execute::device::Queue::submit`].
    pub(super) unsafe fn loss(&self, call: &Call) {
        let (memory, pool) = (self.memory, self.pool);
        // SAFETY: as the caller vouches.
        unsafe {
            match call {
                Call::CrossEntropy { shard, logits, targets, statistics } => {
                    let (logits, targets) = (memory.read::<T>(*logits), memory.read::<u32>(*targets));
                    cross_entropy::forward(pool, shard, logits, targets, memory.write(*statistics));
                }
                Call::MergeStatistics { shards, statistics } => {
                    let statistics = memory.write::<T::Wide>(*statistics);
                    let mut shards = memory.read::<T::Wide>(*shards).chunks_exact(statistics.len().max(1));
                    if let Some(first) = shards.next() {
                        statistics.copy_from_slice(first);
                    }
                    shards.for_each(|shard| cross_entropy::merge(statistics, shard));
                }
                Call::AddLoss { statistics, loss } => {
                    memory.write::<f64>(*loss)[0] += cross_entropy::loss(memory.read::<T::Wide>(*statistics));
                }
                Call::CrossEntropyGradient { shard, logits, targets, statistics, scale } => {
                    let (targets, statistics) = (memory.read::<u32>(*targets), memory.read(*statistics));
                    let logits = memory.write::<T>(*logits);
                    cross_entropy::backward(pool, shard, logits, targets, statistics, *scale);
                }
                Call::SquaredError { values, width, loss } => {
                    let sum = square_sum(pool, memory.read::<T>(*values)).total();
                    memory.write::<f64>(*loss)[0] += sum / *width as f64;
                }
                Call::SquaredErrorGradient { values, gradient, scale } => {
                    let gradient = memory.write::<T>(*gradient);
                    residual::copy(pool, memory.read::<T>(*values), gradient);
                    residual::scale(pool, *scale, gradient);
                }
                _ => unreachable!("{call:?} is no loss"),
            }
        }
    }

    /// Looks for a number that is not finite.
    ///
    /// # Safety
    /// As for [`crate::execute::device::Queue::submit`].
    pub(super) unsafe fn check(&self, values: View, kernel: Kernel, layer: &str) -> Done {
        let bad = number!(values, E => {
            // SAFETY: as the caller vouches.
            let values = unsafe { self.memory.read::<E>(values) };
            values.iter().map(|value| value.wide().to_f64()).find(|value| !value.is_finite())
        });
        let Some(value) = bad else { return Ok(()) };
        Err(ExecuteError::NotFinite {
            step: self.step,
            value,
            rank: self.rank,
            layer: layer.to_owned(),
            what: words::kernel(kernel),
        })
    }
}
