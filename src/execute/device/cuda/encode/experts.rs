//! Activations, plain and of experts, and what brings tokens to experts and back.

use super::super::launch::activation::{self, Function};
use super::super::launch::routing;
use super::super::work::{Kernel, Span, Works};
use super::{CudaError, Encoded, Encoder, nothing, one, small, work};
use crate::execute::call::{
    ActivationCall, ActivationGradientCall, Blocks, Call, ExpertActivationCall, ExpertActivationGradientCall,
    Gated, View,
};
use crate::execute::kernels::routing::{Carried, Router};
use crate::model::layer::Activation;

/// What is read off a router's choices before tokens move, in the scratch.
struct Choices {
    experts: Span,
    weights: Span,
    slots: Span,
    entries: Span,
    tokens: u32,
}

/// Sizes of a router as kernels take them.
#[derive(Clone, Copy)]
struct Sizes {
    experts: u32,
    top_k: u32,
    slots: u32,
}

impl Encoder<'_> {
    pub(super) fn activation(&self, call: &ActivationCall) -> Encoded {
        if call.output.is_empty() {
            return nothing();
        }
        let (rows, width) = rows_of(call.input, call.output)?;
        let source = activation::source(self.types, function(call.function));
        let output = self.at(call.output);
        match self.gated(call.input) {
            (None, up, _) => one(Kernel::new((source, activation::forward(rows, width)))
                .reads(up)
                .writes(output)
                .numbers([rows, width])),
            (Some(gate), up, stride) => one(Kernel::new((source, activation::gated_forward(rows, width)))
                .reads(gate)
                .reads(up)
                .writes(output)
                .numbers([rows, width, if stride == 0 { width } else { stride }])),
        }
    }

    pub(super) fn activation_gradient(&self, call: &ActivationGradientCall) -> Encoded {
        if call.output_gradient.is_empty() {
            return nothing();
        }
        let (rows, width) = rows_of(call.input, call.output_gradient)?;
        let source = activation::source(self.types, function(call.function));
        let from = self.at(call.output_gradient);
        match (self.gated(call.input), self.gated(call.gradient)) {
            ((Some(gate), up, stride), (Some(gate_gradient), up_gradient, _)) => {
                one(Kernel::new((source, activation::gated_gradient(rows, width)))
                    .reads(gate)
                    .reads(up)
                    .reads(from)
                    .updates(gate_gradient)
                    .updates(up_gradient)
                    .numbers([rows, width, if stride == 0 { width } else { stride }]))
            }
            ((_, up, _), (_, up_gradient, _)) => {
                one(Kernel::new((source, activation::gradient(rows, width)))
                    .reads(up)
                    .reads(from)
                    .updates(up_gradient)
                    .numbers([rows, width]))
            }
        }
    }

    /// Gate, up, and how far apart their rows are; 0 where they are as wide as apart.
    fn gated(&self, input: Gated) -> (Option<Span>, Span, u32) {
        match input {
            Gated::No { up } => (None, self.at(up), 0),
            Gated::Apart { gate, up } => (Some(self.at(gate)), self.at(up), 0),
            Gated::Together { both, width } => {
                let all = self.at(both);
                (Some(all), all.behind(width as u64 * self.size()), 2 * width as u32)
            }
        }
    }

    pub(super) fn expert_activation(&self, call: &ExpertActivationCall) -> Encoded {
        let (rows, [width, slots, hidden]) = sizes_of(call.blocks, call.output)?;
        if rows == 0 {
            return nothing();
        }
        let source = activation::source(self.types, function(call.function));
        one(Kernel::new((source, activation::expert_forward(rows, width)))
            .reads_any(self.at_any(call.gate))
            .reads(self.at(call.up))
            .reads(self.at(call.input))
            .writes(self.at(call.output))
            .numbers([rows, width, slots, hidden]))
    }

    pub(super) fn expert_activation_gradient(&self, call: &ExpertActivationGradientCall) -> Encoded {
        let (rows, [width, slots, hidden]) = sizes_of(call.blocks, call.up_gradient)?;
        if rows == 0 {
            return nothing();
        }
        let source = activation::source(self.types, function(call.function));
        one(Kernel::new((source, activation::expert_gradient(rows, width)))
            .reads_any(self.at_any(call.gate))
            .reads(self.at(call.up))
            .reads(self.at(call.input))
            .reads(self.at(call.output_gradient))
            .writes_any(self.at_any(call.gate_gradient))
            .updates(self.at(call.up_gradient))
            .updates(self.at(call.input_gradient))
            .numbers([width, slots, hidden]))
    }

    pub(super) fn routing(&self, call: &Call) -> Encoded {
        let source = routing::source(self.types);
        match call {
            Call::Route { router, logits } => {
                let (Sizes { experts, top_k, .. }, tokens) = router_of(router, *logits)?;
                if tokens == 0 {
                    return nothing();
                }
                one(Kernel::new((source, routing::assign(tokens)))
                    .updates(self.at(*logits))
                    .numbers([tokens, experts, top_k]))
            }
            Call::ToSlots { router, assigned, tokens, slots: to, carried } => {
                let mut works = Works::new();
                let Some(choices) = self.choices(&mut works, router, *assigned)? else { return nothing() };
                let Sizes { experts, top_k, slots } = router_of(router, *assigned)?.0;
                let width = small("a token", tokens.len())? / choices.tokens;
                if slots == 0 || width == 0 {
                    return nothing();
                }
                works.push(work(
                    Kernel::new((source, routing::to_slots(experts, slots, width)))
                        .reads(choices.entries)
                        .reads(choices.weights)
                        .reads(self.at(*tokens))
                        .writes(self.at(*to))
                        .numbers([width, slots, top_k])
                        .flag(*carried == Carried::Weights),
                ));
                Ok(works)
            }
            Call::FromSlots { router, assigned, slots: from, tokens, carried } => {
                let mut works = Works::new();
                let Some(choices) = self.choices(&mut works, router, *assigned)? else { return nothing() };
                let Sizes { top_k, slots, .. } = router_of(router, *assigned)?.0;
                let width = small("a token", tokens.len())? / choices.tokens;
                if width == 0 {
                    return nothing();
                }
                works.push(work(
                    Kernel::new((source, routing::from_slots(choices.tokens, width)))
                        .reads(choices.experts)
                        .reads(choices.slots)
                        .reads(self.at(*from))
                        .writes(self.at(*tokens))
                        .numbers([choices.tokens, width, slots, top_k])
                        .flag(*carried == Carried::Weights),
                ));
                Ok(works)
            }
            Call::RouterGradient { router, assigned, slots: from, width, gradient } => {
                let mut works = Works::new();
                let Some(choices) = self.choices(&mut works, router, *assigned)? else { return nothing() };
                let Sizes { experts, top_k, slots } = router_of(router, *assigned)?.0;
                works.push(work(
                    Kernel::new((source, routing::gradient(choices.tokens)))
                        .reads(self.at(*assigned))
                        .reads(choices.experts)
                        .reads(choices.weights)
                        .reads(choices.slots)
                        .reads(self.at(*from))
                        .writes(self.at(*gradient))
                        .numbers([choices.tokens, experts, small("a token", *width)?, slots, top_k])
                        .flag(router.renormalise),
                ));
                Ok(works)
            }
            _ => unreachable!("{call:?} is no routing"),
        }
    }

    /// Reads the choices of all tokens into the scratch; none without tokens.
    fn choices(
        &self,
        works: &mut Works,
        router: &Router,
        assigned: View,
    ) -> Result<Option<Choices>, CudaError> {
        let (Sizes { experts, top_k, slots }, tokens) = router_of(router, assigned)?;
        if tokens == 0 {
            return Ok(None);
        }
        let entries = tokens * top_k;
        let list = u64::from(entries) * 4;
        let all = self.scratch("routing", 3 * list + u64::from(experts * slots) * 4)?;
        let choices = Choices {
            experts: all.first(list),
            weights: all.behind(list).first(list),
            slots: all.behind(2 * list).first(list),
            entries: all.behind(3 * list),
            tokens,
        };
        let source = routing::source(self.types);
        works.push(work(
            Kernel::new((source.clone(), routing::choose(tokens)))
                .reads(self.at(assigned))
                .writes(choices.experts)
                .writes(choices.weights)
                .numbers([tokens, experts, top_k])
                .flag(router.renormalise),
        ));
        works.push(work(
            Kernel::new((source, routing::place(experts)))
                .reads(choices.experts)
                .writes(choices.slots)
                .writes(choices.entries)
                .numbers([entries, slots]),
        ));
        Ok(Some(choices))
    }
}

/// Rows and their width of what an activation makes.
fn rows_of(input: Gated, output: View) -> Result<(u32, u32), CudaError> {
    match input {
        Gated::Together { width, .. } => {
            Ok((small("rows", output.len() / width.max(1))?, small("a row", width)?))
        }
        Gated::No { .. } | Gated::Apart { .. } => Ok((1, small("an activation", output.len())?)),
    }
}

/// Slots of all experts that `view` has rows for; the width inside an expert, slots of a block, the width outside.
fn sizes_of(blocks: Blocks, view: View) -> Result<(u32, [u32; 3]), CudaError> {
    let rows = small("slots", view.len() / blocks.width.max(1))?;
    Ok((
        rows,
        [small("an expert", blocks.width)?, small("slots", blocks.slots)?, small("a token", blocks.hidden)?],
    ))
}

fn router_of(router: &Router, assigned: View) -> Result<(Sizes, u32), CudaError> {
    if router.top_k > routing::MOST_CHOICES as usize {
        let (count, most) = (router.top_k, routing::MOST_CHOICES);
        return Err(CudaError::Unsupported(format!("{count} experts a token (at most {most})")));
    }
    let sizes = Sizes {
        experts: small("experts", router.experts)?,
        top_k: small("choices", router.top_k)?,
        slots: small("slots", router.slots)?,
    };
    Ok((sizes, small("tokens", assigned.len() / router.experts.max(1))?))
}

const fn function(activation: Activation) -> Function {
    match activation {
        Activation::Gelu => Function::Gelu,
        Activation::GeluTanh => Function::GeluTanh,
        Activation::Silu => Function::Silu,
        Activation::Relu => Function::Relu,
        Activation::Relu2 => Function::Relu2,
    }
}
