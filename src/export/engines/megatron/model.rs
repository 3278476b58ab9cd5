//! The shape of a model as arguments of Megatron-LM, both ways.

use serde_json::{Map, Value, json};

use crate::export::case::Case;
use crate::export::error::ImportError;
use crate::export::meaning::ModelClue;
use crate::export::reader::Reader;
use crate::export::settings::Settings;
use crate::model::layer::{Activation, NormKind, Position, Projection};

/// Adds the arguments that shape the model of `case`.
pub fn write(case: &Case<'_>, settings: &mut Settings) {
    let Some(shape) = case.shape() else {
        settings.set("num-layers", u64::from(case.problem.model.blocks()));
        return;
    };
    let attention = &shape.attention;
    settings.set("num-layers", shape.blocks);
    settings.set("hidden-size", shape.hidden());
    settings.set("ffn-hidden-size", shape.intermediate());
    settings.set("num-attention-heads", attention.heads);
    match attention.projection {
        Projection::Grouped { kv_heads, head_dim } => {
            if kv_heads != attention.heads {
                settings.set("group-query-attention", true).set("num-query-groups", kv_heads);
            }
            if head_dim * attention.heads != shape.hidden() {
                settings.set("kv-channels", head_dim);
            }
        }
        Projection::Latent { query_rank, key_value_rank, plain_dim, rotary_dim, value_dim } => {
            settings.set("multi-latent-attention", true);
            if let Some(rank) = query_rank {
                settings.set("q-lora-rank", rank);
            }
            settings.set("kv-lora-rank", key_value_rank);
            settings.set("qk-head-dim", plain_dim).set("qk-pos-emb-head-dim", rotary_dim);
            settings.set("v-head-dim", value_dim);
        }
    }
    let position = match attention.position {
        Position::Rotary => "rope",
        Position::None if shape.embedding.positions > 0 => "learned_absolute",
        Position::None | Position::Alibi => "none",
    };
    settings.set("position-embedding-type", position);
    let longest = case.problem.model.max_sequence.unwrap_or(case.problem.workload.seq_len);
    settings.set("max-position-embeddings", longest.max(case.problem.workload.seq_len));
    let is_rms = shape.norm() == Some(NormKind::Rms);
    settings.set("normalization", if is_rms { "RMSNorm" } else { "LayerNorm" });
    if attention.query_key_norm.is_some() {
        settings.set("qk-layernorm", true);
    }
    match shape.activation() {
        Some((Activation::Silu, true)) => {
            settings.set("swiglu", true);
        }
        Some((Activation::Relu2, _)) => {
            settings.set("squared-relu", true);
        }
        _ => {}
    }
    let has_bias = shape.mlp.as_ref().is_some_and(|mlp| mlp.bias) || attention.output_bias;
    if !has_bias {
        settings.set("disable-bias-linear", true);
        if attention.input_bias {
            settings.set("add-qkv-bias", true);
        }
    }
    if !shape.head.tied {
        settings.set("untie-embeddings-and-output-weights", true);
    }
    settings.set_noted("vocab-size", shape.embedding.vocabulary, "that of your tokenizer, before padding");
    settings.set("make-vocab-size-divisible-by", 128);
    if let Some(experts) = &shape.experts {
        let layer = &experts.layer;
        settings.set("num-experts", layer.experts);
        settings.set("moe-router-topk", layer.top_k);
        settings.set("moe-ffn-hidden-size", layer.intermediate);
        if layer.shared_intermediate > 0 {
            settings.set("moe-shared-expert-intermediate-size", layer.shared_intermediate);
        }
        if experts.dense_blocks > 0 {
            let dense = experts.dense_blocks;
            settings.set("moe-layer-freq", format!("([0]*{dense}+[1]*{})", shape.blocks - dense));
        }
        settings.set("moe-grouped-gemm", true);
        settings.set("moe-token-dispatcher-type", "alltoall");
        settings.set("moe-router-load-balancing-type", "none");
    }
}

/// What of the model of `case` no argument says.
pub fn unsaid(case: &Case<'_>) -> Vec<String> {
    let name = &case.problem.model.name;
    let Some(shape) = case.shape() else {
        return vec![format!("The blocks of {name} differ, or it is no decoder: its shape is yours to set.")];
    };
    let attention = &shape.attention;
    let has_word = matches!(
        shape.activation(),
        None | Some(
            (Activation::Silu, true)
                | (Activation::Gelu | Activation::GeluTanh, false)
                | (Activation::Relu2, _)
        )
    );
    [
        (!has_word, "the activation of its MLPs"),
        (attention.position == Position::Alibi, "ALiBi"),
        (attention.soft_cap || shape.head.soft_cap, "soft caps"),
        (attention.window.is_some(), "sliding windows"),
        (
            attention.output_norm.is_some() || attention.residual_norm.is_some(),
            "norms behind attention and MLP",
        ),
        (attention.sinks, "attention sinks"),
    ]
    .into_iter()
    .filter(|(lacks, _)| *lacks)
    .map(|(_, what)| format!("{what} of {name}: set by hand, if your version has them."))
    .collect()
}

/// The model that arguments shape; none where they do not.
pub fn read(reader: &Reader<'_>) -> Result<Option<ModelClue>, ImportError> {
    let layers = reader.size("num-layers")?;
    let hidden = reader.size("hidden-size")?;
    let heads = reader.size("num-attention-heads")?;
    let inner = reader.size("ffn-hidden-size")?;
    let groups = reader.size("num-query-groups")?;
    let is_grouped = reader.is_on("group-query-attention")?;
    let head = reader.size("kv-channels")?;
    let longest = reader.size("max-position-embeddings")?;
    let vocabulary = match reader.size("vocab-size")? {
        Some(vocabulary) => Some(vocabulary),
        None => reader.size("padded-vocab-size")?,
    };
    let is_gated = reader.is_on("swiglu")?;
    let is_rms = reader.word("normalization")? == Some("RMSNorm");
    let is_untied = reader.is_on("untie-embeddings-and-output-weights")?;
    let has_query_norm = reader.is_on("qk-layernorm")?;
    let without_bias = reader.is_on("disable-bias-linear")?;
    let query_bias = reader.is_on("add-qkv-bias")?;
    let position = reader.word("position-embedding-type")?;
    let experts = experts(reader)?;
    let latent = latent(reader)?;
    let (Some(layers), Some(hidden), Some(heads)) = (layers, hidden, heads) else { return Ok(None) };
    let mut config = Map::new();
    let mut set = |name: &str, value: Value| {
        config.insert(name.to_owned(), value);
    };
    // Megatron takes these where they are left out.
    let inner = inner.unwrap_or(4 * hidden);
    let vocabulary =
        vocabulary.ok_or(ImportError::Unsaid { what: "the vocabulary (--vocab-size)", flag: "MODEL" })?;
    set("num_hidden_layers", layers.into());
    set("hidden_size", hidden.into());
    set("intermediate_size", inner.into());
    set("num_attention_heads", heads.into());
    set("vocab_size", vocabulary.into());
    set("max_position_embeddings", longest.unwrap_or(1 << 20).into());
    set("tie_word_embeddings", (!is_untied).into());
    let is_llama = is_gated && is_rms && without_bias && position == Some("rope");
    if !is_llama {
        // The GPT of Megatron: layer norms, GELU, biases, learned or no positions.
        let is_gpt = !is_gated && !is_rms && !without_bias && experts.is_none() && latent.is_none();
        let positions = position.is_none_or(|position| position == "learned_absolute");
        if !is_gpt || !positions || is_grouped {
            return Ok(Some(ModelClue::Unknown("a model of these arguments".to_owned())));
        }
        return Ok(Some(ModelClue::Config(json!({
            "model_type": "gpt2", "n_embd": hidden, "n_layer": layers, "n_head": heads, "n_inner": inner,
            "vocab_size": vocabulary, "n_positions": longest.unwrap_or(1024), "tie_word_embeddings": !is_untied,
        }))));
    }
    set("num_key_value_heads", groups.filter(|_| is_grouped).unwrap_or(heads).into());
    set("head_dim", head.unwrap_or(hidden / heads.max(1)).into());
    let family = match (&experts, &latent, has_query_norm, query_bias) {
        (None, None, false, false) => "llama",
        (None, None, true, false) => "qwen3",
        (None, None, false, true) => "qwen2",
        (Some(experts), None, false, false) if experts.is_mixtral(inner) => "mixtral",
        (Some(_), None, true, false) => "qwen3_moe",
        (Some(_), Some(_), ..) => "deepseek_v3",
        _ => return Ok(Some(ModelClue::Unknown("a model of these arguments".to_owned()))),
    };
    set("model_type", family.into());
    if let Some(experts) = experts {
        experts.set(family, &mut set);
    }
    for (name, value) in latent.unwrap_or_default() {
        set(name, value);
    }
    Ok(Some(ModelClue::Config(Value::Object(config))))
}

/// What arguments say of experts.
struct Experts {
    count: u64,
    top_k: u64,
    inner: u64,
    shared: u64,
    dense_blocks: u64,
}

impl Experts {
    /// Whether Mixtral's configuration can say it: experts as wide as an MLP, in every block.
    const fn is_mixtral(&self, inner: u64) -> bool {
        self.inner == inner && self.shared == 0 && self.dense_blocks == 0
    }

    fn set(&self, family: &str, set: &mut impl FnMut(&str, Value)) {
        set("num_experts_per_tok", self.top_k.into());
        match family {
            "mixtral" => set("num_local_experts", self.count.into()),
            "qwen3_moe" => {
                set("num_experts", self.count.into());
                set("moe_intermediate_size", self.inner.into());
            }
            _ => {
                set("n_routed_experts", self.count.into());
                set("moe_intermediate_size", self.inner.into());
                set("first_k_dense_replace", self.dense_blocks.into());
                // Its shared experts are counted in widths of one.
                set("n_shared_experts", (self.shared / self.inner.max(1)).into());
            }
        }
    }
}

fn experts(reader: &Reader<'_>) -> Result<Option<Experts>, ImportError> {
    let count = reader.size("num-experts")?;
    let top_k = reader.size("moe-router-topk")?;
    let inner = reader.size("moe-ffn-hidden-size")?;
    let shared = reader.count("moe-shared-expert-intermediate-size")?;
    let freq = reader.value("moe-layer-freq")?;
    let Some(count) = count else { return Ok(None) };
    let dense_blocks = match freq {
        None => 0,
        Some(value) if value.as_u64() == Some(1) => 0,
        Some(value) => dense_blocks(value.as_str().unwrap_or_default()).ok_or_else(|| {
            reader
                .refused("moe-layer-freq", "([0]*N+[1]*M) is understood: N dense blocks, then M with experts")
        })?,
    };
    let inner = match inner {
        Some(inner) => inner,
        None => reader.size("ffn-hidden-size")?.unwrap_or_default(),
    };
    Ok(Some(Experts { count, top_k: top_k.unwrap_or(2), inner, shared: shared.unwrap_or(0), dense_blocks }))
}

/// The dense blocks before those with experts, of `([0]*3+[1]*58)`.
fn dense_blocks(text: &str) -> Option<u64> {
    let text: String = text.chars().filter(|c| !matches!(c, '(' | ')' | ' ')).collect();
    let times = |part: &str, what: &str| -> Option<u64> {
        let rest = part.strip_prefix(what)?;
        if rest.is_empty() { Some(1) } else { rest.strip_prefix('*')?.parse().ok() }
    };
    match text.split_once('+') {
        Some((dense, sparse)) => times(sparse, "[1]").and_then(|_| times(dense, "[0]")),
        None => times(&text, "[1]").map(|_| 0),
    }
}

fn latent(reader: &Reader<'_>) -> Result<Option<Vec<(&'static str, Value)>>, ImportError> {
    let is_latent = reader.is_on("multi-latent-attention")?;
    let size = |name: &str, usual: u64| Ok::<u64, ImportError>(reader.size(name)?.unwrap_or(usual));
    // Where they are left out, core 0.20 takes these (`core/transformer/transformer_config.py`, MLATransformerConfig).
    let fields = vec![
        ("q_lora_rank", reader.size("q-lora-rank")?.map_or(Value::Null, Value::from)),
        ("kv_lora_rank", size("kv-lora-rank", 512)?.into()),
        ("qk_nope_head_dim", size("qk-head-dim", 128)?.into()),
        ("qk_rope_head_dim", size("qk-pos-emb-head-dim", 64)?.into()),
        ("v_head_dim", size("v-head-dim", 128)?.into()),
    ];
    Ok(is_latent.then_some(fields))
}
