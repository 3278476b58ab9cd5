//! Where a model comes from: a preset's name, a `config.json` or its folder, or a layer-graph file.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::ModelError;
use super::graph::Model;
use super::hugging_face::MultiToken;
use super::naming::{nearest, preset_named};
use super::presets::preset;
use super::{checkpoint, hugging_face, layer_graph};
use crate::files::{self, Unread};
use crate::units::Bytes;

/// The largest file that is read as a model description.
const FILE_LIMIT: Bytes = Bytes::mib(16);

/// The model that `text` names: a preset first, else a path (write `./gpt2` for a folder of that name), else a preset as
/// others write its name.
///
/// # Errors
/// When there is no such preset or file, or what is there does not describe a model.
pub fn load(text: &str) -> Result<Model, ModelError> {
    load_with(text, MultiToken::LeftOut)
}

/// The same, with or without the multi-token prediction layers that a configuration names.
///
/// # Errors
/// As [`load`].
pub fn load_with(text: &str, multi_token: MultiToken) -> Result<Model, ModelError> {
    if let Some(preset) = preset(text) {
        return preset.model_with(multi_token);
    }
    if let Some(preset) = preset_named(text).filter(|_| !Path::new(text).exists()) {
        let mut model = preset.model_with(multi_token)?;
        if !text.eq_ignore_ascii_case(preset.name) {
            model.warnings.insert(0, format!("Model `{text}` is read as the preset {}.", preset.name));
        }
        return Ok(model);
    }
    let path = file_of(text)?;
    let shown = path.display().to_string();
    let json = files::text(&path, FILE_LIMIT).map_err(|unread| match unread {
        Unread::Missing if path.as_os_str() != text => {
            unreadable(text, "the folder has no config.json".to_owned())
        }
        Unread::Missing => not_found(text),
        Unread::TooLarge { limit, bytes: Some(bytes) } => {
            ModelError::TooLarge { path: shown.clone(), bytes, limit }
        }
        other => unreadable(&shown, other.to_string()),
    })?;
    let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
    let name = name_of(&path);
    let mut model = match from_text_with(&json, &shown, &name, multi_token) {
        Err(ModelError::UnknownType { value, nearest, known }) => {
            let config: Value = serde_json::from_str(&json).unwrap_or_default();
            let confirmed = confirmed(&config, &nearest, &name, &folder, multi_token);
            return confirmed.ok_or(ModelError::UnknownType { value, nearest, known });
        }
        other => other?,
    };
    if model.config.is_some() {
        model.warnings.extend(checkpoint::disagreements(&model, &folder));
    }
    Ok(model)
}

/// The model of a type that nobody knows, read as the first of `families` whose parameters the weights in `folder` have.
fn confirmed(
    config: &Value,
    families: &[String],
    name: &str,
    folder: &Path,
    multi_token: MultiToken,
) -> Option<Model> {
    families.iter().find_map(|family| {
        let mut model = hugging_face::import_as(config, family, name, multi_token).ok()?;
        let line = format!(
            "model_type {} is not known: it is read as {family}, which has as many parameters as the weights beside it",
            config.get("model_type").and_then(Value::as_str).unwrap_or_default()
        );
        checkpoint::confirms(&model, folder).then(|| {
            model.warnings.insert(0, line);
            model
        })
    })
}

/// The file that `text`, which is no preset's name, leads to: in a folder it is `config.json`.
///
/// # Errors
/// When nothing is there.
fn file_of(text: &str) -> Result<PathBuf, ModelError> {
    let path = Path::new(text);
    let found = fs::metadata(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::InvalidInput | ErrorKind::InvalidFilename => not_found(text),
        _ => unreadable(text, error.to_string()),
    })?;
    Ok(if found.is_dir() { path.join("config.json") } else { path.to_owned() })
}

/// The file that [`load`] would read of `text`, if it would read one.
pub fn source_of(text: &str) -> Option<PathBuf> {
    preset(text).is_none().then(|| file_of(text).ok()).flatten()
}

/// The model that JSON text describes, told apart by its content; `path` is for messages, `name` for a config.
///
/// # Errors
/// When the text is not JSON or does not describe a model.
pub fn from_text(text: &str, path: &str, name: &str) -> Result<Model, ModelError> {
    from_text_with(text, path, name, MultiToken::LeftOut)
}

/// The same, with or without the multi-token prediction layers that a configuration names.
pub(super) fn from_text_with(
    text: &str,
    path: &str,
    name: &str,
    multi_token: MultiToken,
) -> Result<Model, ModelError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // serde_json stops at 128 levels, so deep nesting is an error and never a deep value.
    let value: Value = serde_json::from_str(text)
        .map_err(|error| ModelError::NotJson { path: path.to_owned(), reason: error.to_string() })?;
    let has = |field: &str| value.get(field).is_some();
    if has("layers") && has("version") && !has("model_type") {
        return layer_graph::read(text, path);
    }
    if !has("model_type") && !has("text_config") {
        return Err(ModelError::NotAModel { path: path.to_owned() });
    }
    hugging_face::import_with(&value, name, multi_token)
}

/// A file's stem, or for a `config.json` the name of its folder.
fn name_of(path: &Path) -> String {
    let stem = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let folder = |path: &Path| {
        let folder = fs::canonicalize(path).ok()?.parent()?.file_name()?.to_string_lossy().into_owned();
        Some(folder)
    };
    let is_config = path.file_name().is_some_and(|name| name == "config.json");
    let name = if is_config { folder(path).or_else(|| stem(path)) } else { stem(path) };
    name.unwrap_or_else(|| "model".to_owned())
}

fn unreadable(path: &str, reason: String) -> ModelError {
    ModelError::Unreadable { path: path.to_owned(), reason }
}

/// With the presets whose names are close.
fn not_found(text: &str) -> ModelError {
    const LONGEST: usize = 200;
    let value: String = text.chars().take(LONGEST).collect();
    let nearest = nearest(&value);
    ModelError::NotFound { value, nearest }
}
