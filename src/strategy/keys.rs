//! The table of strategy keys, in the order in which they are printed: all that is said of a key stands in its row.
//!
//! Of a row come its variant of [`Key`], its field of [`Draft`], how it is read and printed, and what docs and help say
//! of it (`key_table` has the macro). What is left to write for a new key: its field of [`Strategy`] and what it means
//! where a draft leaves it out (`resolve`), its rules, and what it does.

use super::grammar::{
    BucketSize, CapacityFactor, Checkpoints, Cuts, GradientType, Grammar, Offloads, Order, Size, Switch,
    ZeroStage,
};
use super::key_table::{key_table, shown};
use super::text_error::ValueProblem;
use super::{
    AttentionKernel, Compression, ContextKind, Defaults, GradientSync, KeyValue, LossMode, MeshOrder, Part,
    Schedule, Strategy, defaults,
};
use crate::profile::capability::Capability;
use crate::profile::choices::spelled;

key_table! {
    /// Size of tensor parallelism. tp·cp·pp·dp is the number of devices.
    Tensor = "tp" {
        value: tensor as Size,
        default: "1",
        said: Always,
        part: Mesh,
        needs: [KeyValueReplication],
        followers: [Accumulation, Data, Shard, ExpertTensor, SequenceParallel, Order],
    }
    /// Size of context parallelism.
    Context = "cp" {
        value: context as Size,
        default: "1",
        said: Unless(|_, _| 1),
        part: Mesh,
        needs: [],
        followers: [Accumulation, Data, Shard, ExpertTensor, Order],
    }
    /// Size of pipeline parallelism.
    Pipeline = "pp" {
        value: pipeline as Size,
        default: "1",
        said: Always,
        part: Mesh,
        needs: [Pipelined],
        followers: [Accumulation, Data, Cuts, Checkpoint, Offload, Shard, VirtualStages, Schedule, Order],
    }
    /// Size of data parallelism.
    Data = "dp" {
        value: data as Size,
        default: "the devices left over",
        said: Always,
        part: Mesh,
        needs: [],
        followers: [Accumulation, Shard, ExpertTensor, Order],
    }
    /// Sequence parallelism on the tensor group.
    SequenceParallel = "sp" {
        value: sequence_parallel as Switch,
        default: "on where tp > 1 and the engine has it",
        said: Unless(|strategy, _| strategy.tensor > 1),
        part: Passes,
        needs: [SequenceParallel],
        followers: [],
    }
    /// How context ranks share keys and values.
    ContextKind = "cp_kind" {
        value: context_kind as ContextKind,
        default: "ring",
        said: Unless(|_, _| ContextKind::Ring),
        part: Passes,
        needs: [Context],
        followers: [],
    }
    /// Expert groups.
    Expert = "ep" {
        value: expert as Size,
        default: "1",
        said: Unless(|_, _| 1),
        part: Mesh,
        needs: [ExpertParallel],
        followers: [ExpertTensor],
    }
    /// Tensor parallelism inside an expert: 1 or tp.
    ExpertTensor = "etp" {
        value: expert_tensor as Size,
        default: "tp if ep divides cp·dp, else 1",
        said: Unless(|s, _| defaults::expert_tensor(s.tensor, s.context, s.data, s.expert)),
        part: Mesh,
        needs: [ExpertTensor],
        followers: [],
    }
    /// Slots an expert for each micro-batch and routing rank: ⌈F·k·tokens/experts⌉, later tokens are dropped; `full`
    /// drops none.
    Capacity = "capacity" {
        value: capacity as CapacityFactor,
        default: "full",
        said: Unless(|_, _| defaults::CAPACITY),
        part: Numerics,
        needs: [TokenDropping],
        followers: [],
    }
    /// The order in which a pipeline rank runs forwards and backwards.
    Schedule = "sched" {
        value: schedule as Schedule,
        default: "1f1b, or the first that the engine has",
        said: Unless(|_, _| Schedule::OneForwardOneBackward),
        part: Passes,
        needs: [Schedules, Interleaved],
        followers: [VirtualStages, Cuts, Checkpoint],
    }
    /// Chunks a pipeline rank.
    VirtualStages = "virtual" {
        value: virtual_stages as Size,
        default: "2 for interleaved and zb-v, else 1",
        said: Unless(|strategy, _| defaults::virtual_stages(strategy.schedule)),
        part: Passes,
        needs: [],
        followers: [Cuts, Checkpoint],
    }
    /// Blocks a chunk: pp·virtual numbers in model order that sum to the blocks.
    Cuts = "cuts" {
        value: cuts as Cuts,
        default: "⌊L/n⌋ each, the remainder one each to chunks 2 … n−1, then to the first",
        said: Unless(|strategy, _| defaults::cuts(strategy.cuts.iter().sum(), strategy.cuts.len())),
        part: Inner,
        needs: [Cuts],
        followers: [Checkpoint],
    }
    /// ZeRO stage: from 1 on data ranks shard optimizer state, from 2 on gradients, from 3 on parameters.
    Zero = "zero" {
        value: zero as ZeroStage,
        default: "0",
        said: Always,
        part: State,
        needs: [Zero, ZeroWithPipeline, ReplicationBesideOthers],
        followers: [Sync],
    }
    /// Size of the shard group, a divisor of dp; state is sharded over cp·shard ranks.
    Shard = "shard" {
        value: shard as Size,
        default: "dp",
        said: Unless(|strategy, _| strategy.data),
        part: State,
        needs: [ShardGroups],
        followers: [Sync],
    }
    /// Whether gathered parameters are given back after the forward.
    Reshard = "reshard" {
        value: reshard_after_forward as Switch,
        default: "on",
        said: Unless(|_, _| true),
        part: State,
        needs: [Reshard],
        followers: [],
    }
    /// Sequences a micro-batch.
    MicroBatch = "micro" {
        value: micro_batch as Size,
        default: "1",
        said: Always,
        part: Passes,
        needs: [],
        followers: [Accumulation],
    }
    /// Micro-batches a step. dp·micro·accum is the global batch.
    Accumulation = "accum" {
        value: accumulation as Size,
        default: "global batch/(dp·micro)",
        said: Always,
        part: Passes,
        needs: [],
        followers: [],
    }
    /// When gradients are reduced over data ranks.
    Sync = "sync" {
        value: sync as GradientSync,
        default: "deferred for zero ≤ 1, else immediate, or the first that the engine has",
        said: Unless(|strategy, _| defaults::sync(strategy.zero)),
        part: State,
        needs: [Sync],
        followers: [],
    }
    /// What blocks recompute: one entry for all chunks, or one a chunk.
    Checkpoint = "ckpt" {
        value: checkpoint as Checkpoints,
        default: "none",
        said: UnlessNone(Strategy::checkpoint_text),
        part: Inner,
        needs: [Checkpoint, CheckpointGrain],
        followers: [],
    }
    /// What lives on the host: each category at most once, with one share for all stages or one a stage. Of activations
    /// and parameters it is of a stage's blocks, the first ones; of optimizer state it is of a rank's elements.
    Offload = "offload" {
        value: offload as Offloads,
        default: "none",
        said: UnlessNone(|strategy| strategy.offload.to_string()),
        part: Inner,
        needs: [Offload, OffloadTogether],
        followers: [],
    }
    /// Whether offload copies run against compute and host step.
    Overlap = "overlap" {
        value: overlap as Switch,
        default: "on",
        said: Unless(|_, _| true),
        part: Passes,
        needs: [],
        followers: [],
    }
    /// How saved activations are stored.
    Compression = "compress" {
        value: compression as Compression,
        default: "none",
        said: Unless(|_, _| Compression::None),
        part: Numerics,
        needs: [Compress],
        followers: [],
    }
    /// How logits and loss are computed.
    Loss = "loss" {
        value: loss as LossMode,
        default: "full",
        said: Unless(|_, _| LossMode::Full),
        part: Passes,
        needs: [Loss],
        followers: [],
    }
    /// The attention kernel.
    Attention = "attention" {
        value: attention as AttentionKernel,
        default: "the engine's",
        said: Unless(|_, defaults| defaults.attention),
        part: Passes,
        needs: [Attention],
        followers: [],
    }
    /// Elements of a bucket in which gradients are reduced, a message each. A key of engines that copy gradients into
    /// buckets (colossalai, deepspeed, internevo); others reduce in place and drop it.
    Bucket = "bucket" {
        value: bucket as BucketSize,
        default: "40M",
        said: Unless(|_, _| defaults::BUCKET),
        part: State,
        needs: [],
        followers: [],
    }
    /// Type that gradients are kept in; under fp32 and fp64 that type and no other. Some engines fix it.
    Gradient = "grad" {
        value: gradient_type as GradientType,
        default: "fp32",
        said: Unless(|_, defaults| defaults.gradient),
        part: Numerics,
        needs: [ForeignGradientTypes],
        followers: [],
    }
    /// Type that gradients are reduced in; under fp32 and fp64 that type and no other. Some engines fix it.
    Reduce = "reduce" {
        value: reduce_type as GradientType,
        default: "the precision's 16-bit type",
        said: Unless(|_, defaults| defaults.reduce),
        part: Numerics,
        needs: [],
        followers: [],
    }
    /// The axes from fastest to slowest rank.
    Order = "order" {
        value: order as Order,
        default: "tp-cp-dp-pp, shard faster than replica",
        said: Unless(|_, _| MeshOrder::default()),
        part: Mesh,
        needs: [],
        followers: [],
    }
}

#[cfg(test)]
mod tests;
