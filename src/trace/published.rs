//! Published runs: what somebody else trained, how, and what they measured; one file a source under `traces/published/`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the documents below.
pub const VERSION: u32 = 1;

/// The runs of one source family.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedTrace {
    pub version: u32,
    /// Always `published`.
    pub kind: PublishedKind,
    /// Name of the source family, e.g. `korthikanti-2022`.
    pub family: String,
    /// Where the figures stand: papers, repositories with commit and file.
    pub citations: Vec<String>,
    pub runs: Vec<PublishedRun>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PublishedKind {
    Published,
}

/// One run, in the fields of its table. What a table leaves out is null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PublishedRun {
    pub id: String,
    pub family: String,
    pub quality: Quality,
    /// The program that trained, as the source calls it.
    pub framework: String,
    #[serde(default)]
    pub usable_for: Vec<Use>,
    pub model: PublishedModel,
    pub hardware: Hardware,
    pub strategy: PublishedStrategy,
    pub measured: PublishedMeasurement,
    /// Source, notes and what else is kept for people.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// How far a run can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Quality {
    /// An exact published value, all inputs that matter known.
    A,
    /// One input assumed, or a single reading.
    B,
    /// Not for headline errors.
    C,
}

impl Quality {
    /// Its letter.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Use {
    StepTime,
    Memory,
    OomBoundary,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PublishedModel {
    pub name: String,
    /// `gpt`, `mpt`, `llama`, `moe`, `dit`.
    #[serde(rename = "type")]
    pub kind: String,
    pub params_b: Option<f64>,
    pub layers: Option<u64>,
    pub hidden: Option<u64>,
    pub ffn_hidden: Option<u64>,
    pub heads: Option<u64>,
    pub kv_heads: Option<u64>,
    pub head_dim: Option<u64>,
    pub vocab: Option<u64>,
    pub seq_len: u64,
    #[serde(default)]
    pub glu: bool,
    pub tied_embeddings: Option<bool>,
    pub learned_positional: Option<bool>,
    pub activation: Option<String>,
    /// What is special, e.g. that only one layer ran.
    pub note: Option<String>,
    pub sliding_window: Option<u64>,
    pub attention: Option<String>,
    pub q_lora_rank: Option<u64>,
    pub kv_lora_rank: Option<u64>,
    pub qk_head_dim: Option<u64>,
    pub qk_rope_dim: Option<u64>,
    pub v_head_dim: Option<u64>,
    pub experts: Option<u64>,
    pub topk: Option<u64>,
    pub moe_ffn_hidden: Option<u64>,
    pub shared_ffn_hidden: Option<u64>,
    pub dense_layers: Option<u64>,
    pub moe_layer_freq: Option<String>,
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hardware {
    pub gpu: String,
    pub gpu_memory_gb: Option<f64>,
    pub num_gpus: u64,
    pub gpus_per_node: u64,
    #[serde(default)]
    pub intra_node: String,
    #[serde(default)]
    pub inter_node: String,
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PublishedStrategy {
    pub dp: Option<u64>,
    pub tp: Option<u64>,
    pub pp: Option<u64>,
    #[serde(default = "one")]
    pub cp: u64,
    #[serde(default = "one")]
    pub ep: u64,
    pub sp: Option<bool>,
    pub virtual_pp: Option<u64>,
    pub zero_stage: u8,
    pub shard_group: Option<u64>,
    pub micro_batch: Option<u64>,
    /// Sequences a step.
    pub global_batch: Option<u64>,
    pub grad_accum: Option<u64>,
    pub checkpointing: Option<String>,
    pub offload: Option<String>,
    pub compile: Option<bool>,
    pub flash_attention: Option<bool>,
    pub dtype: String,
    pub schedule: Option<String>,
    pub precision_mode: Option<String>,
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// What was measured. Predictions read nothing of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PublishedMeasurement {
    pub step_time_s: Option<f64>,
    pub tokens_per_s_per_gpu: Option<f64>,
    pub tflops_per_gpu: Option<f64>,
    /// Whether `tflops_per_gpu` counts recomputation: `model` does not, `hardware` does.
    pub tflops_definition: Option<String>,
    pub mfu_pct: Option<f64>,
    pub peak_memory_gib: Option<f64>,
    pub peak_memory_kind: Option<String>,
    #[serde(default)]
    pub oom: bool,
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

const fn one() -> u64 {
    1
}
