//! The optimizer step and what it is made by: squares of gradients, what clips them, weights of losses, AdamW.

use super::Done;
use super::queue::CpuQueue;
use crate::execute::call::{AdamWCall, Call, LossWeightCall, View};
use crate::execute::element::Element;
use crate::execute::error::ExecuteError;
use crate::execute::kernels::adamw::{self, AdamW};
use crate::execute::kernels::gradient_norm::{SquareSum, square_sum};
use crate::execute::storage::number;
use crate::program::scalars::{Scalar, Scalars};

impl<T: Element, G: Element<Wide = T::Wide>> CpuQueue<'_, T, G> {
    /// # Safety
    /// As for [`crate::execute::device::Queue::submit`].
    pub(super) unsafe fn norm_of_gradients(&self, call: &Call) {
        let memory = self.memory;
        // SAFETY: as the caller vouches.
        unsafe {
            match call {
                Call::Squares { parts, squares } => {
                    let mut sum = SquareSum::default();
                    for part in parts {
                        let part = number!(part, E => square_sum(self.pool, memory.read::<E>(*part)));
                        sum = sum.plus(part);
                    }
                    memory.write::<f64>(*squares).copy_from_slice(&sum.0);
                }
                Call::ClipFactor { squares, limit, clip } => {
                    let norm = SquareSum::of(memory.read::<f64>(*squares)).total().sqrt();
                    memory.write::<f64>(*clip)[0] = (limit / (norm + 1e-6)).min(1.0);
                }
                _ => unreachable!("{call:?} is no norm"),
            }
        }
    }

    /// # Safety
    /// As for [`crate::execute::device::Queue::submit`].
    pub(super) unsafe fn loss_weight(&self, call: &LossWeightCall) -> Done {
        let norm = |(squares, started): (View, f64)| {
            // SAFETY: as the caller vouches.
            let squares = SquareSum::of(unsafe { self.memory.read::<f64>(squares) });
            squares.total().sqrt() / started
        };
        let weight = (norm(call.of) / (norm(call.own) + 1e-4)).clamp(0.0, 1e4);
        if !weight.is_finite() {
            return Err(ExecuteError::NotFinite {
                step: self.step,
                value: weight,
                rank: self.rank,
                layer: call.loss.clone(),
                what: "adaptive weight".to_owned(),
            });
        }
        // SAFETY: as the caller vouches.
        let place = unsafe { self.memory.write::<f64>(call.weight) };
        place[0] = weight;
        Ok(())
    }

    /// # Safety
    /// As for [`crate::execute::device::Queue::submit`].
    pub(super) unsafe fn adamw(&self, call: &AdamWCall) {
        let memory = self.memory;
        // SAFETY: as the caller vouches.
        unsafe {
            let head = memory.read::<f64>(call.update.scalars);
            let of = |scalar| head[Scalars::in_head(scalar)];
            let update = AdamW {
                learning_rate: of(Scalar::LearningRate),
                betas: call.update.betas,
                epsilon: call.update.epsilon,
                weight_decay: call.update.weight_decay,
                step: of(Scalar::Step) as u32 + 1,
                clip: of(Scalar::Clip),
            };
            let gradient = memory.read::<G>(call.gradient);
            let parameters = memory.write::<T>(call.parameters);
            let [first, second] = call.moments.map(|view| memory.write::<T::Wide>(view));
            match call.master {
                Some(master) => {
                    let master = memory.write::<T::Wide>(master);
                    adamw::step(self.pool, &update, gradient, master, (first, second), Some(parameters));
                }
                None => {
                    let none = None::<&mut [T]>;
                    adamw::step(self.pool, &update, gradient, parameters, (first, second), none);
                }
            }
        }
    }
}
