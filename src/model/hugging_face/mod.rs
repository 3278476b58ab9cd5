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
mod notes;
mod parallel;
mod rope;
mod windows;

use serde_json::{Map, Value};

use super::check::one_line;
use super::error::ModelError;
use super::graph::Model;
use crate::spelling::nearest;
use config::Config;
use families::{STORAGE, families};

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
    let text = outer.get("text_config").filter(|text| !text.is_null());
    let Some(text) = text else {
        return import_text(outer, outer, name, multi_token);
    };
    let text = text
        .as_object()
        .ok_or_else(|| ModelError::rule("text_config", config::shown(text), "must be an object", [""; 0]))?;
    import_text(outer, text, name, multi_token)
}

/// The `model_type` that a config names, be it of the whole or under `text_config`.
pub fn model_type(config: &Map<String, Value>) -> Option<&str> {
    let text = config.get("text_config").and_then(Value::as_object);
    let named = text.and_then(|text| text.get("model_type")).or_else(|| config.get("model_type"));
    named.and_then(Value::as_str)
}

/// `text` is `outer` itself, or the object under its `text_config`.
fn import_text(
    outer: &Map<String, Value>,
    text: &Map<String, Value>,
    name: &str,
    multi_token: MultiToken,
) -> Result<Model, ModelError> {
    let nested = !std::ptr::eq(outer, text);
    for name in ["model_type", "_name_or_path"] {
        for value in [outer, text].into_iter().filter_map(|fields| fields.get(name)?.as_str()) {
            one_line(name, value)?;
        }
    }
    let model_type = match text.get("model_type").or_else(|| outer.get("model_type")) {
        Some(Value::String(model_type)) => model_type.as_str(),
        Some(other) => {
            return Err(ModelError::rule("model_type", config::shown(other), "must be a string", [""; 0]));
        }
        None => return Err(ModelError::NotAModel { path: name.to_owned() }),
    };
    // Gemma 3 files with a text_config may name the type of the whole only.
    let model_type = if nested && model_type == "gemma3" { "gemma3_text" } else { model_type };
    let family = families().find(|family| family.model_type == model_type).ok_or_else(|| {
        let value = config::shortened(model_type);
        let nearest = nearest(&value, model_types());
        ModelError::UnknownType { value, nearest, known: model_types().map(str::to_owned).collect() }
    })?;
    if nested {
        families::refuse(outer, &[])?;
    }
    let config = Config::new(family, text)?;
    let mut decoder = (family.build)(&config)?;
    if multi_token == MultiToken::Counted {
        decoder.predict_ahead(config.multi_token_layers()?);
    }
    let warnings = notes::notes(&config, nested.then_some(outer), multi_token)?;
    let mut model = decoder.assemble(name, constants::constants(&config)?, warnings)?;
    let mut kept = outer.clone();
    kept.retain(|field, _| !STORAGE.contains(&field.as_str()));
    model.config = Some(kept);
    Ok(model)
}
