//! Saving a run: weights, configuration and state as one, as Hugging Face keeps them.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde_json::Map;

use super::error::WeightsError;
use super::folder::Staging;
use super::seal::{self, Seal};
use super::state::{FIRST, POSITION, SECOND, STEP, trained};
use super::tensor_file::{Source, TensorFile, framed};
use super::{CONFIG, STATE, WEIGHTS};
use crate::execute::contents::Kept;
use crate::files::Target;
use crate::model::tensors::{NamedTensor, tensors};
use crate::model::{Model, layer_graph};
use crate::units::{Bytes, ElementType};

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Steps done.
    pub step: u64,
    /// Sequences read.
    pub data_position: u64,
}

/// A save that is written and not yet in its folder.
pub struct Written {
    staging: Staging,
    folder: PathBuf,
}

impl Written {
    /// Puts it in its folder: all of its files appear at once, or what was there stays. Other files in the folder stay.
    ///
    /// # Errors
    /// When that is not possible.
    pub fn put(self) -> Result<(), WeightsError> {
        self.staging.commit().map_err(|error| WeightsError::unwritable(&self.folder, &error))
    }
}

/// Writes weights, configuration and state as one, for `folder`: `model.safetensors`, `config.json` and
/// `state.safetensors`.
///
/// Elements are fp64 under fp64, otherwise fp32. A model of our own layer graph has that graph as `config.json`.
///
/// # Errors
/// When a file cannot be written, or a value is not finite: then nothing is saved.
pub fn write(
    folder: &Path,
    model: &Model,
    element: ElementType,
    progress: Progress,
    source: &Source<'_>,
) -> Result<Written, WeightsError> {
    let config = match &model.config {
        Some(config) => serde_json::to_string_pretty(config),
        None => serde_json::to_string_pretty(&layer_graph::document(model)),
    };
    let config =
        config.map_err(|error| WeightsError::unwritable(&folder.join(CONFIG), &error.into()))? + "\n";
    let (weights, state) = (tensors(model), trained(model));
    let mut files = [TensorFile::new(element), TensorFile::new(element)];
    files[0].group("", &weights, Kept::Parameters);
    files[1].number(STEP, progress.step);
    files[1].number(POSITION, progress.data_position);
    files[1].group(FIRST, &state, Kept::FirstMoments);
    files[1].group(SECOND, &state, Kept::SecondMoments);

    let staging = Staging::new(folder).map_err(|error| WeightsError::unwritable(folder, &error))?;
    let mut seal = Seal { config: seal::digest(config.as_bytes()), ..Seal::blank(progress.step) };
    let mut written = Vec::new();
    for (name, file) in [WEIGHTS, STATE].into_iter().zip(&files) {
        let shown = folder.join(name);
        written.push(file.begin(&staging.file(name), &seal, &shown, source)?);
    }
    [seal.weights, seal.state] = [&written[0], &written[1]].map(|(_, digest)| digest.clone());
    for ((name, tensors), (mut file, _)) in [WEIGHTS, STATE].into_iter().zip(&files).zip(written) {
        let mut end = || -> io::Result<()> {
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&framed(&seal::sealed(&tensors.header(seal.metadata()))))?;
            file.sync_all()
        };
        end().map_err(|error| WeightsError::unwritable(&folder.join(name), &error))?;
    }
    let write = || -> io::Result<()> {
        let mut file = File::create_new(staging.file(CONFIG))?;
        file.write_all(config.as_bytes())?;
        file.sync_all()
    };
    write().map_err(|error| WeightsError::unwritable(&folder.join(CONFIG), &error))?;
    Ok(Written { staging, folder: folder.to_owned() })
}

/// Writes some of a model's tensors (all parts of each) as one safetensors file, e.g. gradients, to `target`.
///
/// # Errors
/// When it cannot be written.
pub fn save_tensors(
    target: &Target,
    (tensors, kept): (&[NamedTensor], Kept),
    element: ElementType,
    source: &Source<'_>,
) -> io::Result<()> {
    let mut tensor_file = TensorFile::new(element);
    tensor_file.group("", tensors, kept);
    let header = tensor_file.header(Map::new());
    target.write(|file| {
        file.write_all(&framed(&header))?;
        tensor_file.tensors(source, |_, bytes, _| file.write_all(bytes))
    })
}

/// That the weights are numbers, as they would be stored.
///
/// # Errors
/// [`WeightsError::NotFinite`] if they are not.
pub fn check(
    model: &Model,
    element: ElementType,
    step: u64,
    source: &Source<'_>,
) -> Result<(), WeightsError> {
    let tensors = tensors(model);
    let mut file = TensorFile::new(element);
    file.group("", &tensors, Kept::Parameters);
    file.check(step, source)
}

/// The most that [`write()`] holds at once for tensors of `model`, beside what they are read from.
pub fn memory_of_saving(model: &Model, element: ElementType) -> Bytes {
    let tensors = tensors(model);
    let mut file = TensorFile::new(element);
    file.group("", &tensors, Kept::Parameters);
    file.memory()
}
