//! The optimizer step and what it is made by.

use super::super::launch::{adamw, elementwise, gradient_norm};
use super::super::work::{Kernel, Span, Work, Works};
use super::{Encoded, Encoder, KernelTypes, nothing, one, small, types_of, work};
use crate::execute::call::{AdamWCall, Call, View};

/// Bytes of one row of a sum of squares.
const SUM: u64 = 8 * gradient_norm::BINS as u64;

impl Encoder<'_> {
    pub(super) fn update(&self, call: &Call) -> Encoded {
        // These have no values of the run's types.
        let numbers = || gradient_norm::source(KernelTypes::F32);
        match call {
            Call::Squares { parts, squares } => self.squares(parts, self.at(*squares)),
            Call::ClipFactor { squares, limit, clip } => one(Kernel::new((numbers(), gradient_norm::clip()))
                .reads(self.at(*squares))
                .writes(self.at(*clip))
                .number(*limit)),
            Call::LossWeight(call) => one(Kernel::new((numbers(), gradient_norm::loss_weight()))
                .reads(self.at(call.of.0))
                .number(call.of.1)
                .reads(self.at(call.own.0))
                .number(call.own.1)
                .writes(self.at(call.weight))),
            Call::SetNumber { number, to } => {
                one(Kernel::new((elementwise::source(KernelTypes::F32), elementwise::set_number()))
                    .writes(self.at(*to))
                    .number(*number))
            }
            Call::AdamW(call) => self.adamw(call),
            _ => unreachable!("{call:?} is no update"),
        }
    }

    fn squares(&self, parts: &[View], to: Span) -> Encoded {
        let parts: Vec<&View> = parts.iter().filter(|part| !part.is_empty()).collect();
        let Some(last) = parts.last() else {
            return Ok(Works::from_iter([Work::Fill { to, value: 0 }]));
        };
        let launches: Vec<_> = parts.iter().map(|part| gradient_norm::squares(part.len() as u64)).collect();
        let rows: u64 = launches.iter().map(|launch| u64::from(launch.grid[0])).sum();
        let mut works = Works::new();
        let partials = self.scratch("squares of gradients", rows * SUM)?;
        let mut rest = partials;
        for (part, launch) in parts.iter().zip(launches) {
            let own = u64::from(launch.grid[0]) * SUM;
            works.push(work(
                Kernel::new((gradient_norm::source(types_of(part.storage)?), launch))
                    .reads(self.at(**part))
                    .writes(rest.first(own))
                    .number(part.len() as u64),
            ));
            rest = rest.behind(own);
        }
        works.push(work(
            Kernel::new((gradient_norm::source(types_of(last.storage)?), gradient_norm::sum()))
                .reads(partials)
                .writes(to)
                .number(small("sums", rows as usize)?),
        ));
        Ok(works)
    }

    fn adamw(&self, call: &AdamWCall) -> Encoded {
        let count = call.parameters.len() as u64;
        if count == 0 {
            return nothing();
        }
        let [first, second] = call.moments.map(|view| self.at(view));
        let (source, parameters) = (adamw::source(self.types), self.at(call.parameters));
        let kernel = match call.master {
            Some(master) => Kernel::new((source, adamw::master(count)))
                .reads(self.at(call.gradient))
                .updates(self.at(master))
                .updates(first)
                .updates(second)
                .writes(parameters),
            None => Kernel::new((source, adamw::parameters(count)))
                .reads(self.at(call.gradient))
                .updates(parameters)
                .updates(first)
                .updates(second),
        };
        let update = &call.update;
        one(kernel
            .number(count)
            .reads(self.at(update.scalars))
            .number(small("losses of a step", update.losses)?)
            .number(update.betas.0)
            .number(update.betas.1)
            .number(update.epsilon)
            .number(update.weight_decay))
    }
}
