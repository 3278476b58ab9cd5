//! The Trainer of transformers: its arguments in a command, in YAML or JSON, or in Python, which is not run.

mod around;
mod deepspeed;
mod keys;
mod plain;
mod run;
mod sharded;

pub use around::{ATTENTION, Around, switch};
pub use keys::ARGUMENTS;
pub use run::{named_model, run};

use crate::export::error::ImportError;
use crate::export::format::{Format, Key, Read, Role, refuse};
use crate::export::import::Left;
use crate::export::meaning::{ModelClue, Scene};
use crate::export::reader::Reader;
use crate::export::syntax::{Document, Syntax};

/// TrainingArguments of transformers 4.57, and the arguments of scripts that are built on them.
pub struct Trainer;

/// Arguments that only files for the Trainer have.
const MARKS: [&str; 10] = [
    "per_device_train_batch_size",
    "num_train_epochs",
    "output_dir",
    "model_name_or_path",
    "warmup_ratio",
    "lr_scheduler_type",
    "save_strategy",
    "save_total_limit",
    "per_device_eval_batch_size",
    "fsdp_config",
];

/// Arguments that it shares with other programs, such as GPT-NeoX: they say nothing by themselves.
const SHARED: [&str; 6] = [
    "gradient_accumulation_steps",
    "learning_rate",
    "gradient_checkpointing",
    "deepspeed",
    "logging_steps",
    "max_steps",
];

impl Format for Trainer {
    fn name(&self) -> &'static str {
        "trainer"
    }

    fn version(&self) -> &'static str {
        "4.57"
    }

    fn source(&self) -> &'static str {
        "huggingface/transformers 4.57 training_args.py, trainer.py, integrations/deepspeed.py"
    }

    fn syntaxes(&self) -> &'static [Syntax] {
        &[Syntax::Arguments, Syntax::Yaml, Syntax::Json, Syntax::Python]
    }

    fn engines(&self) -> &'static [&'static str] {
        &["accelerate", "deepspeed"]
    }

    fn keys(&self) -> &'static [Key] {
        ARGUMENTS
    }

    fn recognises(&self, document: &Document) -> usize {
        let Some(plain) = plain::plain(document) else { return 0 };
        let said = |marks: &[&str]| marks.iter().filter(|mark| plain.says(mark)).count();
        match said(&MARKS) {
            0 => 0,
            own => own + said(&SHARED),
        }
    }

    fn is_strict(&self) -> bool {
        // A script's own arguments stand beside those of the Trainer.
        false
    }

    fn model(&self, reader: &Reader<'_>) -> Result<Option<ModelClue>, ImportError> {
        match plain::plain(reader.document()) {
            Some(document) => named_model(&reader.of_part(&document), "model_name_or_path"),
            None => Ok(None),
        }
    }

    fn read(&self, reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Read, ImportError> {
        let document = plain::plain(reader.document()).unwrap_or_else(|| reader.document().clone());
        let inner = reader.of_part(&document);
        refuse(ARGUMENTS, &inner)?;
        plain::adapters(reader)?;
        named_model(&inner, "model_name_or_path")?;
        let around = Around::of_script(&inner, reader.document())?;
        let mut read = run(&inner, scene, &around)?;
        read.left.extend(left_over(self.keys(), &inner));
        plain::seen(reader, &inner);
        Ok(read)
    }
}

/// The arguments that nobody asked for: a script's own, which may do anything.
fn left_over(keys: &[Key], reader: &Reader<'_>) -> Vec<Left> {
    let idle: Vec<&str> =
        keys.iter().filter(|key| !matches!(key.role, Role::Read(_))).map(|key| key.name).collect();
    let document = reader.document();
    let origin = |found| document.origin(found);
    let left = reader.left(&idle).into_iter().filter(|(found, _)| !found.value.is_null());
    let left = left.map(|(found, _)| origin(found));
    left.map(|origin| Left { path: origin.path, place: origin.place }).collect()
}
