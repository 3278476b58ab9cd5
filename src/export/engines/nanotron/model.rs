//! The shape of a model as nanotron's `model_config`, both ways.

use serde_json::{Map, Value, json};

use super::release::Release;
use crate::export::case::Case;
use crate::export::error::ImportError;
use crate::export::meaning::ModelClue;
use crate::export::reader::Reader;
use crate::export::settings::Settings;
use crate::export::shape::Shape;
use crate::model::layer::{Activation, Position};

/// The place of a key of it.
fn path(name: &str) -> String {
    format!("model.model_config.{name}")
}

/// Whether Qwen's class is taken: only it has context parallelism, experts and biases.
fn is_qwen(case: &Case<'_>, shape: &Shape) -> bool {
    case.strategy.context > 1 || shape.experts.is_some() || shape.attention.input_bias
}

/// Adds `model_config`.
pub fn write(case: &Case<'_>, release: Release, settings: &mut Settings) {
    let Some(shape) = case.shape() else {
        settings.set_noted(
            &path("is_llama_config"),
            true,
            "the plan's model is none of these: write its class",
        );
        settings.set(&path("num_hidden_layers"), u64::from(case.problem.model.blocks()));
        return;
    };
    let qwen = release == Release::Main && is_qwen(case, &shape);
    let mut set = |name: &str, value: Value| {
        settings.set(&path(name), value);
    };
    set(if qwen { "is_qwen2_config" } else { "is_llama_config" }, true.into());
    set("hidden_act", "silu".into());
    set("hidden_size", shape.hidden().into());
    set("intermediate_size", shape.intermediate().into());
    set("num_hidden_layers", shape.blocks.into());
    set("num_attention_heads", shape.attention.heads.into());
    set("num_key_value_heads", shape.kv_heads().into());
    set("vocab_size", shape.embedding.vocabulary.into());
    let sequence = case.problem.workload.seq_len;
    set("max_position_embeddings", case.problem.model.max_sequence.unwrap_or(sequence).max(sequence).into());
    set("tie_word_embeddings", shape.head.tied.into());
    if qwen {
        set("attention_bias", shape.attention.input_bias.into());
    }
    if let Some(experts) = shape.experts.as_ref().filter(|_| qwen) {
        set("moe_config.num_experts", experts.layer.experts.into());
        set("moe_config.top_k", experts.layer.top_k.into());
        let layers: Vec<u64> = (experts.dense_blocks..shape.blocks).collect();
        set("moe_config.layers", layers.into());
        set("moe_config.enable_shared_expert", (experts.layer.shared_intermediate > 0).into());
    }
}

/// What of the model of `case` the file does not say.
pub fn unsaid(case: &Case<'_>) -> Vec<String> {
    let name = &case.problem.model.name;
    let Some(shape) = case.shape() else {
        return vec![format!(
            "The blocks of {name} differ, or it is no decoder: nanotron has no class for it."
        )];
    };
    let attention = &shape.attention;
    let has_own_width = shape.head_dim().is_none_or(|size| size * attention.heads != shape.hidden());
    [
        (has_own_width, "heads of another width than hidden / heads"),
        (!matches!(attention.position, Position::Rotary), "positions other than rotary ones"),
        (shape.activation() != Some((Activation::Silu, true)), "the activation of its MLPs"),
        (attention.query_key_norm.is_some(), "norms of queries and keys"),
        (attention.window.is_some(), "sliding windows"),
        (attention.soft_cap || shape.head.soft_cap, "soft caps"),
        (attention.sinks, "attention sinks"),
    ]
    .into_iter()
    .filter(|(lacks, _)| *lacks)
    .map(|(_, what)| format!("{what} of {name}: nanotron's Llama and Qwen have no setting for it."))
    .collect()
}

/// Which model `model_config` is.
pub fn read(reader: &Reader<'_>) -> Result<Option<ModelClue>, ImportError> {
    let size = |name: &str| reader.size(&path(name));
    let layers = size("num_hidden_layers")?;
    // What is left out is as the classes of both have it (2411b022 `config/models_config.py`).
    let hidden = size("hidden_size")?.unwrap_or(4096);
    let heads = size("num_attention_heads")?.unwrap_or(32);
    let groups = size("num_key_value_heads")?.unwrap_or(heads);
    let inner = size("intermediate_size")?.unwrap_or(11_008);
    let vocabulary = size("vocab_size")?.unwrap_or(32_000);
    let longest = size("max_position_embeddings")?.unwrap_or(2048);
    let is_tied = reader.is_on(&path("tie_word_embeddings"))?;
    let has_bias = reader.is_on(&path("attention_bias"))?;
    let is_llama = reader.is_on(&path("is_llama_config"))?;
    let is_qwen = reader.is_on(&path("is_qwen2_config"))?;
    let is_starcoder = reader.is_on(&path("is_starcoder2_config"))?;
    let activation = reader.word(&path("hidden_act"))?.unwrap_or("silu");
    let experts = size("moe_config.num_experts")?;
    let top_k = size("moe_config.top_k")?.unwrap_or(2);
    let is_shared = reader.is_on(&path("moe_config.enable_shared_expert"))?;
    let sparse = reader.list(&path("moe_config.layers"))?.map_or(0, |list| list.len());
    let Some(layers) = layers else { return Ok(None) };
    let all = sparse <= 1 || sparse as u64 == layers;
    if is_starcoder || activation != "silu" || (is_llama && is_qwen) || is_shared || !all {
        return Ok(Some(ModelClue::Unknown("a model of this model_config".to_owned())));
    }
    let mut config = Map::new();
    let family = match (experts, has_bias) {
        (Some(_), _) => "mixtral",
        (None, true) => "qwen2",
        (None, false) => "llama",
    };
    for (name, value) in [
        ("model_type", json!(family)),
        ("hidden_size", json!(hidden)),
        ("intermediate_size", json!(inner)),
        ("num_hidden_layers", json!(layers)),
        ("num_attention_heads", json!(heads)),
        ("num_key_value_heads", json!(groups)),
        ("vocab_size", json!(vocabulary)),
        ("max_position_embeddings", json!(longest)),
        ("tie_word_embeddings", json!(is_tied)),
        ("hidden_act", json!("silu")),
    ] {
        config.insert(name.to_owned(), value);
    }
    if let Some(experts) = experts {
        config.insert("num_local_experts".to_owned(), json!(experts));
        config.insert("num_experts_per_tok".to_owned(), json!(top_k));
    }
    Ok(Some(ModelClue::Config(Value::Object(config))))
}
