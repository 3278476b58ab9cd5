//! Mixtures of experts: tokens into slots and back, and what each expert computes of its slots.
//!
//! Slots lie in **blocks**, one for each expert and group of tokens that routed to it: first the slots' rows, then,
//! where they travel along, their weights.

use std::ops::Range;

use super::Done;
use crate::execute::element::Element;
use crate::execute::error::ExecuteError;
use crate::execute::kernels::routing::{self, Carried, Router};
use crate::execute::kernels::{activation, linear};
use crate::execute::matrix::{Matrix as View, MatrixMut};
use crate::execute::placement::Issue;
use crate::execute::pool::Pool;
use crate::execute::worker::Worker;
use crate::lower::Shape;
use crate::lower::kernel::{Into, Kernel, Matrix};
use crate::model::layer::{LayerKind, Moe};

/// Sizes of one rank's part of a layer.
#[derive(Clone, Copy)]
pub struct Sizes {
    hidden: usize,
    /// Width inside one expert on this rank.
    width: usize,
    slots: usize,
    /// Experts on this rank.
    experts: usize,
    /// Tokens that this rank routes, among those that it has.
    first_token: usize,
    tokens: usize,
    gated: bool,
}

impl<'r, T: Element, G: Element<Wide = T::Wide>> Worker<'r, T, G> {
    fn moe_layer(&self, issue: &Issue, layer: u16) -> Result<&'r Moe, ExecuteError> {
        match self.layer(issue, layer)? {
            LayerKind::Moe(moe) => Ok(moe),
            _ => Err(self.missing(issue, "its layer of experts")),
        }
    }

    fn moe_sizes(&self, layer: &Moe) -> Sizes {
        let run = self.run;
        let shape = Shape::new(&run.strategy, &run.workload, run.engine);
        let tokens = shape.routed_tokens() as usize;
        let splits = tokens < shape.stream_tokens() as usize;
        Sizes {
            hidden: layer.hidden as usize,
            width: (layer.intermediate / shape.expert_tensor) as usize,
            slots: shape.slots(layer.experts, layer.top_k) as usize,
            experts: (layer.experts / shape.expert) as usize,
            first_token: if splits { self.rank.slot.tensor as usize * tokens } else { 0 },
            tokens,
            gated: layer.gated,
        }
    }

    fn router(&self, layer: &Moe) -> Router {
        Router {
            experts: layer.experts as usize,
            top_k: layer.top_k as usize,
            renormalise: self.run.model.constants.router.renormalised,
            slots: self.moe_sizes(layer).slots,
        }
    }

    /// Kernels of experts and of what stands around them.
    pub(in crate::execute) fn expert_kernel(&mut self, issue: &Issue, kernel: Kernel, number: u16) -> Done {
        let layer = self.moe_layer(issue, number)?;
        let sizes = self.moe_sizes(layer);
        let router = self.router(layer);
        let pool = self.pool;
        let rows = sizes.routed();
        match kernel {
            Kernel::Permute | Kernel::CombineGradient => {
                let carried = if kernel == Kernel::Permute { Carried::Weights } else { Carried::Nothing };
                let tokens = &self.read::<T>(issue.reads[0])[rows];
                let assigned = self.read::<T::Wide>(issue.reads[1]);
                let slots = self.write::<T>(issue.writes[0]);
                routing::to_slots(&router, assigned, tokens, slots, carried, pool);
            }
            Kernel::Combine | Kernel::PermuteGradient => {
                let carried = if kernel == Kernel::Combine { Carried::Nothing } else { Carried::Weights };
                let slots = self.read::<T>(issue.reads[0]);
                let assigned = self.read::<T::Wide>(issue.reads[1]);
                let all = self.write::<T>(issue.writes[0]);
                all.fill(T::default());
                let tokens = &mut all[rows];
                routing::from_slots(&router, assigned, slots, tokens, carried, pool);
                if kernel == Kernel::PermuteGradient {
                    let gradient = self.write::<T::Wide>(issue.writes[1]);
                    routing::router_gradient(&router, assigned, (slots, sizes.hidden), gradient, pool);
                }
            }
            Kernel::ExpertActivation => {
                let (gate, rest) = issue.reads.split_at(usize::from(sizes.gated));
                let gate = gate.first().map(|gate| self.read::<T>(*gate));
                let (up, input) = (self.read::<T>(rest[0]), self.read::<T>(rest[1]));
                let output = self.write::<T>(issue.writes[0]);
                sizes.check(input, &[Some(up), Some(&*output), gate]);
                let length = sizes.slots * sizes.width;
                for (block, output) in output.chunks_exact_mut(length.max(1)).enumerate() {
                    let rows = block_of(block, length);
                    let gate = gate.map(|gate| &gate[rows.clone()]);
                    activate(pool, layer, gate, &up[rows], output);
                    let weights = &input[sizes.weights(block)];
                    for (row, weight) in output.chunks_exact_mut(sizes.width).zip(weights) {
                        let weight = weight.wide();
                        row.iter_mut().for_each(|value| *value = T::narrow(value.wide() * weight));
                    }
                }
            }
            Kernel::ExpertActivationGradient => self.expert_activation_gradient(issue, layer, &sizes),
            _ => return Err(self.missing(issue, "its kernel for experts")),
        }
        Ok(())
    }

    /// Of a·w, with a the activation and w a slot's weight: the gradients of gate, up and w.
    fn expert_activation_gradient(&mut self, issue: &Issue, layer: &Moe, sizes: &Sizes) {
        let pool = self.pool;
        let gradient = self.read::<T>(issue.reads[0]);
        let (up, input) = (self.read::<T>(issue.reads[1]), self.read::<T>(issue.reads[2]));
        let gate = issue.reads.get(3).filter(|_| sizes.gated).map(|gate| self.read::<T>(*gate));
        let up_gradient = self.write::<T>(issue.writes[0]);
        let gate_gradient = sizes.gated.then(|| self.write::<T>(issue.writes[1]));
        let input_gradient = self.write::<T>(issue.writes[usize::from(sizes.gated) + 1]);
        sizes.check(input, &[Some(up), Some(gradient), Some(&*up_gradient), gate, gate_gradient.as_deref()]);
        sizes.check(input_gradient, &[Some(up)]);
        let length = sizes.slots * sizes.width;
        let mut gate_blocks = gate_gradient.map(|gate| gate.chunks_exact_mut(length.max(1)));
        for (block, up_gradient) in up_gradient.chunks_exact_mut(length.max(1)).enumerate() {
            let rows = block_of(block, length);
            let gate = gate.map(|gate| &gate[rows.clone()]);
            let gate_gradient = gate_blocks.as_mut().and_then(Iterator::next);
            let (up, gradient) = (&up[rows.clone()], &gradient[rows]);
            // The activation itself, for the weight's gradient, where the up gradient will be.
            activate(pool, layer, gate, up, up_gradient);
            let target = &mut input_gradient[sizes.weights(block)];
            let products = up_gradient.chunks_exact(sizes.width).zip(gradient.chunks_exact(sizes.width));
            for (target, (activated, gradient)) in target.iter_mut().zip(products) {
                let sum: T::Wide = activated.iter().zip(gradient).map(|(a, g)| a.wide() * g.wide()).sum();
                *target = T::narrow(sum);
            }
            let weights = &input[sizes.weights(block)];
            let scaled = up_gradient.chunks_exact_mut(sizes.width).zip(gradient.chunks_exact(sizes.width));
            for ((to, from), weight) in scaled.zip(weights) {
                let weight = weight.wide();
                to.iter_mut().zip(from).for_each(|(to, from)| *to = T::narrow(from.wide() * weight));
            }
            let function = layer.activation;
            match (gate, gate_gradient) {
                (Some(gate), Some(dgate)) => {
                    activation::gated_backward(pool, function, (gate, up), (dgate, up_gradient));
                }
                _ => activation::backward(pool, function, up, up_gradient),
            }
        }
    }

    /// A product with one matrix of each expert, block by block.
    pub(in crate::execute) fn expert_product(&mut self, issue: &Issue, kernel: Kernel, number: u16) -> Done {
        let (Kernel::Linear(matrix) | Kernel::InputGradient(matrix, _) | Kernel::WeightGradient(matrix)) =
            kernel
        else {
            return Err(self.missing(issue, "its matrix"));
        };
        let layer = self.moe_layer(issue, number)?;
        let sizes = self.moe_sizes(layer);
        let (slots, pool, scratch) = (sizes.slots, self.pool, self.workspace());
        // Rows of slots on their way into experts carry their weights behind them.
        let (role, depth, outputs, carried) = match matrix {
            Matrix::ExpertDown => ("expert down", sizes.width, sizes.hidden, 0),
            _ => ("expert up", sizes.hidden, sizes.width, slots),
        };
        let lengths = (slots * depth + carried, slots * outputs);
        let blocks = |x: usize, y: usize| {
            let blocks = whole_blocks(x, lengths.0);
            assert_eq!(whole_blocks(y, lengths.1), blocks, "blocks of slots");
            blocks
        };
        let inputs = |block: usize| block * lengths.0..block * lengths.0 + slots * depth;
        let results = |block: usize| block_of(block, lengths.1);
        match kernel {
            Kernel::Linear(_) => {
                let weights = self.weight(issue, number, role)?;
                let (x, y) = (self.read::<T>(issue.reads[0]), self.write::<T>(issue.writes[0]));
                for block in 0..blocks(x.len(), y.len()) {
                    let weight = &weights[sizes.matrix(matrix, block)];
                    let x = View::new(&x[inputs(block)], depth);
                    let y = MatrixMut::new(&mut y[results(block)], outputs);
                    linear::forward(pool, x, weight, None, (y, Into::Set), scratch);
                }
            }
            Kernel::InputGradient(_, into) => {
                let weights = self.weight(issue, number, role)?;
                let (dy, dx) = (self.read::<T>(issue.reads[0]), self.write::<T>(issue.writes[0]));
                for block in 0..blocks(dx.len(), dy.len()) {
                    let weight = &weights[sizes.matrix(matrix, block)];
                    let dy = View::new(&dy[results(block)], outputs);
                    let dx = MatrixMut::new(&mut dx[inputs(block)], depth);
                    linear::input_gradient(pool, dy, weight, (dx, into), scratch);
                }
            }
            _ => {
                let (x, dy) = (self.read::<T>(issue.reads[0]), self.read::<T>(issue.reads[1]));
                let (gradient, write) = self.needed_gradient(issue, number, role)?;
                if write == Into::Set {
                    let experts = 0..sizes.experts.max(1);
                    experts.for_each(|expert| gradient[sizes.matrix(matrix, expert)].fill(G::default()));
                }
                for block in 0..blocks(x.len(), dy.len()) {
                    let x = View::new(&x[inputs(block)], depth);
                    let dy = View::new(&dy[results(block)], outputs);
                    let gradient = &mut gradient[sizes.matrix(matrix, block)];
                    linear::weight_gradient(pool, dy, x, (gradient, Into::Add), scratch);
                }
            }
        }
        Ok(())
    }

    /// The elements of the residual stream that are tokens which this rank routes.
    pub(in crate::execute) fn routed(
        &self,
        issue: &Issue,
        number: u16,
    ) -> Result<Range<usize>, ExecuteError> {
        Ok(self.moe_sizes(self.moe_layer(issue, number)?).routed())
    }

    pub(in crate::execute) fn router_of(&self, issue: &Issue, number: u16) -> Result<Router, ExecuteError> {
        Ok(self.router(self.moe_layer(issue, number)?))
    }
}

impl Sizes {
    /// Whether what experts have inside is as many blocks as `slots`, which carry their weights.
    fn check<T>(&self, slots: &[T], inside: &[Option<&[T]>]) {
        let blocks = whole_blocks(slots.len(), self.slots * (self.hidden + 1));
        for values in inside.iter().flatten() {
            assert_eq!(
                values.len(),
                blocks * self.slots * self.width,
                "elements of {blocks} blocks of slots"
            );
        }
    }

    /// The elements of the tokens that this rank routes.
    const fn routed(&self) -> Range<usize> {
        self.first_token * self.hidden..(self.first_token + self.tokens) * self.hidden
    }

    /// Where the weights of block `block` lie among blocks of slots that carry them.
    const fn weights(&self, block: usize) -> Range<usize> {
        let length = self.slots * (self.hidden + 1);
        block * length + self.slots * self.hidden..(block + 1) * length
    }

    /// The elements of `matrix` of the expert of block `block` among those of its role. Blocks repeat the experts
    /// of this rank; gate and up of an expert are rows of one role, the gate first.
    fn matrix(&self, matrix: Matrix, block: usize) -> Range<usize> {
        let expert = block % self.experts.max(1);
        let length = self.hidden * self.width;
        let (parts, part) = match (matrix, self.gated) {
            (Matrix::ExpertGate, _) => (2, 0),
            (Matrix::ExpertUp, true) => (2, 1),
            _ => (1, 0),
        };
        let start = (expert * parts + part) * length;
        start..start + length
    }
}

/// How many blocks of `length` elements `elements` are.
fn whole_blocks(elements: usize, length: usize) -> usize {
    let length = length.max(1);
    assert!(elements.is_multiple_of(length), "{elements} elements are no whole blocks of {length}");
    elements / length
}

fn activate<T: Element>(pool: Pool<'_>, layer: &Moe, gate: Option<&[T]>, up: &[T], to: &mut [T]) {
    let function = layer.activation;
    match gate {
        Some(gate) => activation::gated_forward(pool, function, (gate, up), to),
        None => activation::forward(pool, function, up, to),
    }
}

const fn block_of(block: usize, length: usize) -> Range<usize> {
    block * length..(block + 1) * length
}
