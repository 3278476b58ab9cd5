//! The models that torchtitan has, by family and flavor, and how another Llama is registered.

use serde_json::json;

use crate::export::case::Case;
use crate::export::meaning::ModelClue;
use crate::export::shape::Shape;
use crate::model::presets;

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

/// The flavor of the model of `case`.
pub fn flavor(case: &Case<'_>) -> Flavor {
    let Some(shape) = case.shape() else { return Flavor::Unknown };
    let same = |preset: &str| {
        presets()
            .iter()
            .find(|known| known.name == preset)
            .and_then(|known| known.model().ok())
            .is_some_and(|model| Shape::of(&model).as_ref() == Some(&shape))
    };
    // Presets of one shape differ in their names only, so the plan's own name goes first.
    let name = &case.problem.model.name;
    let mut order: Vec<_> = FLAVORS.iter().collect();
    order.sort_by_key(|(_, _, preset, _)| preset != name);
    match order.into_iter().find(|(_, _, preset, _)| same(preset)) {
        Some((family, flavor, _, folder)) => Flavor::Own(family, flavor, folder),
        None if is_registrable(&shape) => Flavor::Registered,
        None => Flavor::Unknown,
    }
}

/// Whether its Llama can take these sizes: heads of hidden / heads elements, a head of its own.
fn is_registrable(shape: &Shape) -> bool {
    shape.is_llama()
        && !shape.head.tied
        && shape.head_dim().is_some_and(|size| size * shape.attention.heads == shape.hidden())
}

/// The module that registers the model of `case` as a flavor of Llama 3.
pub fn module(case: &Case<'_>) -> Option<String> {
    let shape = case.shape()?;
    let (hidden, inner) = (shape.hidden(), shape.intermediate());
    // The width inside the MLP is ⌊multiplier · ⌊8 · dim / 3⌋⌋, rounded up to a multiple of `multiple_of`.
    let base = 8 * hidden / 3;
    Some(format!(
        "# Registers the planned model with torchtitan; [experimental] custom_import names this file.\n\
         from torchtitan.models.llama3 import TransformerModelArgs, llama3_args\n\n\
         llama3_args[\"{PLANNED}\"] = TransformerModelArgs(\n    dim={hidden},\n    n_layers={},\n    n_heads={},\n    \
         n_kv_heads={},\n    vocab_size={},\n    ffn_dim_multiplier={inner} / {base},\n    multiple_of={inner},\n)\n",
        shape.blocks,
        shape.attention.heads,
        shape.kv_heads(),
        shape.embedding.vocabulary,
    ))
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
