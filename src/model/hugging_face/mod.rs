//! Import of a Hugging Face `config.json`: by `model_type`, a table of fields and a builder make a decoder.
//!
//! Defaults of fields that a file leaves out are those of `transformers` 4.57.1; so is what each field shapes. Names are
//! read as versions 4 and 5 write them.

mod config;
mod constants;
mod experts;
mod families;
mod gated;
mod layer_norm;
mod names;
mod notes;
mod parallel;
mod rope;
mod shape;
mod strange;
mod towers;
mod windows;

use serde_json::{Map, Value};

use super::check::one_line;
use super::error::ModelError;
use super::graph::Model;
use crate::spelling::distance;
use config::Config;
use families::{Family, STORAGE, families};

pub(super) use gated::rotary_attention;

/// The `model_type`s that can be imported.
pub fn model_types() -> impl Iterator<Item = &'static str> {
    families().map(|family| family.model_type)
}

/// Whether multi-token prediction layers (DeepSeek-V3, section 2.2) belong to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MultiToken {
    /// As transformers loads it; a warning says so.
    LeftOut,
    Counted,
}

/// The model that a `config.json` describes, called `name`, without multi-token prediction layers.
///
/// # Errors
/// When the `model_type` is unknown, a size cannot be, or a field asks for what we do not plan.
pub fn import(config: &Value, name: &str) -> Result<Model, ModelError> {
    import_with(config, name, MultiToken::LeftOut)
}

/// The same, with or without multi-token prediction layers.
///
/// # Errors
/// As [`import`].
pub fn import_with(config: &Value, name: &str, multi_token: MultiToken) -> Result<Model, ModelError> {
    let outer = config.as_object().ok_or_else(|| ModelError::NotAModel { path: name.to_owned() })?;
    let Some(field) = towers::text_field(outer) else {
        return import_text(outer, None, name, multi_token);
    };
    let text = &outer[field];
    let text = text.as_object();
    let text = text
        .ok_or_else(|| ModelError::rule(field, config::shown(&outer[field]), "must be an object", [""; 0]))?;
    // The whole says whether the text model's head is tied (transformers 5 ties by the whole's configuration).
    let mut text = text.clone();
    if let Some(tied) = outer.get("tie_word_embeddings").filter(|tied| !tied.is_null()) {
        text.insert("tie_word_embeddings".to_owned(), tied.clone());
    }
    import_text(&text, Some(outer), name, multi_token)
}

/// The model that `config`, whose `model_type` nobody knows, describes if it is a `family`, called `name`; the type stays
/// what it is.
///
/// # Errors
/// As [`import`].
pub fn import_as(
    config: &Value,
    family: &str,
    name: &str,
    multi_token: MultiToken,
) -> Result<Model, ModelError> {
    let mut known = config.clone();
    if let Some(fields) = known.as_object_mut() {
        fields.insert("model_type".to_owned(), family.into());
    }
    let mut model = import_with(&known, name, multi_token)?;
    if let (Some(kept), Some(own)) = (&mut model.config, config.get("model_type")) {
        kept.insert("model_type".to_owned(), own.clone());
    }
    Ok(model)
}

/// The `model_type` that a config names, be it of the whole or of the text model inside.
pub fn model_type(config: &Map<String, Value>) -> Option<&str> {
    let text = towers::text_field(config).and_then(|field| config[field].as_object());
    let named = text.and_then(|text| text.get("model_type")).or_else(|| config.get("model_type"));
    named.and_then(Value::as_str)
}

/// What models of this type compute otherwise than their layers say, where that is known of one.
pub fn otherwise(model_type: &str) -> Option<&'static str> {
    match family(model_type) {
        Some(family) => family.shape()?.otherwise,
        None => Some("layers that are known by the shapes of their weights alone"),
    }
}

/// Whether the layers of this type are data of a table, and so not compared number by number with those of transformers.
pub fn is_shaped(model_type: &str) -> bool {
    family(model_type).is_none_or(|family| family.shape().is_some())
}

fn family(model_type: &str) -> Option<&'static Family> {
    let name = names::family_of(model_type);
    families().find(|family| family.model_type == name)
}

/// `text` stands alone, or inside `outer`.
fn import_text(
    text: &Map<String, Value>,
    outer: Option<&Map<String, Value>>,
    name: &str,
    multi_token: MultiToken,
) -> Result<Model, ModelError> {
    for name in ["model_type", "_name_or_path"] {
        for value in [outer, Some(text)].into_iter().flatten().filter_map(|fields| fields.get(name)?.as_str())
        {
            one_line(name, value)?;
        }
    }
    let named = text.get("model_type").or_else(|| outer?.get("model_type"));
    let model_type = match named {
        Some(Value::String(model_type)) => model_type.as_str(),
        Some(other) => {
            return Err(ModelError::rule("model_type", config::shown(other), "must be a string", [""; 0]));
        }
        None => return Err(ModelError::NotAModel { path: name.to_owned() }),
    };
    if let Some(part) = strange::strange_part(model_type) {
        return Err(ModelError::Unsupported {
            field: "model_type".to_owned(),
            value: model_type.to_owned(),
            remedy: format!("it has {part}, which is not planned"),
        });
    }
    let family = family(model_type).ok_or_else(|| unknown(model_type, text))?;
    if let Some(outer) = outer {
        families::refuse(outer, &[])?;
    }
    let config = Config::new(family, text)?;
    let mut decoder = family.decoder(&config)?;
    if multi_token == MultiToken::Counted {
        decoder.predict_ahead(config.multi_token_layers()?);
    }
    let mut warnings = outer.into_iter().chain([text]).flat_map(towers::left_out).collect::<Vec<_>>();
    warnings.extend(notes::notes(&config, outer, multi_token)?);
    let mut model = decoder.assemble(name, constants::constants(&config)?, warnings)?;
    let mut kept = outer.unwrap_or(text).clone();
    kept.retain(|field, _| !STORAGE.contains(&field.as_str()));
    model.config = Some(kept);
    Ok(model)
}

/// That no family has this name, with those whose fields the config has.
fn unknown(model_type: &str, fields: &Map<String, Value>) -> ModelError {
    let strangers = |family: &Family| fields.keys().filter(|field| !family.knows(field)).count();
    let missing = |family: &Family| {
        let given = |field: &str| {
            let mut aliases = family.aliases.iter().filter(|(usual, _)| *usual == field);
            fields.contains_key(field) || aliases.any(|(_, alias)| fields.contains_key(*alias))
        };
        family.fields.iter().filter(|(field, _)| !given(field)).count()
    };
    let mut near: Vec<&Family> = families().collect();
    // An edit costs four.
    let is_slip = |family: &Family| distance(model_type, family.model_type) <= 4;
    // Llama first of those that fit alike: most that are published under a new name are one.
    near.sort_by_cached_key(|family| {
        (strangers(family), !is_slip(family), missing(family), family.model_type != "llama")
    });
    let nearest = near.into_iter().take(3).map(|family| family.model_type.to_owned()).collect();
    ModelError::UnknownType { value: config::shortened(model_type), nearest, known: model_types().count() }
}
