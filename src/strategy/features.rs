//! What of a strategy its prediction rests on beside the engine and the device: features that measured runs cover or
//! do not.

use super::{
    CheckpointMode, Compression, ContextKind, Group, LossMode, Mesh, MeshOrder, OffloadCategory, Schedule,
    Strategy, Workload,
};
use crate::units::ElementType;

/// The features of `strategy` on nodes of `node` devices, in words, in a fixed order.
pub fn features(strategy: &Strategy, workload: &Workload, node: u64) -> Vec<&'static str> {
    let mesh = Mesh::new(strategy);
    let node = node.max(1);
    let is_default = strategy.order == MeshOrder::default();
    // In the default order, groups are runs of neighbours.
    let crosses = |group: Group, run: u64| match is_default {
        true => !node.is_multiple_of(run),
        false => !mesh.is_inside(group, node),
    };
    let tensor_run = strategy.tensor;
    let shard_run = strategy.tensor * strategy.context * strategy.shard;
    let offloads = |category| !strategy.offload.lacks(category);
    let schedule = match strategy.schedule {
        Schedule::GPipe => "the GPipe schedule",
        Schedule::OneForwardOneBackward => "the 1F1B schedule",
        Schedule::Interleaved => "the interleaved schedule",
        Schedule::ZeroBubbleH1 => "the zero-bubble schedule zb-h1",
        Schedule::ZeroBubbleH2 => "the zero-bubble schedule zb-h2",
        Schedule::ZeroBubbleV => "the zero-bubble schedule zb-v",
    };
    let context = match strategy.context_kind {
        ContextKind::Ring => "context parallelism (ring)",
        ContextKind::Ulysses => "context parallelism (Ulysses)",
    };
    let candidates = [
        (strategy.tensor > 1, "tensor parallelism"),
        (strategy.tensor > 1 && crosses(Group::Tensor, tensor_run), "tensor parallelism across nodes"),
        (strategy.context > 1, context),
        (strategy.expert > 1, "expert parallelism"),
        (strategy.pipeline > 1, schedule),
        (strategy.zero > 0, "sharded optimizer state"),
        (strategy.zero == 3 && crosses(Group::Shard, shard_run), "ZeRO-3 across nodes"),
        (strategy.zero > 0 && strategy.replicas() > 1, "shard groups smaller than dp"),
        (recomputes(strategy), "recomputation"),
        (offloads(OffloadCategory::Optimizer), "optimizer offload"),
        (offloads(OffloadCategory::Parameters), "parameter offload"),
        (offloads(OffloadCategory::Activations), "activation offload"),
        (workload.precision == ElementType::Fp8, "products in 8 bits"),
        (strategy.compression != Compression::None, "activation compression"),
        (strategy.loss == LossMode::Chunked, "the chunked loss"),
    ];
    candidates.into_iter().filter(|(is_used, _)| *is_used).map(|(_, words)| words).collect()
}

fn recomputes(strategy: &Strategy) -> bool {
    let mut runs = strategy.checkpoint.iter().flat_map(|chunk| &chunk.runs);
    runs.any(|(mode, count)| *mode != CheckpointMode::None && *count > 0)
}

#[cfg(test)]
mod tests {
    use super::super::Draft;
    use super::super::sample::{dense, facts};
    use super::*;

    #[test]
    fn what_is_in_use_is_named() {
        let model = dense();
        let facts = facts(&model, 16, "embedded");
        for (text, expected) in [
            ("", &[][..]),
            ("zero=1", &["sharded optimizer state"]),
            ("zero=3", &["sharded optimizer state", "ZeRO-3 across nodes"]),
            ("zero=3,shard=8", &["sharded optimizer state", "shard groups smaller than dp"]),
            ("tp=2,pp=2,sched=interleaved", &["tensor parallelism", "the interleaved schedule"]),
            ("offload=optimizer:0.5,ckpt=full:1", &["recomputation", "optimizer offload"]),
            ("cp=2,cp_kind=ulysses,loss=chunked", &["context parallelism (Ulysses)", "the chunked loss"]),
        ] {
            let strategy = Draft::parse(text).unwrap().resolve(&facts).unwrap();
            assert_eq!(features(&strategy, &facts.workload, 8), expected, "{text}");
        }
    }
}
