//! Models that see or hear: where their text model stands, and what is said of the towers that are left out.

use serde_json::{Map, Value};

type Fields = Map<String, Value>;

/// Objects in which the text model of a larger one stands.
const TEXT: [&str; 3] = ["text_config", "llm_config", "language_config"];

/// Objects of towers, and what each is.
pub(super) const TOWERS: [(&str, &str); 5] = [
    ("vision_config", "vision tower"),
    ("visual", "vision tower"),
    ("vq_config", "vision tokenizer"),
    ("audio_config", "audio tower"),
    ("speech_config", "audio tower"),
];

/// The object in which the text model stands, if in one.
pub(super) fn text_field(fields: &Fields) -> Option<&'static str> {
    TEXT.into_iter().find(|field| fields.get(*field).is_some_and(|text| !text.is_null()))
}

/// A line for each tower of `fields`: that it is not planned, and how large it is where its object says so.
pub(super) fn left_out(fields: &Fields) -> Vec<String> {
    let tower = |(field, what): (&str, &str)| {
        let tower = fields.get(field).filter(|tower| !tower.is_null())?;
        let size = tower.as_object().and_then(size).unwrap_or_default();
        Some(format!(
            "the {what} of {field}{size} and what leads from it into the text model are left out: the text model \
             alone is planned"
        ))
    };
    TOWERS.into_iter().filter_map(tower).collect()
}

/// Layers, width and about how many parameters; the names of transformers' own towers are tried in turn.
fn size(tower: &Fields) -> Option<String> {
    let whole = |names: &[&str]| names.iter().find_map(|name| tower.get(*name)?.as_u64());
    let layers = whole(&["num_hidden_layers", "depth", "num_layers", "encoder_layers", "layers"])?;
    let width = whole(&["embed_dim", "hidden_size", "d_model", "width"])?;
    let inner = whole(&["intermediate_size", "encoder_ffn_dim"]).unwrap_or(4 * width);
    // Attention's four matrices and a plain MLP's two.
    let block = 4 * u128::from(width).pow(2) + 2 * u128::from(width) * u128::from(inner);
    let parameters = u128::from(layers) * block;
    let millions = parameters as f64 / 1e6;
    Some(format!(" ({layers} layers of width {width}, about {millions:.0} M parameters)"))
}
