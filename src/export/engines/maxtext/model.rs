//! The shape of a model as arguments of MaxText, both ways.

use serde_json::{Map, Value, json};

use crate::export::case::Case;
use crate::export::error::ImportError;
use crate::export::meaning::ModelClue;
use crate::export::reader::Reader;
use crate::export::settings::Settings;
use crate::export::shape::Shape;
use crate::model::layer::{NormKind, Position};
use crate::model::presets;

/// MaxText's names of models, and the presets of this program with the same shape (e591f30cb `configs/models/`).
const NAMES: &[(&str, &str)] = &[
    ("llama2-7b", "llama-2-7b"),
    ("llama2-13b", "llama-2-13b"),
    ("llama2-70b", "llama-2-70b"),
    ("llama3.1-8b", "llama-3.1-8b"),
    ("llama3.1-70b", "llama-3.1-70b"),
    ("llama3.1-405b", "llama-3.1-405b"),
    ("llama3.3-70b", "llama-3.3-70b"),
    ("mixtral-8x7b", "mixtral-8x7b"),
    ("gemma2-9b", "gemma-2-9b"),
    ("gemma2-27b", "gemma-2-27b"),
    ("qwen3-8b", "qwen3-8b"),
    ("qwen3-32b", "qwen3-32b"),
    ("qwen3-30b-a3b", "qwen3-30b-a3b"),
    ("qwen3-235b-a22b", "qwen3-235b-a22b"),
    ("deepseek3-671b", "deepseek-v3"),
    ("gpt-oss-20b", "gpt-oss-20b"),
    ("gpt-oss-120b", "gpt-oss-120b"),
    ("gpt3-175b", "gpt3-175b"),
];

/// MaxText's name of the model of `case`.
fn known(case: &Case<'_>) -> Option<&'static str> {
    let shape = case.shape()?;
    let same = |preset: &str| {
        let found = presets().iter().find(|known| known.name == preset);
        found
            .and_then(|known| known.model().ok())
            .is_some_and(|model| Shape::of(&model).as_ref() == Some(&shape))
    };
    let name = &case.problem.model.name;
    let own = NAMES.iter().find(|(_, preset)| preset == name && same(preset));
    own.or_else(|| NAMES.iter().find(|(_, preset)| same(preset))).map(|(name, _)| *name)
}

/// The kind of block that a shape needs, among those whose sizes are free.
fn block(shape: &Shape) -> Option<&'static str> {
    let is_rotary = shape.attention.position == Position::Rotary && shape.norm() == Some(NormKind::Rms);
    if !is_rotary || shape.head_dim().is_none() || !shape.is_plain() {
        return None;
    }
    match (&shape.experts, shape.attention.query_key_norm) {
        (None, None) => Some("llama2"),
        (None, Some(_)) => Some("qwen3"),
        (Some(experts), None) if experts.dense_blocks == 0 && experts.layer.shared_intermediate == 0 => {
            Some("mixtral")
        }
        (Some(experts), Some(_)) if experts.dense_blocks == 0 => Some("qwen3_moe"),
        _ => None,
    }
}

/// Adds the arguments that shape the model of `case`.
pub fn write(case: &Case<'_>, settings: &mut Settings) {
    if let Some(name) = known(case) {
        settings.set("model_name", name);
        return;
    }
    settings.set("model_name", "default");
    let Some(shape) = case.shape() else {
        settings.set("base_num_decoder_layers", u64::from(case.problem.model.blocks()));
        return;
    };
    if let Some(block) = block(&shape) {
        settings.set("decoder_block", block);
    }
    settings.set("base_emb_dim", shape.hidden());
    settings.set("base_num_decoder_layers", shape.blocks);
    settings.set("base_num_query_heads", shape.attention.heads).set("base_num_kv_heads", shape.kv_heads());
    if let Some(size) = shape.head_dim() {
        settings.set("head_dim", size);
    }
    settings.set("base_mlp_dim", shape.intermediate());
    settings.set("vocab_size", shape.embedding.vocabulary);
    settings.set("logits_via_embedding", shape.head.tied);
    if let Some(experts) = &shape.experts {
        settings.set("num_experts", experts.layer.experts).set("num_experts_per_tok", experts.layer.top_k);
        settings.set("base_moe_mlp_dim", experts.layer.intermediate);
    }
}

/// What of the model of `case` no argument says.
pub fn unsaid(case: &Case<'_>) -> Option<String> {
    let has_word = known(case).is_some() || case.shape().is_some_and(|shape| block(&shape).is_some());
    (!has_word).then(|| {
        format!("MaxText has no block like those of {}: set decoder_block by hand.", case.problem.model.name)
    })
}

/// The model that arguments name or shape.
pub fn read(reader: &Reader<'_>) -> Result<Option<ModelClue>, ImportError> {
    let name = reader.word("model_name")?.unwrap_or("default");
    let size = |path: &str, usual: u64| Ok::<u64, ImportError>(reader.size(path)?.unwrap_or(usual));
    // Defaults of e591f30cb `configs/base.yml`.
    let hidden = size("base_emb_dim", 2048)?;
    let layers = reader.size("base_num_decoder_layers")?;
    let heads = size("base_num_query_heads", 16)?;
    let groups = size("base_num_kv_heads", 16)?;
    let head = size("head_dim", 128)?;
    let inner = size("base_mlp_dim", 7168)?;
    let vocabulary = size("vocab_size", 32_000)?;
    let is_tied = reader.is_on("logits_via_embedding")?;
    let block = reader.word("decoder_block")?.unwrap_or("llama2");
    let scale = size("global_parameter_scale", 1)?;
    let experts = size("num_experts", 1)?;
    let top_k = size("num_experts_per_tok", 1)?;
    let expert_inner = reader.whole("base_moe_mlp_dim")?.unwrap_or(-1);
    if name != "default" {
        let preset = NAMES.iter().find(|(known, _)| *known == name);
        return Ok(Some(
            preset
                .map_or_else(|| ModelClue::Unknown(name.to_owned()), |(_, preset)| ModelClue::Preset(preset)),
        ));
    }
    let Some(layers) = layers else { return Ok(None) };
    let family = match block {
        "llama2" | "mistral" if experts == 1 => "llama",
        "mixtral" if experts > 1 => "mixtral",
        "qwen3" if experts == 1 => "qwen3",
        "qwen3_moe" if experts > 1 => "qwen3_moe",
        _ => return Ok(Some(ModelClue::Unknown(format!("a model of {block} blocks")))),
    };
    if scale != 1 {
        return Ok(Some(ModelClue::Unknown("a model of scaled sizes".to_owned())));
    }
    let mut config = Map::new();
    for (name, value) in [
        ("model_type", json!(family)),
        ("hidden_size", json!(hidden)),
        ("intermediate_size", json!(inner)),
        ("num_hidden_layers", json!(layers)),
        ("num_attention_heads", json!(heads)),
        ("num_key_value_heads", json!(groups)),
        ("head_dim", json!(head)),
        ("vocab_size", json!(vocabulary)),
        ("max_position_embeddings", json!(1_u64 << 20)),
        ("tie_word_embeddings", json!(is_tied)),
        ("hidden_act", json!("silu")),
    ] {
        config.insert(name.to_owned(), value);
    }
    if experts > 1 {
        let count = if family == "mixtral" { "num_local_experts" } else { "num_experts" };
        config.insert(count.to_owned(), json!(experts));
        config.insert("num_experts_per_tok".to_owned(), json!(top_k));
        if expert_inner > 0 {
            config.insert("moe_intermediate_size".to_owned(), json!(expert_inner));
        }
    }
    Ok(Some(ModelClue::Config(Value::Object(config))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_presets() {
        for (_, preset) in NAMES {
            assert!(presets().iter().any(|known| known.name == *preset), "{preset}");
        }
    }
}
