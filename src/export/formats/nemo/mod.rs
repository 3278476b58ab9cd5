//! NeMo 1: the YAML file of a run, whose `model` section Megatron core is built and driven by.

mod keys;
mod resolved;
mod translated;

use crate::export::engines::megatron;
use crate::export::error::ImportError;
use crate::export::format::{Format, Key, Read, refuse};
use crate::export::meaning::{ModelClue, Scene};
use crate::export::reader::Reader;
use crate::export::runner::Runner;
use crate::export::syntax::{Document, Syntax};
use crate::export::targets::Target;

/// NeMo 1 (its last release is 1.23), and the launcher's files of the same form.
pub struct Nemo1;

const MARKS: [&str; 9] = [
    "model.mcore_gpt",
    "model.tensor_model_parallel_size",
    "model.pipeline_model_parallel_size",
    "model.micro_batch_size",
    "model.global_batch_size",
    "model.encoder_seq_length",
    "model.megatron_amp_O2",
    "trainer.num_nodes",
    "trainer.devices",
];

const MEGATRON: Target = Target { dialect: &megatron::CommandLine };

impl Format for Nemo1 {
    fn name(&self) -> &'static str {
        "nemo"
    }

    fn version(&self) -> &'static str {
        "1.23"
    }

    fn source(&self) -> &'static str {
        "NVIDIA/NeMo v1.23.0 examples/nlp/language_modeling/conf/megatron_gpt_config.yaml, \
         collections/nlp/models/language_modeling/megatron_base_model.py and megatron_gpt_model.py"
    }

    fn syntaxes(&self) -> &'static [Syntax] {
        &[Syntax::Yaml]
    }

    fn engines(&self) -> &'static [&'static str] {
        &["nemo"]
    }

    fn keys(&self) -> &'static [Key] {
        keys::KEYS
    }

    fn recognises(&self, document: &Document) -> usize {
        MARKS.iter().filter(|mark| document.says(mark)).count()
    }

    fn is_strict(&self) -> bool {
        // Hydra hands all of it on, and the model looks at what it knows.
        false
    }

    fn model(&self, reader: &Reader<'_>) -> Result<Option<ModelClue>, ImportError> {
        let arguments = translated::arguments(reader)?;
        crate::export::import::clue(MEGATRON, &arguments)
            .map_err(|error| translated::renamed(error, &arguments))
    }

    fn read(&self, reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Read, ImportError> {
        refuse(self.keys(), reader)?;
        let arguments = translated::arguments(reader)?;
        let mut read = Read::handed(MEGATRON, &arguments, reader, scene)
            .map_err(|error| translated::renamed(error, &arguments))?;
        read.runner = Runner::Profile("nemo");
        read.meaning.notes.extend(translated::notes(reader)?);
        Ok(read)
    }
}
