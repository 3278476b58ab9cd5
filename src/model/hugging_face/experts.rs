//! The families with mixtures of experts: Mixtral, Qwen 2 and 3 MoE, gpt-oss, GLM 4.5, DeepSeek V2 and V3.

use super::config::{Config, shown};
use super::gated::{attention, decoder, mlp, no_windows, rms, rotary_attention};
use super::windows::{Pattern, windows};
use crate::model::decoder::{Decoder, FeedForward};
use crate::model::error::ModelError;
use crate::model::layer::{Attention, Moe, NormKind, Projection};

type Built = Result<Decoder, ModelError>;

/// Gated experts behind an RMS norm: `experts` of width `intermediate`, none shared, no biases.
fn moe(config: &Config<'_>, experts: u64, intermediate: u64) -> Result<Moe, ModelError> {
    let hidden = config.size("hidden_size")?;
    Ok(Moe {
        hidden,
        experts,
        top_k: config.top_k(experts)?,
        intermediate,
        shared_intermediate: 0,
        shared_gate: false,
        gated: true,
        activation: config.activation(&["hidden_act"])?,
        bias: false,
        router_bias: false,
        norm: rms(hidden),
        output_norm: None,
    })
}

/// The experts under `field`, of which there must be some.
fn some_experts(config: &Config<'_>, field: &'static str) -> Result<u64, ModelError> {
    match config.experts(field)? {
        0 => Err(ModelError::rule(field, 0, "leaves no expert", [1])),
        experts => Ok(experts),
    }
}

pub(super) fn mixtral(config: &Config<'_>) -> Built {
    let experts = some_experts(config, "num_local_experts")?;
    let moe = moe(config, experts, config.size("intermediate_size")?)?;
    let windows = windows(config, config.layers()?, Pattern::All)?;
    decoder(config, &attention(config)?, windows, |_| FeedForward::Experts(moe.clone()))
}

/// Every layer has sinks, and every expert biases; every second layer slides.
pub(super) fn gpt_oss(config: &Config<'_>) -> Built {
    let experts = some_experts(config, "num_local_experts")?;
    let moe = moe(config, experts, config.size("intermediate_size")?)?;
    let moe = Moe { bias: true, router_bias: true, ..moe };
    let bias = config.flag("attention_bias")?;
    let attention = Attention { input_bias: bias, output_bias: bias, sinks: true, ..attention(config)? };
    let windows = windows(config, config.layers()?, Pattern::AllBut(2))?;
    decoder(config, &attention, windows, |_| FeedForward::Experts(moe.clone()))
}

pub(super) fn qwen3_moe(config: &Config<'_>) -> Built {
    let bias = config.flag("attention_bias")?;
    let attention = attention(config)?;
    let query_key_norm = Some(NormKind::Rms);
    let attention = Attention { input_bias: bias, output_bias: bias, query_key_norm, ..attention };
    let windows = if config.flag("use_sliding_window")? {
        windows(config, config.layers()?, Pattern::All)?
    } else {
        no_windows(config)?
    };
    qwen_moe(config, &attention, windows, 0)
}

/// The layer has a shared expert, weighted by a gate, beside the routed ones.
pub(super) fn qwen2_moe(config: &Config<'_>) -> Built {
    let attention = Attention { input_bias: config.flag("qkv_bias")?, ..attention(config)? };
    let windows = if config.flag("use_sliding_window")? {
        windows(config, config.layers()?, Pattern::From(config.count("max_window_layers")?))?
    } else {
        no_windows(config)?
    };
    qwen_moe(config, &attention, windows, config.count("shared_expert_intermediate_size")?)
}

/// Experts in every `decoder_sparse_step`-th layer but those of `mlp_only_layers`.
fn qwen_moe(config: &Config<'_>, attention: &Attention, windows: Vec<Option<u64>>, shared: u64) -> Built {
    let layers = config.layers()?;
    let dense = mlp(config, config.activation(&["hidden_act"])?)?;
    let step = config.size("decoder_sparse_step")?;
    let experts = config.experts("num_experts")?;
    let mut sparse: Vec<bool> =
        (0..layers).map(|layer| experts > 0 && (layer + 1).is_multiple_of(step)).collect();
    for layer in config.list("mlp_only_layers")?.unwrap_or_default() {
        let index = layer.as_u64().and_then(|index| usize::try_from(index).ok());
        if let Some(sparse) = index.and_then(|index| sparse.get_mut(index)) {
            *sparse = false;
        } else {
            let rule = format!("is no layer from 0 to {}", layers - 1);
            return Err(ModelError::rule("mlp_only_layers", shown(layer), rule, [layers - 1]));
        }
    }
    if !sparse.contains(&true) {
        return decoder(config, attention, windows, |_| FeedForward::Dense(dense.clone()));
    }
    let moe = moe(config, experts, config.size("moe_intermediate_size")?)?;
    let moe = Moe { shared_intermediate: shared, shared_gate: shared > 0, ..moe };
    decoder(config, attention, windows, |layer| {
        if sparse[layer as usize] {
            FeedForward::Experts(moe.clone())
        } else {
            FeedForward::Dense(dense.clone())
        }
    })
}

/// GLM 4.5: the first layers are dense, the others have shared experts beside the routed ones.
pub(super) fn glm4_moe(config: &Config<'_>) -> Built {
    let query_key_norm = config.flag("use_qk_norm")?.then_some(NormKind::Rms);
    let input_bias = config.flag("attention_bias")?;
    let attention = Attention { input_bias, query_key_norm, ..attention(config)? };
    shared_experts(config, &attention, 1)
}

pub(super) fn deepseek(config: &Config<'_>) -> Built {
    shared_experts(config, &latent_attention(config)?, config.size("moe_layer_freq")?)
}

/// Multi-head latent attention.
fn latent_attention(config: &Config<'_>) -> Result<Attention, ModelError> {
    let bias = config.flag("attention_bias")?;
    let projection = Projection::Latent {
        query_rank: config.optional_size("q_lora_rank")?,
        key_value_rank: config.size("kv_lora_rank")?,
        plain_dim: config.size("qk_nope_head_dim")?,
        rotary_dim: config.size("qk_rope_head_dim")?,
        value_dim: config.size("v_head_dim")?,
    };
    let attention = rotary_attention(config.size("hidden_size")?, config.heads()?, projection);
    Ok(Attention { input_bias: bias, output_bias: bias, ..attention })
}

/// Dense for the first `first_k_dense_replace` layers, then experts in every `frequency`-th layer.
fn shared_experts(config: &Config<'_>, attention: &Attention, frequency: u64) -> Built {
    let dense = mlp(config, config.activation(&["hidden_act"])?)?;
    let first = config.count("first_k_dense_replace")?;
    let windows = no_windows(config)?;
    let experts = config.experts("n_routed_experts")?;
    if experts == 0 || first >= windows.len() as u64 {
        return decoder(config, attention, windows, |_| FeedForward::Dense(dense.clone()));
    }
    let intermediate = config.size("moe_intermediate_size")?;
    let moe = moe(config, experts, intermediate)?;
    // Both factors are at most 2^32, and the check of the assembled model bounds the product.
    let shared_intermediate = config.count("n_shared_experts")?.saturating_mul(intermediate);
    let moe = Moe { shared_intermediate, ..moe };
    decoder(config, attention, windows, |layer| {
        if layer >= first && layer.is_multiple_of(frequency) {
            FeedForward::Experts(moe.clone())
        } else {
            FeedForward::Dense(dense.clone())
        }
    })
}
