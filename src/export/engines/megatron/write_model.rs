//! The arguments of Megatron-LM that shape a model.

use super::pattern::pattern;
use crate::export::case::Case;
use crate::export::decoder::Decoder;
use crate::export::settings::Settings;
use crate::model::constants::{RotaryScaling, Router, RouterScore};
use crate::model::layer::{Activation, Moe, NormKind, Position, Projection};

/// The rope scaling of Llama 3.1 that `--use-rope-scaling` has, but for its factor: its low and high frequencies and the
/// original context are constants (core 0.20 `core/models/common/embeddings/rotary_pos_embedding.py:98`).
pub const LLAMA3: (f64, f64, u64) = (1.0, 4.0, 8192);

/// Adds the arguments that shape the model of `case`.
pub fn write(case: &Case<'_>, settings: &mut Settings) {
    let Some(decoder) = case.decoder() else {
        settings.set("num-layers", u64::from(case.problem.model.blocks()));
        return;
    };
    settings.set("num-layers", decoder.blocks);
    if decoder.multi_token > 0 {
        settings.set("mtp-num-layers", decoder.multi_token);
    }
    settings.set("hidden-size", decoder.hidden());
    settings.set("ffn-hidden-size", decoder.intermediate());
    attention(&decoder, settings);
    let longest = case.problem.model.max_sequence.unwrap_or(case.problem.workload.seq_len);
    positions(&decoder, longest.max(case.problem.workload.seq_len), settings);
    norms(&decoder, settings);
    feed_forward(&decoder, settings);
    settings.set("init-method-std", decoder.constants.initializer_range);
    if !decoder.head.tied {
        settings.set("untie-embeddings-and-output-weights", true);
    }
    let vocabulary = decoder.embedding.vocabulary;
    settings.set_noted("vocab-size", vocabulary, "that of your tokenizer, before padding");
    settings.set("make-vocab-size-divisible-by", divisor(vocabulary, case.strategy.tensor));
    if let Some(experts) = &decoder.experts {
        let blocks: Vec<u64> = experts.in_blocks.iter().map(|has| u64::from(*has)).collect();
        if blocks.contains(&0) {
            settings.set("moe-layer-freq", pattern(&blocks));
        }
        self::experts(&experts.layer, &decoder.constants.router, settings);
    }
}

/// The value of `--make-vocab-size-divisible-by`: so much that nothing is padded, if products are still of multiples of 8.
fn divisor(vocabulary: u64, tensor: u64) -> u64 {
    let sizes = [128, 64, 32, 16, 8].into_iter();
    let mut exact = sizes.filter(|size| vocabulary.is_multiple_of(size * tensor.max(1)));
    exact.next().unwrap_or(128)
}

fn attention(decoder: &Decoder, settings: &mut Settings) {
    let attention = &decoder.attention;
    settings.set("num-attention-heads", attention.heads);
    match attention.projection {
        Projection::Grouped { kv_heads, head_dim } => {
            if kv_heads != attention.heads {
                settings.set("group-query-attention", true).set("num-query-groups", kv_heads);
            }
            if head_dim * attention.heads != decoder.hidden() {
                settings.set("kv-channels", head_dim);
            }
        }
        Projection::Latent { query_rank, key_value_rank, plain_dim, rotary_dim, value_dim } => {
            settings.set("multi-latent-attention", true);
            if let Some(rank) = query_rank {
                settings.set("q-lora-rank", rank);
            }
            settings.set("kv-lora-rank", key_value_rank);
            settings.set("qk-head-dim", plain_dim).set("qk-pos-emb-head-dim", rotary_dim);
            settings.set("v-head-dim", value_dim);
        }
    }
    if attention.sinks {
        settings.set("softmax-type", "learnable");
    }
    let windows = &decoder.windows;
    if let Some(window) = windows.iter().copied().flatten().next() {
        // A query sees itself and so many before it.
        settings.set("window-size", format!("{},0", window - 1));
        let slides: Vec<u64> = windows.iter().map(|window| u64::from(window.is_some())).collect();
        if slides.contains(&0) {
            settings.set("window-attn-skip-freq", pattern(&slides));
        }
    }
}

fn positions(decoder: &Decoder, longest: u64, settings: &mut Settings) {
    let rotary = &decoder.constants.rotary;
    let is_latent = matches!(decoder.attention.projection, Projection::Latent { .. });
    let is_rotary = decoder.attention.position == Position::Rotary;
    let yarn = match &rotary.scaling {
        RotaryScaling::Yarn(yarn) if is_rotary => Some(yarn),
        _ => None,
    };
    let position = match decoder.attention.position {
        Position::Rotary if yarn.is_some() && !is_latent => "yarn",
        Position::Rotary => "rope",
        Position::None if decoder.embedding.positions > 0 => "learned_absolute",
        Position::None | Position::Alibi => "none",
    };
    settings.set("position-embedding-type", position);
    let rows = decoder.embedding.positions;
    settings.set("max-position-embeddings", if rows > 0 { rows } else { longest });
    if !is_rotary {
        return;
    }
    // The argument is a whole number.
    if rotary.theta.fract() == 0.0 {
        settings.set("rotary-base", rotary.theta as u64);
    }
    settings.set("rotary-percent", rotary.share);
    if rotary.interleaved && !is_latent {
        settings.set("rotary-interleaved", true);
    }
    if is_latent {
        settings.set("rope-type", if yarn.is_some() { "yarn" } else { "rope" });
    }
    match &rotary.scaling {
        RotaryScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position }
            if (*low_freq_factor, *high_freq_factor, *original_max_position) == LLAMA3 =>
        {
            settings.set("use-rope-scaling", true).set("rope-scaling-factor", *factor);
        }
        RotaryScaling::Linear { factor } if factor.fract() == 0.0 => {
            settings.set("rotary-seq-len-interpolation-factor", *factor as u64);
        }
        RotaryScaling::Yarn(yarn) => {
            settings.set("rotary-scaling-factor", yarn.factor);
            settings.set("mscale", yarn.mscale.unwrap_or(1.0));
            settings.set("mscale-all-dim", yarn.mscale_all_dim.unwrap_or(0.0));
            if !is_latent {
                let original = yarn.original_max_position.unwrap_or(longest);
                settings.set("yarn-original-max-position-embeddings", original);
                settings.set("yarn-beta-fast", yarn.beta_fast).set("yarn-beta-slow", yarn.beta_slow);
                if !yarn.truncate {
                    settings.set("no-yarn-correction-range-round-to-int", true);
                }
            }
        }
        _ => {}
    }
}

fn norms(decoder: &Decoder, settings: &mut Settings) {
    let is_rms = decoder.norm() == Some(NormKind::Rms);
    settings.set("normalization", if is_rms { "RMSNorm" } else { "LayerNorm" });
    settings.set("norm-epsilon", decoder.constants.norm_epsilon);
    if decoder.constants.norm_weight_offset == 1.0 {
        settings.set("apply-layernorm-1p", true);
    }
    // Of latent attention it is the norms of the latents.
    let is_latent = matches!(decoder.attention.projection, Projection::Latent { .. });
    if decoder.attention.query_key_norm.is_some() || is_latent {
        settings.set("qk-layernorm", true);
    }
}

fn feed_forward(decoder: &Decoder, settings: &mut Settings) {
    match (decoder.activation(), decoder.constants.gate_limit) {
        (Some((Activation::Silu, true)), None) => {
            settings.set("swiglu", true);
        }
        (Some((Activation::Silu, true)), Some(limit)) => {
            settings.set("quick-geglu", true).set("glu-linear-offset", 1.0);
            settings.set("activation-func-clamp-value", limit);
        }
        (Some((Activation::Relu2, false)), _) => {
            settings.set("squared-relu", true);
        }
        _ => {}
    }
    let mlp_bias = decoder.mlp.as_ref().is_some_and(|mlp| mlp.bias);
    let expert_bias = decoder.experts.as_ref().is_some_and(|experts| experts.layer.bias);
    if !(mlp_bias || expert_bias || decoder.attention.output_bias) {
        settings.set("disable-bias-linear", true);
        if decoder.attention.input_bias {
            settings.set("add-qkv-bias", true);
        }
    }
}

fn experts(layer: &Moe, router: &Router, settings: &mut Settings) {
    settings.set("num-experts", layer.experts);
    settings.set("moe-router-topk", layer.top_k);
    settings.set("moe-ffn-hidden-size", layer.intermediate);
    if layer.shared_intermediate > 0 {
        settings.set("moe-shared-expert-intermediate-size", layer.shared_intermediate);
        if layer.shared_gate {
            settings.set("moe-shared-expert-gate", true);
        }
    }
    let score = match router.score {
        RouterScore::Softmax => "softmax",
        RouterScore::Sigmoid => "sigmoid",
    };
    settings.set("moe-router-score-function", score);
    // A softmax of the chosen ones is the renormalised one; of one expert it is always 1, and refused.
    if router.score == RouterScore::Softmax && (!router.renormalised || layer.top_k == 1) {
        settings.set("moe-router-pre-softmax", true);
    }
    if router.scale != 1.0 {
        settings.set("moe-router-topk-scaling-factor", router.scale);
    }
    if let Some(groups) = router.groups {
        settings.set("moe-router-num-groups", groups.count).set("moe-router-group-topk", groups.chosen);
    }
    // It goes with sigmoids only.
    if router.corrected && router.score == RouterScore::Sigmoid {
        settings.set("moe-router-enable-expert-bias", true);
    }
    settings.set("moe-grouped-gemm", true);
    settings.set("moe-token-dispatcher-type", "alltoall");
    settings.set("moe-router-load-balancing-type", "none");
}
