//! The constants of a config, with the defaults of each family's configuration class.

use super::config::Config;
use super::rope::rotary;
use crate::model::constants::{Constants, ExpertGroups, Router, RouterScore};
use crate::model::error::ModelError;

pub(super) fn constants(config: &Config<'_>) -> Result<Constants, ModelError> {
    let family = config.model_type();
    let number = |field, absent| Ok::<_, ModelError>(config.number(field)?.unwrap_or(absent));
    let plain = Constants::default();
    let norm_epsilon = match family {
        // Its norms take the default of the layer, whatever the file says.
        "opt" => 1e-5,
        "gpt2" | "gptj" | "bloom" | "falcon" | "mpt" => number("layer_norm_epsilon", 1e-5)?,
        "gpt_neox" | "phi" | "stablelm" | "cohere" => number("layer_norm_eps", 1e-5)?,
        "starcoder2" => number("norm_epsilon", 1e-5)?,
        "glm4" => number("rms_norm_eps", 1.5625e-7)?,
        "mixtral" | "phi3" | "gpt_oss" | "glm4_moe" | "olmo2" => number("rms_norm_eps", 1e-5)?,
        _ => {
            let (field, absent) = config.family.shape().map_or(("rms_norm_eps", 1e-6), |shape| shape.epsilon);
            number(field, absent)?
        }
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
        "granite" => Constants {
            embedding_scale: number("embedding_multiplier", 1.0)?,
            score_scale: Some(number("attention_multiplier", 1.0)?),
            residual_scale: number("residual_multiplier", 1.0)?,
            logit_scale: number("logits_scaling", 1.0)?.recip(),
            ..common
        },
        "cohere" => Constants { logit_scale: number("logit_scale", 0.0625)?, ..common },
        "gpt_oss" => Constants { gate_limit: Some(number("swiglu_limit", 7.0)?), ..common },
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

fn router(config: &Config<'_>) -> Result<Router, ModelError> {
    let scale = |absent| Ok::<_, ModelError>(config.number("routed_scaling_factor")?.unwrap_or(absent));
    Ok(match config.model_type() {
        "qwen2_moe" | "qwen3_moe" => {
            Router { renormalised: config.flag("norm_topk_prob")?, ..Router::default() }
        }
        "deepseek_v2" => Router {
            renormalised: config.flag("norm_topk_prob")?,
            scale: scale(1.0)?,
            groups: match config.word("topk_method")? {
                Some("greedy") | None => None,
                Some(_) => groups(config, None)?,
            },
            ..Router::default()
        },
        family @ ("glm4_moe" | "deepseek_v3") => {
            let (absent, usual) = if family == "glm4_moe" { (1.0, None) } else { (2.5, Some((8, 4))) };
            Router {
                score: match config.word("scoring_func")? {
                    Some("softmax") => RouterScore::Softmax,
                    _ => RouterScore::Sigmoid,
                },
                renormalised: switch(config, "norm_topk_prob", true)?,
                scale: scale(absent)?,
                groups: groups(config, usual)?,
                corrected: !matches!(config.word("topk_method")?, Some("greedy" | "group_limited_greedy")),
            }
        }
        _ => Router::default(),
    })
}

/// Groups of experts, where there are several; `usual` are those of a file that says none.
fn groups(config: &Config<'_>, usual: Option<(u64, u64)>) -> Result<Option<ExpertGroups>, ModelError> {
    let (count, chosen) = usual.unwrap_or((1, 1));
    let count = config.optional_size("n_group")?.unwrap_or(count);
    let chosen = config.optional_size("topk_group")?.unwrap_or(chosen.min(count));
    Ok((count > 1).then_some(ExpertGroups { count, chosen }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::constants::RotaryScaling;
    use crate::model::{Model, from_text, preset};

    const FREQUENCIES: [(usize, f64); 6] = [
        (0, 1.0),
        (20, 0.016_560_440_080_994_446),
        (29, 0.002_166_570_763_503_359),
        (31, 0.000_856_751_412_919_632_1),
        (34, 0.000_178_507_812_767_996_38),
        (63, 3.068_925_988_914_511e-7),
    ];

    fn fixture(text: &str) -> Model {
        from_text(text, "fixture", "fixture").unwrap()
    }

    fn of(config: &str) -> Constants {
        fixture(config).constants
    }

    macro_rules! published {
        ($name:literal) => {
            fixture(include_str!(concat!("../../../tests/models/", $name, ".json")))
        };
    }

    #[test]
    fn presets_have_the_constants_of_the_published_configurations() {
        for (name, published) in [
            ("gpt2", published!("gpt2")),
            ("llama-3.1-8b", published!("llama-3.1-8b")),
            ("llama-3.1-70b", published!("llama-3.1-70b")),
            ("mixtral-8x7b", published!("mixtral-8x7b")),
            ("qwen2.5-7b", published!("qwen2.5-7b")),
            ("qwen2.5-72b", published!("qwen2.5-72b")),
            ("bloom-176b", published!("bloom-176b")),
        ] {
            assert_eq!(preset(name).unwrap().model().unwrap().constants, published.constants, "{name}");
        }
    }

    #[test]
    fn what_a_file_leaves_out_has_the_default_of_its_family() {
        let llama = of(r#"{"model_type":"llama"}"#);
        assert_eq!(llama, Constants { norm_epsilon: 1e-6, ..Constants::default() });
        assert_eq!(of(r#"{"model_type":"gpt2"}"#), Constants::default());
        let mixtral = of(r#"{"model_type":"mixtral"}"#);
        assert_eq!((mixtral.norm_epsilon, mixtral.rotary.theta), (1e-5, 1e6));
        assert!(mixtral.router.renormalised);
        assert!(!of(r#"{"model_type":"qwen3_moe"}"#).router.renormalised);
        assert_eq!(of(r#"{"model_type":"gpt_neox"}"#).rotary.share, 0.25);
        assert_eq!(of(r#"{"model_type":"opt","init_std":0.01}"#).initializer_range, 0.01);
        assert_eq!(of(r#"{"model_type":"opt"}"#).position_offset, 2);
        assert_eq!(of(r#"{"model_type":"gpt2","scale_attn_weights":false}"#).score_scale, Some(1.0));
    }

    #[test]
    fn gemma_scales_embeddings_scores_and_norms() {
        let gemma = published!("gemma-2-9b").constants;
        assert_eq!(gemma.embedding_scale, 3584f64.sqrt());
        assert_eq!((gemma.score_scale, gemma.norm_weight_offset), (Some(0.0625), 1.0));
        assert_eq!((gemma.score_cap, gemma.logit_cap), (50.0, 30.0));
        let rotary = published!("gemma-3-1b").constants.rotary;
        assert_eq!((rotary.theta, rotary.window_theta), (1e6, Some(1e4)));
    }

    #[test]
    fn rotary_frequencies_are_those_of_llama_3_1() {
        let rotary = published!("llama-3.1-8b").constants.rotary;
        let frequencies = rotary.frequencies(128, false);
        assert_eq!(frequencies.len(), 64);
        // By a Python program that follows the three cases of the published code.
        for (pair, wanted) in FREQUENCIES {
            assert!((frequencies[pair] / wanted - 1.0).abs() < 1e-14, "{pair}");
        }
    }

    #[test]
    fn both_spellings_of_rotary_parameters_are_read() {
        let old = r#"{"model_type":"llama","rope_theta":5e5,"rope_scaling":{"type":"linear","factor":2}}"#;
        let new = r#"{"model_type":"llama",
            "rope_parameters":{"rope_type":"linear","factor":2,"rope_theta":5e5}}"#;
        assert_eq!(of(old), of(new));
        assert_eq!(of(old).rotary.scaling, RotaryScaling::Linear { factor: 2.0 });
    }

    #[test]
    fn constants_that_cannot_be_are_named() {
        let error = |text: &str| from_text(text, "a", "a").map(|_| ()).unwrap_err().to_string();
        let wrong = error(r#"{"model_type":"llama","rope_theta":-1}"#);
        assert_eq!(wrong, "rope_theta -1 must be a number above 0");
        let wrong = error(r#"{"model_type":"llama","rope_scaling":{"type":"linear"}}"#);
        assert_eq!(wrong, "rope_scaling.factor (nothing) must be given for linear");
        let wrong = error(r#"{"model_type":"gpt_neox","rotary_pct":2}"#);
        assert!(wrong.starts_with("constants.rotary.share 2 is more than a whole head"), "{wrong}");
    }
}
