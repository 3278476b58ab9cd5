//! Norms, and rotary positions.

use super::super::error::CudaError;
use super::super::launch::{norm, rotary};
use super::super::work::{Kernel, Span, Work, Works};
use super::{Encoded, Encoder, nothing, one, small, work};
use crate::execute::call::{NormCall, NormGradientCall, NormWeightCall, RotaryCall, View};
use crate::execute::kernels::norm::Norm;
use crate::execute::kernels::rotary::{Rotary, Turn};
use crate::lower::kernel::Into;
use crate::model::layer::NormKind;

/// Bytes of the statistics of a row.
const STATISTICS: u64 = 8;

impl Encoder<'_> {
    pub(super) fn norm(&self, call: &NormCall) -> Encoded {
        let (rows, width) = rows_of(call.norm, call.input)?;
        if rows == 0 {
            return nothing();
        }
        one(Kernel::new((norm::source(self.types), norm::forward(rows, width)))
            .reads(self.at(call.input))
            .reads_any(self.at_any(call.weight))
            .reads_any(self.at_any(call.bias))
            .writes(self.at(call.output))
            .writes_any(self.at_any(call.statistics))
            .number(width)
            .flag(is_centred(call.norm))
            .number(call.norm.epsilon as f32))
    }

    pub(super) fn norm_gradient(&self, call: &NormGradientCall) -> Encoded {
        let (rows, width) = rows_of(call.norm, call.input)?;
        if rows == 0 {
            return nothing();
        }
        let mut works = Works::new();
        let statistics = self.statistics(&mut works, call.norm, call.input, call.statistics)?;
        let to = self.at(call.input_gradient.view);
        let from = call.output_gradient.map_or(to, |view| self.at(view));
        let adds = call.output_gradient.is_some() && call.input_gradient.write == Into::Add;
        let kernel = Kernel::new((norm::source(self.types), norm::input_gradient(rows, width)))
            .reads(self.at(call.input))
            .reads_any(self.at_any(call.weight))
            .reads(statistics)
            .reads(from);
        let kernel = if adds || from == to { kernel.updates(to) } else { kernel.writes(to) };
        works.push(work(kernel.number(width).flag(is_centred(call.norm)).flag(adds)));
        Ok(works)
    }

    pub(super) fn norm_weight(&self, call: &NormWeightCall) -> Encoded {
        let (rows, width) = rows_of(call.norm, call.input)?;
        let parts = small("a norm's gradient", call.gradient.view.len() / call.norm.width)?;
        let gradient = self.at(call.gradient.view);
        let adds = call.gradient.write == Into::Add;
        let mut works = Works::new();
        if rows == 0 {
            if !adds {
                works.push(Work::Fill { to: gradient, value: 0 });
            }
            return Ok(works);
        }
        let statistics = self.statistics(&mut works, call.norm, call.input, call.statistics)?;
        let own = u64::from(rows) * STATISTICS;
        let bytes = 4 * norm::scratch(rows, width, parts);
        let partials = self.scratch("the sums of a norm's gradient", own + bytes)?.behind(own);
        let source = norm::source(self.types);
        works.push(work(
            Kernel::new((source.clone(), norm::weight_partials(rows, width)))
                .reads(self.at(call.input))
                .reads(statistics)
                .reads(self.at(call.output_gradient))
                .writes(partials)
                .numbers([rows, width, norm::rows_per_block(rows), parts]),
        ));
        let kernel = Kernel::new((source, norm::weight_gradient(width, parts))).reads(partials);
        let kernel = if adds { kernel.updates(gradient) } else { kernel.writes(gradient) };
        works.push(work(kernel.numbers([norm::partial_rows(rows), width * parts]).flag(adds)));
        Ok(works)
    }

    /// Those that were kept, or else made again at the start of the scratch.
    fn statistics(
        &self,
        works: &mut Works,
        norm: Norm,
        input: View,
        kept: Option<View>,
    ) -> Result<Span, CudaError> {
        if let Some(view) = kept {
            return Ok(self.at(view));
        }
        let (rows, width) = rows_of(norm, input)?;
        let statistics = self.scratch("the statistics of a norm", u64::from(rows) * STATISTICS)?;
        works.push(work(
            Kernel::new((norm::source(self.types), norm::statistics(rows, width)))
                .reads(self.at(input))
                .writes(statistics)
                .number(width)
                .flag(is_centred(norm))
                .number(norm.epsilon as f32),
        ));
        Ok(statistics)
    }

    pub(super) fn rotary(&self, call: &RotaryCall) -> Encoded {
        let tokens = small("tokens", call.data.len() / call.heads.stride.max(1))?;
        let [stride, heads, head_dim] = [call.heads.stride, call.heads.heads, call.heads.head_dim]
            .map(|count| small("columns of heads", count));
        let (stride, heads, head_dim) = (stride?, heads?, head_dim?);
        let pairs = small("rotary pairs", call.dim / 2)?;
        if tokens == 0 || heads == 0 || pairs == 0 {
            return nothing();
        }
        if pairs > rotary::MOST_PAIRS {
            return Err(CudaError::Unsupported(format!(
                "{pairs} rotary pairs a head (at most {})",
                rotary::MOST_PAIRS
            )));
        }
        let turned = Rotary { theta: call.theta, dim: call.dim, scaling: &call.scaling };
        let frequencies = (0..call.dim / 2).flat_map(|pair| turned.frequency::<f32>(pair).to_le_bytes());
        let frequencies = self.memory.constant(frequencies.collect())?;
        let sequence = small("tokens of a sequence", self.memory.indices(call.positions).len())?;
        one(Kernel::new((rotary::source(self.types), rotary::turn(tokens, heads, pairs)))
            .updates(self.at(call.data))
            .reads(self.memory.list(call.positions)?)
            .reads(frequencies)
            .numbers([sequence, stride, heads, head_dim, pairs])
            .flag(call.turn == Turn::Backward))
    }
}

fn rows_of(norm: Norm, input: View) -> Result<(u32, u32), CudaError> {
    Ok((small("rows", input.len() / norm.width.max(1))?, small("a row", norm.width)?))
}

fn is_centred(norm: Norm) -> bool {
    matches!(norm.kind, NormKind::Layer)
}
