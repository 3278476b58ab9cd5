//! Modules of a block that an engine recomputes by name: what of them is not kept beside their input.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A module that recomputes under `selective` (Megatron core 0.20 `core/transformer/transformer_config.py`,
/// `recompute_modules`). The core of attention is said by the tensors that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecomputedModule {
    /// A dense MLP, with the norm that is part of its first product.
    Mlp,
    /// Router, exchange and experts, shared ones included.
    Experts,
    SharedExperts,
    /// What the activation of experts leaves.
    ExpertActivation,
    /// Norms that stand before attention and experts by themselves.
    Norms,
    /// Queries, keys and values that come of latents.
    LatentProjection,
}

/// Where in a block a value is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Mlp,
    ExpertNorm,
    Experts,
    ExpertActivation,
    SharedExperts,
    LatentNorm,
    LatentProjection,
}

impl RecomputedModule {
    /// Whether values of `part` are made again.
    pub const fn covers(self, part: Part) -> bool {
        match self {
            Self::Mlp => matches!(part, Part::Mlp),
            Self::Experts => matches!(part, Part::Experts | Part::ExpertActivation | Part::SharedExperts),
            Self::SharedExperts => matches!(part, Part::SharedExperts),
            Self::ExpertActivation => matches!(part, Part::ExpertActivation),
            Self::Norms => matches!(part, Part::ExpertNorm | Part::LatentNorm),
            Self::LatentProjection => matches!(part, Part::LatentProjection),
        }
    }
}
