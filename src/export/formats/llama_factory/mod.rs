//! LLaMA-Factory: the YAML or JSON file of `llamafactory-cli train`.

mod keys;

use crate::export::error::ImportError;
use crate::export::format::{Format, Key, Read, refuse};
use crate::export::formats::trainer::{Around, named_model, run, switch};
use crate::export::meaning::{ModelClue, Scene};
use crate::export::reader::Reader;
use crate::export::syntax::{Document, Syntax};
use crate::strategy::AttentionKernel;

/// LLaMA-Factory 0.9.
pub struct LlamaFactory;

/// Settings that only its files have.
const MARKS: [&str; 10] = [
    "finetuning_type",
    "stage",
    "cutoff_len",
    "template",
    "dataset_dir",
    "dataset",
    "plot_loss",
    "flash_attn",
    "model_name_or_path",
    "per_device_train_batch_size",
];

/// Tokens a sequence where nothing says them (0.9.6 `hparams/data_args.py`).
const LENGTH: u64 = 2048;

impl Format for LlamaFactory {
    fn name(&self) -> &'static str {
        "llama-factory"
    }

    fn version(&self) -> &'static str {
        "0.9"
    }

    fn source(&self) -> &'static str {
        "hiyouga/LLaMA-Factory ff6d4d12e (0.9.6.dev0) hparams, model/adapter.py, model/model_utils/checkpointing.py"
    }

    fn syntaxes(&self) -> &'static [Syntax] {
        &[Syntax::Yaml, Syntax::Json]
    }

    fn engines(&self) -> &'static [&'static str] {
        &["accelerate", "deepspeed"]
    }

    fn keys(&self) -> &'static [Key] {
        &keys::KEYS
    }

    fn recognises(&self, document: &Document) -> usize {
        let own = ["finetuning_type", "cutoff_len", "template", "stage"];
        if !own.iter().any(|mark| document.says(mark)) {
            return 0;
        }
        let trainer = super::trainer::Trainer.recognises(document);
        trainer + MARKS.iter().filter(|mark| document.says(mark)).count()
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn model(&self, reader: &Reader<'_>) -> Result<Option<ModelClue>, ImportError> {
        named_model(reader, "model_name_or_path")
    }

    fn read(&self, reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Read, ImportError> {
        refuse(self.keys(), reader)?;
        self.model(reader)?;
        tuning(reader)?;
        run(reader, scene, &around(reader)?)
    }
}

/// That the whole model is trained, on the next token.
fn tuning(reader: &Reader<'_>) -> Result<(), ImportError> {
    let path = "finetuning_type";
    let kinds = [("full", true), ("lora", false), ("oft", false), ("freeze", false)];
    let rule = "LoRA, OFT and freeze are not planned yet; full is";
    match reader.choice(path, &kinds)? {
        Some(true) => {}
        Some(false) => return Err(reader.refused(path, rule).or(vec!["full".to_owned()])),
        None => {
            let rule =
                "LLaMA-Factory takes lora where it is not said, which is not planned yet; full is".to_owned();
            return Err(ImportError::Missing { path: path.to_owned(), rule });
        }
    }
    let path = "stage";
    let stages = [("pt", true), ("sft", true), ("rm", false), ("ppo", false), ("dpo", false), ("kto", false)];
    if reader.choice(path, &stages)? == Some(false) {
        let rule = "a second model or another loss is not planned; pt and sft are";
        return Err(reader.refused(path, rule).or(vec!["sft".to_owned()]));
    }
    Ok(())
}

/// What is said beside the arguments of the Trainer.
fn around(reader: &Reader<'_>) -> Result<Around, ImportError> {
    let kernels = [
        ("auto", None),
        ("sdpa", Some(AttentionKernel::Fused)),
        ("fa2", Some(AttentionKernel::Fused)),
        ("fa3", Some(AttentionKernel::Fused)),
        ("disabled", Some(AttentionKernel::Materialised)),
    ];
    // Without quotes, YAML takes `off` for false; LLaMA-Factory has no such word.
    let attention = reader.choice("flash_attn", &kernels)?.flatten();
    let recomputes = !switch(reader, "disable_gradient_checkpointing", false)?;
    let inputs_on_host = recomputes && switch(reader, "use_unsloth_gc", false)?;
    // The Trainer's own argument changes nothing beside it.
    reader.value("gradient_checkpointing")?;
    let mut notes = Vec::new();
    let (is_packed, is_neat) = (
        switch(reader, "packing", reader.name("stage") == Some("pt"))?,
        switch(reader, "neat_packing", false)?,
    );
    if !is_packed && !is_neat {
        notes.push("Without packing, sequences are as long as the longest of a batch; all are predicted with cutoff_len tokens.".to_owned());
    }
    Ok(Around {
        seq_len: Some(reader.size("cutoff_len")?.unwrap_or(LENGTH)),
        recomputes,
        inputs_on_host,
        attention,
        chunks_loss: switch(reader, "enable_liger_kernel", false)?,
        is_half: switch(reader, "pure_bf16", false)?,
        notes,
    })
}
