//! The shape of a model as arguments of MaxText, both ways.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::export::case::Case;
use crate::export::decoder::{Decoder, Experts, Sizes};
use crate::export::differences::{Build, differences};
use crate::export::error::ImportError;
use crate::export::meaning::ModelClue;
use crate::export::reader::Reader;
use crate::export::settings::Settings;
use crate::model::constants::{Rotary, RotaryScaling, Router};
use crate::model::layer::{Activation, Moe, NormKind, Position};
use crate::model::{Constants, presets};

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

/// The model that MaxText builds under one of its names: the preset, with what its own file has otherwise
/// (e591f30cb `configs/models/`, `layers/attentions.py:934`).
fn named(name: &str, preset: &str) -> Option<Decoder> {
    let mut decoder = Decoder::of(&presets().iter().find(|known| known.name == preset)?.model().ok()?)?;
    let constants = &mut decoder.constants;
    match name {
        // Only names that begin with llama3.1 scale.
        "llama3.3-70b" => constants.rotary.scaling = RotaryScaling::None,
        "qwen3-30b-a3b" => constants.rotary.theta = 1e7,
        "qwen3-235b-a22b" => constants.rotary.theta = 5e6,
        "gemma2-9b" | "gemma2-27b" => {
            (decoder.embedding.vocabulary, decoder.head.vocabulary) = (256_128, 256_128);
            constants.logit_scale = (decoder.embedding.hidden as f64).sqrt().recip();
        }
        "gpt3-175b" => {
            (decoder.embedding.vocabulary, decoder.head.vocabulary) = (50_304, 50_304);
            decoder.embedding.positions = 16_384;
        }
        "deepseek3-671b" => {
            constants.router.groups = None;
            if let RotaryScaling::Yarn(yarn) = &mut constants.rotary.scaling {
                yarn.mscale_all_dim = None;
            }
        }
        _ => {}
    }
    Some(decoder)
}

/// A name of MaxText's, the preset of its sizes, and what it builds.
struct Named {
    name: &'static str,
    preset: &'static str,
    decoder: Decoder,
}

static ALL: LazyLock<Vec<Named>> = LazyLock::new(|| {
    let own = |&(name, preset): &(&'static str, &'static str)| {
        Some(Named { name, preset, decoder: named(name, preset)? })
    };
    NAMES.iter().filter_map(own).collect()
});

/// MaxText's name of the model of `case`, and what it builds under it: the very model, or one of its sizes.
fn known(case: &Case<'_>) -> Option<(&'static str, Decoder)> {
    let planned = case.decoder()?;
    let is_named = |own: &&Named| own.preset == case.problem.model.name;
    let order = ALL.iter().filter(is_named).chain(ALL.iter());
    let alike: Vec<&Named> = order.filter(|own| has_sizes_of(&own.decoder, &planned)).collect();
    let is_exact = |own: &&&Named| differences(&planned, &own.decoder.clone().into()).is_empty();
    // Sizes that blocks of its own can take are said by arguments.
    let near = || alike.first().filter(|_| block(&planned).is_none());
    let own = alike.iter().find(is_exact).or_else(near)?;
    Some((own.name, own.decoder.clone()))
}

/// Whether two decoders differ in constants and padding only.
fn has_sizes_of(built: &Decoder, planned: &Decoder) -> bool {
    let mut alike = Decoder { constants: planned.constants.clone(), ..built.clone() };
    alike.embedding.vocabulary = planned.embedding.vocabulary;
    alike.embedding.positions = planned.embedding.positions;
    alike.head.vocabulary = planned.head.vocabulary;
    alike == *planned
}

/// The kind of block that a decoder needs, among those whose sizes are free.
fn block(decoder: &Decoder) -> Option<&'static str> {
    let is_rotary = decoder.attention.position == Position::Rotary && decoder.norm() == Some(NormKind::Rms);
    let is_silu = decoder.activation() == Some((Activation::Silu, true));
    if !is_rotary || !is_silu || decoder.head_dim().is_none() || !decoder.is_plain() {
        return None;
    }
    match (&decoder.experts, decoder.attention.query_key_norm) {
        (None, None) => Some("llama2"),
        (None, Some(_)) => Some("qwen3"),
        (Some(experts), norm) if experts.dense_blocks() == Some(0) => {
            let is_shared = experts.layer.shared_intermediate > 0;
            match norm {
                None if !is_shared => Some("mixtral"),
                Some(_) if !is_shared => Some("qwen3_moe"),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Adds the arguments that shape the model of `case`.
pub fn write(case: &Case<'_>, settings: &mut Settings) {
    if let Some((name, _)) = known(case) {
        settings.set("model_name", name);
        return;
    }
    settings.set("model_name", "default");
    let Some(decoder) = case.decoder() else {
        settings.set("base_num_decoder_layers", u64::from(case.problem.model.blocks()));
        return;
    };
    if let Some(block) = block(&decoder) {
        settings.set("decoder_block", block);
    }
    settings.set("base_emb_dim", decoder.hidden());
    settings.set("base_num_decoder_layers", decoder.blocks);
    settings.set("base_num_query_heads", decoder.attention.heads);
    settings.set("base_num_kv_heads", decoder.kv_heads());
    if let Some(size) = decoder.head_dim() {
        settings.set("head_dim", size);
    }
    settings.set("base_mlp_dim", decoder.intermediate());
    settings.set("vocab_size", decoder.embedding.vocabulary);
    settings.set("logits_via_embedding", decoder.head.tied).set("normalize_embedding_logits", false);
    settings.set("use_qk_norm", decoder.attention.query_key_norm.is_some());
    settings.set("normalization_layer_epsilon", decoder.constants.norm_epsilon);
    rotary(&decoder.constants.rotary, settings);
    if let Some(experts) = &decoder.experts {
        settings.set("num_experts", experts.layer.experts).set("num_experts_per_tok", experts.layer.top_k);
        settings.set("base_moe_mlp_dim", experts.layer.intermediate);
        settings.set("norm_topk_prob", decoder.constants.router.renormalised);
    }
}

fn rotary(rotary: &Rotary, settings: &mut Settings) {
    // The argument is a whole number.
    if rotary.theta.fract() == 0.0 {
        settings.set("rope_max_timescale", rotary.theta as u64);
    }
    match &rotary.scaling {
        RotaryScaling::Linear { factor } => {
            settings.set("rope_type", "default").set("rope_linear_scaling_factor", *factor);
        }
        // Its low and high frequencies and the original context are constants.
        RotaryScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position }
            if (*factor, *low_freq_factor, *high_freq_factor, *original_max_position) == LLAMA3 =>
        {
            settings.set("rope_type", "llama3.1").set("rope_use_scale", true);
        }
        _ => {
            settings.set("rope_type", "default");
        }
    }
}

/// The factors of Llama 3.1 (`layers/embeddings.py`, `LLaMARotaryEmbedding`).
const LLAMA3: (f64, f64, f64, u64) = (8.0, 1.0, 4.0, 8192);

/// The model that MaxText builds from `settings`, under a name or of sizes; none where no block of it is like the plan's.
pub fn build(case: &Case<'_>, settings: &Settings) -> Option<Build> {
    // Weights are drawn in ways of its own.
    let open = vec!["constants.initializer_range"];
    if let Some((_, decoder)) = known(case) {
        return Some(Build { decoder, open });
    }
    settings.get("decoder_block")?;
    let size = |name: &str| settings.get(name).and_then(Value::as_u64);
    let is_on = |name: &str| settings.get(name).and_then(Value::as_bool).unwrap_or(false);
    let number = |name: &str, usual: f64| settings.get(name).and_then(Value::as_f64).unwrap_or(usual);
    let scaling = match settings.get("rope_type").and_then(Value::as_str) {
        Some("llama3.1") => {
            let (factor, low_freq_factor, high_freq_factor, original_max_position) = LLAMA3;
            RotaryScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position }
        }
        _ => match number("rope_linear_scaling_factor", 1.0) {
            1.0 => RotaryScaling::None,
            factor => RotaryScaling::Linear { factor },
        },
    };
    let rotary = Rotary { theta: number("rope_max_timescale", 10_000.0), scaling, ..Rotary::default() };
    let (blocks, hidden) = (size("base_num_decoder_layers")?, size("base_emb_dim")?);
    let mut decoder = Decoder::llama(Sizes {
        blocks,
        hidden,
        intermediate: size("base_mlp_dim")?,
        heads: size("base_num_query_heads")?,
        kv_heads: size("base_num_kv_heads")?,
        head_dim: size("head_dim")?,
        vocabulary: size("vocab_size")?,
    });
    decoder.head.tied = is_on("logits_via_embedding");
    decoder.attention.query_key_norm = is_on("use_qk_norm").then_some(NormKind::Rms);
    let norm_epsilon = number("normalization_layer_epsilon", 1e-5);
    // Routers take a softmax of the chosen scores (`layers/moe.py:752`).
    decoder.constants = Constants { norm_epsilon, rotary, router: Router::default(), ..Constants::default() };
    if let Some(experts) = size("num_experts") {
        decoder.mlp = None;
        let layer = Moe {
            hidden,
            experts,
            top_k: size("num_experts_per_tok")?,
            intermediate: size("base_moe_mlp_dim")?,
            shared_intermediate: 0,
            shared_gate: false,
            gated: true,
            activation: Activation::Silu,
            bias: false,
            router_bias: false,
            norm: decoder.attention.norm,
            output_norm: None,
        };
        decoder.experts = Some(Experts { layer, in_blocks: vec![true; blocks as usize] });
    }
    Some(Build { decoder, open })
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
    let number = |name: &str, usual: f64| reader.known_number(name).unwrap_or(usual);
    let epsilon = number("normalization_layer_epsilon", 1e-5);
    let theta = number("rope_max_timescale", 10_000.0);
    let linear = number("rope_linear_scaling_factor", 1.0);
    let is_llama3 = reader.known("rope_type").is_some_and(|word| word == "llama3.1");
    for path in ["norm_topk_prob", "rope_use_scale", "normalize_embedding_logits", "use_qk_norm"] {
        reader.known(path);
    }
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
        ("rms_norm_eps", json!(epsilon)),
        ("rope_theta", json!(theta)),
    ] {
        config.insert(name.to_owned(), value);
    }
    if is_llama3 {
        let (factor, low, high, original) = LLAMA3;
        let scaling = json!({
            "type": "llama3", "factor": factor, "low_freq_factor": low, "high_freq_factor": high,
            "original_max_position_embeddings": original,
        });
        config.insert("rope_scaling".to_owned(), scaling);
    } else if linear != 1.0 {
        config.insert("rope_scaling".to_owned(), json!({"type": "linear", "factor": linear}));
    }
    if family == "qwen3_moe" {
        config.insert("norm_topk_prob".to_owned(), json!(true));
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
