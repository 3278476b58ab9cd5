//! Mixtures of experts: tokens into slots and back, and what each expert computes of its slots.
//!
//! Slots lie in **blocks**, one for each expert and group of tokens that routed to it: first the slots' rows, then,
//! where they travel along, their weights.

use std::ops::Range;

use super::linear::{plain, transposed};
use super::{Binder, Done};
use crate::execute::call::{
    Blocks, Call, Columns, ExpertActivationCall, ExpertActivationGradientCall, Target, View,
};
use crate::execute::error::ExecuteError;
use crate::execute::kernels::routing::{Carried, Router};
use crate::execute::ranks::placement::Issue;
use crate::lower::Shape;
use crate::lower::kernel::{Into, Kernel, Matrix};
use crate::model::layer::{LayerKind, Moe};
use crate::model::roles::Role;

/// Sizes of one rank's part of a layer.
#[derive(Clone, Copy)]
struct Sizes {
    blocks: Blocks,
    /// Experts on this rank.
    experts: usize,
    /// Tokens that this rank routes, among those that it has.
    first_token: usize,
    tokens: usize,
    gated: bool,
}

impl<'a> Binder<'a> {
    fn moe_layer(&self, issue: &Issue, layer: u16) -> Result<&'a Moe, ExecuteError> {
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
            blocks: Blocks {
                slots: shape.slots(layer.experts, layer.top_k) as usize,
                hidden: layer.hidden as usize,
                width: (layer.intermediate / shape.expert_tensor) as usize,
            },
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
            slots: self.moe_sizes(layer).blocks.slots,
        }
    }

    /// Kernels of experts and of what stands around them.
    pub(super) fn expert_kernel(&mut self, issue: &Issue, kernel: Kernel, number: u16) -> Done {
        let layer = self.moe_layer(issue, number)?;
        let sizes = self.moe_sizes(layer);
        let router = self.router(layer);
        match kernel {
            Kernel::Permute | Kernel::CombineGradient => {
                let carried = if kernel == Kernel::Permute { Carried::Weights } else { Carried::Nothing };
                let tokens = self.routed(issue, number, self.activations(self.read(issue, 0)?))?;
                let assigned = self.wide(self.read(issue, 1)?);
                let slots = self.activations(self.written(issue, 0)?);
                self.push(Call::ToSlots { router, assigned, tokens, slots, carried });
            }
            Kernel::Combine | Kernel::PermuteGradient => {
                let carried = if kernel == Kernel::Combine { Carried::Nothing } else { Carried::Weights };
                let slots = self.activations(self.read(issue, 0)?);
                let assigned = self.wide(self.read(issue, 1)?);
                let all = self.activations(self.written(issue, 0)?);
                self.push(Call::Zero { to: all });
                let tokens = self.routed(issue, number, all)?;
                self.push(Call::FromSlots { router, assigned, slots, tokens, carried });
                if kernel == Kernel::PermuteGradient {
                    let gradient = self.wide(self.written(issue, 1)?);
                    let width = sizes.blocks.hidden;
                    self.push(Call::RouterGradient { router, assigned, slots, width, gradient });
                }
            }
            Kernel::ExpertActivation => {
                let first = usize::from(sizes.gated);
                let view = |place| Ok::<_, ExecuteError>(self.activations(self.read(issue, place)?));
                let call = ExpertActivationCall {
                    function: layer.activation,
                    blocks: sizes.blocks,
                    gate: if sizes.gated { Some(view(0)?) } else { None },
                    up: view(first)?,
                    input: view(first + 1)?,
                    output: self.activations(self.written(issue, 0)?),
                };
                self.check_blocks(
                    issue,
                    sizes.blocks,
                    call.input,
                    &[Some(call.up), Some(call.output), call.gate],
                )?;
                self.push(Call::ExpertActivation(Box::new(call)));
            }
            Kernel::ExpertActivationGradient => self.expert_activation_gradient(issue, layer, &sizes)?,
            _ => return Err(self.missing(issue, "its kernel for experts")),
        }
        Ok(())
    }

    /// Of a·w, with a the activation and w a slot's weight: the gradients of gate, up and w.
    fn expert_activation_gradient(&mut self, issue: &Issue, layer: &Moe, sizes: &Sizes) -> Done {
        let gate = issue.reads.get(3).filter(|_| sizes.gated).map(|gate| self.activations(*gate));
        let written = |place| Ok::<_, ExecuteError>(self.activations(self.written(issue, place)?));
        let call = ExpertActivationGradientCall {
            function: layer.activation,
            blocks: sizes.blocks,
            output_gradient: self.activations(self.read(issue, 0)?),
            gate,
            up: self.activations(self.read(issue, 1)?),
            input: self.activations(self.read(issue, 2)?),
            gate_gradient: if sizes.gated { Some(written(1)?) } else { None },
            up_gradient: written(0)?,
            input_gradient: written(usize::from(sizes.gated) + 1)?,
        };
        let inside =
            [Some(call.up), Some(call.output_gradient), Some(call.up_gradient), gate, call.gate_gradient];
        self.check_blocks(issue, sizes.blocks, call.input, &inside)?;
        self.check_blocks(issue, sizes.blocks, call.input_gradient, &[Some(call.up)])?;
        self.push(Call::ExpertActivationGradient(Box::new(call)));
        Ok(())
    }

    /// A product with one matrix of each expert, block by block.
    pub(super) fn expert_product(&mut self, issue: &Issue, kernel: Kernel, number: u16) -> Done {
        let (Kernel::Linear(matrix) | Kernel::InputGradient(matrix, _) | Kernel::WeightGradient(matrix)) =
            kernel
        else {
            return Err(self.missing(issue, "its matrix"));
        };
        let layer = self.moe_layer(issue, number)?;
        let sizes = self.moe_sizes(layer);
        let Blocks { slots, hidden, width } = sizes.blocks;
        // Rows of slots on their way into experts carry their weights behind them.
        let (role, depth, outputs, carried) = match matrix {
            Matrix::ExpertDown => (Role::ExpertDown, width, hidden, 0),
            _ => (Role::ExpertUp, hidden, width, slots),
        };
        let lengths = (slots * depth + carried, slots * outputs);
        let (first, second) = match kernel {
            Kernel::WeightGradient(_) => (self.read(issue, 0)?, self.read(issue, 1)?),
            Kernel::InputGradient(..) => (self.written(issue, 0)?, self.read(issue, 0)?),
            _ => (self.read(issue, 0)?, self.written(issue, 0)?),
        };
        let (inner, outer) = (self.activations(first), self.activations(second));
        let blocks = self.whole_blocks(issue, inner, lengths.0)?;
        if self.whole_blocks(issue, outer, lengths.1)? != blocks {
            return Err(self.too_short(issue, outer.region.bytes, blocks * lengths.1 * outer.storage.size()));
        }
        let target = match kernel {
            Kernel::WeightGradient(_) => self.needed_gradient(issue, number, role)?,
            _ => Target { view: self.weight(issue, number, role)?, write: Into::Set },
        };
        if let (Kernel::WeightGradient(_), Into::Set) = (kernel, target.write) {
            for expert in 0..sizes.experts.max(1) {
                let to = self.part(issue, target.view, sizes.matrix(matrix, expert))?;
                self.push(Call::Zero { to });
            }
        }
        for block in 0..blocks {
            let matrix = self.part(issue, target.view, sizes.matrix(matrix, block))?;
            let start = block * lengths.0;
            let inner = self.part(issue, inner, start..start + slots * depth)?;
            let outer = self.part(issue, outer, block * lengths.1..(block + 1) * lengths.1)?;
            match kernel {
                Kernel::WeightGradient(_) => self.gemm(
                    (transposed(plain(outer, outputs)), plain(inner, depth)),
                    None,
                    (Columns::all(matrix, depth), Into::Add),
                ),
                Kernel::InputGradient(_, into) => self.gemm(
                    (plain(outer, outputs), plain(matrix, depth)),
                    None,
                    (Columns::all(inner, depth), into),
                ),
                _ => self.gemm(
                    (plain(inner, depth), transposed(plain(matrix, depth))),
                    None,
                    (Columns::all(outer, outputs), Into::Set),
                ),
            }
        }
        Ok(())
    }

    /// The tokens that this rank routes, among those of the residual stream.
    pub(super) fn routed(&self, issue: &Issue, number: u16, stream: View) -> Result<View, ExecuteError> {
        let sizes = self.moe_sizes(self.moe_layer(issue, number)?);
        let hidden = sizes.blocks.hidden;
        let range = sizes.first_token * hidden..(sizes.first_token + sizes.tokens) * hidden;
        self.part(issue, stream, range)
    }

    pub(super) fn router_of(&self, issue: &Issue, number: u16) -> Result<Router, ExecuteError> {
        Ok(self.router(self.moe_layer(issue, number)?))
    }

    /// How many blocks of `length` elements `view` has.
    fn whole_blocks(&self, issue: &Issue, view: View, length: usize) -> Result<usize, ExecuteError> {
        let length = length.max(1);
        if !view.len().is_multiple_of(length) {
            let needed = view.len().next_multiple_of(length) * view.storage.size();
            return Err(self.too_short(issue, view.region.bytes, needed));
        }
        Ok(view.len() / length)
    }

    /// Whether what experts have inside is as many blocks as `slots`, which carry their weights.
    fn check_blocks(&self, issue: &Issue, blocks: Blocks, slots: View, inside: &[Option<View>]) -> Done {
        let count = self.whole_blocks(issue, slots, blocks.slots * (blocks.hidden + 1))?;
        let needed = count * blocks.inside();
        let wrong = inside.iter().flatten().find(|view| view.len() != needed);
        wrong.map_or(Ok(()), |view| {
            Err(self.too_short(issue, view.region.bytes, needed * view.storage.size()))
        })
    }
}

impl Sizes {
    /// The elements of `matrix` of the expert of block `block` among those of its role. Blocks repeat the experts
    /// of this rank; gate and up of an expert are rows of one role, the gate first.
    fn matrix(&self, matrix: Matrix, block: usize) -> Range<usize> {
        let expert = block % self.experts.max(1);
        let length = self.blocks.hidden * self.blocks.width;
        let (parts, part) = match (matrix, self.gated) {
            (Matrix::ExpertGate, _) => (2, 0),
            (Matrix::ExpertUp, true) => (2, 1),
            _ => (1, 0),
        };
        let start = (expert * parts + part) * length;
        start..start + length
    }
}
