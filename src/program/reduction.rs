//! Which collectives and kernels sum gradients, in which passes, and which collectives gather parameters.

use crate::lower::UnitParameters;
use crate::ops::{Collective, CollectiveKind, Elementwise, ElementwiseKind, Group, Op};
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
        let messages = rules.bucket.map_or(1, |bucket| elements.div_ceil(bucket.max(1)));
        let bytes = Bytes(elements * size);
        list.push((part, Op::Collective(Collective { kind, group, bytes, messages, copies: 1 })));
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

/// The kernel that adds the reduced gradient of a unit with `parameters` to what is kept, where none is kept whole.
pub fn keep(parameters: &UnitParameters, rules: &StateRules) -> Option<Op> {
    let elements = parameters.trained_shard(rules.shards, rules.expert_shards);
    let (kind, element) = (ElementwiseKind::Add, rules.gradient);
    // What belongs to a borrowed table is added to its owner's.
    let writes = parameters.trained() + parameters.borrowed_trained() > 0;
    let keeps = !rules.keeps_whole_gradients && writes;
    keeps.then_some(Op::Elementwise(Elementwise { kind, elements, operands: 3, element }))
}

/// The kernel that adds what a micro-batch gave to a unit's whole gradient, where products do not.
pub fn accumulate(parameters: &UnitParameters, rules: &StateRules, engine: &EngineProfile) -> Option<Op> {
    let elements = parameters.trained();
    let (kind, element) = (ElementwiseKind::Accumulate, rules.gradient);
    let adds = engine.state.accumulates_apart && rules.keeps_whole_gradients && elements > 0;
    adds.then_some(Op::Elementwise(Elementwise { kind, elements, operands: 3, element }))
}

/// The all-gathers that bring the parameters of a unit together.
pub fn gathers(parameters: &UnitParameters, rules: &StateRules) -> impl Iterator<Item = Op> {
    let size = rules.compute.size();
    let parts = [
        (Group::State, parameters.dense, rules.shards),
        (Group::ExpertState, parameters.expert, rules.expert_shards),
    ];
    let are_apart = rules.shards_parameters;
    let gathered =
        parts.into_iter().filter(move |&(_, elements, shards)| are_apart && elements > 0 && shards > 1);
    gathered.map(move |(group, elements, _)| {
        let kind = CollectiveKind::AllGather;
        Op::Collective(Collective::new(kind, group, Bytes(elements * size)))
    })
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
            (part, Op::Collective(Collective::new(CollectiveKind::AllGather, group, bytes)))
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
