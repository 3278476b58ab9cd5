//! The plan document as it is written: the fields that `docs/reference/plan-json.md` lists.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::goodput::Goodput;
use crate::plan::gradients::GradientRecord;
use crate::plan::map::{BreakEvenRecord, MaximumRecord, SensitivityRecord, SweepPoint};
use crate::plan::money::Cost;
use crate::plan::over_time::MemoryOverTime;
use crate::program::Cause;
use crate::search::Objective;
use crate::search::map::SweepKey;
use crate::simulate::CauseTimes;
use crate::strategy::Workload;
use crate::units::{Bytes, Money, Seconds};

/// What `plan` and `simulate` write and everything else reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub version: u32,
    pub engine: String,
    pub cost_model: CostModelRecord,
    pub model: ModelRecord,
    pub cluster: ClusterRecord,
    pub workload: Workload,
    pub strategy: StrategyRecord,
    pub prediction: Prediction,
    /// What measured runs the prediction rests on.
    #[serde(default)]
    pub evidence: EvidenceRecord,
    /// The best by the objective's own measure, where another was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fastest: Option<FastestRecord>,
    /// The best plan of each engine, where all were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<EngineRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchAccount>,
    /// The next best plans, best first.
    #[serde(default)]
    pub alternatives: Vec<Alternative>,
    /// From plain data parallel to this plan, one change at a time.
    #[serde(default)]
    pub ladder: Vec<LadderStep>,
    /// Plans that no other beats in both time and memory, fastest first; of a sweep over devices, in these and the
    /// number of devices and, where prices are known, money. Memory is both what is live at the peak and what must fit.
    #[serde(default)]
    pub pareto: Vec<ParetoPoint>,
    /// What the settings of `sweep` differ in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swept: Option<SweepKey>,
    /// The best strategy in each setting of a sweep, in ascending order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sweep: Vec<SweepPoint>,
    /// Where along the sweep the kind of the best strategy changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub break_evens: Vec<BreakEvenRecord>,
    /// What the plan would be were one thing different.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensitivity: Vec<SensitivityRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum: Option<MaximumRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput: Option<Goodput>,
    /// One sentence: what binds.
    pub verdict: String,
    /// Passes of every pipeline rank in one step, for the picture.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<TimelineSpan>,
    /// What the fullest pipeline rank holds over one step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_over_time: Option<MemoryOverTime>,
    /// Where gradients live, in which type, and from when until when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gradients: Vec<GradientRecord>,
    /// What a reader should know: unknown fields of a configuration, numerics that differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// SHA-256 of the document without this field.
    #[serde(default)]
    pub digest: String,
}

/// The measured runs near a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EvidenceRecord {
    /// Runs of quality A and B on the device by the engine or its kin.
    pub runs: u64,
    /// Of these, the ones with the most features of the plan.
    pub nearest: Vec<NearRun>,
    /// Mean absolute error of the step times of all of them, as a share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mape: Option<f64>,
    /// Features of the plan, the pair of device and engine, or the speed, that no run covers.
    pub unvalidated: Vec<String>,
}

/// A measured run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NearRun {
    pub id: String,
    pub engine: String,
    /// Features of the plan that it had.
    pub shared: Vec<String>,
    /// Predicted over measured, less 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_error: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_error: Option<f64>,
    /// Share of the dense peak that it reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mfu: Option<f64>,
}

/// The best plan of one engine, or why it has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EngineRecord {
    pub engine: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<StrategyRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction: Option<Prediction>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<EvidenceRecord>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl EngineRecord {
    /// The line of `plan`.
    pub fn of(plan: &Plan) -> Self {
        Self {
            engine: plan.engine.clone(),
            strategy: Some(plan.strategy.clone()),
            prediction: Some(plan.prediction.clone()),
            evidence: Some(plan.evidence.clone()),
            failure: None,
        }
    }

    /// The line of an engine for which there is no plan.
    pub fn without(engine: &str, failure: &str) -> Self {
        let failure = Some(failure.to_owned());
        Self { engine: engine.to_owned(), strategy: None, prediction: None, evidence: None, failure }
    }
}

/// The fastest plan on paper, beside the chosen one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FastestRecord {
    pub strategy: StrategyRecord,
    pub prediction: Prediction,
    /// What of it no measured run covers.
    pub unvalidated: Vec<String>,
    /// What it would buy, and for what, in a sentence.
    pub buys: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CostModelRecord {
    pub name: String,
    pub hash: String,
    /// Which kinds of evidence its numbers rest on, e.g. `14 datasheet, 3 measured, 9 estimate`.
    pub origin: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelRecord {
    pub name: String,
    pub parameters: u64,
    /// Blocks.
    pub layers: u32,
    /// The whole layer graph, as a layer-graph document.
    pub graph: serde_json::Value,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterRecord {
    pub name: String,
    pub devices: u64,
    pub nodes: u32,
    /// Name of the device's cost model.
    pub device: String,
    /// Memory of one device.
    pub device_memory_bytes: Bytes,
    /// The whole cluster, as a cluster document.
    pub document: serde_json::Value,
}

/// The strategy, as text and field by field; enums are spelled as in the text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StrategyRecord {
    pub text: String,
    /// One line for people.
    pub description: String,
    pub tensor_parallel: u64,
    pub sequence_parallel: bool,
    pub context_parallel: u64,
    pub expert_parallel: u64,
    pub pipeline_parallel: u64,
    pub virtual_stages: u64,
    /// Blocks a chunk, in model order.
    pub stage_layers: Vec<u32>,
    pub schedule: String,
    pub data_parallel: u64,
    pub zero_stage: u8,
    pub shard_group: u64,
    pub reshard_after_forward: bool,
    pub micro_batch: u64,
    pub accumulation: u64,
    pub gradient_sync: String,
    pub checkpointing: String,
    pub offload: String,
    pub compression: String,
    pub mesh_order: String,
    /// How its numerics differ from plain data parallel; empty where they do not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numerics: Vec<String>,
}

/// What is predicted of one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Prediction {
    /// Until the last rank is done.
    pub step_time_s: Seconds,
    pub tokens_per_s_per_device: f64,
    pub mfu: f64,
    pub interval: Interval,
    pub fits: bool,
    /// The worst rank's expected peak of what the allocator hands out.
    pub peak_memory_bytes: Bytes,
    /// The block of memory that holds it, where the engine places buffers as the program says; otherwise the peak.
    pub extent_bytes: Bytes,
    /// Its composition at that instant of that rank.
    pub memory_bytes: CategoryBytes,
    pub safe_memory_bytes: SafeMemory,
    /// Host memory a device, at its peak, and the block that holds it.
    pub host_memory_bytes: Bytes,
    pub host_extent_bytes: Bytes,
    /// Parts of the step on the busiest rank, which is the slowest in that the others wait for it; they sum to the step.
    pub time_s: CauseSeconds,
    /// Communication that ran while something else did.
    pub communication_hidden_s: Seconds,
    /// The same for every pipeline rank.
    pub ranks: Vec<RankPrediction>,
}

impl Prediction {
    /// The memory that must fit: all that the process of the fullest rank takes of its device.
    pub const fn process_bytes(&self) -> Bytes {
        self.safe_memory_bytes.process
    }
}

/// The 80 % interval, low and high.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    pub step_time_s: [Seconds; 2],
    pub peak_memory_bytes: [Bytes; 2],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CategoryBytes {
    pub parameters: Bytes,
    pub gradients: Bytes,
    pub optimizer: Bytes,
    pub activations: Bytes,
    pub logits: Bytes,
    pub buffers: Bytes,
    /// Handed out beside the program's buffers.
    pub overhead: Bytes,
}

impl CategoryBytes {
    /// Names and bytes, in the order of reports.
    pub fn parts(&self) -> [(&'static str, Bytes); 7] {
        [
            ("parameters", self.parameters),
            ("gradients", self.gradients),
            ("optimizer", self.optimizer),
            ("activations", self.activations),
            ("logits", self.logits),
            ("buffers", self.buffers),
            ("overhead", self.overhead),
        ]
    }
}

/// Upper estimates that a fit is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SafeMemory {
    pub allocated: Bytes,
    pub reserved: Bytes,
    pub process: Bytes,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CauseSeconds {
    pub compute: Seconds,
    pub recompute: Seconds,
    pub communication_exposed: Seconds,
    pub copy_exposed: Seconds,
    pub bubble: Seconds,
    pub optimizer: Seconds,
}

impl CauseSeconds {
    /// Names and seconds, in the order of reports.
    pub fn parts(&self) -> [(&'static str, Seconds); 6] {
        [
            ("compute", self.compute),
            ("recompute", self.recompute),
            ("communication_exposed", self.communication_exposed),
            ("copy_exposed", self.copy_exposed),
            ("bubble", self.bubble),
            ("optimizer", self.optimizer),
        ]
    }
}

impl From<CauseTimes> for CauseSeconds {
    fn from(times: CauseTimes) -> Self {
        Self {
            compute: times.of(Cause::Compute),
            recompute: times.of(Cause::Recompute),
            communication_exposed: times.of(Cause::Communication),
            copy_exposed: times.of(Cause::Copy),
            bubble: times.bubble,
            optimizer: times.of(Cause::Optimizer),
        }
    }
}

/// What is predicted of one pipeline rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RankPrediction {
    pub stage: u32,
    pub step_time_s: Seconds,
    pub peak_memory_bytes: Bytes,
    pub extent_bytes: Bytes,
    pub memory_bytes: CategoryBytes,
    /// When in the step the peak is reached.
    pub peak_at_s: Seconds,
    /// What runs then, e.g. `backward of micro-batch 3, chunk 0`.
    pub peak_instant: String,
    pub host_memory_bytes: Bytes,
    pub host_extent_bytes: Bytes,
    pub time_s: CauseSeconds,
    pub communication_hidden_s: Seconds,
}

/// What became of every outer strategy: considered = illegal + out of memory + bounded + priced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchAccount {
    pub considered: u64,
    pub illegal: u64,
    pub out_of_memory: u64,
    /// Their lower bound of time alone ruled them out.
    pub bounded: u64,
    /// Both closed forms were computed.
    pub priced: u64,
    /// Of the priced, those whose program was played.
    pub played: u64,
    /// What `gap` is about.
    #[serde(default)]
    pub objective: Objective,
    /// `gap` is at most 0.005.
    pub proven_optimal: bool,
    /// max(0, (t - b) / t), t the fastest played time and b the least that any strategy of `axes` could take as played,
    /// inner choices included; under the objective memory the same of the least peak memory.
    pub gap: f64,
    /// The same of what a robust plan minimises: the time of a step at the upper end of its 80 % interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub robust_gap: Option<f64>,
    /// Decimal logarithm of the number of inner choices that an outer strategy stands for.
    pub inner_choices_log10: f64,
    pub wall_time_s: f64,
    /// The values tried on each key.
    pub axes: BTreeMap<String, Vec<String>>,
    /// The keys that stand still, and where.
    #[serde(default)]
    pub held: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Alternative {
    pub strategy: StrategyRecord,
    pub prediction: Prediction,
    /// What it trades against the chosen plan, in one sentence.
    pub trades: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LadderStep {
    pub strategy: StrategyRecord,
    pub prediction: Prediction,
    /// What changed from the step before, in a few words.
    pub changed: String,
}

/// One plan of the Pareto front.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ParetoPoint {
    pub strategy: String,
    pub step_time_s: Seconds,
    pub peak_memory_bytes: Bytes,
    /// The memory that must fit, as `safe_memory_bytes.process` of a prediction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_bytes: Option<Bytes>,
    /// Of a sweep over devices, which it occupies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<u64>,
    /// Where prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_token: Option<Money>,
}

impl ParetoPoint {
    /// The memory that must fit; of documents that do not say it, the peak.
    pub fn process_bytes(&self) -> Bytes {
        self.process_bytes.unwrap_or(self.peak_memory_bytes)
    }
}

/// One pass of one micro-batch on one pipeline rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimelineSpan {
    pub stage: u32,
    pub pass: TimelinePass,
    pub chunk: u32,
    pub micro: u32,
    pub start_s: Seconds,
    pub end_s: Seconds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimelinePass {
    Forward,
    Backward,
    Weight,
    Step,
}
