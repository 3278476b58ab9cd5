//! `state.safetensors`: what beside the weights a run needs to go on as if it had never stopped.

use super::checkpoint::{Checkpoint, Mapped};
use super::error::WeightsError;
use super::{Source, Weights};
use crate::model::Model;
use crate::model::tensors::{NamedTensor, tensors};

pub(super) const STEP: &str = "step";
pub(super) const POSITION: &str = "data_position";
pub(super) const FIRST: &str = ".m";
pub(super) const SECOND: &str = ".v";

/// The optimizer's state as it was saved, with moments under the names of their weights.
#[derive(Debug)]
pub struct State {
    /// Steps done.
    pub step: u64,
    /// Sequences read.
    pub data_position: u64,
    /// Mean of gradients.
    pub first: Weights,
    /// Mean of squared gradients.
    pub second: Weights,
}

impl State {
    /// The state in `file`, whose moments are those of `model`.
    ///
    /// # Errors
    /// When it lacks a moment of a trained layer or has it in another shape.
    pub(super) fn of(file: &Mapped, model: &Model) -> Result<Self, WeightsError> {
        let tensors = trained(model);
        let moments = |suffix| -> Result<Weights, WeightsError> {
            let found = Checkpoint::find(vec![file.clone()], &tensors, suffix)?;
            Ok(Weights::new(tensors.clone(), Source::Checkpoint(found)))
        };
        Ok(Self {
            step: file.whole(STEP)?,
            data_position: file.whole(POSITION)?,
            first: moments(FIRST)?,
            second: moments(SECOND)?,
        })
    }
}

/// The tensors of layers that are not frozen.
pub fn trained(model: &Model) -> Vec<NamedTensor> {
    let mut tensors = tensors(model);
    tensors.retain(|tensor| !model.layer(tensor.layer).frozen);
    tensors
}
