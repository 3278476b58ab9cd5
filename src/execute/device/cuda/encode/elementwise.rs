//! Residual sums, dropout, copies and what else goes element by element.

use super::super::launch::{dropout, elementwise, quantise, residual};
use super::super::work::{Kernel, Span, Work, Works};
use super::{CudaError, Encoded, Encoder, nothing, one, small, types_of};
use crate::execute::call::{Call, Columns, List, ResidualCall, RowDropout, View};
use crate::execute::kernels::quantise::Bits;

impl Encoder<'_> {
    pub(super) fn elementwise(&self, call: &Call) -> Encoded {
        match call {
            Call::CopyColumns { from, to } => self.copy_columns(from, to),
            Call::Residual(call) => self.residual(call),
            Call::Dropout { dropout: of, data } => {
                let (rows, width) = (small("rows", data.len() / of.width)?, small("a row", of.width)?);
                if rows == 0 {
                    return nothing();
                }
                let kernel = Kernel::new((dropout::source(self.types), dropout::rows(rows, width)))
                    .updates(self.at(*data))
                    .numbers([rows, width]);
                one(self.dropped(kernel, Some(of))?)
            }
            Call::Copy { from, to } if from.is_empty() || from == to => nothing(),
            Call::Copy { from, to } => {
                assert_eq!(from.storage, to.storage, "a copy's types");
                Ok(Works::from_iter([Work::Copy { from: self.at(*from), to: self.at(*to) }]))
            }
            Call::Zero { to } | Call::Poison { to } if to.is_empty() => nothing(),
            Call::Zero { to } => Ok(Works::from_iter([Work::Fill { to: self.at(*to), value: 0 }])),
            Call::Poison { to } => Ok(Works::from_iter([Work::Fill { to: self.at(*to), value: 0xff }])),
            Call::Add { to, .. } | Call::AddScaled { to, .. } if to.is_empty() => nothing(),
            Call::Add { from, to } => {
                let count = to.len() as u64;
                one(Kernel::new((elementwise::source(types_of(to.storage)?), elementwise::add(count)))
                    .reads(self.at(*from))
                    .updates(self.at(*to))
                    .number(count))
            }
            Call::Scale { data, .. } if data.is_empty() => nothing(),
            Call::Scale { weight, data } => {
                let count = data.len() as u64;
                one(Kernel::new((elementwise::source(types_of(data.storage)?), elementwise::scale(count)))
                    .reads_any(self.at_any(*weight))
                    .updates(self.at(*data))
                    .number(count))
            }
            Call::AddScaled { weight, from, to } => {
                let count = to.len() as u64;
                one(Kernel::new((elementwise::source(types_of(to.storage)?), elementwise::add_scaled(count)))
                    .reads_any(self.at_any(*weight))
                    .reads(self.at(*from))
                    .updates(self.at(*to))
                    .number(count))
            }
            Call::Quantise { bits, from, to } => {
                let count = from.len() as u64;
                if count == 0 {
                    return nothing();
                }
                one(Kernel::new((quantise::source(self.types, count_of(*bits)), quantise::quantise(count)))
                    .reads(self.at(*from))
                    .writes(self.at(*to))
                    .number(count))
            }
            Call::Dequantise { bits, from, to } => {
                let count = to.len() as u64;
                if count == 0 {
                    return nothing();
                }
                one(Kernel::new((quantise::source(self.types, count_of(*bits)), quantise::dequantise(count)))
                    .reads(self.at(*from))
                    .writes(self.at(*to))
                    .number(count))
            }
            _ => unreachable!("{call:?} is not elementwise"),
        }
    }

    /// Leaves the place of the first value that is not finite at `place`, which is filled with 255 before.
    ///
    /// # Errors
    /// If there is no kernel for the values' type.
    pub fn find_not_finite(&self, values: View, place: Span) -> Result<Work, CudaError> {
        let count = values.len() as u64;
        let launched = (elementwise::source(types_of(values.storage)?), elementwise::check(count));
        let kernel = Kernel::new(launched).reads(self.at(values)).number(count).updates(place);
        Ok(Work::Kernel(Box::new(kernel)))
    }

    fn copy_columns(&self, from: &Columns, to: &Columns) -> Encoded {
        assert_eq!(from.columns, to.columns, "columns");
        let rows = small("rows", to.view.len() / to.stride.max(1))?;
        if rows == 0 || to.columns == 0 {
            return nothing();
        }
        let columns = small("columns", to.columns)?;
        let mut kernel = Kernel::new((
            elementwise::source(types_of(to.view.storage)?),
            elementwise::copy_columns(rows, columns),
        ))
        .reads(self.at(from.view))
        .updates(self.at(to.view))
        .numbers([rows, columns]);
        for side in [from, to] {
            kernel = kernel.numbers([small("columns", side.stride)?, small("columns", side.first)?]);
        }
        one(kernel)
    }

    fn residual(&self, call: &ResidualCall) -> Encoded {
        let (rows, width) = (small("rows", call.output.len() / call.width)?, small("a row", call.width)?);
        if rows == 0 {
            return nothing();
        }
        let kernel = Kernel::new((residual::source(self.types), residual::forward(rows, width)))
            .reads(self.at(call.stream))
            .reads(self.at(call.branch))
            .reads_any(self.at_any(call.bias));
        let to = self.at(call.output);
        let in_place = call.output == call.stream || call.output == call.branch;
        let kernel = if in_place { kernel.updates(to) } else { kernel.writes(to) };
        one(self.dropped(kernel.numbers([rows, width]), call.dropout.as_ref())?)
    }

    /// The arguments that say what is dropped out.
    fn dropped(&self, kernel: Kernel, of: Option<&RowDropout>) -> Result<Kernel, CudaError> {
        let Some(of) = of else {
            let kernel = kernel.reads_any(None).reads_any(None);
            return Ok(kernel.number(0u64).number(0u64).number(0u64).number(1f32));
        };
        let kernel = kernel.reads(self.at(of.scalars)).reads(self.memory.list(List::StreamRows)?);
        Ok(kernel
            .number(of.start)
            .number(of.site)
            .number(dropout::threshold(of.rate))
            .number(dropout::scale(of.rate)))
    }
}

const fn count_of(bits: Bits) -> u32 {
    match bits {
        Bits::Eight => 8,
        Bits::Four => 4,
    }
}
