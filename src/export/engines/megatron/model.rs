//! The model that arguments of Megatron-LM shape, as a Hugging Face configuration.

use serde_json::{Map, Value, json};

use super::build;
use super::other_programs;
use super::pattern::numbers_of;
use super::tokenizer;
use super::write_model::LLAMA3;
use crate::export::error::ImportError;
use crate::export::meaning::ModelClue;
use crate::export::reader::Reader;
use crate::export::settings::Settings;

/// The model that arguments shape; none where they do not.
pub fn read(reader: &Reader<'_>) -> Result<Option<ModelClue>, ImportError> {
    other_programs::refused(reader)?;
    let layers = reader.size("num-layers")?;
    let hidden = reader.size("hidden-size")?;
    let heads = reader.size("num-attention-heads")?;
    let inner = reader.size("ffn-hidden-size")?;
    let groups = reader.size("num-query-groups")?;
    let is_grouped = reader.is_on("group-query-attention")?;
    let head = reader.size("kv-channels")?;
    let longest = reader.size("max-position-embeddings")?;
    // A padded vocabulary is the one that the model has.
    let own = reader.size("vocab-size")?;
    let padded = reader.size("padded-vocab-size")?;
    let vocabulary = reader.size("pad-vocab-size-to")?.or(own).or(padded);
    let vocabulary = vocabulary.or(tokenizer::vocabulary(reader)?);
    let is_gated = reader.is_on("swiglu")?;
    let is_rms = reader.word("normalization")? == Some("RMSNorm");
    let is_untied = reader.is_on("untie-embeddings-and-output-weights")?;
    let has_query_norm = reader.is_on("qk-layernorm")?;
    let without_bias = reader.is_on("disable-bias-linear")?;
    let query_bias = reader.is_on("add-qkv-bias")?;
    let position = match reader.is_on("use-rotary-position-embeddings")? {
        true => Some("rope"),
        false => reader.word("position-embedding-type")?,
    };
    let is_squared = reader.is_on("squared-relu")?;
    let experts = experts(reader)?;
    let latent = latent(reader)?;
    let constants = constants(reader, latent.is_some());
    let is_quick = reader.is_on("quick-geglu")?;
    let softmax = reader.choice("softmax-type", &[("vanilla", false), ("learnable", true)])?;
    let window = window(reader);
    let (Some(layers), Some(hidden), Some(heads)) = (layers, hidden, heads) else { return Ok(None) };
    let mut config = Map::new();
    let mut set = |name: &str, value: Value| {
        config.insert(name.to_owned(), value);
    };
    // Megatron takes these where they are left out.
    let inner = inner.unwrap_or_else(|| usual_inner(hidden, is_gated));
    let vocabulary =
        vocabulary.ok_or(ImportError::Unsaid { what: "the vocabulary (--vocab-size)", flag: "MODEL" })?;
    set("num_hidden_layers", layers.into());
    set("hidden_size", hidden.into());
    set("intermediate_size", inner.into());
    set("num_attention_heads", heads.into());
    set("vocab_size", vocabulary.into());
    set("max_position_embeddings", longest.unwrap_or(1 << 20).into());
    set("tie_word_embeddings", (!is_untied).into());
    let made = || made(reader, vocabulary, longest);
    let is_llama = is_gated && is_rms && without_bias && matches!(position, Some("rope" | "yarn"));
    let is_windowed = matches!(window, Window::Of(_) | Window::Unknown);
    if softmax == Some(true) || is_quick || (is_windowed && !is_llama) {
        return made();
    }
    if !is_llama {
        // The GPT of Megatron: layer norms, GELU, biases, learned or no positions.
        let is_gpt = !is_gated && !is_rms && !without_bias && experts.is_none() && latent.is_none();
        let positions = position.is_none_or(|position| position == "learned_absolute");
        let is_plain = is_gpt && positions && !is_grouped && !is_squared && !has_query_norm && !query_bias;
        if !is_plain || head.is_some_and(|head| head.checked_mul(heads) != Some(hidden)) {
            return made();
        }
        return Ok(Some(ModelClue::Config(json!({
            "model_type": "gpt2", "n_embd": hidden, "n_layer": layers, "n_head": heads, "n_inner": inner,
            "vocab_size": vocabulary, "n_positions": longest.unwrap_or(1024), "tie_word_embeddings": !is_untied,
            "layer_norm_epsilon": epsilon(reader), "initializer_range": deviation(reader),
        }))));
    }
    set("num_key_value_heads", groups.filter(|_| is_grouped).unwrap_or(heads).into());
    set("head_dim", head.unwrap_or(hidden / heads.max(1)).into());
    let family = match (&experts, &latent, has_query_norm, query_bias) {
        (_, _, _, true) | (_, _, true, _) | (_, Some(_), ..) if is_windowed => return made(),
        _ if matches!(window, Window::Unknown) => return made(),
        (None, None, false, false) if is_windowed => "mistral",
        (None, None, false, false) => "llama",
        (None, None, true, false) => "qwen3",
        (None, None, false, true) => "qwen2",
        (Some(experts), None, false, false) if experts.is_mixtral(inner) => "mixtral",
        (Some(experts), None, true, false) if experts.is_everywhere() => "qwen3_moe",
        (Some(experts), Some(_), ..) if experts.is_deepseek() => "deepseek_v3",
        _ => return made(),
    };
    set("model_type", family.into());
    if let Window::Of(keys) = window {
        set("sliding_window", keys.into());
    }
    if let Some(experts) = experts {
        experts.set(family, &mut set);
    }
    for (name, value) in latent.unwrap_or_default().into_iter().chain(constants) {
        set(name, value);
    }
    Ok(Some(ModelClue::Config(Value::Object(config))))
}

/// The width of MLPs where it is left out: gated ones have two matrices of it, so it is two thirds of the usual, in whole
/// multiples of 64 (core 0.20 `training/arguments.py`, `validate_args`).
pub fn usual_inner(hidden: u64, is_gated: bool) -> u64 {
    let usual = hidden.saturating_mul(4);
    if is_gated { usual.saturating_mul(2) / 3 / 64 * 64 } else { usual }
}

/// The model that Megatron-LM builds of the arguments itself, whatever family it is of.
fn made(
    reader: &Reader<'_>,
    vocabulary: u64,
    longest: Option<u64>,
) -> Result<Option<ModelClue>, ImportError> {
    let positions = ["learned_absolute", "rope", "yarn", "none"].map(|name| (name, ()));
    reader.choice("position-embedding-type", &positions)?;
    let mut settings = Settings::default();
    for found in reader.all().filter(|found| !found.is_open) {
        settings.set(&found.path, found.value.clone());
    }
    // Rows are padded where the model is cut, not here.
    settings.set("vocab-size", vocabulary).set("make-vocab-size-divisible-by", 1);
    let made = build::build(&settings, 1);
    Ok(Some(match made {
        Some(decoder) => ModelClue::Made { decoder: Box::new(decoder), longest },
        None => ModelClue::Unknown("a model of these arguments".to_owned()),
    }))
}

/// What arguments say of experts.
struct Experts {
    count: u64,
    top_k: u64,
    inner: u64,
    shared: u64,
    /// The blocks before the first with experts; none where dense ones stand between them.
    dense_blocks: Option<u64>,
    router: Router,
}

/// How they are chosen.
struct Router {
    is_sigmoid: bool,
    is_pre_softmax: bool,
    scale: Option<f64>,
    groups: Option<(f64, f64)>,
}

impl Router {
    fn read(reader: &Reader<'_>) -> Self {
        let groups = reader.known_number("moe-router-num-groups");
        let chosen = reader.known_number("moe-router-group-topk");
        // It goes with sigmoids, as the family has it.
        reader.known("moe-router-enable-expert-bias");
        Self {
            is_sigmoid: reader.known("moe-router-score-function").is_some_and(|word| word == "sigmoid"),
            is_pre_softmax: reader.known("moe-router-pre-softmax").is_some_and(|on| *on == Value::Bool(true)),
            scale: reader.known_number("moe-router-topk-scaling-factor"),
            groups: groups.zip(chosen),
        }
    }
}

impl Experts {
    /// Whether Mixtral's configuration can say it: experts as wide as an MLP, in every block.
    fn is_mixtral(&self, inner: u64) -> bool {
        self.inner == inner && self.is_everywhere()
    }

    /// Whether every block has them, and no other MLP.
    fn is_everywhere(&self) -> bool {
        self.shared == 0 && self.dense_blocks == Some(0)
    }

    /// Whether DeepSeek-V3's configuration can say it.
    fn is_deepseek(&self) -> bool {
        self.dense_blocks.is_some() && self.inner > 0 && self.shared.is_multiple_of(self.inner)
    }

    fn set(&self, family: &str, set: &mut impl FnMut(&str, Value)) {
        set("num_experts_per_tok", self.top_k.into());
        match family {
            "mixtral" => set("num_local_experts", self.count.into()),
            "qwen3_moe" => {
                set("num_experts", self.count.into());
                set("moe_intermediate_size", self.inner.into());
                set("norm_topk_prob", (!self.router.is_pre_softmax).into());
            }
            _ => {
                let (groups, chosen) = self.router.groups.unwrap_or((1.0, 1.0));
                set("n_group", (groups as u64).into());
                set("topk_group", (chosen as u64).into());
                set("routed_scaling_factor", self.router.scale.unwrap_or(1.0).into());
                set("scoring_func", if self.router.is_sigmoid { "sigmoid" } else { "softmax" }.into());
                set("norm_topk_prob", (self.router.is_sigmoid || !self.router.is_pre_softmax).into());
                set("n_routed_experts", self.count.into());
                set("moe_intermediate_size", self.inner.into());
                set("first_k_dense_replace", self.dense_blocks.unwrap_or(0).into());
                // Its shared experts are counted in widths of one.
                set("n_shared_experts", (self.shared / self.inner.max(1)).into());
            }
        }
    }
}

fn experts(reader: &Reader<'_>) -> Result<Option<Experts>, ImportError> {
    // No experts are none.
    let count = reader.count("num-experts")?.filter(|count| *count > 0);
    let top_k = reader.size("moe-router-topk")?;
    let inner = reader.size("moe-ffn-hidden-size")?;
    let shared = reader.count("moe-shared-expert-intermediate-size")?;
    let freq = reader.value("moe-layer-freq")?;
    let router = Router::read(reader);
    let Some(count) = count else { return Ok(None) };
    let dense_blocks = match freq {
        None => Some(0),
        Some(value) => dense_blocks(value).ok_or_else(|| {
            reader.refused(
                "moe-layer-freq",
                "a whole number or a list of 0 and 1 such as ([0]*3+[1]*58) is needed",
            )
        })?,
    };
    let inner = match inner {
        Some(inner) => inner,
        None => {
            let hidden = reader.size("hidden-size")?.unwrap_or_default();
            reader.size("ffn-hidden-size")?.unwrap_or(usual_inner(hidden, reader.is_on("swiglu")?))
        }
    };
    Ok(Some(Experts {
        count,
        top_k: top_k.unwrap_or(2),
        inner,
        shared: shared.unwrap_or(0),
        dense_blocks,
        router,
    }))
}

/// The dense blocks before those with experts, of `([0]*3+[1]*58)`; within it none where others stand between them.
fn dense_blocks(value: &Value) -> Option<Option<u64>> {
    if let Some(every) = value.as_u64() {
        return (every > 0).then_some((every == 1).then_some(0));
    }
    let list = numbers_of(value)?;
    let dense = list.iter().take_while(|has| **has == 0).count();
    Some(list[dense..].iter().all(|has| *has == 1).then_some(dense as u64))
}

/// The sliding windows that arguments say.
enum Window {
    None,
    /// Every block has one of so many keys.
    Of(u64),
    /// Some blocks have one, or it is no number.
    Unknown,
}

fn window(reader: &Reader<'_>) -> Window {
    let skips = reader.known("window-attn-skip-freq").is_some();
    let keys = |value: &Value| {
        let word = value.as_str()?.trim_matches(['(', ')']);
        let (before, after) = word.split_once(',')?;
        let before = before.trim().parse::<u64>().ok().filter(|_| after.trim() == "0")?;
        before.checked_add(1)
    };
    match reader.known("window-size") {
        None => Window::None,
        Some(value) => keys(value).filter(|_| !skips).map_or(Window::Unknown, Window::Of),
    }
}

fn epsilon(reader: &Reader<'_>) -> f64 {
    reader.known_number("norm-epsilon").unwrap_or(1e-5)
}

fn deviation(reader: &Reader<'_>) -> f64 {
    reader.known_number("init-method-std").unwrap_or(0.02)
}

/// Arguments that change the numbers of a model with rotary positions, and none of its costs.
fn constants(reader: &Reader<'_>, is_latent: bool) -> Vec<(&'static str, Value)> {
    let number = |name: &str| reader.known_number(name);
    let is = |name: &str, word: &str| reader.known(name).is_some_and(|value| value == word);
    let factor = number("rotary-scaling-factor").unwrap_or(1.0);
    let mscale = [number("mscale"), number("mscale-all-dim")];
    let own = ["yarn-original-max-position-embeddings", "yarn-beta-fast", "yarn-beta-slow"].map(number);
    let [original, fast, slow] = if is_latent { [None; 3] } else { own };
    let rounds = reader.known("no-yarn-correction-range-round-to-int").is_none();
    let is_llama = reader.known("use-rope-scaling").is_some_and(|on| *on == Value::Bool(true));
    let llama = number("rope-scaling-factor").unwrap_or(8.0);
    let linear = number("rotary-seq-len-interpolation-factor");
    let is_plain = is("rope-type", "rope");
    let scaling = if is("position-embedding-type", "yarn") || (is_latent && !is_plain) {
        json!({
            "type": "yarn", "factor": factor, "original_max_position_embeddings": original.unwrap_or(4096.0),
            "beta_fast": fast.unwrap_or(32.0), "beta_slow": slow.unwrap_or(1.0),
            "mscale": mscale[0].unwrap_or(1.0), "mscale_all_dim": mscale[1].filter(|scale| *scale > 0.0),
            "truncate": rounds,
        })
    } else if is_llama {
        json!({
            "type": "llama3", "factor": llama, "low_freq_factor": LLAMA3.0, "high_freq_factor": LLAMA3.1,
            "original_max_position_embeddings": LLAMA3.2,
        })
    } else {
        linear.map_or(Value::Null, |factor| json!({"type": "linear", "factor": factor}))
    };
    vec![
        ("rms_norm_eps", epsilon(reader).into()),
        ("initializer_range", deviation(reader).into()),
        ("rope_theta", number("rotary-base").unwrap_or(10_000.0).into()),
        ("rope_scaling", scaling),
    ]
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
