//! torchtune: the YAML file of a recipe, which FSDP2 of PyTorch runs.

mod keys;
mod read;

use serde_json::Value;

use crate::export::error::ImportError;
use crate::export::format::{Format, Key, Read, refuse};
use crate::export::meaning::{ModelClue, Scene};
use crate::export::reader::Reader;
use crate::export::syntax::{Document, Syntax};
use crate::model::preset_named;

/// torchtune 0.7.
pub struct Torchtune;

/// The class or function that makes the model.
const MODEL: &str = "model._component_";

const MARKS: [&str; 8] = [
    MODEL,
    "tokenizer._component_",
    "optimizer._component_",
    "loss._component_",
    "checkpointer._component_",
    "dataset._component_",
    "enable_activation_checkpointing",
    "batch_size",
];

impl Format for Torchtune {
    fn name(&self) -> &'static str {
        "torchtune"
    }

    fn version(&self) -> &'static str {
        "0.7"
    }

    fn source(&self) -> &'static str {
        "pytorch/torchtune bd2a0fc7c recipes/full_finetune_distributed.py, torchtune/training/_distributed.py"
    }

    fn syntaxes(&self) -> &'static [Syntax] {
        &[Syntax::Yaml]
    }

    fn engines(&self) -> &'static [&'static str] {
        &["torchtitan"]
    }

    fn keys(&self) -> &'static [Key] {
        keys::KEYS
    }

    fn recognises(&self, document: &Document) -> usize {
        let own = |value: &Value| value.as_str().is_some_and(|word| word.starts_with("torchtune."));
        if !document.found.iter().any(|found| found.path.ends_with("_component_") && own(&found.value)) {
            return 0;
        }
        MARKS.iter().filter(|mark| document.says(mark)).count()
    }

    fn is_strict(&self) -> bool {
        // A recipe looks at what it knows.
        false
    }

    fn model(&self, reader: &Reader<'_>) -> Result<Option<ModelClue>, ImportError> {
        let Some(component) = reader.known(MODEL).and_then(Value::as_str) else { return Ok(None) };
        read::is_whole(reader, component)?;
        let name = hub_name(component);
        Ok(Some(match name.as_deref().and_then(preset_named) {
            Some(preset) => ModelClue::Preset(preset.name),
            None => ModelClue::Unknown(component.to_owned()),
        }))
    }

    fn read(&self, reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Read, ImportError> {
        refuse(self.keys(), reader)?;
        read::read(reader, scene)
    }
}

/// A model's function, such as `torchtune.models.llama3_1.llama3_1_8b`, as hubs name the model: `llama3.1-8b`.
fn hub_name(component: &str) -> Option<String> {
    let mut parts = component.rsplit('.');
    let (function, family) = (parts.next()?, parts.next()?);
    let size = function.strip_prefix(family)?.strip_prefix('_')?;
    let bytes = size.as_bytes();
    let is_point = |at: usize| {
        let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
        digit(at.checked_sub(1)) && digit(at.checked_add(1))
    };
    let size: String = size
        .char_indices()
        .map(|(at, letter)| match letter {
            '_' if is_point(at) => '.',
            '_' => '-',
            other => other,
        })
        .collect();
    Some(format!("{}-{size}", family.replace('_', ".")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_name_the_models_of_hubs() {
        for (component, name, preset) in [
            ("torchtune.models.llama3_1.llama3_1_8b", "llama3.1-8b", Some("llama-3.1-8b")),
            ("torchtune.models.llama2.llama2_70b", "llama2-70b", Some("llama-2-70b")),
            ("torchtune.models.qwen2_5.qwen2_5_7b_instruct", "qwen2.5-7b-instruct", Some("qwen2.5-7b")),
            ("torchtune.models.qwen2_5.qwen2_5_1_5b_base", "qwen2.5-1.5b-base", None),
            ("torchtune.models.gemma2.gemma2_27b", "gemma2-27b", Some("gemma-2-27b")),
        ] {
            assert_eq!(hub_name(component).as_deref(), Some(name), "{component}");
            assert_eq!(preset_named(name).map(|preset| preset.name), preset, "{name}");
        }
        assert_eq!(hub_name("llama3_1_8b"), None);
        assert_eq!(hub_name("my.models.other"), None);
    }
}
