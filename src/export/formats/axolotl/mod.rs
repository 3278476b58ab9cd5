//! axolotl: the YAML file of `axolotl train`.

mod keys;
mod translated;

use serde_json::Value;

use crate::export::error::ImportError;
use crate::export::format::{Format, Key, Read, refuse};
use crate::export::formats::trainer::{ATTENTION, Around, named_model, run, switch};
use crate::export::meaning::{ModelClue, Scene};
use crate::export::reader::Reader;
use crate::export::syntax::{Document, Syntax};
use crate::strategy::AttentionKernel;

/// axolotl 0.13.
pub struct Axolotl;

const MARKS: [&str; 16] = [
    "base_model",
    "sequence_len",
    "micro_batch_size",
    "sample_packing",
    "datasets",
    "val_set_size",
    "pad_to_sequence_len",
    "dataset_prepared_path",
    "num_epochs",
    "lr_scheduler",
    "wandb_project",
    "flash_attention",
    "gradient_checkpointing",
    "gradient_accumulation_steps",
    "fsdp_config",
    "deepspeed",
];

/// Tokens a sequence where nothing says them (`utils/schemas/config.py`).
const LENGTH: u64 = 512;

impl Format for Axolotl {
    fn name(&self) -> &'static str {
        "axolotl"
    }

    fn version(&self) -> &'static str {
        "0.13"
    }

    fn source(&self) -> &'static str {
        "axolotl-ai-cloud/axolotl 067b021c8 utils/schemas, core/builders"
    }

    fn syntaxes(&self) -> &'static [Syntax] {
        &[Syntax::Yaml]
    }

    fn engines(&self) -> &'static [&'static str] {
        &["accelerate", "deepspeed"]
    }

    fn keys(&self) -> &'static [Key] {
        keys::KEYS
    }

    fn recognises(&self, document: &Document) -> usize {
        if !document.says("base_model") {
            return 0;
        }
        MARKS.iter().filter(|mark| document.says(mark)).count()
    }

    fn is_strict(&self) -> bool {
        // What its schema does not know it drops.
        false
    }

    fn model(&self, reader: &Reader<'_>) -> Result<Option<ModelClue>, ImportError> {
        named_model(reader, "base_model")
    }

    fn read(&self, reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Read, ImportError> {
        refuse(self.keys(), reader)?;
        reader.value("base_model")?;
        let document = translated::arguments(reader, scene)?;
        let inner = reader.of_part(&document);
        let mut read = run(&inner, scene, &around(reader)?)?;
        let context = translated::context(reader)?;
        if context > 1 {
            read.meaning.draft.context_kind = Some(crate::strategy::ContextKind::Ring);
        }
        Ok(read)
    }
}

/// What is said beside the arguments of the Trainer.
fn around(reader: &Reader<'_>) -> Result<Around, ImportError> {
    let path = "gradient_checkpointing";
    let offload = [("offload", true), ("offload_disk", false)];
    let (recomputes, mut inputs_on_host) = match reader.value(path)? {
        Some(Value::String(_)) => {
            let is_host = reader.choice(path, &offload)?.unwrap_or(false);
            if !is_host {
                let rule = "inputs of blocks on a disk are not modelled";
                return Err(reader.refused(path, rule).or(vec!["offload".to_owned()]));
            }
            (true, true)
        }
        _ => (switch(reader, path, false)?, false),
    };
    let path = "activation_offloading";
    match reader.value(path)? {
        None | Some(Value::Bool(false)) => {}
        Some(Value::Bool(true)) | Some(Value::String(_))
            if recomputes && reader.name(path) != Some("disk") =>
        {
            inputs_on_host = true;
        }
        Some(_) => {
            let rule = "it is modelled beside gradient_checkpointing and in host memory only";
            return Err(reader.refused(path, rule).or(vec!["false".to_owned()]));
        }
    }
    let mut attention = reader.choice("attn_implementation", &ATTENTION)?;
    for name in ["flash_attention", "sdp_attention", "xformers_attention", "flex_attention", "sage_attention"]
    {
        if switch(reader, name, false)? {
            attention = attention.or(Some(AttentionKernel::Fused));
        }
    }
    if switch(reader, "eager_attention", false)? {
        attention = Some(AttentionKernel::Materialised);
    }
    let mut chunks_loss = false;
    for name in ["liger_fused_linear_cross_entropy", "cut_cross_entropy", "chunked_cross_entropy"] {
        chunks_loss |= switch(reader, name, false)?;
    }
    let mut notes = Vec::new();
    let (is_packed, is_padded) =
        (switch(reader, "sample_packing", false)?, switch(reader, "pad_to_sequence_len", false)?);
    if !is_packed && !is_padded {
        notes.push("Without sample_packing, sequences are as long as the longest of a batch; all are predicted with sequence_len tokens.".to_owned());
    }
    Ok(Around {
        seq_len: Some(reader.size("sequence_len")?.unwrap_or(LENGTH)),
        recomputes,
        inputs_on_host,
        attention,
        chunks_loss,
        // Parameters are loaded in the type that bf16 or fp16 say.
        is_half: translated::precision(reader)?.is_some(),
        notes,
    })
}
