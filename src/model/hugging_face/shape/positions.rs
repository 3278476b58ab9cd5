//! What a block's place changes: its window, and whether its queries and keys are rotated.

use serde_json::Value;

use super::{Positions, Shape, Unrotated, Windows};
use crate::model::error::ModelError;
use crate::model::hugging_face::config::{Config, shown};
use crate::model::hugging_face::windows::{Pattern, windows};

/// What is of one block.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub window: Option<u64>,
    pub rotated: bool,
}

/// Windows and rotation of each block.
pub(super) fn places(config: &Config<'_>, shape: &Shape, layers: u64) -> Result<Vec<Place>, ModelError> {
    let listed = match shape.unrotated {
        Unrotated::Listed => rotated(config, layers)?,
        _ => vec![true; layers as usize],
    };
    let all = |pattern| windows(config, layers, pattern);
    let given = config.list("layer_types")?.is_some();
    let windows = match shape.windows {
        Windows::Never => vec![None; layers as usize],
        Windows::Listed if !given => vec![None; layers as usize],
        Windows::Required if !given => {
            let rule = "must be given: the layers with windows follow no rule";
            return Err(ModelError::rule("layer_types", "(nothing)", rule, [""; 0]));
        }
        Windows::All | Windows::Listed | Windows::Required => all(Pattern::All)?,
        Windows::AllBut(period) => all(Pattern::AllBut(period))?,
        Windows::AllButPattern => match pattern(config)? {
            Some(period) => all(Pattern::AllBut(period))?,
            None if given => all(Pattern::All)?,
            None => vec![None; layers as usize],
        },
        Windows::AllButFirst(period) => all(Pattern::AllButFirst(period))?,
        Windows::Unrotated if given => all(Pattern::All)?,
        Windows::Unrotated if config.flag("use_sliding_window")? => {
            let window = config.optional_size("sliding_window")?;
            listed.iter().map(|rotated| window.filter(|_| !rotated)).collect()
        }
        Windows::Unrotated => vec![None; layers as usize],
        Windows::Chunks if given => all(Pattern::All)?,
        Windows::Chunks => {
            let window = config.optional_size("sliding_window")?;
            listed.iter().map(|rotated| window.filter(|_| *rotated)).collect()
        }
    };
    let some = windows.iter().any(Option::is_some);
    let place = |(window, listed): (Option<u64>, bool)| {
        let rotated = match shape.unrotated {
            _ if shape.position != Positions::Rotary => false,
            Unrotated::None => true,
            Unrotated::Listed => listed,
            Unrotated::WithoutWindow => window.is_some() || !some,
            Unrotated::Full => window.is_some(),
        };
        Place { window, rotated }
    };
    Ok(windows.into_iter().zip(listed).map(place).collect())
}

/// `sliding_window_pattern`: a number n, or letters as `LLLG` with n of them; none for no windows.
fn pattern(config: &Config<'_>) -> Result<Option<u64>, ModelError> {
    match config.given("sliding_window_pattern") {
        Some((_, Value::String(letters))) => {
            let locals = letters.len().saturating_sub(1);
            if locals > 0 && *letters == format!("{}G", "L".repeat(locals)) {
                return Ok(Some(letters.len() as u64));
            }
            let rule = "is no pattern of local layers with a global one at the end";
            Err(ModelError::rule("sliding_window_pattern", shown(&letters.as_str().into()), rule, ["LLLG"]))
        }
        _ => config.optional_size("sliding_window_pattern"),
    }
}

/// Whether each block is rotated, by `no_rope_layers` (0: not) or `no_rope_layer_interval`.
fn rotated(config: &Config<'_>, layers: u64) -> Result<Vec<bool>, ModelError> {
    let list = config.list("no_rope_layers")?.filter(|list| !list.is_empty());
    let Some(list) = list else {
        let interval = config.size("no_rope_layer_interval")?;
        return Ok((1..=layers).map(|layer| !layer.is_multiple_of(interval)).collect());
    };
    if list.len() as u64 != layers {
        let rule = format!("has {} entries for {layers} layers", list.len());
        return Err(ModelError::rule("no_rope_layers", "(a list)", rule, [layers]));
    }
    let is_rotated = |layer: &Value| match layer.as_u64() {
        Some(0) => Ok(false),
        Some(1) => Ok(true),
        _ => Err(ModelError::rule("no_rope_layers", shown(layer), "must be 0 or 1", [0, 1])),
    };
    list.iter().map(is_rotated).collect()
}
