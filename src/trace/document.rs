//! The documents of a run as they are written: the trace, and what `execute --json` prints.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::{GradientRecord, Plan};
use crate::trace::gradients::NamedGradient;
use crate::trace::rows::{ExtentRow, MemoryRow, Resident, TimeRow};
use crate::trace::slice::{Slice, TimeFrom};
use crate::units::{Bytes, Seconds};

/// The version of both documents that this program writes.
pub const VERSION: u32 = 2;

/// A run: its plan, its machine, and what was predicted and measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    pub version: u32,
    pub machine: Machine,
    pub plan: Plan,
    /// Only these ranks ran, with no peers; absent where all did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<Slice>,
    /// The number of the first step; more than 0 where a run was resumed.
    pub first_step: u64,
    /// In nats, one a step; none of a slice, where they would mean nothing.
    pub losses: Vec<f64>,
    /// Each loss by itself, unweighted; empty where there is but one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub loss_parts: BTreeMap<String, Vec<f64>>,
    /// Every step's time, the first (which warms up) too; none of a slice.
    pub step_times_s: Vec<Seconds>,
    pub step_time_s: StepTime,
    /// By the cost model of the plan that was read, where another one's prediction stands above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<PlannedTime>,
    pub memory: Vec<MemoryRow>,
    pub extent: Vec<ExtentRow>,
    pub resident_bytes: Resident,
    pub time: Vec<TimeRow>,
    /// Where gradients lived, in which type, and from when until when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gradients: Vec<GradientRecord>,
    /// Those that were asked for, of the last step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named_gradients: Vec<NamedGradient>,
    /// Why the run failed, behind the steps that are here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// What the ranks of each pipeline stage do.
    pub stages: Vec<StageTrace>,
    /// When they did it, in the step nearest to the median.
    pub ranks: Vec<RankTrace>,
}

impl Trace {
    /// Tokens a second of all ranks together, in the median step.
    pub fn tokens_per_s(&self) -> Option<f64> {
        let seconds = self.step_time_s.measured?;
        Some(self.plan.workload.tokens() as f64 / seconds.0)
    }
}

/// Where and when a run was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    pub cores: u64,
    /// UTC, as `2026-11-21`.
    pub date: String,
    /// The version of this program.
    pub program: String,
    /// The GPU that all ranks ran on; none of ranks that ran on cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// Who computed products of matrices on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub products: Option<Products>,
    /// By rank, the host that it ran on; empty where all ranks were threads of one process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// What carried data between processes, and its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
}

/// Who computed products of matrices. Products that agree in sizes, types and where they may lie count once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Products {
    /// NVIDIA's library with its version; null where it was not found.
    pub library: Option<String>,
    /// Products by an algorithm of the library, chosen once for the run.
    pub of_library: u64,
    /// Products by kernels of this program: the library has no algorithm for them, or refuses.
    pub of_kernels: u64,
}

/// The time of a step; the measured one is the median of all but the first, on a GPU of those that were not traced, but for
/// the first of these.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepTime {
    pub predicted: Seconds,
    pub measured: Option<Seconds>,
    /// Speed of the fixed kernel during the run over its speed when the cost model was measured; null where either is
    /// not known.
    #[serde(default)]
    pub drift: Option<f64>,
    /// Cores of this machine that other programs kept busy while the steps were made, on average; null where the system
    /// does not tell.
    #[serde(default)]
    pub elsewhere: Option<f64>,
}

impl StepTime {
    /// What is predicted for the machine at its speed during the run.
    pub fn at_present_speed(&self) -> Option<Seconds> {
        self.drift.filter(|drift| *drift > 0.0).map(|drift| Seconds(self.predicted.0 / drift))
    }
}

/// What a plan predicted by itself before it was predicted for the machine that ran it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlannedTime {
    /// The name of the plan's own cost model.
    pub cost_model: String,
    pub step_time_s: Seconds,
}

/// The instructions of a pipeline stage's ranks and the memory that they hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StageTrace {
    pub stage: u32,
    /// In issue order.
    pub instructions: Vec<InstructionRecord>,
    /// Device memory, wherever it changes.
    pub device_curve: Vec<Moment>,
    pub host_curve: Vec<Moment>,
    /// The instruction at which most device memory is held, in words.
    pub device_peak: String,
    pub host_peak: String,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InstructionRecord {
    pub micro: u32,
    pub stream: String,
    pub cause: String,
    pub work: String,
    /// In a slice, where the time of it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_from: Option<TimeFrom>,
}

/// Bytes held from the instruction with this number (in issue order) on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Moment {
    pub instruction: u32,
    pub bytes: Bytes,
}

/// When one rank ran each instruction of its stage, in microseconds since the step began. In a slice, when it would in
/// the composed step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RankTrace {
    pub rank: u64,
    pub stage: u32,
    /// One for each instruction, in issue order; empty where nothing was computed.
    pub start_us: Vec<f64>,
    pub end_us: Vec<f64>,
    /// In a slice, what each took on the device; null where it is priced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measured_us: Vec<Option<f64>>,
}

/// What `execute --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunReport {
    pub version: u32,
    /// Of the plan that was executed.
    pub strategy: String,
    /// Only these ranks ran, with no peers; absent where all did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<Slice>,
    pub first_step: u64,
    pub losses: Vec<f64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub loss_parts: BTreeMap<String, Vec<f64>>,
    pub memory: Vec<MemoryRow>,
    pub extent: Vec<ExtentRow>,
    pub resident_bytes: Resident,
    pub time: Vec<TimeRow>,
    pub step_time_s: StepTime,
    /// By the cost model of the plan that was read, where another one's prediction stands above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<PlannedTime>,
    /// Of all ranks together, in the median step.
    pub tokens_per_s: Option<f64>,
    /// Paths of what was written.
    pub trace: Option<String>,
    pub saved: Option<String>,
    pub gradients: Option<String>,
    /// Where each gradient that was asked for lies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named_gradients: Vec<NamedGradient>,
    /// Fewer steps were made than asked for.
    pub interrupted: bool,
    /// What a reader should know: what was asked for and works otherwise than it may seem.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
