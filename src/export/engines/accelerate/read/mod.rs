//! What settings of Accelerate 1.15 mean.

mod kind;
mod sizes;

use self::kind::Kind;
pub use self::kind::{is_local, known};
pub use self::sizes::processes;
use super::script;
use crate::export::error::ImportError;
use crate::export::meaning::{Meaning, Scene};
use crate::export::reader::{Reader, multiples};
use crate::strategy::{AttentionKernel, CheckpointEntry, CheckpointMode, GradientSync, Key, OffloadCategory};
use crate::units::ElementType;
use serde_json::Value;

/// What the settings mean.
pub fn read(reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Meaning, ImportError> {
    kind::known(reader)?;
    let mut meaning = Meaning::default();
    let kind = kind::kind(reader)?;
    sizes::sizes(reader, scene, kind, &mut meaning)?;
    let is_sharded = meaning.draft.zero == Some(3);
    if kind != Kind::Replicated {
        wrapping(reader, &mut meaning)?;
        inside(reader, kind, is_sharded, &mut meaning)?;
    } else if is_on(reader, script::CHECKPOINT)? {
        meaning.draft.checkpoint = Some(vec![CheckpointEntry::Whole(CheckpointMode::Full)]);
    }
    batch(reader, scene, &mut meaning)?;
    precision(reader, &mut meaning)?;
    compilation(reader, &mut meaning)?;
    let kernels = [
        ("eager", AttentionKernel::Materialised),
        ("sdpa", AttentionKernel::Fused),
        ("flash_attention_2", AttentionKernel::Fused),
        ("flash_attention_3", AttentionKernel::Fused),
        ("flex_attention", AttentionKernel::Fused),
    ];
    meaning.draft.attention = reader.choice(script::ATTENTION, &kernels)?;
    // What sync_each_batch would change is said in Python, and so is what the model itself recomputes.
    let is_several = meaning.draft.accumulation != Some(1);
    meaning.draft.sync = is_several.then_some(GradientSync::Deferred);
    let open = [
        (Key::Sync, true),
        (Key::Attention, meaning.draft.attention.is_none()),
        (Key::Checkpoint, meaning.draft.checkpoint.is_none()),
    ];
    for (key, is_open) in open {
        meaning.leave(key, is_open);
    }
    Ok(meaning)
}

/// A switch, which may be a word.
fn is_on(reader: &Reader<'_>, path: &str) -> Result<bool, ImportError> {
    switch(reader, path, false)
}

/// The same, with what holds where it is not said.
pub fn switch(reader: &Reader<'_>, path: &str, usual: bool) -> Result<bool, ImportError> {
    match reader.value(path)? {
        None => Ok(usual),
        Some(Value::Bool(on)) => Ok(*on),
        Some(Value::String(word)) => match word.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Ok(true),
            "false" | "no" | "off" | "0" => Ok(false),
            _ => Err(reader.refused(path, "true or false is needed")),
        },
        Some(_) => Err(reader.refused(path, "true or false is needed")),
    }
}

/// The path of a key of `fsdp_config`, which may stand without its prefix.
fn sharding(reader: &Reader<'_>, name: &str) -> String {
    let [long, short] = ["fsdp_", ""].map(|prefix| format!("fsdp_config.{prefix}{name}"));
    if reader.has(&short) && !reader.has(&long) { short } else { long }
}

/// What is wrapped: blocks, as predicted.
fn wrapping(reader: &Reader<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let path = sharding(reader, "auto_wrap_policy");
    let choices = [("TRANSFORMER_BASED_WRAP", 0), ("SIZE_BASED_WRAP", 1), ("NO_WRAP", 2)];
    match reader.choice(&path, &choices)? {
        Some(0) => {}
        Some(1) => meaning.notes.push("Modules are wrapped by size; they are predicted block by block.".to_owned()),
        Some(_) => {
            let rule = "a model that is gathered whole is not modelled";
            return Err(reader.refused(&path, rule).or(vec!["TRANSFORMER_BASED_WRAP".to_owned()]));
        }
        None => meaning.notes.push(
            "The file names no fsdp_auto_wrap_policy, which gathers the model whole; it is predicted block by block."
                .to_owned(),
        ),
    }
    Ok(())
}

/// What blocks recompute, and what is on the host.
fn inside(
    reader: &Reader<'_>,
    kind: Kind,
    is_sharded: bool,
    meaning: &mut Meaning,
) -> Result<(), ImportError> {
    let draft = &mut meaning.draft;
    let path = sharding(reader, "activation_checkpointing");
    let recomputes = is_on(reader, &path)? || is_on(reader, script::CHECKPOINT)?;
    if recomputes {
        draft.checkpoint = Some(vec![CheckpointEntry::Whole(CheckpointMode::Full)]);
    }
    let mut list = Vec::new();
    let all = |category| (category, vec![1.0]);
    if is_on(reader, &sharding(reader, "offload_params"))? && is_sharded {
        list.extend([all(OffloadCategory::Optimizer), all(OffloadCategory::Parameters)]);
    }
    let path = sharding(reader, "activation_checkpointing_offload");
    if is_on(reader, &path)? {
        if !recomputes || kind == Kind::First {
            let rule = "it goes with fsdp_activation_checkpointing and fsdp_version 2 only";
            return Err(reader.refused(&path, rule).or(vec!["false".to_owned()]));
        }
        list.push(all(OffloadCategory::Activations));
    }
    draft.offload = (!list.is_empty()).then_some(list);
    if let Some(path) = Some(sharding(reader, "ignored_modules")).filter(|path| reader.has(path)) {
        return Err(reader.refused(&path, "modules that are not sharded are not modelled"));
    }
    Ok(())
}

/// The batch, of which the file says only what we wrote into it.
fn batch(reader: &Reader<'_>, scene: &Scene<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let (micro, steps) = (reader.size(script::MICRO)?, reader.size(script::STEPS)?);
    meaning.leave(Key::MicroBatch, micro.is_none());
    meaning.leave(Key::Accumulation, steps.is_none());
    let micro = micro.or_else(|| scene.typed(|draft| &draft.micro_batch));
    let steps = steps.or_else(|| scene.typed(|draft| &draft.accumulation));
    let data = meaning.draft.data.unwrap_or(1);
    let once = micro.unwrap_or(1).saturating_mul(data);
    let global = match steps.filter(|_| micro.is_some()) {
        Some(steps) => once.saturating_mul(steps),
        None => scene.needed_global_batch()?,
    };
    if micro.is_none() {
        meaning.notes.push(
            "The micro-batch is the training script's; 1 sequence is taken, and --strategy micro=N says another."
                .to_owned(),
        );
    }
    if !global.is_multiple_of(once) {
        let rule = format!(
            "a global batch of {global} is no multiple of {once}, {} sequences on each of {data} data ranks: give --global-batch {}",
            micro.unwrap_or(1),
            multiples(global, once).join(" or ")
        );
        let path = if reader.has(script::MICRO) { script::MICRO } else { "distributed_type" };
        return Err(reader.refused(path, rule));
    }
    meaning.draft.micro_batch = Some(micro.unwrap_or(1));
    meaning.draft.accumulation = Some(global / once);
    meaning.global_batch = Some(global);
    Ok(())
}

/// The type that `mixed_precision` says.
pub fn mixed_precision(reader: &Reader<'_>) -> Result<ElementType, ImportError> {
    let path = "mixed_precision";
    let types = [
        ("no", ElementType::Fp32),
        ("fp16", ElementType::Fp16),
        ("bf16", ElementType::Bf16),
        ("fp8", ElementType::Fp8),
    ];
    // Without quotes, YAML takes `no` for false.
    let is_off = reader.value(path)?.is_some_and(|value| *value == Value::Bool(false));
    let said = if is_off { Some(ElementType::Fp32) } else { reader.choice(path, &types)? };
    let older = is_on(reader, "fp16")?;
    Ok(said.unwrap_or(if older { ElementType::Fp16 } else { ElementType::Fp32 }))
}

fn precision(reader: &Reader<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let precision = mixed_precision(reader)?;
    meaning.precision = Some(precision);
    if precision == ElementType::Fp8 {
        let path = "fp8_config.backend";
        let backend = reader.choice(path, &[("AO", true), ("TE", true), ("MSAMP", false)])?;
        if backend == Some(false) {
            let rule = "optimizer state and gradients in 8 bits are not modelled";
            return Err(reader.refused(path, rule).or(vec!["AO".to_owned()]));
        }
        // By itself torchao gathers in 8 bits.
        if backend == Some(true) && switch(reader, "fp8_config.enable_fsdp_float8_all_gather", true)? {
            meaning.notes.push("Parameters are gathered in 8 bits; they are predicted in bf16.".to_owned());
        }
    }
    Ok(())
}

/// Whether the model is compiled.
pub fn compilation(reader: &Reader<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let choices = [("NO", false), ("EAGER", false), ("AOT_EAGER", false), ("INDUCTOR", true)];
    for path in ["dynamo_config.dynamo_backend", "dynamo_config.backend", "dynamo_backend"] {
        // As `no` of the precision.
        let is_off = reader.value(path)?.is_some_and(|value| *value == Value::Bool(false));
        meaning.is_compiled |= !is_off && reader.choice(path, &choices)?.unwrap_or(false);
    }
    Ok(())
}
