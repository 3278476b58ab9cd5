//! Rows of tables.

use super::super::launch::embedding;
use super::super::work::{Kernel, Span};
use super::{CudaError, Encoded, Encoder, nothing, one, small};
use crate::execute::call::{Call, Indices};
use crate::lower::kernel::Into;

impl Encoder<'_> {
    pub(super) fn embedding(&self, call: &Call) -> Encoded {
        match call {
            Call::Embed { table, first_row, width, indices, output } => {
                let (rows, indices) = self.indices(indices)?;
                let shard = small("rows of a table", table.len() / (*width).max(1))?;
                let (width, first) = (small("a row", *width)?, small("rows of a table", *first_row)?);
                if rows == 0 {
                    return nothing();
                }
                let adds = output.write == Into::Add;
                let kernel = Kernel::new((embedding::source(self.types), embedding::forward(rows, width)))
                    .reads(self.at(*table))
                    .reads(indices);
                let to = self.at(output.view);
                let kernel = if adds { kernel.updates(to) } else { kernel.writes(to) };
                one(kernel.numbers([rows, width, first, shard]).flag(adds))
            }
            Call::EmbedGradient { indices, output_gradient, table, first_row, width } => {
                let (rows, indices) = self.indices(indices)?;
                let shard = small("rows of a table", table.len() / (*width).max(1))?;
                let (width, first) = (small("a row", *width)?, small("rows of a table", *first_row)?);
                if rows == 0 {
                    return nothing();
                }
                one(Kernel::new((embedding::source(self.types), embedding::gradient(rows, width)))
                    .reads(indices)
                    .reads(self.at(*output_gradient))
                    .updates(self.at(*table))
                    .numbers([rows, width, first, shard]))
            }
            _ => unreachable!("{call:?} is no embedding"),
        }
    }

    fn indices(&self, indices: &Indices) -> Result<(u32, Span), CudaError> {
        match *indices {
            Indices::View(view) => Ok((small("indices", view.len())?, self.at(view))),
            Indices::List(list) => {
                Ok((small("indices", self.memory.indices(list).len())?, self.memory.list(list)?))
            }
        }
    }
}
