//! A stream of a rank: which kernel each call is.

use std::marker::PhantomData;
use std::time::Instant;

use super::members::Members;
use super::memory::Memory;
use super::messages::Messages;
use super::progress::Progress;
use crate::execute::call::{Call, Indices, Lists};
use crate::execute::device::{Queue, Tracing, Upcoming};
use crate::execute::element::Element;
use crate::execute::error::ExecuteError;
use crate::execute::kernels::{embedding, routing};
use crate::execute::pool::Pool;
use crate::lower::Stream;
use crate::ops::Group;
use crate::program::issue_order::Waits;

/// A stream of a rank, which computes in `T` with gradients in `G`.
pub struct CpuQueue<'r, T, G> {
    /// Its number in the run.
    pub rank: usize,
    pub stream: Stream,
    pub progress: &'r Progress,
    pub memory: Memory<'r>,
    pub lists: &'r Lists,
    pub pool: Pool<'r>,
    /// By group, where the stream has collectives in it.
    pub members: [Option<Members>; Group::COUNT],
    pub messages: Messages<'r>,
    pub step: u64,
    pub began: Instant,
    /// By mark, seconds since then.
    pub marks: Vec<f64>,
    pub types: PhantomData<(T, G)>,
}

impl<'r, T: Element, G: Element<Wide = T::Wide>> CpuQueue<'r, T, G> {
    fn indices(&self, indices: &Indices) -> &'r [u32] {
        match *indices {
            // SAFETY: ids are read by kernels and written between steps only.
            Indices::View(view) => unsafe { self.memory.read(view) },
            Indices::List(list) => self.lists.get(list),
        }
    }
}

impl<T: Element, G: Element<Wide = T::Wide>> Queue for CpuQueue<'_, T, G> {
    fn prepare(&mut self, instructions: &[Upcoming<'_>]) -> Result<(), ExecuteError> {
        self.open_inboxes(instructions)
    }

    fn begin(&mut self, step: u64, began: Instant, _tracing: Tracing) {
        (self.step, self.began) = (step, began);
    }

    fn wait(&mut self, waits: &Waits) -> bool {
        self.progress.wait(waits)
    }

    fn record(&mut self, mark: usize) {
        if self.marks.len() <= mark {
            self.marks.resize(mark + 1, 0.0);
        }
        self.marks[mark] = self.began.elapsed().as_secs_f64();
    }

    fn advance(&mut self) {
        self.progress.advance(self.stream);
    }

    /// What is submitted is done at once.
    fn finish(&mut self) -> Result<(), ExecuteError> {
        Ok(())
    }

    fn elapsed(&self, mark: usize) -> Result<f64, ExecuteError> {
        Ok(self.marks[mark])
    }

    unsafe fn submit(&mut self, call: &Call) -> Result<(), ExecuteError> {
        let (memory, pool) = (self.memory, self.pool);
        // SAFETY: as the caller vouches, what a call writes is its alone and what it reads holds still. Slices of one
        // call that are written do not overlap others of it, but where a kernel works in place and takes one slice.
        unsafe {
            match call {
                Call::Embed { table, first_row, width, indices, output } => {
                    let y = (memory.write::<T>(output.view), output.write);
                    embedding::forward(
                        pool,
                        *width,
                        (memory.read::<T>(*table), *first_row),
                        self.indices(indices),
                        y,
                    );
                }
                Call::EmbedGradient { indices, output_gradient, table, first_row, width } => {
                    let dtable = (memory.write::<G>(*table), *first_row);
                    let dy = memory.read::<T>(*output_gradient);
                    embedding::backward(pool, *width, self.indices(indices), dy, dtable);
                }
                Call::Gemm(gemm) => self.gemm(gemm),
                Call::BiasGradient { output_gradient, bias } => self.bias_gradient(output_gradient, bias),
                Call::Norm(_)
                | Call::NormGradient(_)
                | Call::NormWeight(_)
                | Call::Rotary(_)
                | Call::CopyColumns { .. }
                | Call::Activation(_)
                | Call::ActivationGradient(_)
                | Call::Residual(_)
                | Call::Dropout { .. }
                | Call::Copy { .. }
                | Call::Add { .. }
                | Call::Zero { .. }
                | Call::Poison { .. }
                | Call::Scale { .. }
                | Call::AddScaled { .. }
                | Call::Quantise { .. }
                | Call::Dequantise { .. } => self.elementwise(call),
                Call::Attention(call) => self.attention(call),
                Call::AttentionGradient(call) => self.attention_gradient(call),
                Call::Route { router, logits } => {
                    routing::assign(router, memory.write::<T::Wide>(*logits), pool);
                }
                Call::ToSlots { router, assigned, tokens, slots, carried } => {
                    let (assigned, tokens) = (memory.read(*assigned), memory.read::<T>(*tokens));
                    routing::to_slots(router, assigned, tokens, memory.write::<T>(*slots), *carried, pool);
                }
                Call::FromSlots { router, assigned, slots, tokens, carried } => {
                    let (assigned, slots) = (memory.read(*assigned), memory.read::<T>(*slots));
                    routing::from_slots(router, assigned, slots, memory.write::<T>(*tokens), *carried, pool);
                }
                Call::RouterGradient { router, assigned, slots, width, gradient } => {
                    let (assigned, slots) = (memory.read(*assigned), memory.read::<T>(*slots));
                    let gradient = memory.write::<T::Wide>(*gradient);
                    routing::router_gradient(router, assigned, (slots, *width), gradient, pool);
                }
                Call::ExpertActivation(call) => self.expert_activation(call),
                Call::ExpertActivationGradient(call) => self.expert_activation_gradient(call),
                Call::CrossEntropy { .. }
                | Call::MergeStatistics { .. }
                | Call::AddLoss { .. }
                | Call::CrossEntropyGradient { .. }
                | Call::SquaredError { .. }
                | Call::SquaredErrorGradient { .. } => self.loss(call),
                Call::Squares { .. } | Call::ClipFactor { .. } => self.norm_of_gradients(call),
                Call::LossWeight(call) => self.loss_weight(call)?,
                Call::SetNumber { number, to } => memory.write::<f64>(*to)[0] = *number,
                Call::AdamW(call) => self.adamw(call),
                Call::Collective { group, exchange } => self.collective(*group, exchange)?,
                Call::Send { to, message, micro, from, inbox } => {
                    self.send(*to, (*message, *micro), *from, *inbox)?;
                }
                Call::Receive { from, message, micro, inbox, to } => {
                    self.receive(*from, (*message, *micro), *inbox, *to)?;
                }
                Call::Check { values, kernel, layer } => self.check(*values, *kernel, layer)?,
            }
        }
        Ok(())
    }
}
