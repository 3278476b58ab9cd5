//! Attention cores.

use super::super::launch::attention::{self, Attention, nearest, reach};
use super::super::launch::gemm::Element;
use super::super::launch::{dropout, runs::Types};
use super::super::work::{Kernel, Span, Works};
use super::{CudaError, Encoded, Encoder, nothing, small, work};
use crate::execute::call::{AttentionCall, AttentionGradientCall, Core, Probabilities, View};
use crate::execute::kernels::attention::{KeyValues, Window};
use crate::lower::kernel::Into;

/// Queries, keys and values where they lie, with the distances of their rows.
#[derive(Clone, Copy)]
pub(super) struct Places {
    pub queries: Span,
    pub query_stride: u64,
    pub keys: Span,
    pub values: Span,
    pub key_stride: u64,
}

impl Places {
    /// Whether every head of every token begins at a multiple of 16 bytes.
    fn are_aligned(&self) -> bool {
        let starts = [self.queries, self.keys, self.values].map(|span| span.address);
        starts.iter().all(|start| start.is_multiple_of(16))
            && [self.query_stride, self.key_stride].iter().all(|stride| stride.is_multiple_of(8))
    }
}

impl Encoder<'_> {
    fn places(&self, queries: Window<View>, both: KeyValues<View>) -> Places {
        let part = |view: View, column: usize| self.at(view).behind(column as u64 * self.size());
        Places {
            queries: part(queries.data, queries.column),
            query_stride: queries.stride as u64,
            keys: part(both.data, both.keys),
            values: part(both.data, both.values),
            key_stride: both.stride as u64,
        }
    }

    fn shape(&self, core: &Core, aligned: bool) -> Result<Attention, CudaError> {
        let heads = core.heads;
        let [query_dim, value_dim, count, kv_heads] =
            [heads.query_dim, heads.value_dim, heads.heads, heads.kv_heads].map(|size| small("heads", size));
        let tokens = |list| small("tokens", self.memory.indices(list).len());
        Ok(Attention {
            element: if self.types == Types::F32 { Element::F32 } else { Element::Bf16 },
            query_dim: query_dim?,
            value_dim: value_dim?,
            batch: small("sequences", core.batch)?,
            tokens: tokens(core.queries)?,
            key_tokens: tokens(core.keys)?,
            heads: count?,
            kv_heads: kv_heads?,
            soft_cap: core.score.soft_cap.is_some(),
            alibi: core.score.alibi.is_some(),
            dropout: core.dropout.is_some(),
            aligned: aligned && heads.query_dim.is_multiple_of(8) && heads.value_dim.is_multiple_of(8),
        })
    }

    /// The arguments that all kernels of attention end with.
    pub(super) fn core(&self, kernel: Kernel, core: &Core, shape: &Attention) -> Result<Kernel, CudaError> {
        let ascends = [core.queries, core.keys].iter().all(|list| self.memory.indices(*list).is_sorted());
        let (first_head, heads) = match (&core.dropout, &core.score.alibi) {
            (Some(dropout), _) => (dropout.first_head as usize, dropout.heads as usize),
            (None, Some(alibi)) => (alibi.first_head, alibi.total_heads),
            (None, None) => (0, core.heads.heads),
        };
        let kernel = kernel
            .numbers([shape.tokens, shape.key_tokens, shape.heads, shape.heads / shape.kv_heads.max(1)])
            .reads(self.memory.list(core.queries)?)
            .reads(self.memory.list(core.keys)?)
            .flag(ascends)
            .number(nearest(core.causal))
            .number(reach(core.window))
            .number(core.score.scale as f32)
            .number(core.score.soft_cap.unwrap_or(0.0) as f32)
            .numbers([small("heads", first_head)?, small("heads", heads)?]);
        let Some(pairs) = &core.dropout else { return Ok(kernel) };
        Ok(kernel
            .reads(self.at(pairs.scalars))
            .number(pairs.site)
            .number(dropout::threshold(pairs.rate))
            .number(dropout::scale(pairs.rate))
            .number(pairs.first_sequence)
            .number(pairs.tokens))
    }

    pub(super) fn attention(&self, call: &AttentionCall) -> Encoded {
        let places = self.places(call.queries, call.keys_values);
        let shape = self.shape(&call.core, places.are_aligned())?;
        if shape.batch * shape.tokens == 0 {
            return nothing();
        }
        let log_sum_exp = match call.probabilities {
            Probabilities::LogSumExp(view) => view,
            Probabilities::Whole { all, kept } => {
                return self.materialised(call, &shape, &places, (all, kept));
            }
        };
        let resumes = call.output.write == Into::Add;
        let kernel = inputs(Kernel::new(attention::forward(&shape)), &places);
        let (output, sums) = (self.at(call.output.view), self.at(log_sum_exp));
        let kernel = match resumes {
            true => kernel.updates(output).updates(sums),
            false => kernel.writes(output).writes(sums),
        };
        Ok(Works::from_iter([work(self.core(kernel.flag(resumes), &call.core, &shape)?)]))
    }

    pub(super) fn attention_gradient(&self, call: &AttentionGradientCall) -> Encoded {
        let places = self.places(call.queries, call.keys_values);
        let gradients = self.places(call.query_gradients, call.key_value_gradients);
        let aligned = places.are_aligned() && gradients.are_aligned();
        let shape = self.shape(&call.core, aligned)?;
        if shape.batch * shape.tokens == 0 {
            return nothing();
        }
        let sums = match call.probabilities {
            Probabilities::LogSumExp(view) => self.at(view),
            Probabilities::Whole { all, kept } => {
                return self.materialised_gradient(call, &shape, [&places, &gradients], (all, kept));
            }
        };
        let rows = shape.batch * shape.tokens * shape.heads;
        let delta = self.scratch("the gradient of attention", 4 * u64::from(rows))?;
        let output_gradient = self.at(call.output_gradient);
        let mut works = Works::from_iter([work(
            Kernel::new(attention::delta(&shape))
                .reads(self.at(call.output))
                .reads(output_gradient)
                .writes(delta)
                .numbers([rows, shape.value_dim]),
        )]);
        let saved =
            |launched| inputs(Kernel::new(launched), &places).reads(output_gradient).reads(sums).reads(delta);
        let kernel = saved(attention::backward_queries(&shape))
            .updates(gradients.queries)
            .number(gradients.query_stride)
            .flag(call.query_write == Into::Add);
        works.push(work(self.core(kernel, &call.core, &shape)?));
        let kernel = saved(attention::backward_keys(&shape))
            .updates(gradients.keys)
            .updates(gradients.values)
            .number(gradients.key_stride)
            .flag(call.key_value_write == Into::Add);
        works.push(work(self.core(kernel, &call.core, &shape)?));
        Ok(works)
    }
}

fn inputs(kernel: Kernel, places: &Places) -> Kernel {
    kernel
        .reads(places.queries)
        .number(places.query_stride)
        .reads(places.keys)
        .reads(places.values)
        .number(places.key_stride)
}
