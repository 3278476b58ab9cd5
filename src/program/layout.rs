//! Which units stand in which chunk, how each is lowered, and where its state lives.

use crate::lower::unit::{UnitKind, UnitLayers, graph, lower, units};
use crate::lower::{LoweredUnit, Shape, UnitGraph, UnitParameters};
use crate::model::Model;
use crate::profile::EngineProfile;
use crate::profile::choices::{CheckpointMode, OffloadCategory};
use crate::strategy::{Strategy, Workload};

/// A unit in its place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlacedUnit {
    /// Index among the model's units.
    pub unit: u32,
    /// Index into [`Layout::lowered`].
    pub lowered: usize,
    pub parameters: UnitParameters,
    pub is_block: bool,
    pub has_backward: bool,
    /// Index of the loss that it computes.
    pub loss: Option<u8>,
    pub offloads_parameters: bool,
    pub offloads_activations: bool,
}

/// The units of one chunk, in model order.
#[derive(Clone, Debug, PartialEq)]
pub struct Chunk {
    /// Index in model order over all pipeline ranks.
    pub index: u32,
    pub stage: u32,
    pub units: Vec<PlacedUnit>,
    /// The chunk's input needs a gradient, which is sent back.
    pub sends_gradient: bool,
    /// Losses whose gradients arrive from later chunks.
    pub receives: Vec<u8>,
}

/// A model laid out over pipeline ranks under a strategy.
#[derive(Clone, Debug)]
pub struct Layout {
    pub chunks: Vec<Chunk>,
    /// Distinct lowered units: a lowering is made once for all units that are alike.
    pub lowered: Vec<LoweredUnit>,
    pub losses: u8,
}

impl Layout {
    /// Lays `model` out. `strategy` must be legal for it.
    pub fn new(model: &Model, strategy: &Strategy, workload: &Workload, engine: &EngineProfile) -> Self {
        let shape = Shape::new(strategy, workload, engine);
        let units = units(model);
        let mut graphs: Vec<(usize, UnitGraph)> = Vec::new();
        let mut made: Vec<(usize, CheckpointMode)> = Vec::new();
        let mut lowered: Vec<LoweredUnit> = Vec::new();
        let mut chunks: Vec<Chunk> = Vec::new();
        let last_chunk = strategy.chunks() - 1;
        let assigned = assign(&units, strategy);
        // Where each chunk starts among the units; one without units where the next starts.
        let mut starts = vec![units.len(); assigned.len()];
        for (chunk, members) in assigned.iter().enumerate().rev() {
            let next = starts.get(chunk + 1).copied().unwrap_or(units.len());
            starts[chunk] = members.first().copied().unwrap_or(next);
        }
        let head_alone = strategy.pipeline > 1 && strategy.stage_of(last_chunk) != 0;
        let mut blocks_of_stage = vec![0_u32; strategy.pipeline as usize];
        for (chunk_index, members) in assigned.iter().enumerate() {
            let stage = strategy.stage_of(chunk_index as u64);
            blocks_of_stage[stage as usize] +=
                members.iter().filter(|&&unit| matches!(units[unit].kind, UnitKind::Block(_))).count() as u32;
        }
        let mut seen_of_stage = vec![0_u32; strategy.pipeline as usize];
        for (chunk_index, members) in assigned.iter().enumerate() {
            let stage = strategy.stage_of(chunk_index as u64) as usize;
            let mut placed = Vec::new();
            let mut block_in_chunk = 0;
            for &index in members {
                let unit = &units[index];
                let is_block = matches!(unit.kind, UnitKind::Block(_));
                let mode = if is_block {
                    strategy
                        .checkpoint
                        .get(chunk_index)
                        .map_or(CheckpointMode::None, |c| c.mode(block_in_chunk))
                } else {
                    CheckpointMode::None
                };
                let key = (unit.class, mode);
                let lowered_index = made.iter().position(|known| *known == key).unwrap_or_else(|| {
                    let place =
                        graphs.iter().position(|(class, _)| *class == unit.class).unwrap_or_else(|| {
                            graphs.push((unit.class, graph(model, unit, shape)));
                            graphs.len() - 1
                        });
                    made.push(key);
                    lowered.push(lower(&graphs[place].1, shape, mode, is_block));
                    lowered.len() - 1
                });
                let mut parameters = UnitParameters::of(model, unit.layers.clone(), &shape);
                if parameters.tied > 0 && head_alone {
                    parameters.dense += parameters.tied;
                    parameters.dense_trained += parameters.tied;
                }
                let offloads = |category| {
                    let fraction = strategy.offload.fraction(category, stage);
                    is_block && seen_of_stage[stage] < offloaded_blocks(fraction, blocks_of_stage[stage])
                };
                placed.push(PlacedUnit {
                    unit: index as u32,
                    lowered: lowered_index,
                    parameters,
                    is_block,
                    has_backward: unit.has_backward,
                    loss: unit.loss.map(|loss| loss as u8),
                    offloads_parameters: offloads(OffloadCategory::Parameters),
                    offloads_activations: offloads(OffloadCategory::Activations),
                });
                if is_block {
                    block_in_chunk += 1;
                    seen_of_stage[stage] += 1;
                }
            }
            let behind = starts.get(chunk_index + 1).copied().unwrap_or(units.len());
            let crosses = units.get(behind).is_some_and(|unit| unit.needs_input_gradient);
            let receives = units[behind..]
                .iter()
                .filter_map(|unit| unit.loss.map(|loss| loss as u8))
                .filter(|_| crosses)
                .collect();
            let entered = units.get(starts[chunk_index]).is_some_and(|unit| unit.needs_input_gradient);
            chunks.push(Chunk {
                index: chunk_index as u32,
                stage: stage as u32,
                units: placed,
                sends_gradient: chunk_index > 0 && entered,
                receives,
            });
        }
        Self { chunks, lowered, losses: model.losses.len() as u8 }
    }

    /// The lowered form of `unit`.
    pub fn lowered(&self, unit: &PlacedUnit) -> &LoweredUnit {
        &self.lowered[unit.lowered]
    }

    /// The chunks of pipeline rank `stage`, in model order.
    pub fn chunks_of(&self, stage: u32) -> impl Iterator<Item = &Chunk> {
        self.chunks.iter().filter(move |chunk| chunk.stage == stage)
    }
}

/// ⌈fraction · blocks⌉.
pub fn offloaded_blocks(fraction: f64, blocks: u32) -> u32 {
    (fraction * f64::from(blocks)).ceil() as u32
}

/// The units of each chunk: blocks by the cuts, what stands before them with the first, behind with the last.
fn assign(units: &[UnitLayers], strategy: &Strategy) -> Vec<Vec<usize>> {
    let mut chunks = vec![Vec::new(); strategy.chunks() as usize];
    let last = chunks.len() - 1;
    let mut ends = strategy.cuts.iter().scan(0_u32, |end, &blocks| {
        *end += blocks;
        Some(*end)
    });
    let mut chunk = 0;
    let mut end = ends.next().unwrap_or(u32::MAX);
    for (index, unit) in units.iter().enumerate() {
        match unit.kind {
            UnitKind::Front => chunks[0].push(index),
            UnitKind::Back
                if unit.layers.end < units.last().map_or(0, |unit| unit.layers.end) && chunk < last =>
            {
                chunks[chunk].push(index);
            }
            UnitKind::Back => chunks[last].push(index),
            UnitKind::Block(block) => {
                while block >= end && chunk < last {
                    chunk += 1;
                    end = ends.next().unwrap_or(u32::MAX);
                }
                chunks[chunk].push(index);
            }
        }
    }
    chunks
}
