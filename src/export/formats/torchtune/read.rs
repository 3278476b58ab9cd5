//! What a recipe of torchtune means: FSDP2 over all ranks, state in the parameters' type.

use serde_json::Value;

use super::MODEL;
use crate::export::error::ImportError;
use crate::export::format::Read;
use crate::export::meaning::{Meaning, Scene};
use crate::export::reader::Reader;
use crate::export::runner::Runner;
use crate::strategy::{
    CheckpointEntry, CheckpointMode, ContextKind, GradientSync, Key, LossMode, OffloadCategory,
};
use crate::units::ElementType;

/// Losses whose head is part of them, or whose logits come in chunks.
const CHUNKED: [&str; 4] = [
    "LinearCrossEntropyLoss",
    "CEWithChunkedOutputLoss",
    "ChunkedCrossEntropyLoss",
    "LigerLinearCrossEntropy",
];

/// What the settings mean.
pub fn read(reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Read, ImportError> {
    let mut meaning = Meaning::default();
    components(reader, &mut meaning)?;
    sizes(reader, scene, &mut meaning)?;
    batch(reader, &mut meaning)?;
    state(reader, &mut meaning)?;
    recomputation(reader, &mut meaning)?;
    meaning.is_compiled = reader.value("compile")?.is_some_and(|value| *value != Value::Bool(false));
    meaning.compiles_loss = meaning.is_compiled;
    meaning.seq_len = reader.size("tokenizer.max_seq_len")?;
    meaning
        .notes
        .push("torchtune runs FSDP2 of PyTorch, as torchtitan does, whose times are taken.".to_owned());
    if !reader.is_on("dataset.packed")? {
        meaning.notes.push(
            "Without dataset.packed, sequences are as long as the longest of a batch; all are predicted with \
             max_seq_len tokens."
                .to_owned(),
        );
    }
    meaning.leave(Key::Attention, true);
    Ok(Read { runner: Runner::Profile("torchtitan"), meaning, left: Vec::new() })
}

/// What is trained, by which optimizer, on which loss.
fn components(reader: &Reader<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let named =
        |path: &str| reader.word(path).map(|word| word.map(|word| word.rsplit('.').next().unwrap_or(word)));
    if let Some(model) = reader.word(MODEL)? {
        is_whole(reader, model)?;
    }
    let path = "optimizer._component_";
    if let Some(optimizer) = named(path)?
        && !["AdamW", "Adam"].contains(&optimizer)
    {
        let rule = "state other than two moments of each parameter is not modelled, as AdamW has";
        return Err(reader.refused(path, rule).or(vec!["torch.optim.AdamW".to_owned()]));
    }
    let path = "loss._component_";
    match named(path)? {
        Some(loss) if CHUNKED.contains(&loss) => {
            meaning.draft.loss = Some(LossMode::Chunked);
            meaning.brings_chunked_loss = true;
        }
        Some("CrossEntropyLoss") | None => meaning.draft.loss = Some(LossMode::Full),
        Some(_) => return Err(reader.refused(path, "only the cross-entropy of the next token is planned")),
    }
    Ok(())
}

/// That the whole model is trained, and on text.
pub fn is_whole(reader: &Reader<'_>, component: &str) -> Result<(), ImportError> {
    let model = component.rsplit('.').next().unwrap_or(component);
    if model.starts_with("lora_") || model.starts_with("qlora_") {
        let rule = "LoRA is not planned yet; recipes of the whole model are";
        let whole = component.replace("qlora_", "").replace("lora_", "");
        return Err(reader.refused(MODEL, rule).or(vec![whole]));
    }
    if ["reward", "vision", "early_fusion"].iter().any(|word| model.contains(word)) {
        return Err(reader.refused(MODEL, "only models of text that predict the next token are planned"));
    }
    Ok(())
}

fn sizes(reader: &Reader<'_>, scene: &Scene<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let size = |name: &str| Ok::<u64, ImportError>(reader.size(name)?.unwrap_or(1));
    let (tensor, context) = (size("tensor_parallel_dim")?, size("context_parallel_dim")?);
    let replicas = size("data_parallel_replicate_dim")?;
    let shard = "data_parallel_shard_dim";
    let inside = tensor.saturating_mul(context).saturating_mul(replicas);
    let left = scene.devices / inside.max(1);
    let shards = match reader.whole(shard)? {
        None | Some(-1) => left,
        Some(number) => u64::try_from(number).unwrap_or(0),
    };
    if shards == 0 || shards.checked_mul(inside) != Some(scene.devices) {
        let rule = format!(
            "shards {shards}, replicas {replicas}, tensor {tensor} and context {context} do not multiply to the {} devices",
            scene.devices
        );
        let fields = [shard, "data_parallel_replicate_dim", "tensor_parallel_dim", "context_parallel_dim"];
        let field = fields.into_iter().find(|field| reader.has(field)).unwrap_or(shard);
        return Err(reader.refused(field, rule));
    }
    reader.value("tensor_parallel_plan")?;
    reader.value("tensor_parallel_plan._component_")?;
    let draft = &mut meaning.draft;
    draft.tensor = Some(tensor);
    draft.context = Some(context);
    draft.context_kind = (context > 1).then_some(ContextKind::Ring);
    draft.pipeline = Some(1);
    draft.data = Some(replicas.saturating_mul(shards));
    draft.sequence_parallel = (tensor > 1).then_some(false);
    draft.zero = Some(3);
    draft.shard = (replicas > 1).then_some(shards);
    let reshard = reader.switch("fsdp_reshard_after_forward")?.unwrap_or(true);
    draft.reshard_after_forward = Some(reshard);
    // Nothing holds gradients back between the backwards of a step.
    draft.sync = Some(GradientSync::Immediate);
    Ok(())
}

fn batch(reader: &Reader<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let micro = reader.size("batch_size")?;
    let micro = micro.ok_or_else(|| ImportError::Missing {
        path: "batch_size".to_owned(),
        rule: "a recipe needs it".to_owned(),
    })?;
    let steps = reader.size("gradient_accumulation_steps")?.unwrap_or(1);
    let data = meaning.draft.data.unwrap_or(1);
    meaning.draft.micro_batch = Some(micro);
    meaning.draft.accumulation = Some(steps);
    meaning.global_batch = Some(micro.saturating_mul(steps).saturating_mul(data));
    Ok(())
}

/// Types, and what is on the host.
fn state(reader: &Reader<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let types = [("bf16", ElementType::Bf16), ("fp32", ElementType::Fp32)];
    let precision = reader.choice("dtype", &types)?.unwrap_or(ElementType::Fp32);
    meaning.precision = Some(precision);
    // Parameters, gradients and moments have the one type.
    meaning.is_in_one_type = precision == ElementType::Bf16;
    meaning.clip = Some(reader.real("clip_grad_norm")?.unwrap_or(0.0));
    if reader.is_on("fsdp_cpu_offload")? {
        let all = |category| (category, vec![1.0]);
        meaning.draft.offload = Some(vec![all(OffloadCategory::Optimizer), all(OffloadCategory::Parameters)]);
    }
    Ok(())
}

fn recomputation(reader: &Reader<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let recomputes = reader.is_on("enable_activation_checkpointing")?;
    let path = "ac_mode";
    let modes = [("full", 0), ("selective", 1), ("None", 2)];
    let mode = reader.choice(path, &modes)?;
    let every = reader.value("ac_option")?.cloned();
    if mode == Some(1) {
        let number = every.as_ref().and_then(Value::as_u64);
        if number != Some(1) {
            let rule =
                "blocks that recompute by turns, or operators that keep theirs, are not read from torchtune";
            return Err(reader.refused(path, rule).or(vec!["full".to_owned()]));
        }
    }
    if recomputes || matches!(mode, Some(0 | 1)) {
        meaning.draft.checkpoint = Some(vec![CheckpointEntry::Whole(CheckpointMode::Full)]);
    }
    let path = "enable_activation_offloading";
    if reader.is_on(path)? {
        if !recomputes {
            let rule = "torchtune takes it beside enable_activation_checkpointing only";
            return Err(reader.refused(path, rule).or(vec!["false".to_owned()]));
        }
        let list = meaning.draft.offload.get_or_insert_default();
        list.push((OffloadCategory::Activations, vec![1.0]));
        meaning.moves_inputs = true;
    }
    Ok(())
}
