//! The strategy: its parts, its text form, its rules, and the mesh it lays over the ranks.
//!
//! Nothing here sees a device or a time.

use std::hash::{Hash, Hasher};

mod capabilities;
mod change;
pub mod cuts;
pub mod defaults;
pub mod describe;
pub mod draft;
mod explain;
pub mod facts;
pub mod features;
pub mod grammar;
mod idle;
pub mod key;
mod key_table;
mod keys;
pub mod mesh;
mod nearest;
pub mod numerics;
mod other_names;
mod parse;
pub mod resolve;
pub mod rules;
pub mod text;
pub mod text_error;
pub mod workload;

#[cfg(test)]
mod sample;

pub use crate::profile::choices::{
    AttentionKernel, CheckpointMode, Compression, ContextKind, GradientSync, LossMode, OffloadCategory,
    Schedule,
};
use crate::units::ElementType;
pub use change::KeyChange;
pub use defaults::Defaults;
pub use draft::{CheckpointEntry, Draft};
pub use facts::Facts;
pub use key::{Key, Part};
pub use mesh::{Group, Mesh};
pub use resolve::resolve;
pub use rules::{Rule, RuleBreak};
pub use text::KeyValue;
pub use text_error::StrategyTextError;
pub use workload::Workload;

/// A resolved strategy: every key has its value, and what the rules demand holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Strategy {
    pub tensor: u64,
    /// Megatron's sequence parallel on the tensor group; false where `tensor` is 1.
    pub sequence_parallel: bool,
    pub context: u64,
    pub context_kind: ContextKind,
    pub expert: u64,
    /// Tensor-parallel size inside an expert: 1 or `tensor`.
    pub expert_tensor: u64,
    pub capacity: Capacity,
    pub pipeline: u64,
    pub schedule: Schedule,
    /// Chunks a pipeline rank holds.
    pub virtual_stages: u64,
    /// Blocks a chunk, `pipeline * virtual_stages` numbers in model order.
    pub cuts: Vec<u32>,
    pub data: u64,
    pub zero: u8,
    /// Data-parallel ranks that share one copy of the sharded state; divides `data`.
    pub shard: u64,
    pub reshard_after_forward: bool,
    /// Sequences a micro-batch.
    pub micro_batch: u64,
    /// Micro-batches a step.
    pub accumulation: u64,
    pub sync: GradientSync,
    /// One mode a block of each chunk: as many entries as chunks, in model order.
    pub checkpoint: Vec<Checkpoint>,
    pub offload: Offload,
    /// Offload copies run against compute and host step.
    pub overlap: bool,
    pub compression: Compression,
    pub loss: LossMode,
    pub attention: AttentionKernel,
    /// Elements a gradient or parameter bucket.
    pub bucket: u64,
    /// Type gradients are kept in.
    pub gradient_type: ElementType,
    /// Type gradients are reduced in.
    pub reduce_type: ElementType,
    pub order: MeshOrder,
}

/// Slots an expert has for each micro-batch and routing rank.
#[derive(Clone, Copy, Debug)]
pub enum Capacity {
    /// ⌈factor · top-k · tokens / experts⌉ slots; later tokens are dropped.
    Factor(f64),
    /// No token is dropped: as many slots as tokens come, or where an engine must know before, as could come.
    Full,
}

impl Capacity {
    /// What tells capacities apart: the bits of the factor.
    const fn bits(self) -> Option<u64> {
        match self {
            Self::Factor(factor) => Some(factor.to_bits()),
            Self::Full => None,
        }
    }
}

impl PartialEq for Capacity {
    fn eq(&self, other: &Self) -> bool {
        self.bits() == other.bits()
    }
}

impl Eq for Capacity {}

impl Hash for Capacity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bits().hash(state);
    }
}

/// Checkpoint modes of one chunk's blocks: runs of (mode, blocks) from its first block to its last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Checkpoint {
    pub runs: Vec<(CheckpointMode, u32)>,
}

impl Checkpoint {
    /// The modes of a chunk's blocks, in order.
    pub fn of(modes: impl Iterator<Item = CheckpointMode>) -> Self {
        let mut runs: Vec<(CheckpointMode, u32)> = Vec::new();
        for mode in modes {
            match runs.last_mut() {
                Some((known, count)) if *known == mode => *count += 1,
                _ => runs.push((mode, 1)),
            }
        }
        Self { runs }
    }

    /// The modes of the chunk's blocks, in order.
    pub fn modes(&self) -> impl Iterator<Item = CheckpointMode> {
        self.runs.iter().flat_map(|&(mode, count)| (0..count).map(move |_| mode))
    }
}

/// Shares of state that live on the host; one number a pipeline stage.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Offload {
    /// Empty, or as many fractions as stages, each in 0..=1; likewise below.
    pub optimizer: Vec<f64>,
    pub parameters: Vec<f64>,
    pub activations: Vec<f64>,
}

impl Offload {
    /// The fractions of `category`, one a stage; empty where none is offloaded.
    pub fn fractions(&self, category: OffloadCategory) -> &[f64] {
        match category {
            OffloadCategory::Optimizer => &self.optimizer,
            OffloadCategory::Parameters => &self.parameters,
            OffloadCategory::Activations => &self.activations,
        }
    }

    /// The same, to be changed.
    pub fn fractions_mut(&mut self, category: OffloadCategory) -> &mut Vec<f64> {
        match category {
            OffloadCategory::Optimizer => &mut self.optimizer,
            OffloadCategory::Parameters => &mut self.parameters,
            OffloadCategory::Activations => &mut self.activations,
        }
    }

    /// The fraction of `category` that stage `stage` offloads.
    pub fn fraction(&self, category: OffloadCategory, stage: usize) -> f64 {
        self.fractions(category).get(stage).copied().unwrap_or(0.0)
    }

    /// Whether nothing of `category` is offloaded.
    pub fn lacks(&self, category: OffloadCategory) -> bool {
        self.fractions(category).iter().all(|&fraction| fraction == 0.0)
    }

    /// Whether nothing is offloaded.
    pub fn is_none(&self) -> bool {
        OffloadCategory::ALL.iter().all(|&category| self.lacks(category))
    }
}

/// One axis of the mesh; data parallelism is two: shard and replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Axis {
    Tensor,
    Context,
    Shard,
    Replica,
    Pipeline,
}

/// The axes from the fastest-varying rank digit to the slowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MeshOrder(pub [Axis; 5]);

impl Default for MeshOrder {
    fn default() -> Self {
        Self([Axis::Tensor, Axis::Context, Axis::Shard, Axis::Replica, Axis::Pipeline])
    }
}

impl Strategy {
    /// All devices that the strategy occupies.
    pub const fn devices(&self) -> u64 {
        self.tensor * self.context * self.pipeline * self.data
    }

    /// Chunks of the model over all pipeline ranks.
    pub const fn chunks(&self) -> u64 {
        self.pipeline * self.virtual_stages
    }

    /// Copies of each shard: sub-data-parallel groups.
    pub const fn replicas(&self) -> u64 {
        self.data / self.shard
    }

    /// Ranks over which dense state is sharded: the shard group with its context ranks.
    pub const fn state_shards(&self) -> u64 {
        self.context * self.shard
    }

    /// Ranks of a stage that hold the same experts and sum their gradients.
    pub const fn expert_data(&self) -> u64 {
        self.tensor * self.context * self.data / (self.expert * self.expert_tensor)
    }

    /// The pipeline rank that runs chunk `chunk`.
    pub fn stage_of(&self, chunk: u64) -> u64 {
        match self.schedule {
            Schedule::ZeroBubbleV if chunk >= self.pipeline => 2 * self.pipeline - 1 - chunk,
            _ => chunk % self.pipeline,
        }
    }

    /// The chunks of pipeline rank `stage`, in model order.
    pub fn chunks_of(&self, stage: u64) -> Vec<u64> {
        (0..self.virtual_stages).map(|turn| self.chunk_of(stage, turn)).collect()
    }

    /// The chunk that pipeline rank `stage` holds behind `turn` others.
    pub fn chunk_of(&self, stage: u64, turn: u64) -> u64 {
        match self.schedule {
            Schedule::ZeroBubbleV if turn > 0 => 2 * self.pipeline - 1 - stage,
            _ => turn * self.pipeline + stage,
        }
    }
}
