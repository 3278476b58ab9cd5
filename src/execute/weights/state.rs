//! `state.safetensors`: what beside the weights a run needs to go on as if it had never stopped.

use std::path::Path;

use super::checkpoint::{Checkpoint, Mapped};
use super::error::WeightsError;
use super::save::TensorFile;
use super::{Source, Weights};
use crate::execute::contents::Tensors;
use crate::model::Model;
use crate::model::tensors::{NamedTensor, tensors};
use crate::units::ElementType;

const FILE: &str = "state.safetensors";
const STEP: &str = "step";
const POSITION: &str = "data_position";
const FIRST: &str = ".m";
const SECOND: &str = ".v";

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
    /// The state in a folder; none where it has no `state.safetensors`.
    ///
    /// # Errors
    /// When the file cannot be read, or lacks a moment of a trained layer or has it in another shape.
    pub fn open(model: &Model, folder: &Path) -> Result<Option<Self>, WeightsError> {
        let path = folder.join(FILE);
        if !path.exists() {
            return Ok(None);
        }
        let file = Mapped::open(path.clone())?;
        let (step, data_position) = (file.whole(STEP)?, file.whole(POSITION)?);
        let tensors = trained(model);
        let first = Checkpoint::find(vec![file], &tensors, FIRST)?;
        let second = Checkpoint::find(vec![Mapped::open(path)?], &tensors, SECOND)?;
        let first = Weights::new(tensors.clone(), Source::Checkpoint(first));
        let second = Weights::new(tensors, Source::Checkpoint(second));
        Ok(Some(Self { step, data_position, first, second }))
    }
}

/// The tensors of layers that are not frozen.
pub fn trained(model: &Model) -> Vec<NamedTensor> {
    let mut tensors = tensors(model);
    tensors.retain(|tensor| !model.layer(tensor.layer).frozen);
    tensors
}

/// Writes `state.safetensors` into a folder: steps done, sequences read, and the moments of trained layers.
///
/// # Errors
/// When the file cannot be written.
pub fn save_state(
    folder: &Path,
    model: &Model,
    element: ElementType,
    (step, data_position): (u64, u64),
    [first, second]: [&Tensors; 2],
) -> Result<(), WeightsError> {
    let tensors = trained(model);
    let mut file = TensorFile::new(element);
    file.number(STEP, step);
    file.number(POSITION, data_position);
    file.group(FIRST, &tensors, first);
    file.group(SECOND, &tensors, second);
    file.write(&folder.join(FILE))
}
