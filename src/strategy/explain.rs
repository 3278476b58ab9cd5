//! Why a rule is broken, and the nearest values that keep it; made only once a strategy has failed.

mod case;

use self::case::{Case, fine, first_undivided};
use super::nearest::divisors;
use super::rules::{chunk_range, context_pieces, sequence_divisor};
use super::{
    AttentionKernel, Capacity, Facts, Key, MeshOrder, OffloadCategory, Rule, RuleBreak, Schedule, Strategy,
    capabilities,
};
use crate::units::typed;

/// The account of a broken rule.
pub(super) fn explain(rule: Rule, strategy: &Strategy, facts: &Facts) -> RuleBreak {
    let case = Case { rule, strategy, facts };
    let s = strategy;
    let supports = &facts.profile.supports;
    match rule {
        Rule::PrecisionOffered => {
            let value = facts.workload.precision;
            let offered: Vec<String> = supports.precisions.iter().map(ToString::to_string).collect();
            let reason = format!("{} does not compute in {value}", facts.profile.name);
            RuleBreak {
                rule,
                field: "precision".to_owned(),
                value: value.to_string(),
                message: reason + &fine("", &offered, "it does", "it does"),
                nearest: offered,
            }
        }
        Rule::Devices => case.devices(),
        Rule::Batch => case.batch(),
        Rule::Order => case.plain(
            Key::Order,
            s.order,
            "the order names an axis twice".to_owned(),
            &[MeshOrder::default()],
        ),
        Rule::TensorHeads => {
            let heads = facts.heads.iter().map(|heads| heads.query);
            case.tensor(&typed("head", first_undivided(heads, s.tensor)))
        }
        Rule::TensorKeyValueHeads => {
            let heads = facts.heads.iter().map(|heads| heads.key_value);
            case.tensor(&typed("key-value head", first_undivided(heads, s.tensor)))
        }
        Rule::TensorWidth => {
            let widths = facts.widths.iter().copied();
            case.tensor(&format!("the MLP width {}", first_undivided(widths, s.tensor)))
        }
        Rule::ContextOffered => case.listed(Key::ContextKind),
        Rule::ContextSequence => {
            let pieces = context_pieces(s, facts);
            let what = if pieces == 1 { "" } else { "2 · " };
            let reason =
                format!("{what}cp {} does not divide {}", s.context, typed("token", facts.workload.seq_len));
            case.context(reason)
        }
        Rule::ContextHeads => case.context(format!(
            "tp {} · cp {} does not divide the heads that ulysses spreads",
            s.tensor, s.context
        )),
        Rule::ContextAttention => case.plain(
            Key::Attention,
            s.attention,
            "a ring of context ranks merges partial softmaxes, which takes fused attention".to_owned(),
            &[AttentionKernel::Fused],
        ),
        Rule::TensorSequence => {
            let part = facts.workload.seq_len / s.context.max(1);
            case.tensor(&format!(
                "the {} of a context rank, as sequence parallelism needs",
                typed("token", part)
            ))
        }
        Rule::SequenceDivisor => {
            let (engine, tokens) = (&facts.profile.name, facts.workload.seq_len);
            case.sequence(format!(
                "{engine} takes sequences of a multiple of {} tokens under tp {} and cp {}, and {tokens} is none",
                sequence_divisor(s, facts),
                s.tensor,
                s.context
            ))
        }
        Rule::SequenceOffered => case.listed(Key::SequenceParallel),
        Rule::ExpertModel => case.plain(Key::Expert, s.expert, "this model has no experts".to_owned(), &[1]),
        Rule::ExpertOffered => case.plain(
            Key::Expert,
            s.expert,
            format!("{} offers no expert parallelism", facts.profile.name),
            &[1],
        ),
        Rule::Experts => {
            let counts = facts.experts.iter().map(|experts| experts.count);
            case.experts(format!(
                "ep {} does not divide {}",
                s.expert,
                typed("expert", first_undivided(counts, s.expert))
            ))
        }
        Rule::ExpertTensor => {
            let both = if s.tensor == 1 { vec![1] } else { vec![1, s.tensor] };
            let legal = case.legal(Key::ExpertTensor, &both, |s, size| s.expert_tensor = size);
            case.plain(
                Key::ExpertTensor,
                s.expert_tensor,
                format!("etp {} is neither 1 nor tp {}", s.expert_tensor, s.tensor),
                &legal,
            )
        }
        Rule::ExpertTensorOffered => {
            let sizes = supports.expert_tensor.sizes(s.tensor, s.expert);
            let legal = case.legal(Key::ExpertTensor, &sizes, |s, size| s.expert_tensor = size);
            let spread = if s.expert == 1 { "without expert parallelism" } else { "with expert parallelism" };
            let reason = format!(
                "{} does not split experts over {} {spread}",
                facts.profile.name,
                typed("rank", s.expert_tensor)
            );
            case.plain(Key::ExpertTensor, s.expert_tensor, reason, &legal)
        }
        Rule::ExpertWidth => {
            let widths = facts.experts.iter().map(|experts| experts.intermediate);
            let width = first_undivided(widths, s.expert_tensor);
            let whole = case.legal(Key::ExpertTensor, &[1], |s, size| s.expert_tensor = size);
            case.dividing(Key::ExpertTensor, s.expert_tensor, &format!("the expert width {width}"), whole)
        }
        Rule::ExpertRanks => case.experts(format!(
            "ep {} · etp {} does not divide the {} of a stage",
            s.expert,
            s.expert_tensor,
            typed("rank", s.tensor * s.context * s.data)
        )),
        Rule::ExpertReplicas => case.experts(format!(
            "ep {} · etp {} leaves ranks that {} replicas do not divide",
            s.expert,
            s.expert_tensor,
            s.replicas()
        )),
        Rule::Capacity => case.plain(
            Key::Capacity,
            s.capacity,
            format!("capacity {} is not a number above 0", s.capacity),
            &["1.25", "full"],
        ),
        Rule::CapacityOffered => case.plain(
            Key::Capacity,
            s.capacity,
            format!("{} drops no tokens", facts.profile.name),
            &[Capacity::Full],
        ),
        Rule::ScheduleOffered => {
            let legal = case.legal(Key::Schedule, &supports.schedules, |s, schedule| s.schedule = schedule);
            case.offered(Key::Schedule, s.schedule, &legal)
        }
        Rule::SchedulePipeline => {
            let reason = format!("sched {} needs a pipeline, and pp is 1", s.schedule);
            case.plain(Key::Schedule, s.schedule, reason, &[Schedule::OneForwardOneBackward])
        }
        Rule::VirtualStages => {
            let (least, greatest) = chunk_range(s.schedule, facts);
            let range = if least == greatest { least.to_string() } else { format!("{least} to {greatest}") };
            let reason = format!("sched {} takes virtual {range}, not {}", s.schedule, s.virtual_stages);
            case.plain(
                Key::VirtualStages,
                s.virtual_stages,
                reason,
                &[s.virtual_stages.clamp(least, greatest)],
            )
        }
        Rule::InterleavedRounds => case.rounds(),
        Rule::PipelinedMicroBatches => case.pipelined(),
        Rule::CutsCount => case.cuts(format!(
            "cuts names {}, and pp {} · virtual {} is {}",
            typed("chunk", s.cuts.len()),
            s.pipeline,
            s.virtual_stages,
            s.chunks()
        )),
        Rule::CutsSum => {
            let sum: u64 = s.cuts.iter().map(|&blocks| u64::from(blocks)).sum();
            case.cuts(format!("cuts sum to {}, and the model has {}", typed("block", sum), facts.blocks))
        }
        Rule::CutsOffered => case.cuts_offered(),
        Rule::AdaptiveLoss => {
            let reason = format!("an adaptive loss weight needs pp 1, not {}", s.pipeline);
            case.plain(Key::Pipeline, s.pipeline, reason, &[1])
        }
        Rule::ZeroOffered => {
            case.offered(Key::Zero, s.zero, &case.legal(Key::Zero, &supports.zero, |s, zero| s.zero = zero))
        }
        Rule::ZeroPipeline => {
            let both = case.legal(Key::Zero, &supports.zero, |s, zero| s.zero = zero);
            let reason = format!("{} offers no zero {} with a pipeline", facts.profile.name, s.zero);
            case.plain(Key::Zero, s.zero, reason, &both)
        }
        Rule::Shard => {
            let groups = case.nearest(Key::Shard, s.shard, divisors(s.data), |s, shard| s.shard = shard);
            case.dividing(Key::Shard, s.shard, &format!("dp {}", s.data), groups)
        }
        Rule::ReplicationOffered => {
            let others = case.legal(Key::Zero, &supports.zero, |s, zero| s.zero = zero);
            let reason =
                format!("{} replicates state over dp {} beside no other axis", facts.profile.name, s.data);
            case.plain(Key::Zero, s.zero, reason, &others)
        }
        Rule::ShardOffered => case.plain(
            Key::Shard,
            s.shard,
            format!("{} shards over all of dp {}, not over {}", facts.profile.name, s.data, s.shard),
            &[s.data],
        ),
        Rule::ReshardOffered => case.listed(Key::Reshard),
        Rule::SyncZero => {
            let reason = "sync scatter needs sharded state, and zero is 0".to_owned();
            case.plain(Key::Sync, s.sync, reason, &case.syncs())
        }
        Rule::SyncOffered => {
            let under = if s.pipeline > 1 { " with a pipeline" } else { "" };
            let reason = format!("{} does not reduce so under zero {}{under}", facts.profile.name, s.zero);
            case.plain(Key::Sync, s.sync, reason, &case.syncs())
        }
        Rule::CheckpointCount => {
            let reason = format!(
                "ckpt has {} for {}",
                typed("entry", s.checkpoint.len()),
                typed("chunk", s.cuts.len())
            );
            case.plain(Key::Checkpoint, s.checkpoint_text(), reason, &supports.checkpoint)
        }
        Rule::CheckpointBlocks => case.checkpoint_blocks(),
        Rule::CheckpointOffered => {
            let reason = format!("{} does not recompute so", facts.profile.name);
            case.plain(Key::Checkpoint, s.checkpoint_text(), reason, &supports.checkpoint)
        }
        Rule::CheckpointGrain => {
            let reason = format!("{} recomputes no such mixture", facts.profile.name);
            case.plain(Key::Checkpoint, s.checkpoint_text(), reason, &supports.checkpoint)
        }
        Rule::OffloadOffered => {
            let offers = |category| supports.offloads().any(|offered| offered == category);
            let category = OffloadCategory::ALL
                .iter()
                .find(|&&category| !s.offload.lacks(category) && !offers(category));
            let legal = case.offloads();
            let category = category.map_or("", |category| category.name());
            let reason = format!("{} does not offload {category}", facts.profile.name);
            case.plain(Key::Offload, &s.offload, reason, &legal)
        }
        Rule::OffloadCount => {
            let counts = OffloadCategory::ALL.iter().map(|&category| s.offload.fractions(category).len());
            let count = counts.filter(|&count| count != 0 && count as u64 != s.pipeline).max().unwrap_or(0);
            let reason =
                format!("offload has {} for {}", typed("fraction", count), typed("stage", s.pipeline));
            case.plain(Key::Offload, &s.offload, reason, &["none"])
        }
        Rule::OffloadFraction => {
            let reason = "an offloaded fraction lies between 0 and 1".to_owned();
            case.plain(Key::Offload, &s.offload, reason, &["none"])
        }
        Rule::OffloadGrain => {
            let reason = format!("{} does not offload such fractions", facts.profile.name);
            case.plain(Key::Offload, &s.offload, reason, &case.offloads())
        }
        Rule::OffloadTogether => {
            let all = capabilities::everything_offloaded(supports);
            let reason = format!("{} offloads {all} together or nothing", facts.profile.name);
            case.plain(Key::Offload, &s.offload, reason, &case.offloads())
        }
        Rule::OffloadCheckpoint => {
            let reason = format!("{} offloads it with other checkpoint modes only", facts.profile.name);
            case.plain(Key::Offload, &s.offload, reason, &case.offloads())
        }
        Rule::OffloadZero => {
            let reason = format!("{} does not offload so under zero {}", facts.profile.name, s.zero);
            case.plain(Key::Offload, &s.offload, reason, &case.offloads())
        }
        Rule::Together => case.together(),
        Rule::OffloadBeside => {
            let reason =
                format!("{} does not offload so beside {}", facts.profile.name, case.beside_offload());
            case.plain(Key::Offload, &s.offload, reason, &case.offloads())
        }
        Rule::CompressionOffered => case.listed(Key::Compression),
        Rule::OverlapOffered => {
            let reason = format!("{} copies what is offloaded beside computing", facts.profile.name);
            case.plain(Key::Overlap, "off", reason, &["on"])
        }
        Rule::LossOffered => case.listed(Key::Loss),
        Rule::AttentionOffered => case.listed(Key::Attention),
        Rule::Bucket => case.plain(Key::Bucket, s.bucket, "a bucket of 0 holds nothing".to_owned(), &[1]),
        Rule::GradientType => case.gradient_type(Key::Gradient, "kept", s.gradient_type),
        Rule::ReduceType => case.gradient_type(Key::Reduce, "reduced", s.reduce_type),
    }
}
