//! The document that `validate --json` prints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::{CategoryBytes, CauseSeconds};
use crate::units::{Bytes, Seconds};

/// Runs with their errors, those left out with the reason, and sums over groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Validation {
    pub version: u32,
    pub runs: Vec<Run>,
    pub skipped: Vec<Skipped>,
    /// Measured values that cannot be; they are not judged.
    pub flags: Vec<Flag>,
    pub groups: Vec<Group>,
}

/// One measured run beside its prediction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Run {
    pub id: String,
    /// Who ran it: an engine.
    pub family: String,
    /// How far its numbers can be trusted: A (best) to C.
    pub quality: String,
    /// What its memory counts: allocated, reserved or process.
    pub memory_kind: String,
    pub predicted: Quantities,
    pub measured: Quantities,
    pub error: Errors,
    /// The same of predictions by numbers that were fitted without the run's source; none where it was in no fit, or
    /// the numbers have changed since that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<Errors>,
    /// Parts of the predicted step on the busiest rank.
    pub time_s: CauseSeconds,
    /// Share of its kernels' time in which they wait for the host to issue them.
    pub launches: f64,
    /// The predicted peak of what the allocator hands out on the fullest rank.
    pub memory_bytes: CategoryBytes,
    /// Fields that matter and that the record leaves open: there the engine's default was taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<String>,
}

/// What is predicted and measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quantities {
    pub step_time_s: Option<Seconds>,
    pub peak_memory_bytes: Option<Bytes>,
}

/// predicted / measured − 1, or null where something was not measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Errors {
    pub step_time: Option<f64>,
    pub memory: Option<f64>,
}

/// A measured value that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flag {
    pub id: String,
    pub field: String,
    /// Reads on after the field.
    pub reason: String,
}

/// A run that was not judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Skipped {
    pub id: String,
    pub reason: String,
}

/// Errors of all runs of a family, or of all; every figure is a fraction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Group {
    pub name: String,
    /// Runs given, and those of them that were simulated.
    pub runs: u64,
    pub simulated: u64,
    pub time: Figures,
    pub memory: Figures,
    /// The same of runs of sources that were left out of a fit, each predicted by numbers that saw nothing of its
    /// source; none where there are no such runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOut>,
    pub ranking: Ranking,
    /// The ten largest errors of step time and of memory, the largest first.
    pub worst: Vec<Worst>,
}

/// Errors of predictions by numbers that were fitted without a run's source.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LeftOut {
    /// Runs with such an error of time or memory.
    pub runs: u64,
    pub time: Figures,
    pub memory: Figures,
}

/// One of the largest errors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Worst {
    pub id: String,
    pub quantity: Quantity,
    pub error: f64,
    /// The likely cause, from what the prediction is made of.
    pub cause: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    StepTime,
    Memory,
}

/// Sums over errors; none where there is no error to sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// Mean of the errors' sizes.
    pub mape: Option<f64>,
    /// Median of the errors' sizes.
    pub median: Option<f64>,
    /// Mean of the signed errors.
    pub bias: Option<f64>,
    /// Share of errors of at most a twentieth, a tenth and a fifth.
    pub within_5: Option<f64>,
    pub within_10: Option<f64>,
    pub within_20: Option<f64>,
}

/// Whether predictions order the strategies of one task (model, workload, devices) as measurements do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ranking {
    /// Tasks with at least three runs.
    pub groups: u64,
    /// Mean over tasks of Spearman's rank correlation.
    pub spearman: Option<f64>,
    /// How much slower the run that is predicted to be the best is than the best one.
    pub median_regret: Option<f64>,
    pub mean_regret: Option<f64>,
}

impl Errors {
    /// The error of one quantity.
    pub const fn of_quantity(&self, quantity: Quantity) -> Option<f64> {
        match quantity {
            Quantity::StepTime => self.step_time,
            Quantity::Memory => self.memory,
        }
    }

    /// The errors of what was predicted and measured.
    pub fn of(predicted: &Quantities, measured: &Quantities) -> Self {
        let error = |predicted: Option<f64>, measured: Option<f64>| {
            measured
                .filter(|value| *value > 0.0)
                .zip(predicted.filter(|value| value.is_finite()))
                .map(|(measured, predicted)| predicted / measured - 1.0)
        };
        let seconds = |quantities: &Quantities| quantities.step_time_s.map(|seconds| seconds.0);
        let bytes = |quantities: &Quantities| quantities.peak_memory_bytes.map(|bytes| bytes.0 as f64);
        Self {
            step_time: error(seconds(predicted), seconds(measured)),
            memory: error(bytes(predicted), bytes(measured)),
        }
    }
}
