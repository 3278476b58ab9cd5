//! Norms, activations, residual sums, copies and what else goes element by element or row by row.

use super::memory::Memory;
use super::queue::CpuQueue;
use crate::execute::call::{Call, Columns, Gated, RowDropout, View, Weight};
use crate::execute::element::Element;
use crate::execute::kernels::dropout::{Dropout, Place};
use crate::execute::kernels::rotary::{Rotary, rotate};
use crate::execute::kernels::{activation, norm, quantise, residual};
use crate::execute::pool::Pool;
use crate::execute::storage::Storage;
use crate::execute::storage::number;
use crate::lower::kernel::Into;
use crate::program::scalars::{Scalar, Scalars};

impl<'r, T: Element, G: Element<Wide = T::Wide>> CpuQueue<'r, T, G> {
    /// # Safety
    /// As for [`crate::execute::device::Queue::submit`].
    pub(super) unsafe fn elementwise(&self, call: &Call) {
        let (memory, pool) = (self.memory, self.pool);
        // SAFETY: as the caller vouches.
        unsafe {
            match call {
                Call::Norm(call) => {
                    let weights =
                        (call.weight.map(|view| memory.read(view)), call.bias.map(|view| memory.read(view)));
                    let (x, y) = (memory.read::<T>(call.input), memory.write::<T>(call.output));
                    let statistics = call.statistics.map(|view| memory.write::<T::Wide>(view));
                    norm::forward(pool, call.norm, x, weights, y, statistics);
                }
                Call::NormGradient(call) => {
                    let weight = call.weight.map(|view| memory.read::<T>(view));
                    let statistics = call.statistics.map(|view| memory.read::<T::Wide>(view));
                    let dx = memory.write::<T>(call.input_gradient.view);
                    let gradient = match call.output_gradient {
                        None => norm::InputGradient::InPlace(dx),
                        Some(dy) => {
                            let write = call.input_gradient.write;
                            norm::InputGradient::Apart { dy: memory.read::<T>(dy), dx, write }
                        }
                    };
                    norm::backward(
                        pool,
                        call.norm,
                        memory.read::<T>(call.input),
                        weight,
                        statistics,
                        gradient,
                    );
                }
                Call::NormWeight(call) => {
                    let gradient = memory.write::<G>(call.gradient.view);
                    if call.gradient.write == Into::Set {
                        gradient.fill(G::default());
                    }
                    let (weight, bias) = gradient.split_at_mut(call.norm.width);
                    let bias = (!bias.is_empty()).then_some(bias);
                    let statistics = call.statistics.map(|view| memory.read::<T::Wide>(view));
                    let (x, dy) = (memory.read::<T>(call.input), memory.read::<T>(call.output_gradient));
                    norm::weight_gradient(pool, call.norm, x, statistics, dy, (weight, bias));
                }
                Call::Rotary(call) => {
                    let rotary = Rotary { theta: call.theta, dim: call.dim, scaling: &call.scaling };
                    let positions = self.lists.get(call.positions);
                    rotate(&rotary, memory.write::<T>(call.data), call.heads, positions, call.turn, pool);
                }
                Call::CopyColumns { from, to } => self.copy_columns(from, to),
                Call::Activation(call) => {
                    let to = memory.write::<T>(call.output);
                    match call.input {
                        Gated::No { up } => {
                            activation::forward(pool, call.function, memory.read::<T>(up), to)
                        }
                        Gated::Apart { gate, up } => {
                            let parts = (memory.read::<T>(gate), memory.read::<T>(up));
                            activation::gated_forward(pool, call.function, parts, to);
                        }
                        Gated::Together { both, width } => {
                            let rows = memory.read::<T>(both).chunks_exact(2 * width);
                            for (to, both) in to.chunks_exact_mut(width).zip(rows) {
                                let parts = both.split_at(width);
                                activation::gated_forward(Pool::Serial, call.function, parts, to);
                            }
                        }
                    }
                }
                Call::ActivationGradient(call) => {
                    let dy = memory.read::<T>(call.output_gradient);
                    match (call.input, call.gradient) {
                        (Gated::Together { both, width }, Gated::Together { both: to, .. }) => {
                            let rows = memory.read::<T>(both).chunks_exact(2 * width);
                            let rows = dy.chunks_exact(width).zip(rows);
                            for (to, (dy, both)) in
                                memory.write::<T>(to).chunks_exact_mut(2 * width).zip(rows)
                            {
                                let (gate, up) = to.split_at_mut(width);
                                up.copy_from_slice(dy);
                                let (parts, gradients) = (both.split_at(width), (gate, up));
                                activation::gated_backward(Pool::Serial, call.function, parts, gradients);
                            }
                        }
                        (Gated::Apart { gate, up }, Gated::Apart { gate: gate_gradient, up: to }) => {
                            let to = memory.write::<T>(to);
                            residual::copy(pool, dy, to);
                            let parts = (memory.read::<T>(gate), memory.read::<T>(up));
                            let gradients = (memory.write::<T>(gate_gradient), to);
                            activation::gated_backward(pool, call.function, parts, gradients);
                        }
                        (Gated::No { up }, Gated::No { up: to }) => {
                            let to = memory.write::<T>(to);
                            residual::copy(pool, dy, to);
                            activation::backward(pool, call.function, memory.read::<T>(up), to);
                        }
                        _ => unreachable!("gradients lie as what they are of"),
                    }
                }
                Call::Residual(call) => {
                    let bias = call.bias.map(|view| memory.read::<T>(view));
                    let dropout = call.dropout.as_ref().map(|dropout| self.row_dropout(dropout));
                    let (stream, branch) = (memory.read::<T>(call.stream), memory.read::<T>(call.branch));
                    let output = memory.write::<T>(call.output);
                    residual::forward(pool, call.width, stream, (branch, bias), dropout, output);
                }
                Call::Dropout { dropout, data } => {
                    let width = dropout.width;
                    residual::drop(pool, width, self.row_dropout(dropout), memory.write::<T>(*data));
                }
                Call::Copy { from, to } => self.copy(*from, *to),
                Call::Add { from, to } => {
                    number!(to, E => residual::add(pool, memory.read::<E>(*from), memory.write::<E>(*to)));
                }
                Call::Zero { to } => number!(to, E => residual::zero(pool, memory.write::<E>(*to))),
                Call::Poison { to } => memory.write::<u8>(Memory::bytes(*to)).fill(0xff),
                Call::Scale { weight, data } => {
                    let weight = self.weight(*weight);
                    number!(data, E => residual::scale(pool, weight, memory.write::<E>(*data)));
                }
                Call::AddScaled { weight, from, to } => {
                    let (weight, from) = (self.weight(*weight), memory.read::<G>(*from));
                    residual::add_scaled(pool, weight, from, memory.write::<G>(*to));
                }
                Call::Quantise { bits, from, to } => {
                    quantise::quantise(pool, *bits, memory.read::<T>(*from), memory.write::<u8>(*to));
                }
                Call::Dequantise { bits, from, to } => {
                    quantise::dequantise(pool, *bits, memory.read::<u8>(*from), memory.write::<T>(*to));
                }
                _ => unreachable!("{call:?} is not elementwise"),
            }
        }
    }

    /// # Safety
    /// As for [`crate::execute::device::Queue::submit`].
    unsafe fn copy(&self, from: View, to: View) {
        assert_eq!(from.storage, to.storage, "a copy's types");
        let memory = self.memory;
        // SAFETY: as the caller vouches.
        unsafe {
            match to.storage {
                Storage::Number(_) => {
                    number!(to, E => residual::copy(self.pool, memory.read::<E>(from), memory.write::<E>(to)));
                }
                Storage::Byte | Storage::Index => {
                    let (from, to) = (Memory::bytes(from), Memory::bytes(to));
                    memory.write::<u8>(to).copy_from_slice(memory.read(from));
                }
            }
        }
    }

    /// # Safety
    /// As for [`crate::execute::device::Queue::submit`].
    unsafe fn copy_columns(&self, from: &Columns, to: &Columns) {
        assert_eq!(from.columns, to.columns, "columns");
        // SAFETY: as the caller vouches.
        let (source, target) = unsafe { (self.memory.read::<T>(from.view), self.memory.write::<T>(to.view)) };
        let rows = source.chunks_exact(from.stride).zip(target.chunks_exact_mut(to.stride));
        for (source, target) in rows {
            target[to.first..][..to.columns].copy_from_slice(&source[from.first..][..from.columns]);
        }
    }

    /// What a gradient is multiplied by.
    ///
    /// # Safety
    /// As for [`crate::execute::device::Queue::submit`].
    unsafe fn weight(&self, weight: Weight) -> f64 {
        // SAFETY: as the caller vouches.
        weight.map_or(1.0, |view| unsafe { self.memory.read::<f64>(view) }[0])
    }

    /// # Safety
    /// As for [`crate::execute::device::Queue::submit`].
    unsafe fn row_dropout(&self, dropout: &RowDropout) -> (Dropout, Place<'r>) {
        let RowDropout { rate, site, start, width, scalars } = *dropout;
        let rows = self.lists.get(crate::execute::call::List::StreamRows);
        // SAFETY: as the caller vouches.
        let dropout = unsafe { self.dropout(rate, site, scalars) };
        (dropout, Place { start, rows, width: width as u64 })
    }

    /// The dropout of a site in the step whose numbers are `scalars`.
    ///
    /// # Safety
    /// As for [`crate::execute::device::Queue::submit`].
    pub(super) unsafe fn dropout(&self, rate: f64, site: u64, scalars: View) -> Dropout {
        // SAFETY: as the caller vouches.
        let head = unsafe { self.memory.read::<f64>(scalars) };
        let of = |scalar| head[Scalars::in_head(scalar)];
        Dropout::new(rate, of(Scalar::Seed).to_bits(), of(Scalar::Step) as u64, site)
    }
}
