//! The shape of a model as nanotron's `model_config`, both ways.

use serde_json::{Map, Value, json};

use super::release::Release;
use crate::export::case::Case;
use crate::export::decoder::{Decoder, Experts, Sizes};
use crate::export::error::ImportError;
use crate::export::meaning::ModelClue;
use crate::export::reader::Reader;
use crate::export::settings::Settings;
use crate::model::Constants;
use crate::model::constants::{Rotary, RotaryScaling, Router};
use crate::model::layer::{Activation, Moe, Norm, NormKind};

/// The place of a key of it.
fn path(name: &str) -> String {
    format!("model.model_config.{name}")
}

/// Whether Qwen's class is taken: only it has context parallelism, experts, biases and windows.
fn is_qwen(case: &Case<'_>, decoder: &Decoder) -> bool {
    case.strategy.context > 1
        || decoder.experts.is_some()
        || decoder.attention.input_bias
        || decoder.window().is_some()
}

/// Adds `model_config`.
pub fn write(case: &Case<'_>, release: Release, settings: &mut Settings) {
    let Some(decoder) = case.decoder() else {
        settings.set_noted(
            &path("is_llama_config"),
            true,
            "the plan's model is none of these: write its class",
        );
        settings.set(&path("num_hidden_layers"), u64::from(case.problem.model.blocks()));
        return;
    };
    let is_main = release == Release::Main;
    let qwen = is_main && is_qwen(case, &decoder);
    let constants = &decoder.constants;
    let mut set = |name: &str, value: Value| {
        settings.set(&path(name), value);
    };
    set(if qwen { "is_qwen2_config" } else { "is_llama_config" }, true.into());
    set("hidden_act", "silu".into());
    set("hidden_size", decoder.hidden().into());
    set("intermediate_size", decoder.intermediate().into());
    set("num_hidden_layers", decoder.blocks.into());
    set("num_attention_heads", decoder.attention.heads.into());
    set("num_key_value_heads", decoder.kv_heads().into());
    set("vocab_size", decoder.embedding.vocabulary.into());
    let sequence = case.problem.workload.seq_len;
    set("max_position_embeddings", case.problem.model.max_sequence.unwrap_or(sequence).max(sequence).into());
    set("tie_word_embeddings", decoder.head.tied.into());
    set("rms_norm_eps", constants.norm_epsilon.into());
    if is_main {
        set("rope_theta", constants.rotary.theta.into());
        set("rope_interleaved", constants.rotary.interleaved.into());
    }
    if qwen {
        set("attention_bias", decoder.attention.input_bias.into());
        if let Some(window) = decoder.window() {
            set("sliding_window_size", window.into());
        }
        if let RotaryScaling::Linear { factor } = constants.rotary.scaling {
            set("rope_seq_len_interpolation_factor", factor.into());
        }
    }
    if let Some(experts) = decoder.experts.as_ref().filter(|_| qwen) {
        let layer = &experts.layer;
        set("moe_config.num_experts", layer.experts.into());
        set("moe_config.top_k", layer.top_k.into());
        set("moe_config.moe_intermediate_size", layer.intermediate.into());
        set("moe_config.router_aux_loss_coef", 0.0.into());
        let blocks = experts.in_blocks.iter().enumerate().filter(|(_, has)| **has);
        let layers: Vec<u64> = blocks.map(|(block, _)| block as u64).collect();
        set("moe_config.layers", layers.into());
        set("moe_config.enable_shared_expert", (layer.shared_intermediate > 0).into());
        if layer.shared_intermediate > 0 {
            set("moe_config.shared_expert_intermediate_size", layer.shared_intermediate.into());
        }
    }
}

/// The model that nanotron builds from `settings`: a Llama, or Qwen's class.
pub fn build(settings: &Settings, release: Release) -> Option<Decoder> {
    let get = |name: &str| settings.get(&path(name));
    let size = |name: &str| get(name).and_then(Value::as_u64);
    let real = |name: &str, usual: f64| get(name).and_then(Value::as_f64).unwrap_or(usual);
    let is_on = |name: &str| get(name).and_then(Value::as_bool).unwrap_or(false);
    let (hidden, inner) = (size("hidden_size")?, size("intermediate_size")?);
    let (blocks, heads) = (size("num_hidden_layers")?, size("num_attention_heads")?);
    let vocabulary = size("vocab_size")?;
    let norm = Some(Norm { kind: NormKind::Rms, width: hidden });
    let layers = get("moe_config.layers").and_then(Value::as_array);
    let in_blocks = |list: &Vec<Value>| {
        let has = |block: u64| list.iter().any(|layer| layer.as_u64() == Some(block));
        (0..blocks).map(has).collect::<Vec<bool>>()
    };
    let experts = size("moe_config.num_experts").zip(layers).map(|(experts, layers)| {
        let shared = size("moe_config.shared_expert_intermediate_size");
        let layer = Moe {
            hidden,
            experts,
            top_k: size("moe_config.top_k").unwrap_or(2),
            intermediate: size("moe_config.moe_intermediate_size").unwrap_or(1408),
            shared_intermediate: shared.filter(|_| is_on("moe_config.enable_shared_expert")).unwrap_or(0),
            shared_gate: is_on("moe_config.enable_shared_expert"),
            gated: true,
            activation: Activation::Silu,
            bias: false,
            router_bias: false,
            norm,
            output_norm: None,
        };
        Experts { layer, in_blocks: in_blocks(layers) }
    });
    let is_mixed = experts.as_ref().is_none_or(|experts| experts.in_blocks.contains(&false));
    let linear = get("rope_seq_len_interpolation_factor").and_then(Value::as_f64);
    // The release has no other base (0.4 `models/llama.py:57`), and turns neighbouring elements.
    let is_main = release == Release::Main;
    let rotary = Rotary {
        theta: real("rope_theta", 10_000.0),
        window_theta: None,
        share: 1.0,
        interleaved: if is_main { is_on("rope_interleaved") } else { true },
        scaling: linear.map_or(RotaryScaling::None, |factor| RotaryScaling::Linear { factor }),
    };
    // Softmax over all experts, then the highest, as they are (2411b022 `nn/moe.py:56`).
    let router = Router { renormalised: false, ..Router::default() };
    let mut decoder = Decoder::llama(Sizes {
        blocks,
        hidden,
        intermediate: inner,
        heads,
        kv_heads: size("num_key_value_heads").unwrap_or(heads),
        head_dim: hidden.checked_div(heads)?,
        vocabulary,
    });
    decoder.attention.input_bias = is_on("attention_bias");
    decoder.windows = vec![size("sliding_window_size"); blocks as usize];
    decoder.mlp = decoder.mlp.filter(|_| is_mixed);
    decoder.head.tied = is_on("tie_word_embeddings");
    decoder.constants = Constants {
        norm_epsilon: real("rms_norm_eps", 1e-6),
        initializer_range: settings.get("model.init_method.std").and_then(Value::as_f64)?,
        rotary,
        router: if experts.is_some() { router } else { Router::default() },
        ..Constants::default()
    };
    decoder.experts = experts;
    Some(decoder)
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
    let number = |name: &str, usual: f64| reader.known_number(&path(name)).unwrap_or(usual);
    let (epsilon, theta) = (number("rms_norm_eps", 1e-6), number("rope_theta", 10_000.0));
    let deviation = reader.known_number("model.init_method.std").unwrap_or(0.02);
    let linear = reader.known_number(&path("rope_seq_len_interpolation_factor"));
    let window = size("sliding_window_size")?;
    let expert_inner = size("moe_config.moe_intermediate_size")?;
    reader.known(&path("moe_config.shared_expert_intermediate_size"));
    reader.known(&path("moe_config.router_aux_loss_coef"));
    let Some(layers) = layers else { return Ok(None) };
    let all = sparse <= 1 || sparse as u64 == layers;
    if is_starcoder || activation != "silu" || (is_llama && is_qwen) || is_shared || !all {
        return Ok(Some(ModelClue::Unknown("a model of this model_config".to_owned())));
    }
    let mut config = Map::new();
    let family = match (experts, has_bias, window) {
        (Some(_), true, _) | (_, true, Some(_)) => {
            return Ok(Some(ModelClue::Unknown("a model of this model_config".to_owned())));
        }
        (Some(_), false, _) => "mixtral",
        (None, true, None) => "qwen2",
        (None, false, Some(_)) => "mistral",
        (None, false, None) => "llama",
    };
    // The experts of Mixtral are as wide as its MLPs.
    let inner = expert_inner.filter(|_| experts.is_some()).unwrap_or(inner);
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
        ("rms_norm_eps", json!(epsilon)),
        ("rope_theta", json!(theta)),
        ("initializer_range", json!(deviation)),
        ("sliding_window", json!(window)),
    ] {
        config.insert(name.to_owned(), value);
    }
    if family == "llama" || family == "qwen2" {
        config.remove("sliding_window");
    }
    if let Some(factor) = linear {
        config.insert("rope_scaling".to_owned(), json!({"type": "linear", "factor": factor}));
    }
    if let Some(experts) = experts {
        config.insert("num_local_experts".to_owned(), json!(experts));
        config.insert("num_experts_per_tok".to_owned(), json!(top_k));
    }
    Ok(Some(ModelClue::Config(Value::Object(config))))
}
