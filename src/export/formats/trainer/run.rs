//! What TrainingArguments come to: a run of DeepSpeed, of FSDP, or of replicas.

use serde_json::Value;

use super::around::{Around, switch};
use super::{deepspeed, sharded};
use crate::export::engines::{accelerate, deepspeed as own};
use crate::export::error::ImportError;
use crate::export::format::Read;
use crate::export::meaning::{ModelClue, Scene};
use crate::export::reader::Reader;
use crate::export::syntax::{Origin, Place};
use crate::export::targets::Target;
use crate::model::preset_named;

/// Sequences a micro-batch where nothing says them (transformers 4.57 `training_args.py`).
pub const MICRO: u64 = 8;

/// Optimizers with two 32-bit moments of each parameter (or of the parameter's type, where that is kept alone).
const OPTIMIZERS: [&str; 6] = [
    "adamw_torch",
    "adamw_torch_fused",
    "adamw_hf",
    "adamw_apex_fused",
    "adamw_torch_npu_fused",
    "adamw_torch_xla",
];

/// What the arguments mean.
///
/// # Errors
/// If transformers or the engine refuse them, or they make a run that is not modelled.
pub fn run(reader: &Reader<'_>, scene: &Scene<'_>, around: &Around) -> Result<Read, ImportError> {
    optimizer(reader)?;
    let shards = sharded::options(reader)?;
    let file = "config_file";
    let launched = reader.part(file)?;
    let mut read = if let Some(document) = reader.part("deepspeed")? {
        let document = deepspeed::filled(reader, document, scene)?;
        Read::handed(Target { dialect: &own::Config }, &document, reader, scene)?
    } else if let Some(launched) = launched {
        let inner = reader.of_part(&launched);
        if inner.name("distributed_type") == Some("DEEPSPEED") {
            let document = accelerate::deepspeed_settings(&inner)?;
            let document = deepspeed::filled(reader, document, scene)?;
            Read::handed(Target { dialect: &own::Config }, &document, reader, scene)?
        } else {
            let document = sharded::launched(reader, launched)?;
            Read::handed(Target { dialect: &accelerate::Config }, &document, reader, scene)?
        }
    } else {
        let document = sharded::settings(reader, scene)?;
        Read::handed(Target { dialect: &accelerate::Config }, &document, reader, scene)?
    };
    let clip = reader.real("max_grad_norm")?.unwrap_or(1.0);
    if read.runner.profile() == "deepspeed" && !shards.is_empty() {
        let rule = "DeepSpeed shards already: leave one of them out";
        return Err(reader.refused("fsdp", rule).or(vec!["null".to_owned()]));
    }
    let meaning = &mut read.meaning;
    meaning.clip = meaning.clip.or(Some(clip));
    meaning.is_compiled |= switch(reader, "torch_compile", false)?;
    let is_replicated = meaning.draft.zero == Some(0) && read.runner.profile() == "accelerate";
    // Whoever shards keeps masters in 32 bits; replicas are updated as they were loaded.
    meaning.is_in_one_type = around.is_half && is_replicated;
    around.into(meaning);
    Ok(read)
}

/// Refuses optimizers with other state than Adam's.
fn optimizer(reader: &Reader<'_>) -> Result<(), ImportError> {
    let path = "optim";
    let Some(word) = reader.value(path)?.and_then(Value::as_str) else { return Ok(()) };
    if OPTIMIZERS.contains(&word) {
        return Ok(());
    }
    let rule = "state other than two moments of each parameter is not modelled, as AdamW has";
    Err(reader.refused(path, rule).or(vec!["adamw_torch".to_owned()]))
}

/// The model that `path` names: a preset by its name at the hub.
///
/// # Errors
/// If it is no name.
pub fn named_model(reader: &Reader<'_>, path: &str) -> Result<Option<ModelClue>, ImportError> {
    let Some(name) = reader.known(path).and_then(Value::as_str) else { return Ok(None) };
    Ok(Some(match preset_named(name) {
        Some(preset) => ModelClue::Preset(preset.name),
        None => ModelClue::Unknown(name.to_owned()),
    }))
}

/// A whole number of the arguments with its place, or what holds where it is not said.
pub fn number(reader: &Reader<'_>, path: &str, usual: u64) -> Result<(u64, Origin), ImportError> {
    let said = reader.size(path)?;
    let place = Origin { path: path.to_owned(), place: Place::Default };
    let origin = reader.document().get(path).map_or(place, |found| reader.document().origin(found));
    Ok((said.unwrap_or(usual), origin))
}
