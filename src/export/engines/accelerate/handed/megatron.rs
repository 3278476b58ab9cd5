//! The arguments of Megatron-LM that an Accelerate file says.

use serde_json::Value;

use super::super::read;
use crate::export::engines::megatron::CommandLine;
use crate::export::error::ImportError;
use crate::export::format::Read;
use crate::export::meaning::Scene;
use crate::export::reader::Reader;
use crate::export::syntax::{Document, Origin, Place, Syntax};
use crate::export::targets::Target;
use crate::strategy::Key;
use crate::units::ElementType;

const SECTION: &str = "megatron_lm_config.megatron_lm_";

/// Keys by the argument that each is (1.15.0 `utils/dataclasses.py`, MegatronLMPlugin).
const NAMES: [(&str, &str); 14] = [
    ("tp_degree", "tensor-model-parallel-size"),
    ("pp_degree", "pipeline-model-parallel-size"),
    ("sequence_parallelism", "sequence-parallel"),
    ("use_distributed_optimizer", "use-distributed-optimizer"),
    ("gradient_clipping", "clip-grad"),
    ("recompute_granularity", "recompute-granularity"),
    ("recompute_method", "recompute-method"),
    ("recompute_num_layers", "recompute-num-layers"),
    ("context_parallel_size", "context-parallel-size"),
    ("expert_model_parallel_size", "expert-model-parallel-size"),
    ("expert_tensor_parallel_size", "expert-tensor-parallel-size"),
    ("attention_dropout", "attention-dropout"),
    ("hidden_dropout", "hidden-dropout"),
    ("decoder_last_pipeline_num_layers", "decoder-last-pipeline-num-layers"),
];

/// Keys that versions before 1.12 do not have, and what they are where one of them stands and it is not said.
const NEWER: [(&str, &str, &str); 6] = [
    ("recompute_granularity", "recompute-granularity", "full"),
    ("recompute_method", "recompute-method", "uniform"),
    ("recompute_num_layers", "recompute-num-layers", "1"),
    ("context_parallel_size", "context-parallel-size", "2"),
    ("expert_model_parallel_size", "expert-model-parallel-size", "1"),
    ("expert_tensor_parallel_size", "expert-tensor-parallel-size", "1"),
];

/// Keys that change nothing of a step.
const IDLE: [&str; 5] = [
    "no_load_optim",
    "eod_mask_loss",
    "no_save_optim",
    "calculate_per_token_loss",
    "attention_softmax_in_fp32",
];

/// Switches whose runs are not read here.
const UNREAD: [(&str, &str); 4] = [
    ("use_custom_fsdp", "Megatron's own FSDP is not read from files of Accelerate"),
    ("optimizer_cpu_offload", "the optimizer's share on the host is not read from files of Accelerate"),
    (
        "overlap_cpu_optimizer_d2h_h2d",
        "the optimizer's share on the host is not read from files of Accelerate",
    ),
    ("use_precision_aware_optimizer", "types of optimizer state are not read from files of Accelerate"),
];

/// What the file means to Megatron-LM.
pub fn read(reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Read, ImportError> {
    let mut document = Document::translated(Syntax::Arguments);
    let own = |name: &str| format!("{SECTION}{name}");
    for (name, rule) in UNREAD {
        if read::switch(reader, &own(name), false)? {
            return Err(reader.refused(&own(name), rule).or(vec!["false".to_owned()]));
        }
    }
    for (name, argument) in NAMES {
        let path = own(name);
        // Numbers and switches may be words here, as the launcher's questions write them.
        let value = match reader.value(&path)? {
            Some(Value::String(word)) => crate::export::syntax::value_of(word),
            Some(value) => value.clone(),
            None => continue,
        };
        if let Some(found) = reader.document().get(&path).filter(|_| value != Value::Bool(false)) {
            document.set(argument, value, reader.document().origin(found));
        }
    }
    let mut notes =
        vec!["Model and sequence are the training script's; MODEL and --seq-len say them.".to_owned()];
    recomputation(reader, &mut document, &mut notes)?;
    let micro = scene.typed(|draft| &draft.micro_batch);
    let batches = reader.value(&own("num_micro_batches"))?.cloned().unwrap_or_else(|| 1.into());
    let batches = batches.as_u64().or_else(|| batches.as_str().and_then(|word| word.parse().ok()));
    let path = own("num_micro_batches");
    let batches = batches.filter(|number| *number > 0);
    let batches = batches.ok_or_else(|| reader.refused(&path, "a whole number of at least 1 is needed"))?;
    let size = |argument: &str| document.get(argument).and_then(|found| found.value.as_u64()).unwrap_or(1);
    let inside = size("tensor-model-parallel-size")
        .saturating_mul(size("pipeline-model-parallel-size"))
        .saturating_mul(size("context-parallel-size"));
    let data = (scene.devices / inside.max(1)).max(1);
    let one = |micro: u64| micro.saturating_mul(data).saturating_mul(batches);
    let micro = match (micro, scene.global_batch) {
        (Some(micro), _) => micro,
        (None, Some(batch)) if batch.is_multiple_of(one(1)) => batch / one(1),
        (None, Some(batch)) => {
            let rule = format!(
                "a global batch of {batch} is no multiple of {batches} micro-batches on each of {data} data ranks"
            );
            return Err(if reader.has(&path) {
                reader.refused(&path, rule)
            } else {
                ImportError::Missing { path, rule }
            });
        }
        (None, None) => {
            return Err(ImportError::Unsaid { what: "the micro-batch", flag: "--strategy micro=N" });
        }
    };
    let default = |path: &str| Origin { path: path.to_owned(), place: Place::Default };
    document.set("micro-batch-size", micro.into(), default("micro-batch-size"));
    document.set("global-batch-size", one(micro).into(), default("num_micro_batches"));
    let seq_len =
        scene.seq_len.ok_or(ImportError::Unsaid { what: "the sequence length", flag: "--seq-len N" })?;
    document.set("seq-length", seq_len.into(), default("seq-length"));
    match read::mixed_precision(reader)? {
        ElementType::Bf16 => document.set("bf16", true.into(), default("mixed_precision")),
        ElementType::Fp16 => document.set("fp16", true.into(), default("mixed_precision")),
        ElementType::Fp8 => {
            let rule = "products in 8 bits are not read from files of Accelerate for Megatron-LM";
            return Err(reader.refused("mixed_precision", rule));
        }
        _ => {}
    }
    for argument in ["attention-dropout", "hidden-dropout"] {
        if !document.says(argument) {
            document.set(argument, 0.0.into(), default(argument));
        }
    }
    strangers(reader)?;
    let mut read = Read::handed(Target { dialect: &CommandLine }, &document, reader, scene)?;
    read.meaning.notes.extend(notes);
    read.meaning.leave(Key::MicroBatch, true);
    Ok(read)
}

/// What blocks recompute, which versions say in two ways.
fn recomputation(
    reader: &Reader<'_>,
    document: &mut Document,
    notes: &mut Vec<String>,
) -> Result<(), ImportError> {
    let own = |name: &str| format!("{SECTION}{name}");
    let is_newer = NEWER.iter().any(|(name, ..)| reader.has(&own(name)));
    if is_newer {
        for (name, argument, usual) in NEWER {
            if !document.says(argument) {
                let origin = Origin { path: own(name), place: Place::Default };
                document.set(argument, crate::export::syntax::value_of(usual), origin);
            }
        }
        reader.value(&own("recompute_activations"))?;
        return Ok(());
    }
    if read::switch(reader, &own("recompute_activations"), false)? {
        let path = own("recompute_activations");
        let origin = reader.document().get(&path).map(|found| reader.document().origin(found));
        let origin = origin.unwrap_or(Origin { path, place: Place::Default });
        document.set("recompute-granularity", "selective".into(), origin);
    }
    notes.push(
        "The file is read as versions before 1.12 have it, without the keys of later ones: there \
         megatron_lm_context_parallel_size is 2 and megatron_lm_recompute_granularity is full where they are not said."
            .to_owned(),
    );
    Ok(())
}

/// Refuses keys of the section that are not known.
fn strangers(reader: &Reader<'_>) -> Result<(), ImportError> {
    let known = || {
        let read = NAMES.iter().map(|(name, _)| *name).chain(UNREAD.iter().map(|(name, _)| *name));
        read.chain(IDLE).chain(["num_micro_batches", "recompute_activations", "attention_backend"])
    };
    for found in &reader.document().found {
        let Some(name) = found.path.strip_prefix("megatron_lm_config.") else { continue };
        let name = name.strip_prefix("megatron_lm_").unwrap_or(name);
        if !known().any(|known| known == name) {
            let near = crate::spelling::nearest(name, known());
            return Err(reader.refused(&found.path, "what it makes of the run is not read here").or(near));
        }
    }
    Ok(())
}
