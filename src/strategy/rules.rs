//! What makes a strategy legal: every rule of what divides what, and of what an engine offers.

use thiserror::Error;

use super::{
    AttentionKernel, ContextKind, Facts, GradientSync, Key, OffloadCategory, Schedule, Strategy,
    capabilities, explain,
};
use crate::profile::capabilities::{Conflict, InterleavedRounds};
use crate::profile::choices::spelled;
use crate::units::ElementType;

spelled! {
    /// A rule that legal strategies keep. They are checked in this order; later ones rely on earlier ones.
    Rule {
        /// The engine computes in the precision of the workload.
        PrecisionOffered = "precision-offered",
        /// tp · cp · pp · dp is the number of devices.
        Devices = "devices",
        /// dp · micro · accum is the global batch.
        Batch = "batch",
        /// The order names each axis once.
        Order = "order",
        /// The shard group divides dp.
        Shard = "shard",
        /// tp divides the attention heads.
        TensorHeads = "tensor-heads",
        /// tp divides the key-value heads, or the engine replicates them and they divide tp.
        TensorKeyValueHeads = "tensor-key-value-heads",
        /// tp divides the widths of MLPs and shared experts.
        TensorWidth = "tensor-width",
        /// The engine offers this kind of context parallelism.
        ContextOffered = "context-offered",
        /// cp divides the sequence; a causal ring takes two pieces a rank.
        ContextSequence = "context-sequence",
        /// tp · cp divides the heads that Ulysses spreads, queries' and key-values'.
        ContextHeads = "context-heads",
        /// A ring merges partial softmaxes, which takes fused attention.
        ContextAttention = "context-attention",
        /// With sequence parallelism, tp divides a context rank's part of the sequence.
        TensorSequence = "tensor-sequence",
        /// The sequence is a multiple of what the engine asks for at its start.
        SequenceDivisor = "sequence-divisor",
        /// The engine offers tensor parallelism with, or without, sequence parallelism.
        SequenceOffered = "sequence-offered",
        /// The model has experts to spread.
        ExpertModel = "expert-model",
        /// The engine offers expert parallelism.
        ExpertOffered = "expert-offered",
        /// ep divides the experts.
        Experts = "experts",
        /// etp is 1 or tp.
        ExpertTensor = "expert-tensor",
        /// The engine splits experts over tensor ranks so, with or without expert parallelism.
        ExpertTensorOffered = "expert-tensor-offered",
        /// etp divides the width of an expert.
        ExpertWidth = "expert-width",
        /// ep · etp divides the ranks of a stage.
        ExpertRanks = "expert-ranks",
        /// With smaller shard groups, the ranks that hold the same experts divide by the replicas.
        ExpertReplicas = "expert-replicas",
        /// The capacity factor is a positive number.
        Capacity = "capacity",
        /// The engine offers to drop tokens beyond a capacity factor.
        CapacityOffered = "capacity-offered",
        /// The engine offers the schedule.
        ScheduleOffered = "schedule-offered",
        /// Interleaved and zero-bubble schedules have a pipeline.
        SchedulePipeline = "schedule-pipeline",
        /// Chunks a rank: 2 under zb-v, 2 to the blocks under interleaved, otherwise 1.
        VirtualStages = "virtual-stages",
        /// The micro-batches that the engine's interleaved schedule takes.
        InterleavedRounds = "interleaved-rounds",
        /// The numbers of micro-batches that the engine's pipelines take.
        PipelinedMicroBatches = "pipelined-micro-batches",
        /// One cut for each of the pp · virtual chunks.
        CutsCount = "cuts-count",
        /// The cuts sum to the blocks.
        CutsSum = "cuts-sum",
        /// The engine can cut the model so.
        CutsOffered = "cuts-offered",
        /// An adaptive loss weight needs both gradients on one rank.
        AdaptiveLoss = "adaptive-loss",
        /// The engine offers the ZeRO stage.
        ZeroOffered = "zero-offered",
        /// The engine offers the ZeRO stage under a pipeline.
        ZeroPipeline = "zero-pipeline",
        /// The engine keeps whole state on data ranks beside other kinds of parallelism.
        ReplicationOffered = "replication-offered",
        /// The engine offers shard groups smaller than dp.
        ShardOffered = "shard-offered",
        /// The engine gives gathered parameters back, or keeps them, after the forward.
        ReshardOffered = "reshard-offered",
        /// sync=scatter needs sharded state.
        SyncZero = "sync-zero",
        /// The engine offers the gradient synchronisation under this ZeRO stage, with or without a pipeline.
        SyncOffered = "sync-offered",
        /// One checkpoint entry, or one a chunk.
        CheckpointCount = "checkpoint-count",
        /// Checkpoint modes cover the blocks of their chunk.
        CheckpointBlocks = "checkpoint-blocks",
        /// The engine offers the checkpoint modes.
        CheckpointOffered = "checkpoint-offered",
        /// The engine lets blocks differ so in what they recompute.
        CheckpointGrain = "checkpoint-grain",
        /// The engine offloads the category.
        OffloadOffered = "offload-offered",
        /// One fraction, or one a stage.
        OffloadCount = "offload-count",
        /// Fractions lie in 0 to 1.
        OffloadFraction = "offload-fraction",
        /// The engine offloads such fractions: one for all stages, or everything.
        OffloadGrain = "offload-grain",
        /// What the engine offloads together is offloaded together.
        OffloadTogether = "offload-together",
        /// The engine offloads the category with these checkpoint modes.
        OffloadCheckpoint = "offload-checkpoint",
        /// The lowest ZeRO stage under which the engine offloads the category, or a part of it.
        OffloadZero = "offload-zero",
        /// The engine runs at once what the strategy has.
        Together = "together",
        /// The engine offloads beside what else the strategy has.
        OffloadBeside = "offload-beside",
        /// The engine can keep copies of what is offloaded from running beside computing.
        OverlapOffered = "overlap-offered",
        /// The engine offers the compression.
        CompressionOffered = "compression-offered",
        /// The engine offers the loss.
        LossOffered = "loss-offered",
        /// The engine offers the attention kernel.
        AttentionOffered = "attention-offered",
        /// A bucket holds something.
        Bucket = "bucket",
        /// Gradients are kept in fp32, bf16 or fp16; under fp32 and fp64 in that type.
        GradientType = "gradient-type",
        /// Gradients are reduced in fp32, bf16 or fp16; under fp32 and fp64 in that type.
        ReduceType = "reduce-type",
    }
}

/// A strategy that parses but is illegal, and why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct RuleBreak {
    pub rule: Rule,
    /// The key to change.
    pub field: String,
    /// Its value now.
    pub value: String,
    pub message: String,
    /// Legal values in its place, the closest below and the closest above where they have an order.
    pub nearest: Vec<String>,
}

/// The first rule that is broken. Allocates nothing.
pub fn broken(strategy: &Strategy, facts: &Facts) -> Option<Rule> {
    Rule::ALL.iter().copied().find(|rule| !rule.holds(strategy, facts))
}

/// Whether every rule holds. Allocates nothing.
pub fn legal(strategy: &Strategy, facts: &Facts) -> bool {
    broken(strategy, facts).is_none()
}

/// Whether every rule holds that looks at neither state nor inner choices. Allocates nothing.
pub fn legal_outside(strategy: &Strategy, facts: &Facts) -> bool {
    Rule::ALL.iter().all(|rule| rule.is_inner() || rule.is_of_state() || rule.holds(strategy, facts))
}

/// Whether the rules hold that look at the inner choices: cuts, checkpoint modes, offload. Allocates nothing.
pub fn legal_inner(strategy: &Strategy, facts: &Facts) -> bool {
    Rule::ALL.iter().all(|rule| !rule.is_inner() || rule.holds(strategy, facts))
}

/// Whether the rules hold that look at how state is sharded and reduced. Allocates nothing.
pub fn legal_state(strategy: &Strategy, facts: &Facts) -> bool {
    Rule::ALL.iter().all(|rule| !rule.is_of_state() || rule.holds(strategy, facts))
}

/// Whether every rule holds, and if not, why.
pub fn check(strategy: &Strategy, facts: &Facts) -> Result<(), RuleBreak> {
    broken(strategy, facts).map_or(Ok(()), |rule| Err(explain::explain(rule, strategy, facts)))
}

impl Rule {
    /// Whether it looks at the inner choices alone: cuts, checkpoint modes, offload.
    const fn is_inner(self) -> bool {
        matches!(
            self,
            Self::CutsCount
                | Self::CutsSum
                | Self::CutsOffered
                | Self::CheckpointCount
                | Self::CheckpointBlocks
                | Self::CheckpointOffered
                | Self::CheckpointGrain
                | Self::OffloadOffered
                | Self::OffloadCount
                | Self::OffloadFraction
                | Self::OffloadGrain
                | Self::OffloadTogether
                | Self::OffloadCheckpoint
        )
    }

    /// Whether it looks at ZeRO stage, shard group or gradient synchronisation, or at what goes together with these.
    const fn is_of_state(self) -> bool {
        matches!(
            self,
            Self::Shard
                | Self::ExpertReplicas
                | Self::ZeroOffered
                | Self::ZeroPipeline
                | Self::ReplicationOffered
                | Self::ShardOffered
                | Self::ReshardOffered
                | Self::SyncZero
                | Self::SyncOffered
                | Self::OffloadZero
                | Self::Together
                | Self::OffloadBeside
        )
    }

    /// Whether `key` is what a strategy that breaks it is told to change; of sizes whose product is wrong, any may be.
    pub(super) const fn is_about(self, key: Key) -> bool {
        match self {
            Self::PrecisionOffered | Self::Devices | Self::Batch => false,
            Self::ReshardOffered => matches!(key, Key::Reshard),
            Self::SequenceOffered => matches!(key, Key::SequenceParallel),
            Self::PipelinedMicroBatches => matches!(key, Key::MicroBatch),
            Self::ReplicationOffered => matches!(key, Key::Zero),
            Self::InterleavedRounds => matches!(key, Key::MicroBatch | Key::Schedule),
            Self::Order => matches!(key, Key::Order),
            Self::Shard | Self::ShardOffered => matches!(key, Key::Shard),
            Self::TensorHeads | Self::TensorKeyValueHeads | Self::TensorWidth | Self::TensorSequence => {
                matches!(key, Key::Tensor)
            }
            Self::ContextOffered => matches!(key, Key::ContextKind),
            Self::ContextSequence | Self::ContextHeads => matches!(key, Key::Context),
            Self::SequenceDivisor => matches!(key, Key::Tensor | Key::Context),
            Self::ContextAttention => matches!(key, Key::Attention),
            Self::ExpertModel
            | Self::ExpertOffered
            | Self::Experts
            | Self::ExpertRanks
            | Self::ExpertReplicas => matches!(key, Key::Expert),
            Self::ExpertTensor | Self::ExpertTensorOffered | Self::ExpertWidth => {
                matches!(key, Key::ExpertTensor)
            }
            Self::Capacity | Self::CapacityOffered => matches!(key, Key::Capacity),
            Self::ScheduleOffered | Self::SchedulePipeline => matches!(key, Key::Schedule),
            Self::VirtualStages => matches!(key, Key::VirtualStages),
            Self::CutsCount | Self::CutsSum | Self::CutsOffered => matches!(key, Key::Cuts),
            Self::AdaptiveLoss => matches!(key, Key::Pipeline),
            Self::ZeroOffered | Self::ZeroPipeline => matches!(key, Key::Zero),
            Self::SyncZero | Self::SyncOffered => matches!(key, Key::Sync),
            Self::CheckpointCount
            | Self::CheckpointBlocks
            | Self::CheckpointOffered
            | Self::CheckpointGrain => matches!(key, Key::Checkpoint),
            Self::OffloadOffered
            | Self::OffloadCount
            | Self::OffloadFraction
            | Self::OffloadGrain
            | Self::OffloadTogether
            | Self::OffloadCheckpoint
            | Self::OffloadZero
            | Self::OffloadBeside => matches!(key, Key::Offload),
            Self::Together => {
                matches!(key, Key::SequenceParallel | Key::Context | Key::Pipeline | Key::Expert)
            }
            Self::CompressionOffered => matches!(key, Key::Compression),
            Self::OverlapOffered => matches!(key, Key::Overlap),
            Self::AttentionOffered => matches!(key, Key::Attention),
            Self::LossOffered => matches!(key, Key::Loss),
            Self::Bucket => matches!(key, Key::Bucket),
            Self::GradientType => matches!(key, Key::Gradient),
            Self::ReduceType => matches!(key, Key::Reduce),
        }
    }

    pub(super) fn check(self, strategy: &Strategy, facts: &Facts) -> Result<(), RuleBreak> {
        if self.holds(strategy, facts) { Ok(()) } else { Err(explain::explain(self, strategy, facts)) }
    }

    /// Whether the strategy keeps this rule. Sizes of 0 keep none that looks at them.
    pub(super) fn holds(self, strategy: &Strategy, facts: &Facts) -> bool {
        let s = strategy;
        let supports = &facts.profile.supports;
        let stage_ranks = || product(&[s.tensor, s.context, s.data]);
        match self {
            Self::PrecisionOffered => supports.precisions.contains(&facts.workload.precision),
            Self::Devices => {
                facts.devices > 0
                    && product(&[s.tensor, s.context, s.pipeline, s.data]) == Some(facts.devices)
            }
            Self::Batch => {
                let batch = facts.workload.global_batch;
                batch > 0 && product(&[s.data, s.micro_batch, s.accumulation]) == Some(batch)
            }
            Self::Order => s.order.is_permutation(),
            Self::TensorHeads => facts.heads.iter().all(|heads| heads.query.is_multiple_of(s.tensor)),
            Self::TensorKeyValueHeads => {
                facts.heads.iter().all(|heads| splits(heads.key_value, s.tensor, facts))
            }
            Self::TensorWidth => facts.widths.iter().all(|width| width.is_multiple_of(s.tensor)),
            Self::ContextOffered => s.context == 1 || supports.context.contains(&s.context_kind),
            Self::ContextSequence => {
                facts.workload.seq_len.is_multiple_of(s.context.saturating_mul(context_pieces(s, facts)))
            }
            Self::ContextHeads => {
                let parts = s.tensor.saturating_mul(s.context);
                s.context == 1
                    || s.context_kind == ContextKind::Ring
                    || facts.heads.iter().all(|heads| {
                        heads.query.is_multiple_of(parts) && splits(heads.key_value, parts, facts)
                    })
            }
            Self::ContextAttention => {
                s.context == 1
                    || s.context_kind == ContextKind::Ulysses
                    || s.attention == AttentionKernel::Fused
            }
            Self::TensorSequence => {
                let part = facts.workload.seq_len.checked_div(s.context);
                !s.sequence_parallel || part.is_some_and(|part| part.is_multiple_of(s.tensor))
            }
            Self::SequenceDivisor => facts.workload.seq_len.is_multiple_of(sequence_divisor(s, facts)),
            Self::SequenceOffered => {
                s.tensor == 1 || supports.sequence_parallel.contains(&s.sequence_parallel)
            }
            Self::ExpertModel => s.expert == 1 || !facts.experts.is_empty(),
            Self::ExpertOffered => s.expert == 1 || *supports.expert_parallel,
            Self::Experts => facts.experts.iter().all(|experts| experts.count.is_multiple_of(s.expert)),
            Self::ExpertTensor => s.expert_tensor == 1 || s.expert_tensor == s.tensor,
            Self::ExpertTensorOffered => {
                let offer = &supports.expert_tensor;
                facts.experts.is_empty()
                    || s.tensor == 1
                    || offer.widths(s.expert).iter().any(|width| width.size(s.tensor) == s.expert_tensor)
            }
            Self::ExpertWidth => {
                facts.experts.iter().all(|experts| experts.intermediate.is_multiple_of(s.expert_tensor))
            }
            Self::ExpertRanks => product(&[s.expert, s.expert_tensor])
                .zip(stage_ranks())
                .is_some_and(|(group, ranks)| ranks.is_multiple_of(group)),
            Self::ExpertReplicas => {
                facts.experts.is_empty()
                    || s.zero == 0
                    || s.shard == s.data
                    || s.data
                        .checked_div(s.shard)
                        .and_then(|replicas| product(&[s.expert, s.expert_tensor, replicas]))
                        .zip(stage_ranks())
                        .is_some_and(|(group, ranks)| ranks.is_multiple_of(group))
            }
            Self::Capacity => match s.capacity {
                super::Capacity::Factor(factor) => factor.is_finite() && factor > 0.0,
                super::Capacity::Full => true,
            },
            Self::CapacityOffered => {
                s.capacity == super::Capacity::Full || facts.experts.is_empty() || *supports.token_dropping
            }
            Self::ScheduleOffered => {
                // With one micro-batch or one stage, all run alike.
                let is_plain =
                    s.schedule == Schedule::OneForwardOneBackward && (s.pipeline == 1 || s.accumulation == 1);
                is_plain || supports.schedules.contains(&s.schedule)
            }
            Self::SchedulePipeline => {
                s.pipeline > 1 || matches!(s.schedule, Schedule::GPipe | Schedule::OneForwardOneBackward)
            }
            Self::VirtualStages => {
                let (least, greatest) = chunk_range(s.schedule, facts);
                (least..=greatest).contains(&s.virtual_stages)
            }
            Self::InterleavedRounds => {
                s.schedule != Schedule::Interleaved
                    || match *supports.interleaved {
                        InterleavedRounds::Any => true,
                        InterleavedRounds::WholeRounds => s.accumulation.is_multiple_of(s.pipeline),
                        InterleavedRounds::EqualRounds => s
                            .accumulation
                            .checked_div(s.pipeline)
                            .is_some_and(|rounds| s.accumulation.is_multiple_of(rounds.max(1))),
                    }
            }
            Self::PipelinedMicroBatches => {
                supports.pipelined.takes(s.accumulation, s.pipeline, s.virtual_stages)
            }
            Self::CutsCount => product(&[s.pipeline, s.virtual_stages]) == Some(s.cuts.len() as u64),
            Self::CutsSum => {
                s.cuts.iter().map(|&blocks| u64::from(blocks)).sum::<u64>() == u64::from(facts.blocks)
            }
            Self::CutsOffered => capabilities::cuts(s, facts),
            Self::AdaptiveLoss => s.pipeline == 1 || !facts.adaptive_loss,
            Self::ZeroOffered => supports.zero.contains(&s.zero),
            Self::ZeroPipeline => s.pipeline == 1 || supports.zero_with_pipeline.contains(&s.zero),
            Self::Shard => s.data.is_multiple_of(s.shard),
            Self::ReplicationOffered => {
                let alone = s.tensor == 1 && s.context == 1 && s.pipeline == 1;
                s.zero > 0 || !s.sums_gradients(facts) || alone || *supports.replication_beside_others
            }
            Self::ShardOffered => {
                let ranks = s.context.saturating_mul(s.shard);
                s.zero == 0 || supports.shard_groups.takes(ranks, s.context.saturating_mul(s.data))
            }
            Self::ReshardOffered => s.zero < 3 || supports.reshard.contains(&s.reshard_after_forward),
            Self::SyncZero => s.sync != GradientSync::Scatter || s.zero > 0,
            Self::SyncOffered => {
                let sums_nothing = || s.zero == 0 && !s.sums_gradients(facts);
                s.accumulation == 1
                    || supports.syncs(s.zero, s.pipeline > 1).any(|sync| sync == s.sync)
                    || sums_nothing()
            }
            Self::CheckpointCount => s.checkpoint.len() == s.cuts.len(),
            Self::CheckpointBlocks => {
                s.checkpoint.iter().zip(&s.cuts).all(|(modes, &blocks)| modes.blocks() == u64::from(blocks))
            }
            Self::CheckpointOffered => {
                let mut runs = s.checkpoint.iter().flat_map(|modes| &modes.runs);
                runs.all(|(mode, count)| *count == 0 || supports.checkpoint.contains(mode))
            }
            Self::CheckpointGrain => capabilities::checkpoint_grain(s, *supports.checkpoint_grain),
            Self::OffloadOffered => OffloadCategory::ALL.iter().all(|category| {
                s.offload.lacks(*category) || supports.offloads().any(|offered| offered == *category)
            }),
            Self::OffloadCount => OffloadCategory::ALL.iter().all(|&category| {
                let stages = s.offload.fractions(category).len() as u64;
                stages == 0 || stages == s.pipeline
            }),
            Self::OffloadFraction => OffloadCategory::ALL.iter().all(|&category| {
                s.offload.fractions(category).iter().all(|fraction| (0.0..=1.0).contains(fraction))
            }),
            Self::OffloadGrain => supports.offload.iter().all(|offer| capabilities::offload_grain(s, offer)),
            Self::OffloadTogether => capabilities::offload_together(s, supports),
            Self::OffloadCheckpoint => {
                supports.offload.iter().all(|offer| capabilities::offload_checkpoint(s, offer))
            }
            Self::OffloadZero => supports.offload.iter().all(|offer| capabilities::offload_zero(s, offer)),
            Self::Together => capabilities::conflicts(s, facts).all(Conflict::is_of_offload),
            Self::OffloadBeside => !capabilities::conflicts(s, facts).any(Conflict::is_of_offload),
            Self::CompressionOffered => supports.compress.contains(&s.compression),
            Self::OverlapOffered => {
                s.overlap
                    || supports.offload.iter().all(|offer| offer.serial || s.offload.lacks(offer.category))
            }
            Self::LossOffered => supports.loss.contains(&s.loss),
            Self::AttentionOffered => facts.heads.is_empty() || supports.attention.contains(&s.attention),
            Self::Bucket => s.bucket > 0,
            Self::GradientType => is_gradient_type(s.gradient_type, facts),
            Self::ReduceType => is_gradient_type(s.reduce_type, facts),
        }
    }
}

/// The product, unless it is beyond 64 bits.
pub(super) fn product(sizes: &[u64]) -> Option<u64> {
    sizes.iter().try_fold(1u64, |product, &size| product.checked_mul(size))
}

/// Whether `heads` key-value heads can be laid over `parts` ranks.
fn splits(heads: u64, parts: u64, facts: &Facts) -> bool {
    heads.is_multiple_of(parts)
        || (*facts.profile.supports.key_value_replication && parts.is_multiple_of(heads))
}

/// Pieces of the sequence that a context rank holds: a causal ring gives each an early and a late one, so that
/// all work alike (Brandon et al. 2023, arXiv 2311.09431).
pub(super) fn context_pieces(strategy: &Strategy, facts: &Facts) -> u64 {
    let is_causal = facts.heads.iter().any(|heads| heads.causal);
    if strategy.context > 1 && strategy.context_kind == ContextKind::Ring && is_causal { 2 } else { 1 }
}

/// The number that the engine asks the sequence to be a multiple of.
pub fn sequence_divisor(strategy: &Strategy, facts: &Facts) -> u64 {
    let tensor = if strategy.sequence_parallel { strategy.tensor } else { 1 };
    let divisor = facts.profile.supports.sequence_divisor.as_ref();
    divisor.map_or(1, |divisor| divisor.of(tensor, strategy.context))
}

/// The least and the most chunks a rank.
pub(super) fn chunk_range(schedule: Schedule, facts: &Facts) -> (u64, u64) {
    match schedule {
        Schedule::Interleaved => (2, u64::from(facts.blocks).max(2)),
        Schedule::ZeroBubbleV => (2, 2),
        _ => (1, 1),
    }
}

/// The types that gradients can have.
pub(super) fn gradient_types(facts: &Facts) -> &'static [ElementType] {
    let foreign = *facts.profile.supports.foreign_gradient_types;
    match facts.workload.precision {
        ElementType::Fp64 => &[ElementType::Fp64],
        ElementType::Fp32 => &[ElementType::Fp32],
        ElementType::Fp16 if !foreign => &[ElementType::Fp32, ElementType::Fp16],
        _ if !foreign => &[ElementType::Fp32, ElementType::Bf16],
        _ => &[ElementType::Fp32, ElementType::Bf16, ElementType::Fp16],
    }
}

fn is_gradient_type(element: ElementType, facts: &Facts) -> bool {
    gradient_types(facts).contains(&element)
}

#[cfg(test)]
mod tests;
