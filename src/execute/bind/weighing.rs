//! Adaptive loss weights: norms of a loss's gradient at a layer, the weight that they make, and gradients times it.

use super::collectives::sum_of;
use super::{Binder, Done};
use crate::execute::call::{Call, Exchange, LossWeightCall, View, Weight};
use crate::execute::comm::Peers;
use crate::execute::ranks::layout::Section;
use crate::execute::ranks::placement::Issue;
use crate::execute::run::Weighing;
use crate::ops::Group;
use crate::program::instruction::{Holds, Task};
use crate::program::scalars::Scalar;

impl Binder<'_> {
    /// One task of a weight that is taken between backward passes.
    pub(super) fn weigh(&mut self, issue: &Issue) -> Done {
        match issue.task {
            Task::CopyWatched { watch } => {
                let (from, to) =
                    (self.gradients(self.read(issue, 0)?), self.gradients(self.written(issue, 0)?));
                for tensor in &self.rank.watched[usize::from(watch)].tensors {
                    let from = self.part(issue, from, tensor.from..tensor.from + tensor.elements)?;
                    let to = self.part(issue, to, tensor.to..tensor.to + tensor.elements)?;
                    self.push(Call::Copy { from, to });
                }
            }
            Task::SumWatched { watch, part } => {
                let range = self.rank.watched[usize::from(watch)].part(part);
                let data = self.part(issue, self.gradients(self.written(issue, 0)?), range)?;
                self.sum(self.collective_of(issue)?.group, data);
            }
            Task::SumWatchedPartial { watch } => {
                let copy = self.gradients(self.written(issue, 0)?);
                let tensors = &self.rank.watched[usize::from(watch)].tensors;
                for tensor in tensors.iter().filter(|tensor| tensor.parts > 1) {
                    let data = self.part(issue, copy, tensor.to..tensor.to + tensor.elements)?;
                    self.sum_copies(data, tensor.parts);
                }
            }
            Task::WatchedSquares { watch } => self.watched_squares(issue, watch)?,
            Task::SumWatchedSquares { watch } => {
                self.sum(self.collective_of(issue)?.group, self.scalar(Scalar::Watched { watch }));
            }
            Task::LossWeight { loss } => self.loss_weight(issue, loss),
            Task::WeighGradient { loss } => {
                let (weight, data) = (self.late_weight(issue, loss), self.gradients(self.written(issue, 0)?));
                self.push(Call::Scale { weight, data });
            }
            Task::WeighFlow { loss } => {
                let (weight, data) =
                    (self.late_weight(issue, loss), self.activations(self.written(issue, 0)?));
                self.push(Call::Scale { weight, data });
            }
            Task::AddGradient { loss, .. } => self.add_gradient(issue, self.late_weight(issue, loss))?,
            _ => return Err(self.missing(issue, "its part of a weight")),
        }
        Ok(())
    }

    fn sum(&mut self, group: Group, data: View) {
        let exchange = Exchange::AllReduce { data, reduction: sum_of(data) };
        self.push(Call::Collective { group, exchange });
    }

    /// Squares of what this rank counts, of a copy that was summed or of the unit's gradient itself.
    fn watched_squares(&mut self, issue: &Issue, watch: u8) -> Done {
        let is_copy = !issue.frees.is_empty();
        let from = self.gradients(self.read(issue, 0)?);
        let mut parts = Vec::new();
        for tensor in self.rank.watched[usize::from(watch)].tensors.iter().filter(|tensor| tensor.counts) {
            let start = if is_copy { tensor.to } else { tensor.from };
            parts.push(self.part(issue, from, start..start + tensor.elements)?);
        }
        let squares = self.scalar(Scalar::Watched { watch });
        self.push(Call::Squares { parts: parts.into(), squares });
        Ok(())
    }

    /// What the gradient of `loss` is still to be multiplied by: nothing where it started with its weight.
    fn late_weight(&self, issue: &Issue, loss: u8) -> Weight {
        let is_late = self.run.layout.shaped().is_weighed_late(loss);
        is_late.then(|| self.scalar(Scalar::Weight { loss, micro: issue.micro }))
    }

    /// The weight of `loss`: one that is known, or by the norms of two gradients that were looked at.
    fn loss_weight(&mut self, issue: &Issue, loss: u8) {
        let weight = self.scalar(Scalar::Weight { loss, micro: issue.micro });
        let (of, own) = match self.run.weighings[usize::from(loss)] {
            Weighing::Fixed(number) => return self.push(Call::SetNumber { number, to: weight }),
            // Norms of made-up gradients say nothing, and might not be finite.
            Weighing::Adaptive { .. } if self.run.settings.peers == Peers::Absent => {
                return self.push(Call::SetNumber { number: 1.0, to: weight });
            }
            Weighing::Adaptive { of, own } => (of, own),
        };
        // Gradients started with the loss's own weight, which norms leave out.
        let squares = |watch: u8| {
            let started = self.run.layout.shaped().watches()[usize::from(watch)].loss;
            (self.scalar(Scalar::Watched { watch }), self.run.loss_weights[usize::from(started)].abs())
        };
        let call = LossWeightCall {
            of: squares(of),
            own: squares(own),
            weight,
            loss: self.run.model.losses[usize::from(loss)].name.clone(),
        };
        self.push(Call::LossWeight(Box::new(call)));
    }

    /// A unit's own gradient, times `weight`, added to what is kept over the step.
    fn add_gradient(&mut self, issue: &Issue, weight: Weight) -> Done {
        let unit = self.unit(issue)?;
        let (held, whole) = (self.gradients(self.read(issue, 0)?), self.whole_gradient(issue));
        for tensor in &unit.tensors.tensors {
            if tensor.section.is_trained() {
                let start = unit.tensors.gradient_start(tensor.section) + tensor.start;
                let range = start..start + tensor.elements();
                let from = self.part(issue, held, range.clone())?;
                let to = match &whole {
                    Ok(whole) => self.part(issue, *whole, range)?,
                    Err(_) => return Err(self.missing(issue, "the buffer of its gradient")),
                };
                self.add_weighed(weight, (from, to), self.replaces(issue, unit, tensor.section));
            }
        }
        let own = unit.tensors.trained();
        let Some(lender) = unit.borrows_from.filter(|_| held.len() > own) else { return Ok(()) };
        let lender = &self.rank.units[lender];
        let state = self.rank.state(Holds::Gradients, Some(lender.index));
        let state = self.need(issue, "the gradient of the table", state)?;
        let length = unit.tensors.borrowed;
        let from = self.part(issue, held, own..own + length)?;
        let start = lender.tensors.gradient_start(Section::Table);
        let to = self.part(issue, self.gradients(state.device), start..start + length)?;
        self.add_weighed(weight, (from, to), self.replaces(issue, lender, Section::Table));
        Ok(())
    }

    fn add_weighed(&mut self, weight: Weight, (from, to): (View, View), is_first: bool) {
        if is_first {
            self.push(Call::Zero { to });
        }
        self.push(Call::AddScaled { weight, from, to });
    }
}
