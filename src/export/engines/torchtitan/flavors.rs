//! The models that torchtitan has, by family and flavor, and how another Llama is registered.

use std::sync::LazyLock;

use serde_json::json;

use crate::export::case::Case;
use crate::export::decoder::Decoder;
use crate::export::differences::{Build, differences};
use crate::export::meaning::ModelClue;
use crate::model::constants::{Rotary, RotaryScaling};
use crate::model::{Constants, presets};

/// Family, flavor, the preset of this program with the same shape, and where its files lie on Hugging Face
/// (v0.2.2 `models/*/__init__.py`).
const FLAVORS: &[(&str, &str, &str, &str)] = &[
    ("llama3", "8B", "llama-3.1-8b", "Llama-3.1-8B"),
    ("llama3", "70B", "llama-3.1-70b", "Llama-3.1-70B"),
    ("llama3", "405B", "llama-3.1-405b", "Llama-3.1-405B"),
    ("qwen3", "8B", "qwen3-8b", "Qwen3-8B"),
    ("qwen3", "32B", "qwen3-32b", "Qwen3-32B"),
    ("qwen3", "30B-A3B", "qwen3-30b-a3b", "Qwen3-30B-A3B"),
    ("qwen3", "235B-A22B", "qwen3-235b-a22b", "Qwen3-235B-A22B"),
    ("deepseek_v3", "671B", "deepseek-v3", "DeepSeek-V3-Base"),
    ("gpt_oss", "20b", "gpt-oss-20b", "gpt-oss-20b"),
    ("gpt_oss", "120b", "gpt-oss-120b", "gpt-oss-120b"),
];

/// The flavor under which a model that torchtitan does not know is registered.
pub const PLANNED: &str = "planned";

/// The module that registers it.
pub const MODULE: &str = "planned_model";

/// What torchtitan calls a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// One of its own: family, flavor, folder on Hugging Face.
    Own(&'static str, &'static str, &'static str),
    /// A Llama of other sizes, registered by a module.
    Registered,
    /// Nothing that it has.
    Unknown,
}

/// The flavor of the model of `case`: its own where it is that or no module can say it better, else one that a module
/// registers.
pub fn flavor(case: &Case<'_>) -> Flavor {
    let Some(decoder) = case.decoder() else { return Flavor::Unknown };
    // Presets of one shape differ in their names and constants only, so the plan's own name goes first.
    let is_named = |own: &&Own| own.preset == case.problem.model.name;
    let order = OWN.iter().filter(is_named).chain(OWN.iter());
    let all: Vec<&Own> = order.filter(|own| has_sizes_of(&own.decoder, &decoder)).collect();
    let is_exact = |own: &&&Own| differences(&decoder, &build(own.decoder.clone())).len() == OPEN.len();
    let can_register = is_registrable(&decoder);
    match all.iter().find(is_exact).or_else(|| all.first().filter(|_| !can_register)) {
        Some(own) => own.flavor.clone(),
        None if can_register => Flavor::Registered,
        None => Flavor::Unknown,
    }
}

/// A flavor of torchtitan's, and what it builds.
struct Own {
    preset: &'static str,
    flavor: Flavor,
    decoder: Decoder,
}

static OWN: LazyLock<Vec<Own>> = LazyLock::new(|| {
    let own =
        |&(family, flavor, preset, folder): &(&'static str, &'static str, &'static str, &'static str)| {
            let decoder = built(family, flavor, preset)?;
            Some(Own { preset, flavor: Flavor::Own(family, flavor, folder), decoder })
        };
    FLAVORS.iter().filter_map(own).collect()
});

/// Fields that torchtitan sets in ways of its own: it draws each kind of weight otherwise.
const OPEN: [&str; 1] = ["constants.initializer_range"];

/// A decoder that torchtitan builds.
pub fn build(decoder: Decoder) -> Build {
    Build { decoder, open: OPEN.to_vec() }
}

/// The model that torchtitan builds under the name of its own flavor: the preset, with what its own arguments have otherwise
/// (v0.2.2 `models/*/__init__.py`, `models/*/model/args.py`; v0.3.0 has the same).
fn built(family: &str, flavor: &str, preset: &str) -> Option<Decoder> {
    let known = presets().iter().find(|known| known.name == preset)?;
    let mut decoder = Decoder::of(&known.model().ok()?)?;
    let constants = &mut decoder.constants;
    match (family, flavor) {
        ("qwen3", "235B-A22B") => constants.rotary.theta = 5e6,
        ("deepseek_v3", _) => constants.norm_epsilon = 1e-5,
        // Its optimizer balances the load of experts by biases.
        ("gpt_oss", _) => constants.router.corrected = true,
        _ => {}
    }
    Some(decoder)
}

/// The decoder that `flavor` is.
pub fn own(flavor: &Flavor) -> Option<Decoder> {
    OWN.iter().find(|own| own.flavor == *flavor).map(|own| own.decoder.clone())
}

/// Whether two decoders differ in constants only.
fn has_sizes_of(built: &Decoder, planned: &Decoder) -> bool {
    Decoder { constants: planned.constants.clone(), ..built.clone() } == *planned
}

/// Whether its Llama can take these sizes: heads of hidden / heads elements, a head of its own.
fn is_registrable(decoder: &Decoder) -> bool {
    decoder.is_llama()
        && !decoder.head.tied
        && decoder.multi_token == 0
        && decoder.head_dim().is_some_and(|size| size * decoder.attention.heads == decoder.hidden())
}

/// The module that registers the model of `case` as a flavor of Llama 3.
pub fn module(case: &Case<'_>) -> Option<String> {
    let decoder = case.decoder()?;
    let (hidden, inner) = (decoder.hidden(), decoder.intermediate());
    let Constants { norm_epsilon, rotary: Rotary { theta, .. }, .. } = decoder.constants;
    let (factor, low, high, original) = scaling(&decoder);
    // The width inside the MLP is ⌊multiplier · ⌊8 · dim / 3⌋⌋, rounded up to a multiple of `multiple_of`.
    let base = 8 * hidden / 3;
    Some(format!(
        "# Registers the planned model with torchtitan; [experimental] custom_import names this file.\n\
         from torchtitan.models.llama3 import TransformerModelArgs, llama3_args\n\
         from torchtitan.models.llama3.model.args import RoPEScalingArgs\n\n\
         llama3_args[\"{PLANNED}\"] = TransformerModelArgs(\n    dim={hidden},\n    n_layers={},\n    n_heads={},\n    \
         n_kv_heads={},\n    vocab_size={},\n    ffn_dim_multiplier={inner} / {base},\n    multiple_of={inner},\n    \
         norm_eps={norm_epsilon:?},\n    rope_theta={theta:?},\n    rope_scaling_args=RoPEScalingArgs(\n        \
         scaling_factor={factor:?},\n        low_freq_factor={low:?},\n        high_freq_factor={high:?},\n        \
         original_max_position_embeddings={original},\n    ),\n)\n",
        decoder.blocks,
        decoder.attention.heads,
        decoder.kv_heads(),
        decoder.embedding.vocabulary,
    ))
}

/// The factor of rotary frequencies that the module says, with its low and high frequencies and the original context; a
/// factor of 1 leaves them alone, and without one torchtitan takes that of Llama 3.1.
fn scaling(decoder: &Decoder) -> (f64, f64, f64, u64) {
    match decoder.constants.rotary.scaling {
        RotaryScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position } => {
            (factor, low_freq_factor, high_freq_factor, original_max_position)
        }
        _ => (1.0, 1.0, 4.0, 8192),
    }
}

/// The decoder that the module of `case` registers.
pub fn registered(case: &Case<'_>) -> Option<Decoder> {
    let planned = case.decoder()?;
    let Constants { norm_epsilon, ref rotary, .. } = planned.constants;
    let scaling = match &rotary.scaling {
        scaling @ RotaryScaling::Llama3 { .. } => scaling.clone(),
        _ => RotaryScaling::None,
    };
    // It turns neighbours, of weights that it permutes when it reads them: that is Llama's way.
    let rotary = Rotary { theta: rotary.theta, scaling, ..Rotary::default() };
    let constants = Constants { norm_epsilon, rotary, ..Constants::default() };
    Some(Decoder { constants, ..Decoder::llama(planned.sizes()) })
}

/// The model of a flavor of whatever family, the first in the order of the table that has it: Llama 3 before others.
pub fn of_flavor(flavor: &str) -> ModelClue {
    let mut clues = FLAVORS.iter().map(|(family, ..)| clue(family, flavor));
    let known = clues.find(|clue| !matches!(clue, ModelClue::Unknown(_)));
    known.unwrap_or_else(|| ModelClue::Unknown(flavor.to_owned()))
}

/// The model that the name of a function says: its family, and its flavor in small letters.
pub fn of_function(name: &str) -> ModelClue {
    let known = FLAVORS.iter().find(|(family, flavor, ..)| {
        let rest = name.strip_prefix(family).and_then(|rest| rest.strip_prefix('_'));
        rest.is_some_and(|rest| rest.eq_ignore_ascii_case(flavor))
    });
    known.map_or_else(|| ModelClue::Unknown(name.to_owned()), |(_, _, preset, _)| ModelClue::Preset(preset))
}

/// The model that a family and a flavor name.
pub fn clue(family: &str, flavor: &str) -> ModelClue {
    let known = FLAVORS.iter().find(|(name, known, ..)| *name == family && *known == flavor);
    if let Some((_, _, preset, _)) = known {
        return ModelClue::Preset(preset);
    }
    match (family, flavor) {
        ("llama3", "debugmodel") => ModelClue::Config(json!({
            "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 6, "num_attention_heads": 16,
            "num_key_value_heads": 16, "intermediate_size": 768, "vocab_size": 2048,
            "max_position_embeddings": 131_072, "rope_theta": 500_000.0, "tie_word_embeddings": false,
        })),
        ("llama3", "8B_flex" | "8B_varlen") => ModelClue::Preset("llama-3.1-8b"),
        ("deepseek_v3", "16B") => ModelClue::Config(json!({
            "model_type": "deepseek_v2", "hidden_size": 2048, "num_hidden_layers": 27, "num_attention_heads": 16,
            "num_key_value_heads": 16, "intermediate_size": 10_944, "moe_intermediate_size": 1408,
            "first_k_dense_replace": 1, "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6,
            "q_lora_rank": null, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
            "v_head_dim": 128, "vocab_size": 102_400, "max_position_embeddings": 163_840,
        })),
        _ => ModelClue::Unknown(format!("{family} {flavor}")),
    }
}
