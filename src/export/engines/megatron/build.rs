//! The model that Megatron-LM builds from arguments, with its own defaults (core 0.20 `training/arguments.py`,
//! `core/transformer/transformer_config.py`).

use super::model::usual_inner;
use super::pattern::numbers_of;
use super::write_model::LLAMA3;
use crate::export::decoder::{Decoder, Experts, Residual};
use crate::export::settings::Settings;
use crate::model::Constants;
use crate::model::constants::{ExpertGroups, Rotary, RotaryScaling, Router, RouterScore, Yarn};
use crate::model::layer::{
    Activation, Attention, Embedding, Head, Mlp, Moe, Norm, NormKind, NormSpan, Position, Projection,
};

/// Settings read as arguments.
struct Arguments<'a>(&'a Settings);

impl Arguments<'_> {
    fn size(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.as_u64()
    }

    fn real(&self, name: &str, usual: f64) -> f64 {
        self.0.get(name).and_then(|value| value.as_f64()).unwrap_or(usual)
    }

    fn word(&self, name: &str) -> &str {
        self.0.get(name).and_then(|value| value.as_str()).unwrap_or_default()
    }

    fn is_on(&self, name: &str) -> bool {
        self.0.get(name).and_then(|value| value.as_bool()).unwrap_or(false)
    }

    /// The kind of positions, learned ones where nothing is said.
    fn positions(&self) -> &str {
        match self.word("position-embedding-type") {
            _ if self.is_on("use-rotary-position-embeddings") => "rope",
            "" => "learned_absolute",
            word => word,
        }
    }

    fn is_latent(&self) -> bool {
        self.is_on("multi-latent-attention")
    }

    fn has_linear_bias(&self) -> bool {
        !self.is_on("disable-bias-linear")
    }

    /// Whether something is so in each of `blocks`, by a pattern.
    fn blocks(&self, name: &str, blocks: u64) -> Vec<bool> {
        let value = self.0.get(name);
        // One in so many.
        if let Some(every) = value.and_then(|value| value.as_u64()).filter(|every| *every > 0) {
            return (0..blocks).map(|block| block.is_multiple_of(every)).collect();
        }
        let list = value.and_then(numbers_of);
        list.map_or_else(
            || vec![true; blocks as usize],
            |list| list.iter().map(|number| *number > 0).collect(),
        )
    }
}

/// The model of `settings`, of which vocabularies are padded for `tensor` ranks; none where they lack its sizes.
pub fn build(settings: &Settings, tensor: u64) -> Option<Decoder> {
    let said = Arguments(settings);
    let (blocks, hidden) = (said.size("num-layers")?, said.size("hidden-size")?);
    let inner = said.size("ffn-hidden-size").unwrap_or_else(|| usual_inner(hidden, said.is_on("swiglu")));
    let is_rms = said.word("normalization") == "RMSNorm";
    let norm = Some(Norm { kind: if is_rms { NormKind::Rms } else { NormKind::Layer }, width: hidden });
    let positions = said.positions();
    let rows = if positions == "learned_absolute" { said.size("max-position-embeddings")? } else { 0 };
    let multiple = said.size("make-vocab-size-divisible-by").unwrap_or(128) * tensor.max(1);
    let vocabulary = said.size("vocab-size")?.div_ceil(multiple) * multiple;
    let (activation, gated) = activation(&said);
    let bias = said.has_linear_bias();
    let experts = experts(&said, blocks, (hidden, inner), norm);
    let is_mixed = experts.as_ref().is_none_or(|experts| experts.in_blocks.contains(&false));
    let mlp = Mlp {
        hidden,
        intermediate: inner,
        gated,
        activation,
        bias,
        norm,
        output_norm: None,
        residual_norm: None,
    };
    let before = said.word("window-size").trim_start_matches('(').split(',').next();
    let window = before.and_then(|before| before.trim().parse::<u64>().ok());
    let slides = said.blocks("window-attn-skip-freq", blocks);
    let windows = slides.iter().map(|slides| window.map(|before| before + 1).filter(|_| *slides));
    Some(Decoder {
        blocks,
        multi_token: said.size("mtp-num-layers").unwrap_or(0),
        residual: Residual::Sequential,
        embedding: Embedding { vocabulary, hidden, positions: rows, norm: None, table_width: None },
        attention: attention(&said, hidden, norm)?,
        windows: windows.collect(),
        mlp: is_mixed.then_some(mlp),
        head: Head {
            hidden,
            vocabulary,
            norm,
            tied: !said.is_on("untie-embeddings-and-output-weights"),
            bias: false,
            soft_cap: false,
            table_width: None,
            passes: 1,
        },
        constants: Constants {
            norm_epsilon: said.real("norm-epsilon", 1e-5),
            norm_weight_offset: if said.is_on("apply-layernorm-1p") { 1.0 } else { 0.0 },
            initializer_range: said.real("init-method-std", 0.02),
            embedding_scale: 1.0,
            position_offset: 0,
            rotary: if matches!(positions, "rope" | "yarn") { rotary(&said) } else { Rotary::default() },
            score_scale: None,
            score_scale_by_block: false,
            score_cap: Constants::default().score_cap,
            logit_cap: Constants::default().logit_cap,
            projection_clip: None,
            residual_scale: 1.0,
            logit_scale: 1.0,
            gate_limit: said.is_on("quick-geglu").then(|| said.real("activation-func-clamp-value", f64::MAX)),
            router: if experts.is_some() { router(&said) } else { Router::default() },
        },
        experts,
    })
}

fn attention(said: &Arguments<'_>, hidden: u64, norm: Option<Norm>) -> Option<Attention> {
    let heads = said.size("num-attention-heads")?;
    let projection = if said.is_latent() {
        Projection::Latent {
            query_rank: said.size("q-lora-rank"),
            key_value_rank: said.size("kv-lora-rank").unwrap_or(32),
            plain_dim: said.size("qk-head-dim").unwrap_or(128),
            rotary_dim: said.size("qk-pos-emb-head-dim").unwrap_or(64),
            value_dim: said.size("v-head-dim").unwrap_or(128),
        }
    } else {
        let kv_heads = said.size("num-query-groups").filter(|_| said.is_on("group-query-attention"));
        let head_dim = said.size("kv-channels").or_else(|| hidden.checked_div(heads))?;
        Projection::Grouped { kv_heads: kv_heads.unwrap_or(heads), head_dim }
    };
    let is_normed = said.is_on("qk-layernorm") && !said.is_latent();
    let bias = said.has_linear_bias();
    Some(Attention {
        hidden,
        heads,
        projection,
        norm,
        output_norm: None,
        residual_norm: None,
        query_key_norm: norm.map(|norm| norm.kind).filter(|_| is_normed),
        query_key_span: NormSpan::Head,
        input_bias: bias || said.is_on("add-qkv-bias"),
        output_bias: bias,
        position: match said.positions() {
            "rope" | "yarn" => Position::Rotary,
            _ => Position::None,
        },
        window: None,
        soft_cap: false,
        sinks: said.word("softmax-type") == "learnable",
        causal: true,
    })
}

/// GELU with a bias is fused, and then its tanh form (`core/fusions/fused_bias_gelu.py`).
fn activation(said: &Arguments<'_>) -> (Activation, bool) {
    if said.is_on("swiglu") || said.is_on("quick-geglu") {
        (Activation::Silu, true)
    } else if said.is_on("squared-relu") {
        (Activation::Relu2, false)
    } else if said.has_linear_bias() {
        (Activation::GeluTanh, false)
    } else {
        (Activation::Gelu, false)
    }
}

fn experts(
    said: &Arguments<'_>,
    blocks: u64,
    (hidden, inner): (u64, u64),
    norm: Option<Norm>,
) -> Option<Experts> {
    let (activation, gated) = activation(said);
    let bias = said.has_linear_bias();
    let layer = Moe {
        hidden,
        experts: said.size("num-experts").filter(|count| *count > 0)?,
        top_k: said.size("moe-router-topk").unwrap_or(2),
        intermediate: said.size("moe-ffn-hidden-size").unwrap_or(inner),
        shared_intermediate: said.size("moe-shared-expert-intermediate-size").unwrap_or(0),
        shared_gate: said.is_on("moe-shared-expert-gate"),
        gated,
        activation,
        bias,
        router_bias: bias,
        norm,
        output_norm: None,
    };
    Some(Experts { layer, in_blocks: said.blocks("moe-layer-freq", blocks) })
}

fn rotary(said: &Arguments<'_>) -> Rotary {
    let is_latent = said.is_latent();
    let is_yarn = match is_latent {
        true => said.word("rope-type") != "rope",
        false => said.word("position-embedding-type") == "yarn",
    };
    let own = |name: &str, usual: f64| if is_latent { usual } else { said.real(name, usual) };
    let scaling = if is_yarn {
        RotaryScaling::Yarn(Yarn {
            factor: said.real("rotary-scaling-factor", 1.0),
            // Latent attention has no argument for these.
            original_max_position: Some(own("yarn-original-max-position-embeddings", 4096.0) as u64),
            beta_fast: own("yarn-beta-fast", 32.0),
            beta_slow: own("yarn-beta-slow", 1.0),
            mscale: Some(said.real("mscale", 1.0)),
            mscale_all_dim: Some(said.real("mscale-all-dim", 0.0)).filter(|scale| *scale != 0.0),
            attention_factor: None,
            truncate: !said.is_on("no-yarn-correction-range-round-to-int"),
        })
    } else if said.is_on("use-rope-scaling") {
        let (low_freq_factor, high_freq_factor, original_max_position) = LLAMA3;
        let factor = said.real("rope-scaling-factor", 8.0);
        RotaryScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position }
    } else {
        let factor = said.size("rotary-seq-len-interpolation-factor");
        factor.map_or(RotaryScaling::None, |factor| RotaryScaling::Linear { factor: factor as f64 })
    };
    Rotary {
        theta: said.real("rotary-base", 10_000.0),
        window_theta: None,
        share: said.real("rotary-percent", 1.0),
        // Latent attention turns neighbouring elements (`core/models/common/embeddings/rope_utils.py`).
        interleaved: is_latent || said.is_on("rotary-interleaved"),
        scaling,
    }
}

fn router(said: &Arguments<'_>) -> Router {
    let is_sigmoid = said.word("moe-router-score-function") == "sigmoid";
    let groups = said.size("moe-router-num-groups").zip(said.size("moe-router-group-topk"));
    Router {
        score: if is_sigmoid { RouterScore::Sigmoid } else { RouterScore::Softmax },
        renormalised: is_sigmoid || !said.is_on("moe-router-pre-softmax"),
        scale: said.real("moe-router-topk-scaling-factor", 1.0),
        groups: groups.map(|(count, chosen)| ExpertGroups { count, chosen }),
        corrected: said.is_on("moe-router-enable-expert-bias"),
    }
}
