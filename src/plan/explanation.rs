//! The document of `explain`: the fields that `docs/guide/explain.md` lists.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::document::{Prediction, SearchAccount, StrategyRecord};
use crate::strategy::{Key, Rule, Workload};
use crate::units::{Bytes, Seconds};

/// Why not this strategy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Explanation {
    pub version: u32,
    pub engine: String,
    pub model: ExplainedModel,
    pub cluster: ExplainedCluster,
    pub workload: Workload,
    /// The strategy text as it was typed.
    pub asked: String,
    /// Device memory that a plan may use.
    pub memory_limit_bytes: Bytes,
    /// Host memory a device.
    pub host_limit_bytes: Bytes,
    /// Whether the strategy breaks no rule.
    pub legal: bool,
    /// The first rule that it breaks.
    pub rule: Option<Rule>,
    /// What that rule says.
    pub message: Option<String>,
    /// The key to change, and its value now.
    pub field: Option<String>,
    pub value: Option<String>,
    /// Legal values in its place, the closest below and the closest above where they have an order.
    pub nearest: Vec<String>,
    /// The closest strategy that breaks no rule.
    pub nearest_strategy: Option<Explained>,
    /// The strategy, where it is legal; likewise all that follows.
    pub strategy: Option<StrategyRecord>,
    pub prediction: Option<Prediction>,
    pub fits: Option<bool>,
    /// What a process takes beyond the limit, and of the host beyond what there is; 0 where it fits.
    pub over_bytes: Option<Bytes>,
    pub over_host_bytes: Option<Bytes>,
    /// What takes most where it does not fit.
    pub dominated_by: Option<Dominant>,
    /// Changes of one key that make it fit, the fastest first.
    pub fixes: Vec<Fix>,
    /// Where there is none, the change that comes nearest.
    pub closest: Option<Miss>,
    /// Changes whose memory was computed.
    pub tried: u64,
    /// Of these, those that fit and are not listed, because playing all would take long.
    pub left_out: u64,
    /// Step time over the best plan's, less one: 0 for the best itself; below 0 if it does not fit, or if it is faster on
    /// paper and its interval is wider.
    pub slower_by: Option<f64>,
    /// Where the time goes beside the best plan, the largest loss first.
    pub causes: Vec<CauseDifference>,
    /// Each key in which the best plan differs, changed alone; what helps most first.
    pub changes: Vec<KeyStep>,
    /// The best plan that trains the same numbers; none where nothing fits.
    pub best: Option<Explained>,
    /// Where the strategy came from a file of an engine: the file changed to say the best plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<FileDiff>,
    /// What became of all strategies in the search for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchAccount>,
    /// What a reader should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// One sentence: what binds, and what to do next.
    pub verdict: String,
}

/// A file of an engine beside the same file with a better plan in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileDiff {
    pub path: String,
    /// Engine and version, as `--to` names them.
    pub engine: String,
    /// The change as a unified diff.
    pub unified: String,
    pub lines: Vec<LineChange>,
}

/// One setting that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LineChange {
    pub setting: String,
    /// Its value in the file; none where it is new.
    pub from: Option<String>,
    /// Its new value; none where it goes.
    pub to: Option<String>,
    /// What the key that it says does, alone.
    pub buys: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainedModel {
    pub name: String,
    pub parameters: u64,
    /// Blocks.
    pub layers: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainedCluster {
    pub name: String,
    pub devices: u64,
    pub nodes: u32,
    /// Name of the device's cost model.
    pub device: String,
    pub device_memory_bytes: Bytes,
}

/// A strategy with what is predicted of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Explained {
    pub strategy: StrategyRecord,
    pub prediction: Prediction,
}

/// The largest category of memory on the fullest rank, at its peak.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dominant {
    pub category: String,
    pub bytes: Bytes,
    /// The pipeline rank.
    pub stage: u32,
    /// What runs then, e.g. `backward of micro-batch 3, chunk 0`.
    pub instant: String,
}

impl Dominant {
    /// The category in words, which may be of one or of several.
    pub fn words(&self) -> &str {
        if self.category == "optimizer" { "optimizer states" } else { &self.category }
    }
}

/// A key of the strategy text that moves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyMove {
    pub key: Key,
    pub from: String,
    pub to: String,
}

/// A change of one key that makes the strategy fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fix {
    pub key: Key,
    pub from: String,
    pub to: String,
    /// What has to follow.
    pub follows: Vec<KeyMove>,
    /// Whether other numbers are trained.
    pub changes_numerics: bool,
    pub strategy: String,
    pub step_time_s: Seconds,
    /// What a process takes.
    pub process_bytes: Bytes,
    pub host_memory_bytes: Bytes,
}

/// A change that does not suffice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Miss {
    pub key: Key,
    pub from: String,
    pub to: String,
    pub strategy: String,
    pub over_bytes: Bytes,
    pub over_host_bytes: Bytes,
}

/// Seconds of one cause on the busiest rank, here and in the best plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CauseDifference {
    pub cause: String,
    pub seconds: Seconds,
    pub best_seconds: Seconds,
    /// What is lost to the best plan; below 0 where this is the faster one.
    pub lost_s: Seconds,
}

/// One key set to its value in the best plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyStep {
    pub key: Key,
    pub from: String,
    pub to: String,
    /// What has to follow.
    pub follows: Vec<KeyMove>,
    /// Whether that alone can be run, and if not, why.
    pub outcome: KeyOutcome,
    /// The rule that it breaks.
    pub message: Option<String>,
    pub strategy: Option<String>,
    pub step_time_s: Option<Seconds>,
    /// What the step gets shorter; below 0 where it gets longer.
    pub saved_s: Option<Seconds>,
}

/// What comes of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyOutcome {
    Fits,
    OutOfMemory,
    Illegal,
}
