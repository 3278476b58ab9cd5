//! Adaptive loss weights: norms of a loss's gradient at a layer, the weight that they make, and gradients times it.

use crate::execute::arena::Region;
use crate::execute::comm::Reduction;
use crate::execute::element::Element;
use crate::execute::error::ExecuteError;
use crate::execute::kernels::gradient_norm::{SquareSum, square_sum};
use crate::execute::kernels::residual;
use crate::execute::layout::Section;
use crate::execute::placement::Issue;
use crate::execute::run::Weighing;
use crate::execute::worker::Worker;
use crate::program::instruction::{Holds, Task};
use crate::program::scalars::Scalar;
use crate::units::ElementType;

type Done = Result<(), ExecuteError>;

impl<'r, T: Element, G: Element<Wide = T::Wide>> Worker<'r, T, G> {
    /// One task of a weight that is taken between backward passes, or of the optimizer step.
    pub(in crate::execute) fn weigh(&mut self, issue: &Issue) -> Done {
        match issue.task {
            Task::CopyWatched { watch } => {
                for tensor in &self.rank.watched[usize::from(watch)].tensors {
                    let from = issue.reads[0].elements(tensor.from, tensor.elements, size_of::<G>());
                    let to = issue.writes[0].elements(tensor.to, tensor.elements, size_of::<G>());
                    residual::copy(self.pool, self.read::<G>(from), self.write::<G>(to));
                }
            }
            Task::SumWatched { watch, part } => {
                let range = self.rank.watched[usize::from(watch)].part(part);
                let region = issue.writes[0].elements(range.start, range.len(), size_of::<G>());
                let op = self.collective_of(issue)?;
                let data = self.write::<G>(region);
                self.endpoint(op.group).all_reduce(data, Reduction::sum(G::TYPE))?;
            }
            Task::SumWatchedPartial { watch } => {
                let tensors = &self.rank.watched[usize::from(watch)].tensors;
                for tensor in tensors.iter().filter(|tensor| tensor.parts > 1) {
                    let region = issue.writes[0].elements(tensor.to, tensor.elements, size_of::<G>());
                    self.sum_copies(region, tensor.parts)?;
                }
            }
            Task::WatchedSquares { watch } => self.watched_squares(issue, watch),
            Task::SumWatchedSquares { watch } => {
                let squares = self.scalar_mut(Scalar::Watched { watch });
                let group = self.collective_of(issue)?.group;
                self.endpoint(group).all_reduce(squares, Reduction::sum(ElementType::Fp64))?;
            }
            Task::LossWeight { loss } => {
                let weight = self.loss_weight(loss)?;
                self.scalar_mut(Scalar::Weight { loss, micro: issue.micro })[0] = weight;
            }
            Task::WeighGradient { loss } => {
                residual::scale(self.pool, self.late_weight(issue, loss), self.write::<G>(issue.writes[0]));
            }
            Task::WeighFlow { loss } => {
                residual::scale(self.pool, self.late_weight(issue, loss), self.write::<T>(issue.writes[0]));
            }
            Task::AddGradient { loss, .. } => self.add_gradient(issue, self.late_weight(issue, loss))?,
            _ => return self.optimizer(issue),
        }
        Ok(())
    }

    /// Squares of what this rank counts, of a copy that was summed or of the unit's gradient itself.
    fn watched_squares(&self, issue: &Issue, watch: u8) {
        let is_copy = !issue.frees.is_empty();
        let mut squares = SquareSum::default();
        for tensor in self.rank.watched[usize::from(watch)].tensors.iter().filter(|tensor| tensor.counts) {
            let start = if is_copy { tensor.to } else { tensor.from };
            let region = issue.reads[0].elements(start, tensor.elements, size_of::<G>());
            squares = squares.plus(square_sum(self.pool, self.read::<G>(region)));
        }
        self.scalar_mut(Scalar::Watched { watch }).copy_from_slice(&squares.0);
    }

    /// What the gradient of `loss` is still to be multiplied by: 1 where it started with its weight.
    fn late_weight(&self, issue: &Issue, loss: u8) -> f64 {
        let is_late = self.run.layout.shaped().is_weighed_late(loss);
        if is_late { self.scalar(Scalar::Weight { loss, micro: issue.micro })[0] } else { 1.0 }
    }

    /// The weight of `loss` by the norms of two gradients that were looked at.
    fn loss_weight(&self, loss: u8) -> Result<f64, ExecuteError> {
        let (of, own) = match self.run.weighings[usize::from(loss)] {
            Weighing::Fixed(weight) => return Ok(weight),
            Weighing::Adaptive { of, own } => (of, own),
        };
        // Gradients started with the loss's own weight, which norms leave out.
        let norm = |watch: u8| {
            let started = self.run.layout.shaped().watches()[usize::from(watch)].loss;
            let squares = SquareSum::of(self.scalar(Scalar::Watched { watch }));
            squares.total().sqrt() / self.run.loss_weights[usize::from(started)].abs()
        };
        let weight = (norm(of) / (norm(own) + 1e-4)).clamp(0.0, 1e4);
        if weight.is_finite() {
            return Ok(weight);
        }
        Err(ExecuteError::NotFinite {
            step: self.step,
            value: weight,
            rank: self.rank.index,
            layer: self.run.model.losses[usize::from(loss)].name.clone(),
            what: "adaptive weight".to_owned(),
        })
    }

    /// A unit's own gradient, times `weight`, added to what is kept over the step.
    fn add_gradient(&mut self, issue: &Issue, weight: f64) -> Result<(), ExecuteError> {
        let unit = self.unit(issue)?;
        let held = issue.reads[0];
        for tensor in &unit.tensors.tensors {
            if tensor.section.is_trained() {
                let whole = self.need(issue, "the buffer of its gradient", issue.gradient)?;
                let start = unit.tensors.gradient_start(tensor.section) + tensor.start;
                let piece = |region: Region| region.elements(start, tensor.elements(), size_of::<G>());
                let is_first = self.replaces(issue, unit, tensor.section);
                self.add_weighed(weight, piece(held), piece(whole), is_first);
            }
        }
        let is_behind = held.bytes > unit.tensors.trained() * size_of::<G>();
        let Some(lender) = unit.borrows_from.filter(|_| is_behind) else { return Ok(()) };
        let lender = &self.rank.units[lender];
        let state = self.rank.state(Holds::Gradients, Some(lender.index));
        let state = self.need(issue, "the gradient of the table", state)?;
        let (length, size) = (unit.tensors.borrowed, size_of::<G>());
        let from = held.elements(unit.tensors.trained(), length, size);
        let to = state.device.elements(lender.tensors.gradient_start(Section::Table), length, size);
        let is_first = self.replaces(issue, lender, Section::Table);
        self.add_weighed(weight, from, to, is_first);
        Ok(())
    }

    fn add_weighed(&self, weight: f64, from: Region, to: Region, is_first: bool) {
        let (from, to) = (self.read::<G>(from), self.write::<G>(to));
        if is_first {
            residual::zero(self.pool, to);
        }
        residual::add_scaled(self.pool, weight, from, to);
    }
}
