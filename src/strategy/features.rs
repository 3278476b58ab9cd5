//! What of a strategy its prediction rests on beside the engine and the device: features that measured runs cover or
//! do not.

use super::{
    CheckpointMode, Compression, ContextKind, Group, LossMode, Mesh, MeshOrder, OffloadCategory, Schedule,
    Strategy, Workload,
};
use crate::profile::choices::Feature;
use crate::units::ElementType;

/// The features of `strategy` on nodes of `node` devices, in a fixed order.
pub fn features(strategy: &Strategy, workload: &Workload, node: u64) -> Vec<Feature> {
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
        Schedule::GPipe => Feature::GPipe,
        Schedule::OneForwardOneBackward => Feature::OneForwardOneBackward,
        Schedule::Interleaved => Feature::Interleaved,
        Schedule::ZeroBubbleH1 => Feature::ZeroBubbleH1,
        Schedule::ZeroBubbleH2 => Feature::ZeroBubbleH2,
        Schedule::ZeroBubbleV => Feature::ZeroBubbleV,
    };
    let context = match strategy.context_kind {
        ContextKind::Ring => Feature::Ring,
        ContextKind::Ulysses => Feature::Ulysses,
    };
    let candidates = [
        (strategy.tensor > 1, Feature::Tensor),
        (strategy.tensor > 1 && crosses(Group::Tensor, tensor_run), Feature::TensorAcrossNodes),
        (strategy.context > 1, context),
        (strategy.expert > 1, Feature::Expert),
        (strategy.pipeline > 1, schedule),
        (strategy.zero > 0, Feature::ShardedState),
        (strategy.zero == 3 && crosses(Group::Shard, shard_run), Feature::ShardedParametersAcrossNodes),
        (strategy.zero > 0 && strategy.replicas() > 1, Feature::ShardGroups),
        (recomputes(strategy), Feature::Recomputation),
        (offloads(OffloadCategory::Optimizer), of_offload(OffloadCategory::Optimizer)),
        (offloads(OffloadCategory::Parameters), of_offload(OffloadCategory::Parameters)),
        (offloads(OffloadCategory::Activations), of_offload(OffloadCategory::Activations)),
        (workload.precision == ElementType::Fp8, Feature::EightBitProducts),
        (strategy.compression != Compression::None, Feature::Compression),
        (strategy.loss == LossMode::Chunked, Feature::ChunkedLoss),
    ];
    candidates.into_iter().filter(|(is_used, _)| *is_used).map(|(_, feature)| feature).collect()
}

/// The feature of keeping `category` on the host.
pub const fn of_offload(category: OffloadCategory) -> Feature {
    match category {
        OffloadCategory::Optimizer => Feature::OptimizerOffload,
        OffloadCategory::Parameters => Feature::ParameterOffload,
        OffloadCategory::Activations => Feature::ActivationOffload,
    }
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
            ("zero=1", &[Feature::ShardedState]),
            ("zero=3", &[Feature::ShardedState, Feature::ShardedParametersAcrossNodes]),
            ("zero=3,shard=8", &[Feature::ShardedState, Feature::ShardGroups]),
            ("tp=2,pp=2,sched=interleaved", &[Feature::Tensor, Feature::Interleaved]),
            ("offload=optimizer:0.5,ckpt=full:1", &[Feature::Recomputation, Feature::OptimizerOffload]),
            ("cp=2,cp_kind=ulysses,loss=chunked", &[Feature::Ulysses, Feature::ChunkedLoss]),
        ] {
            let strategy = Draft::parse(text).unwrap().resolve(&facts).unwrap();
            assert_eq!(features(&strategy, &facts.workload, 8), expected, "{text}");
        }
    }
}
