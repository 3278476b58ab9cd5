//! Which collectives sum gradients, in which passes, and which bring updated parameters back.

use crate::lower::UnitParameters;
use crate::ops::{Collective, CollectiveKind, Group, Op};
use crate::profile::EngineProfile;
use crate::profile::choices::GradientSync;
use crate::program::instruction::Part;
use crate::program::state::StateRules;
use crate::strategy::Strategy;
use crate::units::Bytes;

/// The collectives that sum the gradient of a unit with `parameters` over its ranks, in order.
pub fn reductions(
    rules: &StateRules,
    engine: &EngineProfile,
    parameters: &UnitParameters,
    across_replicas: bool,
) -> Vec<(Part, Op)> {
    use crate::profile::engine::StageOneCollective;
    let size = rules.reduce.size();
    // Kept whole, the gradient of a borrowed table is the embedding's.
    let borrowed = if rules.keeps_whole_gradients { 0 } else { parameters.borrowed_trained() };
    let parts = [
        (
            Part::Dense,
            parameters.dense_trained + borrowed,
            rules.shards,
            rules.gradient_ranks,
            (Group::State, Group::Replica, Group::Gradient),
        ),
        (
            Part::Expert,
            parameters.expert_trained,
            rules.expert_shards,
            rules.expert_ranks,
            (Group::ExpertState, Group::ExpertReplica, Group::ExpertGradient),
        ),
    ];
    let mut list = Vec::new();
    let mut push = |part, kind, group, elements: u64| {
        list.push((part, Op::Collective(Collective { kind, group, bytes: Bytes(elements * size) })));
    };
    for (part, elements, shards, ranks, (state, replica, gradient)) in parts {
        if elements == 0 || ranks <= 1 {
            continue;
        }
        if rules.zero == 0 {
            push(part, CollectiveKind::AllReduce, gradient, elements);
            continue;
        }
        let stage_one = engine.state.stage_one_collective;
        if rules.zero == 1 && stage_one == StageOneCollective::AllReduceTogether && across_replicas {
            push(part, CollectiveKind::AllReduce, gradient, elements);
            continue;
        }
        let whole = rules.zero == 1 && stage_one != StageOneCollective::ReduceScatter;
        if shards > 1 {
            let kind = if whole { CollectiveKind::AllReduce } else { CollectiveKind::ReduceScatter };
            push(part, kind, state, elements);
        }
        if across_replicas && rules.replicas > 1 {
            let left = if whole { elements } else { elements.div_ceil(shards) };
            push(part, CollectiveKind::AllReduce, replica, left);
        }
    }
    list
}

/// The all-gathers that bring the updated parameters of a unit back to all ranks that hold them whole.
pub fn updates(rules: &StateRules, parameters: &UnitParameters) -> Vec<(Part, Op)> {
    let parts = [
        (Part::Dense, Group::State, parameters.dense_trained, rules.shards),
        (Part::Expert, Group::ExpertState, parameters.expert_trained, rules.expert_shards),
    ];
    let gathered = parts.into_iter().filter(|(_, _, elements, shards)| *shards > 1 && *elements > 0);
    gathered
        .map(|(part, group, elements, _)| {
            let bytes = Bytes(elements * rules.parameter.size());
            (part, Op::Collective(Collective { kind: CollectiveKind::AllGather, group, bytes }))
        })
        .collect()
}

/// Whether a pass for micro-batch `micro` of `count` reduces gradients, and across replicas.
pub fn reduces(strategy: &Strategy, micro: u64, count: u64) -> (bool, bool) {
    let last = micro + 1 == count;
    match strategy.sync {
        GradientSync::Immediate => (true, true),
        GradientSync::Scatter => (true, last && strategy.zero <= 1),
        GradientSync::Deferred => (last, last),
    }
}
