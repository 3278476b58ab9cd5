//! How many words a tokenizer has, where its name is known.

use crate::export::error::ImportError;
use crate::export::reader::Reader;
use crate::model::{self, LayerKind};

/// Tokenizers of GPT-2's files, whichever they are, with their words.
const OF_TYPE: [(&str, u64); 2] = [("GPT2BPETokenizer", 50_257), ("Llama2Tokenizer", 32_000)];

/// The words of the tokenizer that arguments name: its kind has so many, or its model is one whose vocabulary is known.
/// None where a file says it that is read nowhere.
pub fn vocabulary(reader: &Reader<'_>) -> Result<Option<u64>, ImportError> {
    // `pretrain_gpt.py` takes GPT-2's where none is named.
    let kind = match reader.name("tokenizer-type") {
        Some(kind) => kind,
        None if reader.has("vocab-file") => "GPT2BPETokenizer",
        None => return Ok(None),
    };
    if let Some((_, words)) = OF_TYPE.iter().find(|(name, _)| *name == kind) {
        return Ok(Some(*words));
    }
    let named = match kind {
        "HuggingFaceTokenizer" => "tokenizer-model",
        // Of Megatron-DeepSpeed.
        "PretrainedFromHF" => "tokenizer-name-or-path",
        _ => return Ok(None),
    };
    let model = reader.known(named).and_then(|model| model.as_str());
    Ok(model.and_then(of_model))
}

/// The words of the model whose name `path` ends in, as a repository or a folder has it.
fn of_model(path: &str) -> Option<u64> {
    let name = path.trim_end_matches('/').rsplit('/').next()?;
    let model = model::load(model::preset_named(name)?.name).ok()?;
    model.layers().find_map(|layer| match &layer.kind {
        LayerKind::Embedding(embedding) => Some(embedding.vocabulary),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_repositories_and_folders_are_known() {
        assert_eq!(of_model("meta-llama/Llama-3.1-8B"), Some(128_256));
        assert_eq!(of_model("/models/Qwen2.5-7B/"), Some(152_064));
        assert_eq!(of_model("org/model"), None);
    }
}
