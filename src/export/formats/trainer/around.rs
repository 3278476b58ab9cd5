//! What a program says beside TrainingArguments: the sequence, what blocks recompute, which kernels the model has.

use serde_json::Value;

use super::plain::{recomputes_by_call, type_word};
use crate::export::error::ImportError;
use crate::export::meaning::Meaning;
use crate::export::reader::Reader;
use crate::export::syntax::Document;
use crate::strategy::{AttentionKernel, CheckpointEntry, CheckpointMode, Key, LossMode, OffloadCategory};

/// What is said beside the arguments of the Trainer.
#[derive(Clone, Debug, Default)]
pub struct Around {
    pub seq_len: Option<u64>,
    pub recomputes: bool,
    /// Inputs of blocks that recompute lie on the host.
    pub inputs_on_host: bool,
    /// None where transformers choose, which is fused.
    pub attention: Option<AttentionKernel>,
    /// Head and loss are made a chunk of tokens at a time.
    pub chunks_loss: bool,
    /// Parameters are loaded in 16 bits and stay so where nothing keeps masters of them.
    pub is_half: bool,
    pub notes: Vec<String>,
}

/// Arguments by which scripts say the tokens of a sequence, those of their first use in the most known ones.
const LENGTHS: [&str; 7] = [
    "max_seq_length",
    "max_seq_len",
    "max_length",
    "model_max_length",
    "block_size",
    "cutoff_len",
    "seq_length",
];

/// The attention of transformers: `eager` makes scores and probabilities tensors, all others are fused.
pub const ATTENTION: [(&str, AttentionKernel); 6] = [
    ("eager", AttentionKernel::Materialised),
    ("sdpa", AttentionKernel::Fused),
    ("flash_attention_2", AttentionKernel::Fused),
    ("flash_attention_3", AttentionKernel::Fused),
    ("flex_attention", AttentionKernel::Fused),
    ("kernels-community/flash-attn", AttentionKernel::Fused),
];

impl Around {
    /// What the arguments of a script say, and what its text does.
    pub fn of_script(reader: &Reader<'_>, whole: &Document) -> Result<Self, ImportError> {
        let mut seq_len = None;
        for name in LENGTHS {
            seq_len = seq_len.or(reader.size(name)?);
        }
        let attention = reader.choice("attn_implementation", &ATTENTION)?;
        let recomputes = switch(reader, "gradient_checkpointing", false)? || recomputes_by_call(whole);
        let mut is_half = false;
        for name in ["torch_dtype", "dtype"] {
            let word = reader.value(name)?.and_then(type_word);
            is_half |=
                word.is_some_and(|word| ["bfloat16", "bf16", "float16", "fp16", "half"].contains(&word));
        }
        Ok(Self { seq_len, recomputes, attention, is_half, chunks_loss: liger(reader)?, ..Self::default() })
    }

    /// Puts it into what an engine makes of the rest.
    pub fn into(&self, meaning: &mut Meaning) {
        meaning.seq_len = meaning.seq_len.or(self.seq_len);
        let draft = &mut meaning.draft;
        if self.recomputes {
            draft.checkpoint = Some(vec![CheckpointEntry::Whole(CheckpointMode::Full)]);
        }
        meaning.open.retain(|key| *key != Key::Checkpoint);
        meaning.moves_inputs = self.inputs_on_host;
        if self.inputs_on_host {
            let list = draft.offload.get_or_insert_default();
            list.retain(|(category, _)| *category != OffloadCategory::Activations);
            list.push((OffloadCategory::Activations, vec![1.0]));
        }
        if let Some(attention) = self.attention {
            draft.attention = Some(attention);
            meaning.open.retain(|key| *key != Key::Attention);
        }
        if self.chunks_loss {
            draft.loss = Some(LossMode::Chunked);
            meaning.brings_chunked_loss = true;
        }
        let is_about_script =
            |note: &String| note.contains("said in Python") || note.contains("training script's");
        meaning.notes.retain(|note| !is_about_script(note));
        meaning.notes.extend(self.notes.iter().cloned());
    }
}

/// Whether Liger's kernels make the loss.
fn liger(reader: &Reader<'_>) -> Result<bool, ImportError> {
    let mut is_on = false;
    for name in ["use_liger_kernel", "use_liger"] {
        is_on |= switch(reader, name, false)?;
    }
    Ok(is_on)
}

/// A switch, which may be a word; and one that is named alone is on.
pub fn switch(reader: &Reader<'_>, path: &str, usual: bool) -> Result<bool, ImportError> {
    match reader.value(path)? {
        None => Ok(usual),
        Some(Value::Bool(on)) => Ok(*on),
        Some(Value::String(word)) => match word.to_ascii_lowercase().as_str() {
            "true" | "yes" | "1" | "t" | "y" => Ok(true),
            "false" | "no" | "0" | "f" | "n" | "none" => Ok(false),
            _ => Err(reader.refused(path, "true or false is needed")),
        },
        Some(_) => Err(reader.refused(path, "true or false is needed")),
    }
}
