//! The constants of a config, with the defaults of each family's configuration class.

use serde_json::{Map, Value};

use super::config::{Config, above_zero, shown};
use crate::model::constants::{Constants, Rotary, RotaryScaling, Router, RouterScore};
use crate::model::error::ModelError;

type Fields = Map<String, Value>;

pub(super) fn constants(config: &Config<'_>) -> Result<Constants, ModelError> {
    let family = config.model_type();
    let number = |field, absent| Ok::<_, ModelError>(config.number(field)?.unwrap_or(absent));
    let plain = Constants::default();
    let norm_epsilon = match family {
        // Its norms take the default of the layer, whatever the file says.
        "opt" => 1e-5,
        "gpt2" | "bloom" | "falcon" | "mpt" => number("layer_norm_epsilon", 1e-5)?,
        "gpt_neox" => number("layer_norm_eps", 1e-5)?,
        "mixtral" | "phi3" | "gpt_oss" | "glm4_moe" => number("rms_norm_eps", 1e-5)?,
        _ => number("rms_norm_eps", 1e-6)?,
    };
    let initializer = if family == "opt" { "init_std" } else { "initializer_range" };
    let common = Constants {
        norm_epsilon,
        initializer_range: number(initializer, plain.initializer_range)?,
        rotary: rotary(config)?,
        router: router(config)?,
        ..plain
    };
    Ok(match family {
        "gpt2" => Constants {
            score_scale: (!switch(config, "scale_attn_weights", true)?).then_some(1.0),
            score_scale_by_block: config.flag("scale_attn_by_inverse_layer_idx")?,
            ..common
        },
        "opt" => Constants { position_offset: 2, ..common },
        "mpt" => {
            let inner = config.inner()?;
            let inner = |field| inner.as_ref().map_or(Ok(None), |inner| inner.number(field));
            Constants { score_scale: inner("softmax_scale")?, projection_clip: inner("clip_qkv")?, ..common }
        }
        "gemma" => gemma(config, common)?,
        "gemma2" | "gemma3_text" => Constants {
            score_scale: Some(number("query_pre_attn_scalar", 256.0)?.sqrt().recip()),
            score_cap: number("attn_logit_softcapping", common.score_cap)?,
            logit_cap: number("final_logit_softcapping", common.logit_cap)?,
            ..gemma(config, common)?
        },
        _ => common,
    })
}

/// Gemma scales its embeddings and stores norm weights less 1.
fn gemma(config: &Config<'_>, common: Constants) -> Result<Constants, ModelError> {
    let hidden = config.size("hidden_size")?;
    Ok(Constants { norm_weight_offset: 1.0, embedding_scale: (hidden as f64).sqrt(), ..common })
}

/// A flag that is `absent` where it is left out, and false where it is null.
fn switch(config: &Config<'_>, field: &'static str, absent: bool) -> Result<bool, ModelError> {
    if config.has(field) { config.flag(field) } else { Ok(absent) }
}

/// Files write `rope_theta` and `rope_scaling`, or since 2026 both inside `rope_parameters`.
fn rotary(config: &Config<'_>) -> Result<Rotary, ModelError> {
    let family = config.model_type();
    let (theta, absent) = match family {
        "gpt_neox" => ("rotary_emb_base", 10_000.0),
        "mixtral" | "gemma3_text" => ("rope_theta", 1_000_000.0),
        "gpt_oss" => ("rope_theta", 150_000.0),
        _ => ("rope_theta", 10_000.0),
    };
    let (share, whole) = match family {
        "gpt_neox" => (Some("rotary_pct"), 0.25),
        "glm4_moe" => (Some("partial_rotary_factor"), 0.5),
        "phi3" => (Some("partial_rotary_factor"), 1.0),
        _ => (None, 1.0),
    };
    let parameters = config.object("rope_parameters")?;
    let inside = |field: &str| parameters.and_then(|fields| fields.get(field)).filter(|it| !it.is_null());
    let number = |field: &'static str, nested: &str| match (config.number(field)?, inside(nested)) {
        (None, Some(value)) => above_zero(nested, value).map(Some),
        (given, _) => Ok(given),
    };
    let share = share.map_or(Ok(None), |field| number(field, "partial_rotary_factor"))?.unwrap_or(whole);
    let window_theta = match family {
        "gemma3_text" => Some(config.number("rope_local_base_freq")?.unwrap_or(10_000.0)),
        _ => None,
    };
    let scaling = match config.object("rope_scaling")?.or(parameters) {
        Some(fields) => scaling(fields)?,
        None if family == "gpt_oss" => RotaryScaling::Other("yarn".to_owned()),
        None => RotaryScaling::None,
    };
    let theta = number(theta, "rope_theta")?.unwrap_or(absent);
    Ok(Rotary { theta, window_theta, share, scaling })
}

fn scaling(fields: &Fields) -> Result<RotaryScaling, ModelError> {
    let kind = match fields.get("rope_type").or_else(|| fields.get("type")) {
        Some(Value::String(kind)) => kind.as_str(),
        Some(Value::Null) | None if fields.values().any(Value::is_object) => "one for each kind of layer",
        Some(Value::Null) | None => "default",
        Some(other) => {
            return Err(ModelError::rule("rope_type", shown(other), "must be a string", [""; 0]));
        }
    };
    let number = |field: &str| match fields.get(field) {
        Some(value) => above_zero(&format!("rope_scaling.{field}"), value),
        None => Err(ModelError::rule(
            format!("rope_scaling.{field}"),
            "(nothing)",
            format!("must be given for {kind}"),
            [""; 0],
        )),
    };
    Ok(match kind {
        "default" => RotaryScaling::None,
        "linear" => RotaryScaling::Linear { factor: number("factor")? },
        "llama3" => RotaryScaling::Llama3 {
            factor: number("factor")?,
            low_freq_factor: number("low_freq_factor")?,
            high_freq_factor: number("high_freq_factor")?,
            original_max_position: number("original_max_position_embeddings")? as u64,
        },
        other => RotaryScaling::Other(super::config::shortened(other)),
    })
}

fn router(config: &Config<'_>) -> Result<Router, ModelError> {
    let scale = |absent| Ok::<_, ModelError>(config.number("routed_scaling_factor")?.unwrap_or(absent));
    Ok(match config.model_type() {
        "qwen3_moe" => Router { renormalised: config.flag("norm_topk_prob")?, ..Router::default() },
        "deepseek_v2" => Router {
            score: match config.word("topk_method")? {
                Some("greedy") | None => RouterScore::Softmax,
                Some(_) => RouterScore::Grouped,
            },
            renormalised: config.flag("norm_topk_prob")?,
            scale: scale(1.0)?,
        },
        "glm4_moe" | "deepseek_v3" => Router {
            score: RouterScore::Grouped,
            renormalised: switch(config, "norm_topk_prob", true)?,
            scale: scale(if config.model_type() == "glm4_moe" { 1.0 } else { 2.5 })?,
        },
        _ => Router::default(),
    })
}
