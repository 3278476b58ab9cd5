//! The families whose attention and MLP read one norm side by side: GPT-J, Phi, Cohere, and StableLM if asked to.

use super::config::Config;
use super::gated::{attention, decoder, mlp, no_windows};
use crate::model::decoder::{Decoder, FeedForward, Residual};
use crate::model::error::ModelError;
use crate::model::layer::{Attention, Mlp, Norm, NormKind};

type Built = Result<Decoder, ModelError>;

/// Equal blocks with norms of this kind, whose MLP has none of its own: it reads what attention's norm makes.
fn side_by_side(config: &Config<'_>, kind: NormKind, attention: Attention, mlp: Mlp) -> Built {
    let norm = Some(Norm { kind, width: attention.hidden });
    let attention = Attention { norm, ..attention };
    let mlp = Mlp { norm: None, ..mlp };
    let mut decoder = decoder(config, &attention, no_windows(config)?, |_| FeedForward::Dense(mlp.clone()))?;
    for block in &mut decoder.blocks {
        block.residual = Residual::Parallel;
    }
    decoder.head.norm = norm;
    Ok(decoder)
}

/// Biases in the MLP and the head only.
pub(super) fn gptj(config: &Config<'_>) -> Built {
    let attention = attention(config)?;
    let hidden = attention.hidden;
    let mlp = Mlp {
        hidden,
        intermediate: config.optional_size("n_inner")?.unwrap_or(4 * hidden),
        gated: false,
        activation: config.activation(&["activation_function"])?,
        bias: true,
        norm: None,
        output_norm: None,
        residual_norm: None,
    };
    let mut decoder = side_by_side(config, NormKind::Layer, attention, mlp)?;
    decoder.head.bias = true;
    Ok(decoder)
}

/// Biases everywhere, the head included.
pub(super) fn phi(config: &Config<'_>) -> Built {
    let attention = Attention { input_bias: true, output_bias: true, ..attention(config)? };
    let mlp = mlp(config, config.activation(&["hidden_act"])?)?;
    let mlp = Mlp { gated: false, bias: true, ..mlp };
    let mut decoder = side_by_side(config, NormKind::Layer, attention, mlp)?;
    decoder.head.bias = true;
    Ok(decoder)
}

/// Layer norms without bias.
pub(super) fn cohere(config: &Config<'_>) -> Built {
    let bias = config.flag("attention_bias")?;
    let attention = Attention { input_bias: bias, output_bias: bias, ..attention(config)? };
    let mlp = mlp(config, config.activation(&["hidden_act"])?)?;
    side_by_side(config, NormKind::LayerWithoutBias, attention, mlp)
}

/// Layer norms around gated MLPs; side by side with one norm, or one after the other with two.
pub(super) fn stablelm(config: &Config<'_>) -> Built {
    let attention = Attention { input_bias: config.flag("use_qkv_bias")?, ..attention(config)? };
    let mlp = mlp(config, config.activation(&["hidden_act"])?)?;
    if config.flag("use_parallel_residual")? {
        return side_by_side(config, NormKind::Layer, attention, mlp);
    }
    let norm = Some(Norm { kind: NormKind::Layer, width: attention.hidden });
    let (attention, mlp) = (Attention { norm, ..attention }, Mlp { norm, ..mlp });
    let mut decoder = decoder(config, &attention, no_windows(config)?, |_| FeedForward::Dense(mlp.clone()))?;
    decoder.head.norm = norm;
    Ok(decoder)
}
