//! A strategy as it was typed: each key may be left out.

use super::{
    AttentionKernel, Capacity, Checkpoint, CheckpointMode, Compression, ContextKind, GradientSync, Key,
    LossMode, MeshOrder, OffloadCategory, Schedule,
};
use crate::units::ElementType;

/// What a strategy text says; `None` is what it leaves out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draft {
    pub tensor: Option<u64>,
    pub context: Option<u64>,
    pub pipeline: Option<u64>,
    pub data: Option<u64>,
    pub sequence_parallel: Option<bool>,
    pub context_kind: Option<ContextKind>,
    pub expert: Option<u64>,
    pub expert_tensor: Option<u64>,
    pub capacity: Option<Capacity>,
    pub schedule: Option<Schedule>,
    pub virtual_stages: Option<u64>,
    pub cuts: Option<Vec<u32>>,
    pub zero: Option<u8>,
    pub shard: Option<u64>,
    pub reshard_after_forward: Option<bool>,
    pub micro_batch: Option<u64>,
    pub accumulation: Option<u64>,
    pub sync: Option<GradientSync>,
    /// One entry for all chunks, or one a chunk.
    pub checkpoint: Option<Vec<CheckpointEntry>>,
    /// Each category at most once, with one fraction for all stages or one a stage; empty for `none`.
    pub offload: Option<Vec<(OffloadCategory, Vec<f64>)>>,
    pub overlap: Option<bool>,
    pub compression: Option<Compression>,
    pub loss: Option<LossMode>,
    pub attention: Option<AttentionKernel>,
    pub bucket: Option<u64>,
    pub gradient_type: Option<ElementType>,
    pub reduce_type: Option<ElementType>,
    pub order: Option<MeshOrder>,
}

/// How a chunk's checkpoint modes are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckpointEntry {
    /// Every block in this mode.
    Whole(CheckpointMode),
    /// The first blocks full, the rest none.
    First(u32),
    /// From the chunk's first block to its last.
    Runs(Vec<(CheckpointMode, u32)>),
}

impl CheckpointEntry {
    /// What the entry means for a chunk of `blocks` blocks. It may cover more or fewer, which breaks a rule.
    pub fn over(&self, blocks: u32) -> Checkpoint {
        let runs = match self {
            Self::Whole(mode) => vec![(*mode, blocks)],
            Self::First(count) => {
                vec![(CheckpointMode::Full, *count), (CheckpointMode::None, blocks.saturating_sub(*count))]
            }
            Self::Runs(runs) => runs.clone(),
        };
        Checkpoint { runs }.normalised()
    }
}

impl Checkpoint {
    /// Every one of `blocks` blocks in `mode`.
    pub fn uniform(mode: CheckpointMode, blocks: u32) -> Self {
        Self { runs: vec![(mode, blocks)] }.normalised()
    }

    /// The same modes in the fewest runs.
    pub fn normalised(self) -> Self {
        let mut runs: Vec<(CheckpointMode, u32)> = Vec::with_capacity(self.runs.len());
        for (mode, count) in self.runs {
            match runs.last_mut() {
                _ if count == 0 => {}
                Some((last, total)) if *last == mode => *total = total.saturating_add(count),
                _ => runs.push((mode, count)),
            }
        }
        Self { runs }
    }

    /// Blocks that the runs cover.
    pub fn blocks(&self) -> u64 {
        self.runs.iter().map(|&(_, count)| u64::from(count)).sum()
    }
}

impl Draft {
    /// The keys that are given, in the documented order.
    pub fn keys(&self) -> Vec<Key> {
        Key::ALL.iter().copied().filter(|&key| self.gives(key)).collect()
    }

    /// Whether `key` is given.
    pub const fn gives(&self, key: Key) -> bool {
        match key {
            Key::Tensor => self.tensor.is_some(),
            Key::Context => self.context.is_some(),
            Key::Pipeline => self.pipeline.is_some(),
            Key::Data => self.data.is_some(),
            Key::SequenceParallel => self.sequence_parallel.is_some(),
            Key::ContextKind => self.context_kind.is_some(),
            Key::Expert => self.expert.is_some(),
            Key::ExpertTensor => self.expert_tensor.is_some(),
            Key::Capacity => self.capacity.is_some(),
            Key::Schedule => self.schedule.is_some(),
            Key::VirtualStages => self.virtual_stages.is_some(),
            Key::Cuts => self.cuts.is_some(),
            Key::Zero => self.zero.is_some(),
            Key::Shard => self.shard.is_some(),
            Key::Reshard => self.reshard_after_forward.is_some(),
            Key::MicroBatch => self.micro_batch.is_some(),
            Key::Accumulation => self.accumulation.is_some(),
            Key::Sync => self.sync.is_some(),
            Key::Checkpoint => self.checkpoint.is_some(),
            Key::Offload => self.offload.is_some(),
            Key::Overlap => self.overlap.is_some(),
            Key::Compression => self.compression.is_some(),
            Key::Loss => self.loss.is_some(),
            Key::Attention => self.attention.is_some(),
            Key::Bucket => self.bucket.is_some(),
            Key::Gradient => self.gradient_type.is_some(),
            Key::Reduce => self.reduce_type.is_some(),
            Key::Order => self.order.is_some(),
        }
    }
}
