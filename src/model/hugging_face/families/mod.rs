//! The families, group by group: for each `model_type` the fields that shape it with their defaults, those known to
//! be harmless, and those whose use we do not plan for.

mod experts;
mod gated;
mod layer_norm;
mod shaped;
mod shaped_experts;
mod shaped_plain;
mod shaped_remote;

use serde_json::{Map, Value};

use super::config::{Config, shown};
use super::shape::{self, Shape};
use crate::model::decoder::Decoder;
use crate::model::error::ModelError;

/// What a field is where the file leaves it out: the default of the family's configuration class.
#[derive(Clone, Copy)]
pub(super) enum Absent {
    Size(u64),
    Flag(bool),
    Word(&'static str),
    /// Nothing, or what the builder derives from other fields.
    Null,
}

/// One `model_type`.
pub(super) struct Family {
    pub model_type: &'static str,
    /// Fields that shape the model, each with what it is where absent.
    pub fields: &'static [(&'static str, Absent)],
    /// Other spellings: the name in `fields`, then what files write.
    pub aliases: &'static [(&'static str, &'static str)],
    /// Fields that change neither shapes nor costs.
    pub harmless: &'static [&'static str],
    /// Fields that must be absent, null, false, 0 or empty, each with what to do about it.
    pub refused: &'static [(&'static str, &'static str)],
    /// An object among the fields, with the fields inside.
    pub inner: Option<(&'static str, &'static Self)>,
    pub build: Build,
}

/// How a family's decoder is made of a config.
#[derive(Clone, Copy)]
pub(super) enum Build {
    /// By a function of its own.
    Own(fn(&Config<'_>) -> Result<Decoder, ModelError>),
    /// By what its layers are.
    Of(&'static Shape),
}

impl Family {
    /// What its layers are, where that is data.
    pub const fn shape(&self) -> Option<&'static Shape> {
        match self.build {
            Build::Own(_) => None,
            Build::Of(shape) => Some(shape),
        }
    }

    /// Whether it knows what the field means, be it nothing for shapes and costs.
    pub fn knows(&self, field: &str) -> bool {
        self.fields.iter().any(|(name, _)| *name == field)
            || self.aliases.iter().any(|(_, alias)| *alias == field)
            || self.harmless.contains(&field)
            || self.refused.iter().any(|(name, _)| *name == field)
            || COMMON_HARMLESS.contains(&field)
    }

    /// The decoder that a config of this family describes.
    ///
    /// # Errors
    /// When a size cannot be, or a field asks for what we do not plan.
    pub fn decoder(&self, config: &Config<'_>) -> Result<Decoder, ModelError> {
        match self.build {
            Build::Own(build) => build(config),
            Build::Of(shape) => shape::build(config, shape),
        }
    }
}

/// In every family left out with a line that says so, where in use: how a checkpoint's weights are stored.
pub(super) const STORAGE: &[&str] = &["quantization_config", "compression_config"];

/// Spellings in every family: transformers 4, then 5.
pub(super) const COMMON_ALIASES: &[(&str, &str)] = &[("torch_dtype", "dtype")];

/// Refused in every family.
#[rustfmt::skip]
const COMMON_REFUSED: &[(&str, &str)] = &[
    ("is_encoder_decoder", "only decoders are planned"),
    ("add_cross_attention", "only decoders without cross-attention are planned"),
    ("cross_attention_hidden_size", "only decoders without cross-attention are planned"),
    ("pruned_heads", "pruned heads are not planned; remove it to plan the whole model"),
];

/// Harmless in every family: bookkeeping, tokens, generation, initialisation, dropout, positions' constants.
#[rustfmt::skip]
pub(super) const COMMON_HARMLESS: &[&str] = &[
    "model_type", "architectures", "auto_map", "transformers_version", "torch_dtype", "dtype", "use_cache",
    "_name_or_path", "name_or_path", "_commit_hash", "_attn_implementation", "attn_implementation",
    "_attn_implementation_autoset", "id2label", "label2id", "num_labels", "problem_type", "finetuning_task",
    "task_specific_params", "tokenizer_class", "prefix", "output_attentions", "output_hidden_states",
    "return_dict", "torchscript", "use_bfloat16", "tf_legacy_loss", "chunk_size_feed_forward", "is_decoder",
    "tie_encoder_decoder", "gradient_checkpointing", "bos_token_id", "eos_token_id", "pad_token_id",
    "unk_token_id", "sep_token_id", "decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id",
    "max_length", "min_length", "do_sample", "early_stopping", "num_beams", "num_beam_groups",
    "diversity_penalty", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty",
    "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences",
    "remove_invalid_values", "exponential_decay_length_penalty", "suppress_tokens", "begin_suppress_tokens",
    "output_scores", "return_dict_in_generate", "initializer_range", "init_std", "attention_dropout",
    "hidden_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop", "rope_theta", "rope_scaling",
    "rope_parameters", "partial_rotary_factor", "rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon",
    "pretraining_tp", "quantization_config", "compression_config", "vision_config", "audio_config",
    "is_encoder_decoder", "add_cross_attention", "cross_attention_hidden_size", "pruned_heads", "text_config",
    "visual", "vq_config", "speech_config", "image_token_id", "image_token_index", "video_token_id",
    "video_token_index", "vision_start_token_id", "vision_end_token_id", "vision_token_id", "audio_token_id",
    "audio_token_index", "vision_feature_layer", "vision_feature_select_strategy", "multimodal_projector_bias",
    "projector_hidden_act", "spatial_merge_size", "image_seq_length",
];

/// Harmless beside a `text_config`.
#[rustfmt::skip]
pub(super) const OUTER_HARMLESS: &[&str] = &[
    "mm_tokens_per_image", "boi_token_index", "eoi_token_index", "image_token_index", "image_token_id",
    "boi_token_id", "eoi_token_id", "tie_word_embeddings", "llm_config", "language_config",
];

/// That no refused field is in use.
pub(super) fn refuse(
    fields: &Map<String, Value>,
    of_family: &[(&'static str, &'static str)],
) -> Result<(), ModelError> {
    for (field, remedy) in COMMON_REFUSED.iter().chain(of_family) {
        if in_use(fields, field) {
            let value = shown(&fields[*field]);
            let (field, remedy) = ((*field).to_owned(), (*remedy).to_owned());
            return Err(ModelError::Unsupported { field, value, remedy });
        }
    }
    Ok(())
}

/// Whether a field asks for something: it is there and neither null, false, 0 nor empty.
pub(super) fn in_use(fields: &Map<String, Value>, field: &str) -> bool {
    match fields.get(field) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::Bool(true) | Value::String(_)) => true,
        Some(Value::Number(number)) => number.as_f64() != Some(0.0),
        Some(Value::Array(list)) => !list.is_empty(),
        Some(Value::Object(inner)) => !inner.is_empty(),
    }
}

/// What most families leave empty.
const FAMILY: Family = Family {
    model_type: "",
    fields: &[],
    aliases: &[],
    harmless: &[],
    refused: &[],
    inner: None,
    build: Build::Own(super::gated::llama),
};

/// Norms that each head has for itself, which no layer of ours has.
const HEAD_NORMS: (&str, &str) =
    ("qk_layernorm", "a layer norm of the queries and keys of each head is not planned");

/// All families, in the order in which they are listed to people.
pub(super) fn families() -> impl Iterator<Item = &'static Family> {
    let by_hand = [layer_norm::FAMILIES, gated::FAMILIES, experts::FAMILIES];
    let shaped =
        [shaped_plain::FAMILIES, shaped::FAMILIES, shaped_experts::FAMILIES, shaped_remote::FAMILIES];
    by_hand.into_iter().chain(shaped).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_field_stands_in_two_lists_of_a_family() {
        for family in families().chain([&layer_norm::MPT_ATTENTION]) {
            let mut names: Vec<&str> = family.fields.iter().map(|(name, _)| *name).collect();
            names.extend(family.aliases.iter().map(|(_, alias)| alias));
            names.extend(family.harmless);
            names.extend(family.refused.iter().map(|(name, _)| name));
            // What is harmless elsewhere may be the other name of a constant here.
            let is_alias = |name: &&&str| family.aliases.iter().any(|(_, alias)| *alias == **name);
            names.extend(COMMON_HARMLESS.iter().filter(|name| !is_alias(name)));
            let count = names.len();
            names.sort_unstable();
            let repeated = names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
            names.dedup();
            assert_eq!(names.len(), count, "{}: {repeated:?} stands twice", family.model_type);
        }
    }

    #[test]
    fn every_family_builds_from_its_defaults() {
        for family in families() {
            let mut fields = Map::new();
            fields.insert("model_type".to_owned(), family.model_type.into());
            // These have no default that makes a model.
            match family.model_type {
                "deepseek_v2" => fields.insert("num_experts_per_tok".to_owned(), 6.into()),
                "glm4_moe" => fields.insert("head_dim".to_owned(), 128.into()),
                "flint" => fields.insert("layer_types".to_owned(), vec!["full_attention"; 49].into()),
                _ => None,
            };
            let model = super::super::import(&Value::Object(fields), family.model_type);
            let model = model.unwrap_or_else(|error| panic!("{}: {error}", family.model_type));
            assert!(model.parameter_count() > 0);
            let said = |warning: &String| warning.ends_with(&format!("the default of {}", family.model_type));
            assert!(model.warnings.len() > 3 && model.warnings.iter().all(said), "{:?}", model.warnings);
        }
    }
}
