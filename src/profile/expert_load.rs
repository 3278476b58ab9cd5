//! How unevenly a router spreads tokens over experts, where none is dropped.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::evidence::{Evidence, Sourced};

/// Tokens of the expert-parallel rank that has most, over those of an even spread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpertLoad {
    /// What bytes and time are taken for; at least 1.
    pub fullest: Sourced<f64>,
    /// Half-width of its 80 % interval over routers, steps and layers.
    pub spread: Sourced<f64>,
}

impl ExpertLoad {
    /// An even spread: every expert has as many tokens as any other, as benchmarks force it.
    pub fn even(source: &str) -> Self {
        let exact = |value| Sourced { value, kind: Evidence::Estimate, source: source.to_owned() };
        Self { fullest: exact(1.0), spread: exact(0.0) }
    }

    /// The load at the upper end of its interval.
    #[must_use]
    pub fn heavier(&self) -> Self {
        let mut heavier = self.clone();
        heavier.fullest.value += self.spread.value;
        heavier
    }
}
