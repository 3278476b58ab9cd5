//! What a trace says of a slice: which ranks of the plan ran by themselves, and the step that is composed of their times.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::CauseSeconds;
use crate::units::Seconds;

/// A run of a few ranks of a plan, one after the other, each with the device to itself and its peers absent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Slice {
    /// In the order in which they ran.
    pub ranks: Vec<u64>,
    /// The step of the whole plan, composed and not measured: a step program played with the measured times of these
    /// ranks' stages and with the cost model's prices of communication and of all other stages. Null where no step was
    /// made.
    pub composed_step_time_s: Option<Seconds>,
    /// One a pipeline stage; empty where no step was made.
    pub composed: Vec<ComposedStage>,
    /// What a reader should know of how it ran.
    pub notes: Vec<String>,
}

/// One stage of a composed step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ComposedStage {
    pub stage: u32,
    /// Where the times of what is no communication come from.
    pub time_from: TimeFrom,
    /// Disjoint parts of the stage's step, as in a plan's `time_s`.
    pub time_s: CauseSeconds,
}

/// Where a time comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeFrom {
    /// The device took it.
    Measured,
    /// The cost model says so; it was not measured.
    Priced,
}
