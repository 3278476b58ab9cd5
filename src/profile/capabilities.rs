//! What an engine can run, key by key, and where that is written.

use std::ops::Deref;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::choices::{
    AttentionKernel, CheckpointMode, Compression, ContextKind, GradientSync, LossMode, OffloadCategory,
    Schedule, spelled,
};
use crate::units::ElementType;

/// A capability and where it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cited<T> {
    pub value: T,
    pub source: String,
}

impl<T> Deref for Cited<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// What strategies the engine can run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Supports {
    /// Types of a step's products.
    pub precisions: Cited<Vec<ElementType>>,
    /// Sequence parallelism, on and off, where tensor parallelism is in use.
    pub sequence_parallel: Cited<Vec<bool>>,
    pub context: Cited<Vec<ContextKind>>,
    pub expert_parallel: Cited<bool>,
    /// Tensor parallelism inside an expert.
    pub expert_tensor: Cited<ExpertTensorOffer>,
    /// Whether an expert may be held to a capacity factor, beyond which its tokens are dropped.
    pub token_dropping: Cited<bool>,
    /// Tensor parallelism wider than the key-value heads, by replicating them.
    pub key_value_replication: Cited<bool>,
    pub schedules: Cited<Vec<Schedule>>,
    /// How many micro-batches its interleaved schedule takes.
    pub interleaved: Cited<InterleavedRounds>,
    /// How many micro-batches a pipeline takes.
    pub pipelined: Cited<PipelinedMicroBatches>,
    pub cuts: Cited<CutGrain>,
    pub zero: Cited<Vec<u8>>,
    /// ZeRO stages that go together with pipeline parallelism.
    pub zero_with_pipeline: Cited<Vec<u8>>,
    /// Whether data ranks may hold whole state beside other kinds of parallelism.
    pub replication_beside_others: Cited<bool>,
    /// Shard groups smaller than the data-parallel group.
    pub shard_groups: Cited<ShardGroups>,
    /// Parameters given back after the forward under ZeRO-3, on and off.
    pub reshard: Cited<Vec<bool>>,
    pub sync: Cited<Vec<SyncOffer>>,
    pub checkpoint: Cited<Vec<CheckpointMode>>,
    pub checkpoint_grain: Cited<CheckpointGrain>,
    pub offload: Cited<Vec<OffloadOffer>>,
    /// Whether what can be offloaded is offloaded together or not at all.
    pub offload_together: Cited<bool>,
    pub compress: Cited<Vec<Compression>>,
    pub loss: Cited<Vec<LossMode>>,
    pub attention: Cited<Vec<AttentionKernel>>,
    /// Gradients kept or reduced in a 16-bit type other than the parameters', where the strategy says the type.
    pub foreign_gradient_types: Cited<bool>,
    /// The multiple that the engine wants a sequence to be, if that is more than its ranks need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence_divisor: Option<Cited<SequenceDivisor>>,
    /// What does not go together, each of which goes alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<Conflict>,
}

/// The number that a sequence must be a multiple of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SequenceDivisor {
    /// 2 · cp where cp is above 1, whatever the kind of context parallelism (Megatron).
    TwiceContext,
    /// The same times tp where sequences are split over tensor ranks (torchtitan since v0.3.0).
    TensorTwiceContext,
    /// tp · 2 · cp, the 2 without context parallelism too (torchtitan v0.2.2).
    AlwaysTwice,
}

impl SequenceDivisor {
    /// The number, for `tensor` ranks that split sequences (1 where they do not) and `context` ranks.
    pub const fn of(self, tensor: u64, context: u64) -> u64 {
        let twice = if context > 1 { 2 } else { 1 };
        match self {
            Self::TwiceContext => context.saturating_mul(twice),
            Self::TensorTwiceContext => tensor.saturating_mul(context).saturating_mul(twice),
            Self::AlwaysTwice => tensor.saturating_mul(context).saturating_mul(2),
        }
    }
}

/// What an engine does not run at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Conflict {
    /// No strategy has all of these.
    pub of: Vec<Aspect>,
    pub source: String,
}

impl Conflict {
    /// Whether something on the host is part of it.
    pub fn is_of_offload(&self) -> bool {
        self.of.iter().any(|aspect| aspect.is_on_host())
    }
}

impl Aspect {
    /// Whether it is something on the host.
    pub const fn is_on_host(self) -> bool {
        matches!(self, Self::HostOptimizer | Self::HostParameters)
    }
}

spelled! {
    /// What a strategy may have, and an engine not beside something else.
    Aspect {
        /// Tensor parallelism.
        Tensor = "tp",
        /// Context parallelism.
        Context = "cp",
        /// A pipeline.
        Pipeline = "pp",
        /// Experts spread over ranks.
        Expert = "ep",
        /// Sharded parameters.
        ShardedParameters = "zero=3",
        /// Some optimizer state on the host.
        HostOptimizer = "offload=optimizer",
        /// Some parameters on the host.
        HostParameters = "offload=params",
        /// Tensor ranks that do not split sequences.
        WholeSequences = "sp=off",
        /// A model with experts.
        Mixture = "experts",
        /// A model whose head has the table of the embedding.
        TiedTable = "tied embeddings",
    }
}

/// How wide tensor parallelism inside an expert is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExpertWidth {
    /// Each expert is whole on a rank.
    One,
    /// As wide as outside of it.
    Tensor,
}

/// Tensor parallelism inside an expert, with and without expert parallelism.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpertTensorOffer {
    /// Where all ranks hold all experts.
    pub alone: Vec<ExpertWidth>,
    /// Where experts are spread over ranks.
    pub spread: Vec<ExpertWidth>,
}

impl ExpertTensorOffer {
    /// The widths that go with `expert` ranks that spread experts.
    pub fn widths(&self, expert: u64) -> &[ExpertWidth] {
        if expert == 1 { &self.alone } else { &self.spread }
    }

    /// The sizes that go with `tensor` and `expert` ranks; each once.
    pub fn sizes(&self, tensor: u64, expert: u64) -> Vec<u64> {
        let mut sizes: Vec<u64> = self.widths(expert).iter().map(|width| width.size(tensor)).collect();
        sizes.dedup();
        sizes
    }
}

impl ExpertWidth {
    /// Ranks that share an expert.
    pub const fn size(self, tensor: u64) -> u64 {
        match self {
            Self::One => 1,
            Self::Tensor => tensor,
        }
    }
}

/// Shard groups smaller than the data-parallel group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShardGroups {
    None,
    Any,
    /// State is split over more than one rank: a group of one is plain replication, another way of training there.
    OfSeveral,
    /// The same, and a rank by itself has no sharded state to keep on the host either.
    OfSeveralAlways,
}

impl ShardGroups {
    /// Whether state may be split over `ranks` (data ranks of a group times context ranks) of `all`.
    pub const fn takes(self, ranks: u64, all: u64) -> bool {
        match self {
            Self::OfSeveralAlways => ranks > 1,
            _ if ranks == all => true,
            Self::None => false,
            Self::Any => true,
            Self::OfSeveral => ranks > 1,
        }
    }
}

/// The numbers of micro-batches that an interleaved schedule takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InterleavedRounds {
    Any,
    /// Multiples of the pipeline size.
    WholeRounds,
    /// Those that ⌊micro-batches / pipeline size⌋ rounds divide, so that rounds are equal (PyTorch).
    EqualRounds,
}

/// The numbers of micro-batches that a pipeline takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PipelinedMicroBatches {
    Any,
    /// At least as many as there are stages, but one.
    StagesLessOne,
    /// At least as many as there are stages.
    Stages,
    /// At least as many as there are stages where a rank has one chunk; any number where it has several (PyTorch).
    StagesWithOneChunk,
    /// Multiples of the stages.
    WholeRounds,
}

impl PipelinedMicroBatches {
    /// Whether a pipeline of `stages`, with so many `chunks` a rank, takes `count` micro-batches.
    pub const fn takes(self, count: u64, stages: u64, chunks: u64) -> bool {
        match self {
            _ if stages == 1 => true,
            Self::Any => true,
            Self::StagesLessOne => count + 1 >= stages,
            Self::Stages => count >= stages,
            Self::StagesWithOneChunk => chunks > 1 || count >= stages,
            Self::WholeRounds => count.is_multiple_of(stages),
        }
    }
}

/// How freely an engine cuts a model into chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CutGrain {
    /// Any number of blocks a chunk.
    Any,
    /// ⌊n⌋ or ⌈n⌉ blocks a chunk, where the default has them.
    Default,
    /// As many blocks in every chunk.
    Equal,
    /// ⌊n⌋ or ⌈n⌉ blocks a chunk, the first chunks one more (DeepSpeed).
    FirstMore,
    /// Behind the block with which a chunk passes its part of the costs of all blocks and the head (nanotron).
    ByCost,
}

/// A time to reduce gradients and the ZeRO stages under which the engine has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SyncOffer {
    pub kind: GradientSync,
    pub zero: Vec<u8>,
    /// Only with a pipeline, or only without one; left out: both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<bool>,
}

/// What of a model must recompute alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointGrain {
    /// Nothing: each block has a mode of its own.
    Block,
    /// The first blocks of each chunk recompute wholly, a number of its own, and the others nothing.
    FirstOfChunk,
    /// The same for all chunks: the first K blocks of each recompute wholly, or all blocks have one mode.
    First,
    /// All blocks have one mode.
    All,
}

/// How finely a category is split between device and host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OffloadGrain {
    /// A fraction for each stage.
    Stage,
    /// One fraction for all stages.
    All,
    /// All of it or nothing.
    Whole,
}

/// A category that an engine keeps on the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OffloadOffer {
    pub category: OffloadCategory,
    pub grain: OffloadGrain,
    /// The lowest ZeRO stage that goes with it.
    #[serde(default)]
    pub from_zero: u8,
    /// The lowest ZeRO stage under which it is split; below, it is offloaded wholly.
    #[serde(default)]
    pub split_from_zero: u8,
    /// Whether its copies can be kept from running beside computing.
    #[serde(default)]
    pub serial: bool,
    /// The checkpoint mode that all blocks have with it, where it takes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_checkpoint: Option<CheckpointMode>,
}

impl Supports {
    /// The ZeRO stages that go with or without a pipeline.
    pub fn zeros(&self, is_pipelined: bool) -> &[u8] {
        if is_pipelined { &self.zero_with_pipeline } else { &self.zero }
    }

    /// When gradients can be reduced under ZeRO stage `zero`.
    pub fn syncs(&self, zero: u8, is_pipelined: bool) -> impl Iterator<Item = GradientSync> {
        let offered = move |offer: &&SyncOffer| {
            offer.zero.contains(&zero) && offer.pipeline.is_none_or(|with| with == is_pipelined)
        };
        self.sync.iter().filter(offered).map(|offer| offer.kind)
    }

    /// The categories that it can keep on the host under some ZeRO stage.
    pub fn offloads(&self) -> impl Iterator<Item = OffloadCategory> {
        self.offload.iter().map(|offer| offer.category)
    }

    /// How it keeps `category` on the host under ZeRO stage `zero`, if it does.
    pub fn offers(&self, category: OffloadCategory, zero: u8) -> Option<&OffloadOffer> {
        self.offload.iter().find(|offer| offer.category == category && zero >= offer.from_zero)
    }

    /// Whether each block and each stage is free in what it recomputes and keeps on the host.
    pub fn is_free_inside(&self) -> bool {
        *self.checkpoint_grain == CheckpointGrain::Block
            && CheckpointMode::ALL.iter().all(|mode| self.checkpoint.contains(mode))
            && !*self.offload_together
            && !self.conflicts.iter().any(Conflict::is_of_offload)
            && self.offload.iter().all(|offer| {
                offer.grain == OffloadGrain::Stage
                    && offer.split_from_zero == 0
                    && offer.with_checkpoint.is_none()
            })
    }
}

impl OffloadOffer {
    /// Whether a part of the category may be on the host under ZeRO stage `zero`, the rest on the device.
    pub fn splits(&self, zero: u8) -> bool {
        self.grain != OffloadGrain::Whole && zero >= self.split_from_zero
    }
}
