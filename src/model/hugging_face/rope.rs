//! Rotary positions: `rope_theta` and `rope_scaling`, or since transformers 5 all of it in `rope_parameters`.

use serde_json::{Map, Value};

use super::config::{Config, above_zero, agree, shortened, shown};
use crate::model::constants::{Rotary, RotaryScaling, Yarn};
use crate::model::error::ModelError;
use crate::spelling::nearest;

type Fields = Map<String, Value>;

/// The types that transformers knows, the older name `su` of longrope, and Qwen's `mrope`.
const TYPES: [&str; 8] = ["default", "linear", "dynamic", "yarn", "longrope", "llama3", "su", "mrope"];

/// Constants of the types, alone or in lists, that must be above 0 where they are given.
const POSITIVE: [&str; 9] = [
    "factor",
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "low_freq_factor",
    "high_freq_factor",
    "original_max_position_embeddings",
    "short_factor",
    "long_factor",
];

/// That of gpt-oss, where its file says none.
const GPT_OSS: Yarn = Yarn {
    factor: 32.0,
    original_max_position: Some(4096),
    beta_fast: 32.0,
    beta_slow: 1.0,
    mscale: None,
    mscale_all_dim: None,
    attention_factor: None,
    truncate: false,
};

pub(super) fn rotary(config: &Config<'_>) -> Result<Rotary, ModelError> {
    let family = config.model_type();
    let (theta, absent) = match family {
        "gpt_neox" => ("rotary_emb_base", 10_000.0),
        "mixtral" | "gemma3_text" => ("rope_theta", 1_000_000.0),
        "gpt_oss" => ("rope_theta", 150_000.0),
        _ => ("rope_theta", config.family.shape().map_or(10_000.0, |shape| shape.theta)),
    };
    let (share, whole) = match family {
        "gpt_neox" => ("rotary_pct", 0.25),
        "stablelm" => ("partial_rotary_factor", 0.25),
        "glm4_moe" | "glm4" | "phi" => ("partial_rotary_factor", 0.5),
        _ => ("partial_rotary_factor", config.family.shape().map_or(1.0, |shape| shape.share)),
    };
    let (parameters, of_windows) = by_kind_of_layer(config.object("rope_parameters")?)?;
    let number = |field: &'static str, nested: &str, absent: f64| {
        let inside = parameters.and_then(|fields| fields.get(nested)).filter(|value| !value.is_null());
        let path = format!("rope_parameters.{nested}");
        agree((field, config.given(field).map(|(_, value)| value)), (&path, inside))?;
        match (config.number(field)?, inside) {
            (None, Some(value)) => above_zero(&path, value),
            (given, _) => Ok(given.unwrap_or(absent)),
        }
    };
    let rotated = if family == "gptj" { config.optional_size("rotary_dim")? } else { None };
    let share = match rotated {
        Some(rotated) => {
            rotated as f64 / config.head_dim(config.size("hidden_size")?, config.heads()?)? as f64
        }
        None => number(share, "partial_rotary_factor", whole)?,
    };
    let window_theta = if family == "gemma3_text" { Some(window_theta(config, of_windows)?) } else { None };
    let old = config.object("rope_scaling")?.map(|fields| scaling("rope_scaling", fields)).transpose()?;
    let new = parameters.map(|fields| scaling("rope_parameters", fields)).transpose()?;
    let scaling = match (old, new) {
        (Some(old), Some(new)) if old != new => {
            let rule = "and rope_parameters disagree; they are two names of one field";
            return Err(ModelError::rule("rope_scaling", "(an object)", rule, [""; 0]));
        }
        (None, None) if family == "gpt_oss" => RotaryScaling::Yarn(GPT_OSS),
        (old, new) => new.or(old).unwrap_or(RotaryScaling::None),
    };
    let interleaved = match family {
        "gptj" | "cohere" | "glm4" | "deepseek_v2" => true,
        "deepseek_v3" => !config.has("rope_interleave") || config.flag("rope_interleave")?,
        _ => config.family.shape().is_some_and(|shape| shape.interleaved),
    };
    Ok(Rotary { theta: number(theta, "rope_theta", absent)?, window_theta, share, interleaved, scaling })
}

/// Gemma 3's base for layers with a window.
fn window_theta(config: &Config<'_>, of_windows: Option<&Fields>) -> Result<f64, ModelError> {
    const PATH: &str = "rope_parameters.sliding_attention.rope_theta";
    let old = config.given("rope_local_base_freq").map(|(_, value)| value);
    let new = of_windows.and_then(|fields| fields.get("rope_theta")).filter(|value| !value.is_null());
    agree(("rope_local_base_freq", old), (PATH, new))?;
    match new {
        Some(value) => above_zero(PATH, value),
        None => Ok(config.number("rope_local_base_freq")?.unwrap_or(10_000.0)),
    }
}

/// What holds for layers that see everything, and for those with a window where these have parameters of their own.
fn by_kind_of_layer(parameters: Option<&Fields>) -> Result<(Option<&Fields>, Option<&Fields>), ModelError> {
    let Some(fields) = parameters.filter(|fields| fields.values().any(Value::is_object)) else {
        return Ok((parameters, None));
    };
    const KINDS: [&str; 2] = ["full_attention", "sliding_attention"];
    if let Some(other) = fields.keys().find(|kind| !KINDS.contains(&kind.as_str())) {
        let rule = "is no kind of layer";
        return Err(ModelError::rule("rope_parameters", shortened(other), rule, KINDS));
    }
    let [full, sliding] = KINDS.map(|kind| fields.get(kind).and_then(Value::as_object));
    Ok((full, sliding))
}

/// The scaling that the object under `path` describes.
fn scaling(path: &str, fields: &Fields) -> Result<RotaryScaling, ModelError> {
    agree(("rope_type", fields.get("rope_type")), ("type", fields.get("type")))?;
    let kind = match fields.get("rope_type").or_else(|| fields.get("type")) {
        Some(Value::String(kind)) => kind.as_str(),
        Some(Value::Null) | None => "default",
        Some(other) => {
            let rule = "must be a string";
            return Err(ModelError::rule(format!("{path}.rope_type"), shown(other), rule, TYPES));
        }
    };
    if !TYPES.contains(&kind) {
        let (kind, rule) = (shortened(kind), "is no type of rotary positions");
        return Err(ModelError::rule(format!("{path}.rope_type"), &kind, rule, nearest(&kind, TYPES)));
    }
    for field in POSITIVE {
        match fields.get(field) {
            Some(Value::Array(list)) => list.iter().try_for_each(|value| positive(path, field, value))?,
            Some(Value::Null) | None => {}
            Some(value) => positive(path, field, value)?,
        }
    }
    let number = |field: &str| {
        let given = fields.get(field).and_then(Value::as_f64);
        let rule = format!("must be given for {kind}");
        given.ok_or_else(|| ModelError::rule(format!("{path}.{field}"), "(nothing)", rule, [""; 0]))
    };
    let given = |field: &str| fields.get(field).and_then(Value::as_f64);
    let position = |field: &str| given(field).map(|number| number as u64);
    let list = |field: &str| {
        let list = fields.get(field).and_then(Value::as_array);
        list.map(|list| list.iter().filter_map(Value::as_f64).collect::<Vec<_>>())
    };
    Ok(match (kind, given("factor"), list("short_factor").zip(list("long_factor"))) {
        ("default", ..) => RotaryScaling::None,
        ("linear", ..) => RotaryScaling::Linear { factor: number("factor")? },
        ("llama3", ..) => RotaryScaling::Llama3 {
            factor: number("factor")?,
            low_freq_factor: number("low_freq_factor")?,
            high_freq_factor: number("high_freq_factor")?,
            original_max_position: number("original_max_position_embeddings")? as u64,
        },
        ("yarn", Some(factor), _) => RotaryScaling::Yarn(Yarn {
            factor,
            original_max_position: position("original_max_position_embeddings"),
            beta_fast: given("beta_fast").unwrap_or(32.0),
            beta_slow: given("beta_slow").unwrap_or(1.0),
            mscale: given("mscale"),
            mscale_all_dim: given("mscale_all_dim"),
            attention_factor: given("attention_factor"),
            truncate: fields.get("truncate").and_then(Value::as_bool).unwrap_or(true),
        }),
        ("dynamic", Some(factor), _) => RotaryScaling::Dynamic { factor },
        ("longrope" | "su", _, Some((short_factor, long_factor))) => RotaryScaling::LongRope {
            short_factor,
            long_factor,
            original_max_position: position("original_max_position_embeddings"),
            attention_factor: given("attention_factor"),
        },
        (other, ..) => RotaryScaling::Other(other.to_owned()),
    })
}

/// That a constant is above 0; a factor of 1 changes nothing.
fn positive(path: &str, field: &str, value: &Value) -> Result<(), ModelError> {
    if value.as_f64().is_some_and(|number| number > 0.0) {
        return Ok(());
    }
    Err(ModelError::rule(format!("{path}.{field}"), shown(value), "must be a number above 0", [1]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::from_text;

    fn rotary_of(fields: &str) -> Result<Rotary, String> {
        let text = format!(r#"{{"model_type":"gemma3_text",{fields}}}"#);
        from_text(&text, "a", "a").map(|model| model.constants.rotary).map_err(|error| error.to_string())
    }

    #[test]
    fn layers_with_windows_may_have_parameters_of_their_own() {
        let old =
            r#""rope_theta":5e5,"rope_local_base_freq":2e4,"rope_scaling":{"rope_type":"linear","factor":8}"#;
        let new = r#""rope_parameters":{
            "full_attention":{"rope_type":"linear","factor":8,"rope_theta":5e5},
            "sliding_attention":{"rope_type":"default","rope_theta":20000}}"#;
        let expected = Rotary {
            theta: 5e5,
            window_theta: Some(2e4),
            share: 1.0,
            interleaved: false,
            scaling: RotaryScaling::Linear { factor: 8.0 },
        };
        assert_eq!(rotary_of(old), Ok(expected.clone()));
        assert_eq!(rotary_of(new), Ok(expected));
    }

    #[test]
    fn what_cannot_be_is_named_with_what_is_near() {
        for (fields, message) in [
            (
                r#""rope_scaling":{"rope_type":"yarm","factor":2}"#,
                "rope_scaling.rope_type yarm is no type of rotary positions; nearest: yarn",
            ),
            (
                r#""rope_scaling":{"type":"yarn","factor":-2}"#,
                "rope_scaling.factor -2 must be a number above 0; nearest: 1",
            ),
            (
                r#""rope_parameters":{"rope_type":"longrope","long_factor":[1.0,-3.5]}"#,
                "rope_parameters.long_factor -3.5 must be a number above 0; nearest: 1",
            ),
            (
                r#""rope_parameters":{"full_attention":{},"other":{}}"#,
                "rope_parameters other is no kind of layer; nearest: full_attention, sliding_attention",
            ),
            (
                r#""rope_theta":1e4,"rope_parameters":{"rope_theta":5e5}"#,
                "rope_theta 10000.0 and rope_parameters.rope_theta 500000.0 disagree",
            ),
            (
                r#""rope_scaling":{"type":"linear","factor":2},"rope_parameters":{"rope_type":"linear","factor":4}"#,
                "rope_scaling (an object) and rope_parameters disagree",
            ),
            (
                r#""rope_scaling":{"type":"linear","rope_type":"yarn"}"#,
                "rope_type \"yarn\" and type \"linear\"",
            ),
        ] {
            let error = rotary_of(fields).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
