//! The parts of the plan document that map the plan's surroundings: sweep, sensitivity, and the largest that fits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::document::{Prediction, StrategyRecord};
use crate::plan::goodput::Goodput;
use crate::plan::money::Cost;
use crate::search::map::{Maximize, Scenario};
use crate::units::{Bytes, Seconds};

/// The best strategy in one setting of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SweepPoint {
    pub devices: u64,
    pub nodes: u32,
    pub global_batch: u64,
    pub seq_len: u64,
    pub device_memory_bytes: Bytes,
    /// Null where nothing fits or nothing is legal.
    pub strategy: Option<StrategyRecord>,
    pub prediction: Option<Prediction>,
    /// Why there is no strategy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Of all devices together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_s: Option<f64>,
    /// Tokens/s per device over those of the fewest devices that fit; of a sweep over devices alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub efficiency: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput: Option<Goodput>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// Between two neighbouring values of the sweep, the kind of the best strategy changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BreakEvenRecord {
    pub from: u64,
    pub to: u64,
    pub changes: Vec<ChangeRecord>,
}

/// A key of the strategy text, and its values before and behind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeRecord {
    pub key: String,
    pub from: String,
    pub to: String,
}

/// What the plan would be were one thing different.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SensitivityRecord {
    pub scenario: Scenario,
    /// The best strategy then; null where nothing fits.
    pub strategy: Option<StrategyRecord>,
    pub prediction: Option<Prediction>,
    /// Why there is no strategy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub kept: KeptRecord,
}

/// What becomes of the plan itself where it is kept all the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeptRecord {
    /// Whether it is legal and fits.
    pub fits: bool,
    /// None where it is not legal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_time_s: Option<Seconds>,
    /// Its step over that of the best strategy, less 1, where both fit; below 0 where the best is chosen for more than its
    /// time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slower_by: Option<f64>,
    /// Why it cannot be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The largest batch without accumulation, or the longest sequence, that fits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MaximumRecord {
    pub what: Maximize,
    /// None where nothing fits.
    pub value: Option<u64>,
    pub strategy: Option<StrategyRecord>,
    pub prediction: Option<Prediction>,
    /// The least larger value that was looked at.
    pub next_value: Option<u64>,
    pub next_value_fails_because: String,
}
