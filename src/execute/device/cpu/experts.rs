//! What experts compute of their slots between their matrices.

use std::ops::Range;

use super::queue::CpuQueue;
use crate::execute::call::{ExpertActivationCall, ExpertActivationGradientCall};
use crate::execute::element::Element;
use crate::execute::kernels::activation;
use crate::execute::pool::Pool;
use crate::model::layer::Activation;

impl<T: Element, G: Element<Wide = T::Wide>> CpuQueue<'_, T, G> {
    /// # Safety
    /// As for [`crate::execute::device::Queue::submit`].
    pub(super) unsafe fn expert_activation(&self, call: &ExpertActivationCall) {
        let memory = self.memory;
        // SAFETY: as the caller vouches.
        let (gate, up, input, output) = unsafe {
            let gate = call.gate.map(|view| memory.read::<T>(view));
            (gate, memory.read::<T>(call.up), memory.read::<T>(call.input), memory.write::<T>(call.output))
        };
        let length = call.blocks.inside();
        for (block, output) in output.chunks_exact_mut(length.max(1)).enumerate() {
            let rows = block_of(block, length);
            let gate = gate.map(|gate| &gate[rows.clone()]);
            activate(self.pool, call.function, gate, &up[rows], output);
            let weights = &input[call.blocks.weights(block)];
            for (row, weight) in output.chunks_exact_mut(call.blocks.width).zip(weights) {
                let weight = weight.wide();
                row.iter_mut().for_each(|value| *value = T::narrow(value.wide() * weight));
            }
        }
    }

    /// Of a·w, with a the activation and w a slot's weight: the gradients of gate, up and w.
    ///
    /// # Safety
    /// As for [`crate::execute::device::Queue::submit`].
    pub(super) unsafe fn expert_activation_gradient(&self, call: &ExpertActivationGradientCall) {
        let (memory, pool, width) = (self.memory, self.pool, call.blocks.width);
        // SAFETY: as the caller vouches.
        let (gradient, up, input, gate) = unsafe {
            let gate = call.gate.map(|view| memory.read::<T>(view));
            let gradient = memory.read::<T>(call.output_gradient);
            (gradient, memory.read::<T>(call.up), memory.read::<T>(call.input), gate)
        };
        // SAFETY: as the caller vouches.
        let (up_gradient, gate_gradient, input_gradient) = unsafe {
            let gate_gradient = call.gate_gradient.map(|view| memory.write::<T>(view));
            (memory.write::<T>(call.up_gradient), gate_gradient, memory.write::<T>(call.input_gradient))
        };
        let length = call.blocks.inside();
        let mut gate_blocks = gate_gradient.map(|gate| gate.chunks_exact_mut(length.max(1)));
        for (block, up_gradient) in up_gradient.chunks_exact_mut(length.max(1)).enumerate() {
            let rows = block_of(block, length);
            let gate = gate.map(|gate| &gate[rows.clone()]);
            let gate_gradient = gate_blocks.as_mut().and_then(Iterator::next);
            let (up, gradient) = (&up[rows.clone()], &gradient[rows]);
            // The activation itself, for the weight's gradient, where the up gradient will be.
            activate(pool, call.function, gate, up, up_gradient);
            let target = &mut input_gradient[call.blocks.weights(block)];
            let products = up_gradient.chunks_exact(width).zip(gradient.chunks_exact(width));
            for (target, (activated, gradient)) in target.iter_mut().zip(products) {
                let sum: T::Wide = activated.iter().zip(gradient).map(|(a, g)| a.wide() * g.wide()).sum();
                *target = T::narrow(sum);
            }
            let weights = &input[call.blocks.weights(block)];
            let scaled = up_gradient.chunks_exact_mut(width).zip(gradient.chunks_exact(width));
            for ((to, from), weight) in scaled.zip(weights) {
                let weight = weight.wide();
                to.iter_mut().zip(from).for_each(|(to, from)| *to = T::narrow(from.wide() * weight));
            }
            match (gate, gate_gradient) {
                (Some(gate), Some(dgate)) => {
                    activation::gated_backward(pool, call.function, (gate, up), (dgate, up_gradient));
                }
                _ => activation::backward(pool, call.function, up, up_gradient),
            }
        }
    }
}

fn activate<T: Element>(pool: Pool<'_>, function: Activation, gate: Option<&[T]>, up: &[T], to: &mut [T]) {
    match gate {
        Some(gate) => activation::gated_forward(pool, function, (gate, up), to),
        None => activation::forward(pool, function, up, to),
    }
}

const fn block_of(block: usize, length: usize) -> Range<usize> {
    block * length..(block + 1) * length
}
