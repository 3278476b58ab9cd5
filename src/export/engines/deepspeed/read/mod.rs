//! What settings of DeepSpeed 0.19 mean.

pub mod inner;
mod refused;
mod sizes;
mod state;

use crate::export::error::ImportError;
use crate::export::meaning::{Meaning, Scene};
use crate::export::reader::Reader;
use crate::strategy::Key;

/// What the settings mean.
pub fn read(reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Meaning, ImportError> {
    refused::check(reader)?;
    let mut meaning = Meaning::default();
    sizes::sizes(reader, scene, &mut meaning)?;
    sizes::batch(reader, scene, &mut meaning)?;
    state::precision(reader, &mut meaning)?;
    state::zero(reader, scene, &mut meaning)?;
    state::gradients(reader, &mut meaning)?;
    state::offload(reader, &mut meaning)?;
    inner::cuts(reader, scene, &mut meaning)?;
    inner::checkpoint(reader, scene, &mut meaning)?;
    inner::experts(reader, scene, &mut meaning)?;
    refused::strangers(reader)?;
    // The model's own: attn_implementation of transformers.
    meaning.leave(Key::Attention, true);
    Ok(meaning)
}

/// Whether `path` is left to who calls DeepSpeed (the Trainer of transformers, Accelerate), which fill it in.
fn is_auto(reader: &Reader<'_>, path: &str) -> bool {
    reader.name(path) == Some("auto")
}

/// A switch; where it is not said or left open, what DeepSpeed does then.
fn is_on(reader: &Reader<'_>, path: &str, usual: bool) -> Result<bool, ImportError> {
    if is_auto(reader, path) { Ok(usual) } else { Ok(reader.switch(path)?.unwrap_or(usual)) }
}
