//! Which layers see a sliding window: `layer_types` where it is given, else the family's pattern.

use serde_json::Value;

use super::config::{Config, shown};
use crate::model::error::ModelError;

/// How a family lays out its windows where `layer_types` is not given.
#[derive(Clone, Copy)]
pub(super) enum Pattern {
    /// Every layer has the window.
    All,
    /// Every layer from this one on (Qwen's `max_window_layers`).
    From(u64),
    /// All but every n-th layer (Gemma 2 and gpt-oss: 2, Gemma 3: 6).
    AllBut(u64),
    /// All but the first of each n (Granite with windows: 4).
    AllButFirst(u64),
}

/// The window of each layer, in tokens; none for full attention.
pub(super) fn windows(
    config: &Config<'_>,
    layers: u64,
    pattern: Pattern,
) -> Result<Vec<Option<u64>>, ModelError> {
    let window = config.optional_size("sliding_window")?;
    let Some(types) = config.list("layer_types")? else {
        let slides = |layer: u64| match pattern {
            Pattern::All => true,
            Pattern::From(first) => layer >= first,
            Pattern::AllBut(period) => !(layer + 1).is_multiple_of(period),
            Pattern::AllButFirst(period) => !layer.is_multiple_of(period),
        };
        return Ok((0..layers).map(|layer| window.filter(|_| slides(layer))).collect());
    };
    if types.len() as u64 != layers {
        let rule = format!("has {} entries for {layers} layers", types.len());
        return Err(ModelError::rule("layer_types", "(a list)", rule, [layers]));
    }
    types.iter().map(|kind| layer_window(kind, window)).collect()
}

fn layer_window(kind: &Value, window: Option<u64>) -> Result<Option<u64>, ModelError> {
    match (kind.as_str(), window) {
        (Some("full_attention" | "global"), _) => Ok(None),
        (Some("sliding_attention" | "chunked_attention" | "local"), Some(window)) => Ok(Some(window)),
        (Some("sliding_attention" | "chunked_attention" | "local"), None) => {
            let rule = format!("must be given, for layer_types names {}", shown(kind));
            Err(ModelError::rule("sliding_window", "null", rule, [""; 0]))
        }
        (named, _) => {
            let strange = match named {
                Some("linear_attention") => "linear attention is not planned; ",
                Some("conv") => "a convolution is not planned; ",
                Some("mamba" | "mamba2") => "a state-space layer is not planned; ",
                _ => "",
            };
            Err(ModelError::Unsupported {
                field: "layer_types".to_owned(),
                value: shown(kind),
                remedy: format!("{strange}a layer is full_attention or sliding_attention"),
            })
        }
    }
}
