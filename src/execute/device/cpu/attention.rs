//! Attention cores.

use super::queue::CpuQueue;
use crate::execute::call::{AttentionCall, AttentionGradientCall, Core, Probabilities, View};
use crate::execute::element::Element;
use crate::execute::kernels::attention::{
    self, Dropout, KeyValues, Mask, Pair, Window, fused, materialised, materialised_backward,
};

impl<'r, T: Element, G: Element<Wide = T::Wide>> CpuQueue<'r, T, G> {
    /// Runs `work` with the core that `core` describes.
    ///
    /// # Safety
    /// As for [`crate::execute::device::Queue::submit`].
    unsafe fn with_core(&self, core: &Core, work: impl FnOnce(&attention::Core<'_>)) {
        let dropout = core.dropout.as_ref().map(|pairs| {
            // SAFETY: as the caller vouches.
            (pairs, unsafe { self.dropout(pairs.rate, pairs.site, pairs.scalars) })
        });
        let keep = |pair: Pair| {
            let Some((pairs, dropout)) = &dropout else { return true };
            let sequence = pairs.first_sequence + pair.sequence as u64;
            let head = pairs.first_head + pair.head as u64;
            let row = (sequence * pairs.heads + head) * pairs.tokens + u64::from(pair.query);
            dropout.factor::<f64>(row * pairs.tokens + u64::from(pair.key)) > 0.0
        };
        let scale = core.dropout.as_ref().map(|pairs| 1.0 / (1.0 - pairs.rate));
        work(&attention::Core {
            batch: core.batch,
            heads: core.heads,
            mask: Mask {
                causal: core.causal,
                window: core.window,
                query_positions: self.lists.get(core.queries),
                key_positions: self.lists.get(core.keys),
            },
            score: core.score,
            dropout: scale.map(|scale| Dropout { keep: &keep, scale }),
        });
    }

    /// # Safety
    /// As for [`crate::execute::device::Queue::submit`].
    pub(super) unsafe fn attention(&self, call: &AttentionCall) {
        let (memory, pool) = (self.memory, self.pool);
        let write = call.output.write;
        // SAFETY: as the caller vouches.
        unsafe {
            let (queries, keys_values) = (self.queries(call.queries), self.keys_values(call.keys_values));
            let output = memory.write::<T>(call.output.view);
            match call.probabilities {
                Probabilities::LogSumExp(view) => {
                    let log_sum_exp = memory.write::<T::Wide>(view);
                    self.with_core(&call.core, |core| {
                        fused::forward(core, queries, keys_values, output, log_sum_exp, write, pool);
                    });
                }
                Probabilities::Whole { all, kept } => {
                    let all = memory.write::<T>(all);
                    let kept = kept.map_or(&mut [][..], |view| memory.write::<T>(view));
                    self.with_core(&call.core, |core| {
                        materialised::forward(core, queries, keys_values, all, kept, output, pool);
                    });
                }
            }
        }
    }

    /// # Safety
    /// As for [`crate::execute::device::Queue::submit`].
    pub(super) unsafe fn attention_gradient(&self, call: &AttentionGradientCall) {
        let (memory, pool) = (self.memory, self.pool);
        let (query_write, key_value_write) = (call.query_write, call.key_value_write);
        // SAFETY: as the caller vouches. The gradients of queries and of keys and values may be columns of one matrix:
        // one kernel has given its slice back before the next takes it.
        unsafe {
            let (queries, keys_values) = (self.queries(call.queries), self.keys_values(call.keys_values));
            let output_gradient = memory.read::<T>(call.output_gradient);
            let query_gradients = || {
                let Window { data, stride, column } = call.query_gradients;
                Window { data: memory.write::<T>(data), stride, column }
            };
            let key_value_gradients = || {
                let KeyValues { data, stride, keys, values } = call.key_value_gradients;
                KeyValues { data: memory.write::<T>(data), stride, keys, values }
            };
            match call.probabilities {
                Probabilities::LogSumExp(view) => {
                    let (output, log_sum_exp) = (memory.read::<T>(call.output), memory.read::<T::Wide>(view));
                    let saved = fused::Saved { queries, keys_values, output, output_gradient, log_sum_exp };
                    self.with_core(&call.core, |core| {
                        fused::backward_queries(core, &saved, query_gradients(), query_write, pool);
                        fused::backward_keys_values(
                            core,
                            &saved,
                            key_value_gradients(),
                            key_value_write,
                            pool,
                        );
                    });
                }
                Probabilities::Whole { all, kept } => {
                    let all = memory.read::<T>(all);
                    let kept = kept.map_or(all, |view| memory.read::<T>(view));
                    let probabilities = materialised::Probabilities { all, kept };
                    let saved =
                        materialised_backward::Saved { queries, keys_values, probabilities, output_gradient };
                    let scores = call.scores.map_or(&mut [][..], |view| memory.write::<T>(view));
                    self.with_core(&call.core, |core| {
                        materialised_backward::backward_scores(core, &saved, scores, pool);
                        let gradients = query_gradients();
                        materialised_backward::backward_queries(
                            core,
                            &saved,
                            scores,
                            gradients,
                            query_write,
                            pool,
                        );
                        let gradients = key_value_gradients();
                        materialised_backward::backward_keys_values(
                            core,
                            &saved,
                            scores,
                            gradients,
                            key_value_write,
                            pool,
                        );
                    });
                }
            }
        }
    }

    /// # Safety
    /// As for [`crate::execute::device::Queue::submit`].
    unsafe fn queries(&self, window: Window<View>) -> Window<&'r [T]> {
        let Window { data, stride, column } = window;
        // SAFETY: as the caller vouches.
        Window { data: unsafe { self.memory.read(data) }, stride, column }
    }

    /// # Safety
    /// As for [`crate::execute::device::Queue::submit`].
    unsafe fn keys_values(&self, both: KeyValues<View>) -> KeyValues<&'r [T]> {
        let KeyValues { data, stride, keys, values } = both;
        // SAFETY: as the caller vouches.
        KeyValues { data: unsafe { self.memory.read(data) }, stride, keys, values }
    }
}
