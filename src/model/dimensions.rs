//! A decoder from its dimensions alone, as papers and benchmark tables give them.

use super::constants::Constants;
use super::decoder::{Block, Decoder, FeedForward, Residual};
use super::error::ModelError;
use super::graph::Model;
use super::hugging_face::rotary_attention;
use super::layer::{Activation, Attention, Embedding, Head, Mlp, Moe, Norm, NormKind, Position, Projection};
use super::sizes::{BLOCK_LIMIT, kv_heads_divide};

/// What a table says of a decoder. Sizes are elements; blocks are alike but for leading dense ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dimensions {
    pub style: Style,
    pub layers: u64,
    pub hidden: u64,
    /// Width inside a dense MLP.
    pub intermediate: u64,
    pub gated: bool,
    pub heads: u64,
    pub projection: Projection,
    pub vocabulary: u64,
    /// Rows of a learned position table; 0 for none.
    pub positions: u64,
    /// Keys a query sees, where a sliding window limits every second layer.
    pub window: Option<u64>,
    pub tied: bool,
    pub experts: Option<Experts>,
}

/// The house style of a family: its norms, biases, positions and activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Style {
    /// Layer norms and biases, GELU (GPT-2, GPT-3, BLOOM).
    Gpt,
    /// Layer norms without bias, no biases, GELU (MPT).
    Mpt,
    /// Layer norms, no biases, squared ReLU, rotary positions (Nemotron).
    Nemotron,
    /// RMS norms, no biases, SiLU, rotary positions (Llama and most that came after).
    Llama,
}

/// Mixture-of-experts layers; the first `dense_layers` blocks have a dense MLP instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Experts {
    pub count: u64,
    pub top_k: u64,
    pub intermediate: u64,
    pub shared_intermediate: u64,
    pub dense_layers: u64,
}

impl Style {
    const fn norm(self) -> NormKind {
        match self {
            Self::Gpt | Self::Nemotron => NormKind::Layer,
            Self::Mpt => NormKind::LayerWithoutBias,
            Self::Llama => NormKind::Rms,
        }
    }

    const fn activation(self) -> Activation {
        match self {
            Self::Gpt | Self::Mpt => Activation::GeluTanh,
            Self::Nemotron => Activation::Relu2,
            Self::Llama => Activation::Silu,
        }
    }
}

impl Dimensions {
    /// The model of these dimensions, called `name`.
    ///
    /// # Errors
    /// If a size is out of range or does not divide what it must.
    pub fn model(&self, name: &str) -> Result<Model, ModelError> {
        if !(1..=BLOCK_LIMIT).contains(&self.layers) {
            let rule = format!("is outside 1 to {BLOCK_LIMIT}");
            return Err(ModelError::rule("layers", self.layers, rule, [self.layers.clamp(1, BLOCK_LIMIT)]));
        }
        if let Projection::Grouped { kv_heads, .. } = self.projection {
            kv_heads_divide("kv_heads", kv_heads, self.heads)?;
        }
        let blocks = (0..self.layers).map(|layer| self.block(layer)).collect();
        let decoder = Decoder {
            embedding: Embedding {
                vocabulary: self.vocabulary,
                hidden: self.hidden,
                positions: self.positions,
                norm: None,
                table_width: None,
            },
            blocks,
            head: Head {
                hidden: self.hidden,
                vocabulary: self.vocabulary,
                norm: self.norm(),
                tied: self.tied,
                bias: false,
                soft_cap: false,
                table_width: None,
                passes: 1,
            },
            max_sequence: None,
        };
        decoder.assemble(name, Constants::default(), Vec::new())
    }

    const fn norm(&self) -> Option<Norm> {
        Some(Norm { kind: self.style.norm(), width: self.hidden })
    }

    fn block(&self, layer: u64) -> Block {
        let bias = self.style == Style::Gpt;
        let rotary = matches!(self.style, Style::Llama | Style::Nemotron);
        let attention = Attention {
            norm: self.norm(),
            input_bias: bias,
            output_bias: bias,
            position: if rotary { Position::Rotary } else { Position::None },
            window: self.window.filter(|_| layer.is_multiple_of(2)),
            ..rotary_attention(self.hidden, self.heads, self.projection)
        };
        let experts = self.experts.filter(|experts| layer >= experts.dense_layers);
        let feed_forward = experts.map_or_else(
            || FeedForward::Dense(self.mlp(bias)),
            |experts| FeedForward::Experts(self.moe(experts)),
        );
        Block { projection: None, attention, feed_forward, residual: Residual::Sequential }
    }

    fn mlp(&self, bias: bool) -> Mlp {
        Mlp {
            hidden: self.hidden,
            intermediate: self.intermediate,
            gated: self.gated,
            activation: self.style.activation(),
            bias,
            norm: self.norm(),
            output_norm: None,
            residual_norm: None,
        }
    }

    fn moe(&self, experts: Experts) -> Moe {
        Moe {
            hidden: self.hidden,
            experts: experts.count,
            top_k: experts.top_k,
            intermediate: experts.intermediate,
            shared_intermediate: experts.shared_intermediate,
            shared_gate: false,
            gated: self.gated,
            activation: self.style.activation(),
            bias: false,
            router_bias: false,
            norm: self.norm(),
            output_norm: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::preset;

    fn grouped(kv_heads: u64, head_dim: u64) -> Projection {
        Projection::Grouped { kv_heads, head_dim }
    }

    #[test]
    fn dimensions_of_presets_have_their_parameters() {
        let llama = Dimensions {
            style: Style::Llama,
            layers: 32,
            hidden: 4096,
            intermediate: 14_336,
            gated: true,
            heads: 32,
            projection: grouped(8, 128),
            vocabulary: 128_256,
            positions: 0,
            window: None,
            tied: false,
            experts: None,
        };
        let gpt2 = Dimensions {
            style: Style::Gpt,
            layers: 12,
            hidden: 768,
            intermediate: 3072,
            gated: false,
            heads: 12,
            projection: grouped(12, 64),
            vocabulary: 50_257,
            positions: 1024,
            tied: true,
            ..llama.clone()
        };
        let mixtral = Dimensions {
            vocabulary: 32_000,
            experts: Some(Experts {
                count: 8,
                top_k: 2,
                intermediate: 14_336,
                shared_intermediate: 0,
                dense_layers: 0,
            }),
            ..llama.clone()
        };
        for (dimensions, name) in [(llama, "llama-3.1-8b"), (gpt2, "gpt2"), (mixtral, "mixtral-8x7b")] {
            let expected = preset(name).unwrap().model().unwrap().parameter_count();
            assert_eq!(dimensions.model(name).unwrap().parameter_count(), expected, "{name}");
        }
    }

    #[test]
    fn impossible_dimensions_name_the_field() {
        let wrong = Dimensions {
            style: Style::Llama,
            layers: 2,
            hidden: 64,
            intermediate: 128,
            gated: true,
            heads: 8,
            projection: grouped(3, 8),
            vocabulary: 100,
            positions: 0,
            window: None,
            tied: true,
            experts: None,
        };
        assert!(wrong.model("x").unwrap_err().to_string().contains("kv_heads"));
        assert!(Dimensions { layers: 0, ..wrong }.model("x").unwrap_err().to_string().contains("layers"));
    }
}
