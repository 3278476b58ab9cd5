//! The constants of a model: what changes its numbers and neither its shapes nor its costs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::ModelError;

/// Constants that all layers of a model share; a field left out of a file has the value given here as default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Constants {
    /// Added to the variance or mean square inside every norm (1e-5).
    pub norm_epsilon: f64,
    /// Added to a stored norm weight before it multiplies: 1 for Gemma, otherwise 0.
    pub norm_weight_offset: f64,
    /// Standard deviation of freshly drawn weights (0.02).
    pub initializer_range: f64,
    /// Token embeddings are multiplied by it (1; Gemma: √hidden).
    pub embedding_scale: f64,
    /// Row of the learned position table that position 0 reads (0; OPT: 2).
    pub position_offset: u64,
    pub rotary: Rotary,
    /// Scores are multiplied by it; none means 1/√(elements of a query head).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score_scale: Option<f64>,
    /// Scores of block i are divided by i + 1 as well (GPT-2's `scale_attn_by_inverse_layer_idx`).
    pub score_scale_by_block: bool,
    /// c in c·tanh(score/c), in layers with a soft cap (50).
    pub score_cap: f64,
    /// c in c·tanh(logit/c), in heads with a soft cap (30).
    pub logit_cap: f64,
    /// Queries, keys and values are clamped to ± this (MPT's `clip_qkv`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub projection_clip: Option<f64>,
    /// The outputs of attention and MLP are multiplied by it before the residual add (1; Granite).
    #[serde(skip_serializing_if = "is_one")]
    pub residual_scale: f64,
    /// Logits are multiplied by it (1; Granite, Cohere).
    #[serde(skip_serializing_if = "is_one")]
    pub logit_scale: f64,
    /// l where a gated MLP computes (clamp(up, ±l) + 1) · g · σ(1.702 · g), with g = min(gate, l) (gpt-oss: 7).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate_limit: Option<f64>,
    pub router: Router,
}

impl Default for Constants {
    fn default() -> Self {
        Self {
            norm_epsilon: 1e-5,
            norm_weight_offset: 0.0,
            initializer_range: 0.02,
            embedding_scale: 1.0,
            position_offset: 0,
            rotary: Rotary::default(),
            score_scale: None,
            score_scale_by_block: false,
            score_cap: 50.0,
            logit_cap: 30.0,
            projection_clip: None,
            residual_scale: 1.0,
            logit_scale: 1.0,
            gate_limit: None,
            router: Router::default(),
        }
    }
}

impl Constants {
    /// That every constant is a number that arithmetic can use.
    pub(super) fn check(&self) -> Result<(), ModelError> {
        let above_zero = |field: &str, value: f64| {
            if value > 0.0 && value.is_finite() {
                return Ok(());
            }
            let rule = "must be a finite number above 0";
            Err(ModelError::rule(format!("constants.{field}"), value, rule, [""; 0]))
        };
        above_zero("norm_epsilon", self.norm_epsilon)?;
        above_zero("initializer_range", self.initializer_range)?;
        above_zero("embedding_scale", self.embedding_scale)?;
        above_zero("score_scale", self.score_scale.unwrap_or(1.0))?;
        above_zero("score_cap", self.score_cap)?;
        above_zero("logit_cap", self.logit_cap)?;
        above_zero("projection_clip", self.projection_clip.unwrap_or(1.0))?;
        above_zero("residual_scale", self.residual_scale)?;
        above_zero("logit_scale", self.logit_scale)?;
        above_zero("gate_limit", self.gate_limit.unwrap_or(1.0))?;
        above_zero("router.scale", self.router.scale)?;
        if let Some(groups) = self.router.groups {
            groups.check()?;
        }
        let Rotary { theta, window_theta, share, interleaved: _, ref scaling } = self.rotary;
        above_zero("rotary.theta", theta)?;
        above_zero("rotary.window_theta", window_theta.unwrap_or(1.0))?;
        if share > 1.0 {
            return Err(ModelError::rule("constants.rotary.share", share, "is more than a whole head", [1]));
        }
        above_zero("rotary.share", share)?;
        for (name, value) in scaling.numbers() {
            above_zero(&format!("rotary.scaling.{name}"), value)?;
        }
        Ok(())
    }
}

/// Rotary positions (Su et al. 2021): pair i of the rotated elements of a head turns by
/// position · θ^(−2i/rotated), before scaling. Element i is paired with element i + rotated/2.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Rotary {
    /// θ (10,000).
    pub theta: f64,
    /// θ of layers with a sliding window, unscaled, where it differs (Gemma 3).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_theta: Option<f64>,
    /// The share of a head, from its first element on, that is rotated (1; GPT-NeoX: 0.25).
    pub share: f64,
    /// Element 2i is paired with element 2i + 1 instead (GPT-J, Cohere, GLM 4, DeepSeek).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub interleaved: bool,
    pub scaling: RotaryScaling,
}

impl Default for Rotary {
    fn default() -> Self {
        Self {
            theta: 10_000.0,
            window_theta: None,
            share: 1.0,
            interleaved: false,
            scaling: RotaryScaling::None,
        }
    }
}

/// How rotary frequencies are changed for sequences longer than those first trained on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RotaryScaling {
    None,
    /// Frequencies are divided by the factor.
    Linear {
        factor: f64,
    },
    /// Llama 3.1: long wavelengths as linear, short ones as they are, those between interpolated.
    Llama3 {
        factor: f64,
        low_freq_factor: f64,
        high_freq_factor: f64,
        original_max_position: u64,
    },
    /// Peng et al. 2023; planned for, not computed.
    Yarn(Yarn),
    /// The base grows with the sequence by the factor; planned for, not computed.
    Dynamic {
        factor: f64,
    },
    /// Each pair has a factor of its own (Ding et al. 2024); planned for, not computed.
    LongRope {
        short_factor: Vec<f64>,
        long_factor: Vec<f64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        original_max_position: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attention_factor: Option<f64>,
    },
    /// Another one that we plan for and do not compute, by its name (`mrope`).
    Other(String),
}

/// The parameters of YaRN; what is left out has the default of transformers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Yarn {
    pub factor: f64,
    /// None: the longest sequence of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_max_position: Option<u64>,
    /// Turns within the original context from which on a pair is left alone (32).
    pub beta_fast: f64,
    /// Turns below which a pair is interpolated wholly (1).
    pub beta_slow: f64,
    /// Of the factor of scores, which is 0.1 · mscale · ln(factor) + 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mscale: Option<f64>,
    /// Of what that is divided by, and of the scale of scores (DeepSeek).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mscale_all_dim: Option<f64>,
    /// The factor of scores itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention_factor: Option<f64>,
    /// The bounds of the pairs between are rounded to whole pairs.
    pub truncate: bool,
}

impl Rotary {
    /// Elements of a head of `head_dim` that are rotated.
    pub fn rotated(&self, head_dim: u64) -> u64 {
        (head_dim as f64 * self.share) as u64
    }

    /// Radians a position of each pair of a head of `head_dim`, for a layer with or without a `window`.
    pub fn frequencies(&self, head_dim: u64, window: bool) -> Vec<f64> {
        let rotated = self.rotated(head_dim);
        let local = self.window_theta.filter(|_| window);
        let plain = |pair: u64| {
            let exponent = (2 * pair) as f64 / rotated as f64;
            local.unwrap_or(self.theta).powf(-exponent)
        };
        let scaled = |frequency| if local.is_some() { frequency } else { self.scaling.scaled(frequency) };
        (0..rotated / 2).map(|pair| scaled(plain(pair))).collect()
    }
}

impl RotaryScaling {
    /// The name of one that is planned for and not computed.
    pub fn not_computed(&self) -> Option<&str> {
        match self {
            Self::None | Self::Linear { .. } | Self::Llama3 { .. } => None,
            Self::Yarn(_) => Some("yarn"),
            Self::Dynamic { .. } => Some("dynamic"),
            Self::LongRope { .. } => Some("longrope"),
            Self::Other(name) => Some(name),
        }
    }

    /// Its numbers, by name; all are above 0.
    fn numbers(&self) -> Vec<(&'static str, f64)> {
        match self {
            Self::None | Self::Other(_) => Vec::new(),
            Self::Linear { factor } | Self::Dynamic { factor } => vec![("factor", *factor)],
            Self::Llama3 { factor, low_freq_factor, high_freq_factor, .. } => vec![
                ("factor", *factor),
                ("low_freq_factor", *low_freq_factor),
                ("high_freq_factor", *high_freq_factor),
            ],
            Self::Yarn(yarn) => {
                vec![("factor", yarn.factor), ("beta_fast", yarn.beta_fast), ("beta_slow", yarn.beta_slow)]
            }
            Self::LongRope { short_factor, long_factor, .. } => {
                short_factor.iter().chain(long_factor).map(|factor| ("factor", *factor)).collect()
            }
        }
    }

    /// The frequency after scaling; one that is not computed leaves it as it is.
    fn scaled(&self, frequency: f64) -> f64 {
        match *self {
            Self::None | Self::Yarn(_) | Self::Dynamic { .. } | Self::LongRope { .. } | Self::Other(_) => {
                frequency
            }
            Self::Linear { factor } => frequency / factor,
            Self::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position } => {
                // Turns within the original context: few are interpolated positions, many are left alone.
                let turns = original_max_position as f64 * frequency / std::f64::consts::TAU;
                let smooth = (turns - low_freq_factor) / (high_freq_factor - low_freq_factor);
                let kept = if high_freq_factor > low_freq_factor {
                    smooth.clamp(0.0, 1.0)
                } else {
                    f64::from(u8::from(turns > high_freq_factor))
                };
                kept * frequency + (1.0 - kept) * frequency / factor
            }
        }
    }
}

/// How a mixture of experts chooses experts, and weighs what they return.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Router {
    pub score: RouterScore,
    /// The weights of a token's experts are divided by their sum.
    pub renormalised: bool,
    /// Weights are multiplied by it, after renormalising (1).
    pub scale: f64,
    /// A token's experts come from a few groups (DeepSeek).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<ExpertGroups>,
    /// Each expert has a bias that is added to its score where experts are chosen, and that balances their load; no
    /// gradient trains it (DeepSeek V3).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub corrected: bool,
}

impl Default for Router {
    fn default() -> Self {
        Self { score: RouterScore::Softmax, renormalised: true, scale: 1.0, groups: None, corrected: false }
    }
}

impl Router {
    /// Whether experts are those of the highest softmax over all of them.
    pub fn chooses_by_softmax(&self) -> bool {
        self.score == RouterScore::Softmax && self.groups.is_none() && !self.corrected
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RouterScore {
    /// Softmax over all experts.
    Softmax,
    /// A sigmoid each (DeepSeek V3, GLM 4.5); `grouped` in older files.
    #[serde(alias = "grouped")]
    Sigmoid,
}

/// Experts in equal groups, of which a token chooses some before it chooses experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpertGroups {
    pub count: u64,
    pub chosen: u64,
}

impl ExpertGroups {
    /// That some of the groups can be chosen.
    fn check(self) -> Result<(), ModelError> {
        if (1..=self.count).contains(&self.chosen) {
            return Ok(());
        }
        let rule = format!("is outside 1 to {} groups", self.count);
        let nearest = [self.chosen.clamp(1, self.count.max(1))];
        Err(ModelError::rule("constants.router.groups.chosen", self.chosen, rule, nearest))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_one(number: &f64) -> bool {
    *number == 1.0
}
