//! Ranks of a run as the mesh has them: where each stands, its units, whose shards it holds, whom it talks to.

use std::sync::{Arc, Mutex};

use crate::execute::call::Lists;
use crate::execute::error::ExecuteError;
use crate::execute::observe::span::Span;
use crate::execute::ranks::layout::UnitTensors;
use crate::execute::ranks::mapping::Slot;
use crate::execute::ranks::placement::Stages;
use crate::execute::ranks::places::pieces;
use crate::execute::ranks::position::Position;
use crate::execute::ranks::rank::Rank;
use crate::execute::ranks::state::UnitState;
use crate::execute::ranks::unit::Unit;
use crate::execute::ranks::watched::Watched;
use crate::execute::run::Run;
use crate::execute::storage::Types;
use crate::lower::Shape;
use crate::ops::Group;
use crate::program::build;
use crate::program::layout::PlacedWatch;
use crate::program::state::offloaded_elements;
use crate::strategy::Axis;
use crate::strategy::mesh::Group as MeshGroup;

/// Rank `index` of `run`.
///
/// # Errors
/// If the program keeps other state than the model has.
pub(super) fn rank(
    run: &Run,
    index: u64,
    shape: &Shape<'_>,
    stages: Stages<'_>,
) -> Result<Rank, ExecuteError> {
    let (mesh, strategy) = (&run.mesh, &run.strategy);
    let stage = mesh.coordinate(index, Axis::Pipeline);
    let place = |kind: MeshGroup| {
        mesh.group(kind, index).iter().position(|member| *member == index).unwrap_or_default() as u64
    };
    let slot = Slot {
        tensor: place(MeshGroup::Tensor),
        tensors: strategy.tensor,
        expert: place(MeshGroup::Expert),
        experts: strategy.expert,
        expert_tensor: place(MeshGroup::ExpertTensor),
        expert_tensors: strategy.expert_tensor,
    };
    let placement = Arc::clone(stages.own(stage as usize));
    let shards = run.rules.shards_optimizer;
    let lenders = run.layout.lenders();
    let mut units: Vec<Unit> = Vec::new();
    let mut owned_start = 0;
    for placed in run.layout.chunks_of(stage as u32).flat_map(|chunk| &chunk.units) {
        let layers = run.units[placed.unit as usize].layers.clone();
        let tensors = UnitTensors::new(&run.model, placed, layers.clone(), shape, &run.rules);
        let owned = run.rules.optimizer_elements(&placed.parameters) as usize;
        let lender = lenders.iter().find(|(borrower, _)| *borrower == placed.unit).map(|(_, lender)| *lender);
        units.push(Unit {
            index: placed.unit,
            loss: placed.loss,
            layers: layers.map(|layer| run.model.layer(layer).clone()).collect(),
            borrows_from: lender.and_then(|lender| units.iter().position(|unit| unit.index == lender)),
            state: UnitState::find(
                &placement,
                &run.rules,
                (index as usize, &tensors, placed.offloads_parameters),
            )?,
            tensors,
            offloads_parameters: placed.offloads_parameters,
            owned_start,
            owned,
        });
        owned_start += owned;
    }
    let is_first = |sharded, whole| if shards { place(sharded) == 0 } else { place(whole) == 0 };
    let copies_table = units.iter().all(|unit| !run.units[unit.index as usize].reads_tokens);
    let mut rank = Rank {
        index: index as usize,
        rules: run.rules,
        types: Types::new(run.rules.compute, run.rules.gradient),
        stage: stage as u32,
        slot,
        shard: if shards { place(MeshGroup::Shard) as usize } else { 0 },
        expert_shard: if shards { place(MeshGroup::ExpertShard) as usize } else { 0 },
        context: mesh.coordinate(index, Axis::Context),
        data_rank: mesh.data_rank(index),
        is_first_holder: is_first(MeshGroup::Replica, MeshGroup::Gradient),
        is_first_expert_holder: is_first(MeshGroup::ExpertReplica, MeshGroup::ExpertData),
        spans: std::array::from_fn(|_| Mutex::default()),
        position: Arc::new(Position::new(placement.clone())),
        placement,
        units,
        watched: Vec::new(),
        pieces: Vec::new(),
        owned_on_host: offloaded_elements(strategy, stage as usize, owned_start as u64) as usize,
        members: Group::ALL.map(|group| members(run, group, index as usize)),
        written: Default::default(),
        scalars: run.layout.scalars(strategy.accumulation),
    };
    for (spans, stream) in rank.spans.iter_mut().zip(&rank.placement.streams) {
        *spans = Mutex::new(vec![Span::default(); stream.len()]);
    }
    let is_first = (place(MeshGroup::Gradient) == 0, place(MeshGroup::ExpertData) == 0);
    let watched = |watch: &PlacedWatch| {
        let unit = rank.units.iter().find(|unit| unit.index == watch.unit);
        unit.map_or_else(Watched::default, |unit| Watched::new(unit, watch.layer, &slot, is_first))
    };
    rank.watched = run.layout.shaped().watches().iter().map(watched).collect();
    rank.pieces = pieces(&rank, copies_table);
    Ok(rank)
}

/// Positions and rows that the kernels of `rank` read.
pub(super) fn lists(run: &Run, rank: &Rank, shape: &Shape<'_>) -> Lists {
    let strategy = &run.strategy;
    let positions: Vec<Vec<u32>> = (0..strategy.context).map(|context| run.positions(context)).collect();
    let local = &positions[rank.context as usize];
    let tokens = run.workload.seq_len as u32;
    let rows = (0..strategy.micro_batch as u32)
        .flat_map(|sequence| local.iter().map(move |&position| (position, sequence * tokens + position)));
    let share = shape.stream_tokens() as usize;
    let first = if strategy.sequence_parallel { rank.slot.tensor as usize * share } else { 0 };
    let (stream_positions, stream_rows) = rows.skip(first).take(share).unzip();
    Lists { positions, all_positions: (0..tokens).collect(), stream_positions, stream_rows }
}

/// The ranks of the group of kind `group` that `rank` is in.
fn members(run: &Run, group: Group, rank: usize) -> Vec<usize> {
    if let Some(kind) = MeshGroup::of(group) {
        return run.mesh.group(kind, rank as u64).into_iter().map(|member| member as usize).collect();
    }
    if group == Group::World {
        return (0..run.mesh.ranks() as usize).collect();
    }
    let last = build::tied_head(&run.layout).map_or(0, |(stage, _)| u64::from(stage));
    let mut pair = [0, last].map(|stage| run.rank_at_stage(rank, stage)).to_vec();
    pair.dedup();
    pair
}
