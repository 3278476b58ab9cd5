//! The shape of a model as overrides of a NeMo recipe, and the model that recipe and overrides make.

use serde_json::Value;

use super::build;
use super::nemo::NAMES;
use crate::export::case::Case;
use crate::export::decoder::Decoder;
use crate::export::differences::Build;
use crate::export::settings::Settings;
use crate::export::syntax::Code;
use crate::model::constants::RotaryScaling;
use crate::model::layer::Projection;
use crate::model::preset;
use crate::strategy::{Capacity, Strategy};

/// A recipe of NeMo 2.6, and what of its configuration's class overrides can say beside what all have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// The preset that it trains.
    preset: &'static str,
    pub name: &'static str,
    kind: Kind,
}

/// The classes of configurations (`collections/llm/gpt/model`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Gpt,
    /// It scales rotary frequencies.
    Llama31,
    /// It has a window in every block.
    Mistral,
    /// Its performance mode holds experts to a capacity of 1.
    Mixtral,
}

/// Recipes by the preset that they train. The one of DeepSeek-V3 keeps gradients and moments in 16 bits, which no override
/// takes back, as its command line reads no element types.
const RECIPES: &[Recipe] = &[
    Recipe { preset: "llama-3.1-8b", name: "llama31_8b", kind: Kind::Llama31 },
    Recipe { preset: "llama-3.1-70b", name: "llama31_70b", kind: Kind::Llama31 },
    Recipe { preset: "llama-3.1-405b", name: "llama31_405b", kind: Kind::Llama31 },
    Recipe { preset: "mixtral-8x7b", name: "mixtral_8x7b", kind: Kind::Mixtral },
    Recipe { preset: "mistral-7b", name: "mistral_7b", kind: Kind::Mistral },
    Recipe { preset: "gpt3-175b", name: "gpt3_175b", kind: Kind::Gpt },
];

/// The recipe for the model of `case`: of its name, as configurations differ in what overrides say.
pub fn recipe(case: &Case<'_>) -> Option<Recipe> {
    RECIPES.iter().find(|recipe| recipe.preset == case.problem.model.name).copied()
}

impl Recipe {
    /// Why it is not started in its performance mode; none where it is.
    pub fn slow(self, strategy: &Strategy) -> Option<&'static str> {
        match self.kind {
            Kind::Gpt | Kind::Llama31 => None,
            Kind::Mistral => Some("it has none"),
            Kind::Mixtral if strategy.capacity == Capacity::Factor(1.0) => None,
            Kind::Mixtral => Some("that drops tokens"),
        }
    }

    /// The value of `--factory`: plans are priced as its performance mode runs them.
    pub fn start(self, strategy: &Strategy) -> Code {
        let name = Code::from(self.name);
        if self.slow(strategy).is_none() { name.then("(performance_mode=True)") } else { name }
    }
}

/// Adds the fields that are called or said otherwise than the `arguments` of Megatron-LM.
pub fn write(case: &Case<'_>, arguments: &Settings, settings: &mut Settings) {
    let Some(decoder) = case.decoder() else { return };
    let is_on = |name: &str| arguments.get(name).is_some();
    let mut set = |field: &str, value: Value| {
        settings.set(&format!("model.config.{field}"), value);
    };
    set("num_query_groups", decoder.kv_heads().into());
    set("share_embeddings_and_output_weights", decoder.head.tied.into());
    set("add_bias_linear", (!is_on("disable-bias-linear")).into());
    set("gated_linear_unit", decoder.activation().is_some_and(|(_, gated)| gated).into());
    let positions = arguments.get("position-embedding-type").and_then(Value::as_str);
    if let Some(positions) = positions.filter(|word| matches!(*word, "rope" | "learned_absolute")) {
        set("position_embedding_type", positions.into());
    }
    // It is taken as it is, so it is padded here.
    let size = |name: &str| arguments.get(name).and_then(Value::as_u64).unwrap_or(1);
    let multiple = size("make-vocab-size-divisible-by") * case.strategy.tensor.max(1);
    set("vocab_size", (size("vocab-size").div_ceil(multiple) * multiple).into());
    if let Some(experts) = decoder.experts.as_ref().filter(|experts| experts.in_blocks.contains(&false)) {
        let blocks: Vec<u64> = experts.in_blocks.iter().map(|has| u64::from(*has)).collect();
        set("moe_layer_freq", blocks.into());
    }
    match recipe(case).map(|recipe| recipe.kind) {
        Some(Kind::Llama31) => match decoder.constants.rotary.scaling {
            RotaryScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position } => {
                set("scale_factor", factor.into());
                set("low_freq_factor", low_freq_factor.into());
                set("high_freq_factor", high_freq_factor.into());
                set("old_context_len", original_max_position.into());
            }
            _ => set("scale_factor", 1.0.into()),
        },
        Some(Kind::Mistral) => match decoder.window() {
            Some(window) => set("window_size", vec![window - 1, 0].into()),
            None => set("window_size", Value::Null),
        },
        _ => {}
    }
}

/// The model that the recipe and `settings` make.
pub fn build(case: &Case<'_>, settings: &Settings) -> Option<Build> {
    let planned = case.decoder()?;
    let mut arguments = Settings::default();
    for setting in settings.iter() {
        if let Some((argument, _)) = NAMES.iter().find(|(_, field)| *field == setting.path) {
            arguments.set(argument, setting.value.clone());
        }
    }
    let own = |field: &str| settings.get(&format!("model.config.{field}")).cloned().unwrap_or_default();
    let is_on = |field: &str| own(field).as_bool().unwrap_or(false);
    arguments.set("group-query-attention", true).set("num-query-groups", own("num_query_groups"));
    arguments.set("untie-embeddings-and-output-weights", !is_on("share_embeddings_and_output_weights"));
    arguments.set("disable-bias-linear", !is_on("add_bias_linear"));
    arguments.set("position-embedding-type", own("position_embedding_type"));
    // Its table of positions is as long as its sequences.
    arguments.set("max-position-embeddings", own("seq_length"));
    arguments.set("vocab-size", own("vocab_size")).set("make-vocab-size-divisible-by", 1);
    if let Some(blocks) = own("moe_layer_freq").as_array() {
        let blocks: Vec<u64> = blocks.iter().filter_map(Value::as_u64).collect();
        arguments.set("moe-layer-freq", super::pattern::pattern(&blocks));
    }
    let mut decoder = build::build(&arguments, 1)?;
    let recipe = recipe(case);
    let base = recipe.and_then(|recipe| Decoder::of(&preset(recipe.preset)?.model().ok()?));
    let mut open = Vec::new();
    let is_gated = is_on("gated_linear_unit");
    // A function is no word of its command line.
    match base.as_ref().and_then(Decoder::activation) {
        Some((activation, _)) => decoder.set_activation(activation, is_gated),
        None => {
            let (activation, _) = planned.activation()?;
            decoder.set_activation(activation, is_gated);
            open.extend(planned.mlp.as_ref().map(|_| "mlp.activation"));
            open.extend(planned.experts.as_ref().map(|_| "experts.layer.activation"));
        }
    }
    match recipe.map(|recipe| recipe.kind) {
        Some(Kind::Llama31) => {
            let real = |field: &str, usual: f64| own(field).as_f64().unwrap_or(usual);
            let factor = real("scale_factor", 8.0);
            if factor != 1.0 {
                decoder.constants.rotary.scaling = RotaryScaling::Llama3 {
                    factor,
                    low_freq_factor: real("low_freq_factor", 1.0),
                    high_freq_factor: real("high_freq_factor", 4.0),
                    original_max_position: real("old_context_len", 8192.0) as u64,
                };
            }
        }
        Some(Kind::Mistral) => {
            let before = own("window_size").get(0).and_then(Value::as_u64);
            decoder.windows = vec![before.map(|before| before + 1); decoder.windows.len()];
        }
        Some(Kind::Gpt | Kind::Mixtral) => {}
        None => {
            let constants = &planned.constants;
            let is_latent = matches!(planned.attention.projection, Projection::Latent { .. });
            let unsaid = [
                (is_latent, "attention.projection"),
                (planned.windows.iter().any(Option::is_some), "windows"),
                (is_latent, "constants.rotary.interleaved"),
                (constants.rotary.scaling != decoder.constants.rotary.scaling, "constants.rotary.scaling"),
                (constants.gate_limit.is_some(), "constants.gate_limit"),
            ];
            open.extend(unsaid.into_iter().filter(|(is_open, _)| *is_open).map(|(_, field)| field));
        }
    }
    Some(Build { decoder, open })
}
