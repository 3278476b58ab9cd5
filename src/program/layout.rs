//! Which units stand in which chunk, how each is lowered, and where its state lives.

use std::collections::BTreeSet;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::lower::placeholders::matrices;
use crate::lower::unit::{UnitKind, UnitLayers, graph, lower, units};
use crate::lower::{LoweredUnit, Shape, UnitParameters};
use crate::model::{Model, Watch};
use crate::profile::EngineProfile;
use crate::profile::choices::{CheckpointMode, OffloadCategory};
use crate::program::scalars::Scalars;
use crate::program::state::StateRules;
use crate::strategy::{Strategy, Workload};

/// A unit in its place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlacedUnit {
    /// Index among the model's units.
    pub unit: u32,
    /// Index into [`ShapedUnits::lowered`].
    pub lowered: usize,
    pub parameters: UnitParameters,
    pub is_block: bool,
    pub has_backward: bool,
    /// Index of the loss that it computes.
    pub loss: Option<u8>,
    pub reads_tokens: bool,
    pub reads_targets: bool,
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
    /// Where runs of like units start among them, and how many units each has.
    runs: SmallVec<[(u32, u32); 4]>,
    /// The chunk's input needs a gradient, which is sent back.
    pub sends_gradient: bool,
    /// Losses whose gradients arrive from later chunks.
    pub receives: Vec<u8>,
}

/// A model's units under a shape: what they hold and how they are lowered, once for all units that are alike.
#[derive(Clone, Debug)]
pub struct ShapedUnits {
    units: Arc<Vec<UnitLayers>>,
    /// By class.
    parameters: Vec<UnitParameters>,
    /// By class, rows and columns of trained matrices.
    matrices: Vec<Vec<(u64, u64)>>,
    /// By class and checkpoint mode; outside blocks all modes are one.
    lowered: Vec<LoweredUnit>,
    /// Losses in the order of their backwards.
    backward_order: Vec<u8>,
    watches: Vec<PlacedWatch>,
    /// By loss.
    is_weighed_late: Vec<bool>,
}

const MODES: &[CheckpointMode] = CheckpointMode::ALL;

impl ShapedUnits {
    /// Lowers every class of `units`, which are those of `model`, under `shape`.
    pub fn new(model: &Model, units: &Arc<Vec<UnitLayers>>, mut shape: Shape<'_>) -> Self {
        // Each loss's backward would carry gradients of its own to the weight pass: with several, none waits.
        shape.splits_weight &= model.losses.len() == 1;
        let classes = units.iter().map(|unit| unit.class + 1).max().unwrap_or(0);
        let mut parameters = Vec::with_capacity(classes);
        let mut shapes = Vec::with_capacity(classes);
        let mut lowered = Vec::with_capacity(classes * MODES.len());
        for class in 0..classes {
            let Some(unit) = units.iter().find(|unit| unit.class == class) else { continue };
            parameters.push(UnitParameters::of(model, unit.layers.clone(), &shape));
            shapes.push(matrices(model, unit.layers.clone(), &shape));
            let graph = graph(model, unit, shape);
            let is_block = matches!(unit.kind, UnitKind::Block(_));
            lowered.extend(MODES.iter().map(|&mode| lower(&graph, shape, mode, is_block)));
        }
        Self {
            units: Arc::clone(units),
            parameters,
            matrices: shapes,
            lowered,
            backward_order: model.backward_order().0.into_iter().map(|loss| loss as u8).collect(),
            watches: watches(model, units, &shape),
            is_weighed_late: (0..model.losses.len()).map(|loss| model.is_weighed_late(loss)).collect(),
        }
    }

    /// Losses in the order of their backwards.
    pub fn backward_order(&self) -> &[u8] {
        &self.backward_order
    }

    /// All layers at which norms of losses' gradients are taken.
    pub fn watches(&self) -> &[PlacedWatch] {
        &self.watches
    }

    /// Those, with their numbers, at which the gradient of `loss` is looked at in unit `unit`.
    pub fn watches_at(&self, loss: u8, unit: u32) -> impl Iterator<Item = (u8, &PlacedWatch)> {
        let numbered = (0..).zip(&self.watches);
        numbered.filter(move |(_, watch)| watch.loss == loss && watch.unit == unit)
    }

    /// Whether the backward of `loss` starts with a weight of 1 and is weighed behind the last layer at which it is
    /// looked at.
    pub fn is_weighed_late(&self, loss: u8) -> bool {
        self.is_weighed_late[usize::from(loss)]
    }

    /// The first unit of the model that the backward of `loss` is looked at in: where its weight is known.
    pub fn weighed_at(&self, loss: u8) -> Option<u32> {
        let looked_at = self.watches.iter().filter(|watch| watch.loss == loss);
        looked_at.map(|watch| watch.unit).min().filter(|_| self.is_weighed_late(loss))
    }

    /// Whether the gradient of `loss` in unit `unit` stands by itself before it is added to what is kept: it is
    /// looked at there, or its weight is not known yet.
    pub fn holds_gradient(&self, loss: u8, unit: u32) -> bool {
        self.weighed_at(loss).is_some_and(|last| unit >= last) || self.watches_at(loss, unit).next().is_some()
    }

    /// The units `range` of the model on the first pipeline rank, or on another.
    fn placed(&self, range: std::ops::Range<usize>, is_first: bool) -> Vec<PlacedUnit> {
        range
            .map(|unit| {
                let layers = &self.units[unit];
                PlacedUnit {
                    unit: unit as u32,
                    lowered: layers.class * MODES.len(),
                    parameters: self.of_class(layers.class, is_first),
                    is_block: matches!(layers.kind, UnitKind::Block(_)),
                    has_backward: layers.has_backward,
                    loss: layers.loss.map(|loss| loss as u8),
                    reads_tokens: layers.reads_tokens,
                    reads_targets: layers.reads_targets,
                    offloads_parameters: false,
                    offloads_activations: false,
                }
            })
            .collect()
    }

    /// What a unit of `class` holds on the first pipeline rank, or on another.
    fn of_class(&self, class: usize, is_first: bool) -> UnitParameters {
        let mut parameters = self.parameters[class];
        // The embedding is on the first stage.
        if is_first {
            parameters.borrowed = parameters.tied;
        } else {
            parameters.dense += parameters.tied;
            if parameters.trains_tied {
                parameters.dense_trained += parameters.tied;
                parameters.table += parameters.tied;
            } else {
                parameters.frozen_table += parameters.tied;
            }
        }
        parameters
    }

    /// What units with the lowered form `lowered` hold on the first pipeline rank, or on another.
    pub fn parameters_on(&self, lowered: usize, is_first: bool) -> UnitParameters {
        self.of_class(lowered / MODES.len(), is_first)
    }

    /// The lowered form of units of `class` in `mode`.
    pub const fn form_of(&self, class: usize, mode: CheckpointMode) -> usize {
        class * MODES.len() + mode as usize
    }

    /// Whether `lowered` is the first of its class's forms.
    pub const fn starts_class(&self, lowered: usize) -> bool {
        lowered.is_multiple_of(MODES.len())
    }

    /// Whether some unit holds a copy of the embedding's table where it stands on another pipeline rank.
    pub fn ties(&self) -> bool {
        self.parameters.iter().any(|parameters| parameters.tied > 0)
    }

    /// All lowered units; a placed unit names its own by index.
    pub fn lowered(&self) -> &[LoweredUnit] {
        &self.lowered
    }
}

/// A layer at which the norm of a loss's gradient is taken, in its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedWatch {
    pub loss: u8,
    /// Index among the model's units.
    pub unit: u32,
    /// Counted from the unit's first layer.
    pub layer: u16,
    /// The layer's parameters on one rank.
    pub parameters: UnitParameters,
}

impl PlacedWatch {
    /// Whether ranks hold parts of the gradient that must be summed before its norm is taken: it is copied first, so
    /// that what accumulates is left alone.
    pub const fn is_summed(&self, rules: &StateRules) -> bool {
        let parameters = &self.parameters;
        parameters.partial > 0
            || (rules.gradient_ranks > 1 && parameters.dense_trained > 0)
            || (rules.expert_ranks > 1 && parameters.expert_trained > 0)
    }
}

fn watches(model: &Model, units: &[UnitLayers], shape: &Shape<'_>) -> Vec<PlacedWatch> {
    let place = |watch: Watch| {
        let unit = units.iter().position(|unit| unit.layers.contains(&watch.layer))?;
        Some(PlacedWatch {
            loss: watch.loss as u8,
            unit: unit as u32,
            layer: (watch.layer - units[unit].layers.start) as u16,
            parameters: UnitParameters::of(model, watch.layer..watch.layer + 1, shape),
        })
    };
    model.watches().into_iter().filter_map(place).collect()
}

/// A model laid out over pipeline ranks under a strategy.
#[derive(Clone, Debug)]
pub struct Layout {
    pub chunks: Vec<Chunk>,
    pub losses: u8,
    /// Chunks of each pipeline rank, and the indices of these, rank by rank.
    chunks_a_rank: usize,
    held: Vec<u32>,
    shaped: Arc<ShapedUnits>,
}

impl Layout {
    /// Lays `model` out. `strategy` must be legal for it.
    pub fn new(model: &Model, strategy: &Strategy, workload: &Workload, engine: &EngineProfile) -> Self {
        let shape = Shape::new(strategy, workload, engine);
        let shaped = ShapedUnits::new(model, &Arc::new(units(model)), shape);
        Self::place(&Arc::new(shaped), strategy)
    }

    /// Lays units out that were lowered under the strategy's shape.
    pub fn place(shaped: &Arc<ShapedUnits>, strategy: &Strategy) -> Self {
        Self::place_on(shaped, strategy, |_| true)
    }

    /// The same for the pipeline ranks that are `wanted`; the chunks of the others are left empty.
    pub fn place_on(shaped: &Arc<ShapedUnits>, strategy: &Strategy, wanted: impl Fn(u32) -> bool) -> Self {
        let units = &shaped.units;
        let starts = starts(units, strategy);
        let mut seen = vec![0_u32; strategy.pipeline as usize];
        let chunks = (0..strategy.chunks() as usize).map(|index| {
            let stage = strategy.stage_of(index as u64) as usize;
            let range = starts[index]..starts[index + 1];
            let entered = units.get(range.start).is_some_and(|unit| unit.needs_input_gradient);
            let mut chunk = Chunk {
                index: index as u32,
                stage: stage as u32,
                units: Vec::new(),
                runs: SmallVec::new(),
                sends_gradient: index > 0 && entered,
                receives: Vec::new(),
            };
            if wanted(stage as u32) {
                let behind = range.end;
                let crosses = units.get(behind).is_some_and(|unit| unit.needs_input_gradient);
                let losses = units[behind..].iter().filter_map(|unit| unit.loss.map(|loss| loss as u8));
                chunk.receives = losses.filter(|_| crosses).collect();
                chunk.units = shaped.placed(range, stage == 0);
                chunk.choose(strategy, &mut seen[stage]);
            }
            chunk
        });
        Self {
            chunks: chunks.collect(),
            losses: shaped.backward_order.len() as u8,
            chunks_a_rank: strategy.virtual_stages as usize,
            held: (0..strategy.chunks())
                .map(|place| (place / strategy.virtual_stages, place % strategy.virtual_stages))
                .map(|(stage, turn)| strategy.chunk_of(stage, turn) as u32)
                .collect(),
            shaped: Arc::clone(shaped),
        }
    }

    /// Takes over how `strategy`, which cuts the model as before, recomputes and what it keeps on the host, on pipeline
    /// rank `stage`.
    pub fn choose(&mut self, strategy: &Strategy, stage: u32) {
        let mut seen = 0;
        for &index in held(&self.held, self.chunks_a_rank, stage) {
            self.chunks[index as usize].choose(strategy, &mut seen);
        }
    }

    /// The classes of the blocks of chunk `chunk`, in order.
    pub fn block_classes(&self, chunk: usize) -> impl Iterator<Item = usize> {
        let blocks = self.chunks[chunk].units.iter().filter(|unit| unit.is_block);
        blocks.map(|unit| unit.lowered / MODES.len())
    }

    /// The lowered form of `unit`.
    pub fn lowered(&self, unit: &PlacedUnit) -> &LoweredUnit {
        &self.shaped.lowered[unit.lowered]
    }

    /// The units that this layout places.
    pub fn shaped(&self) -> &ShapedUnits {
        &self.shaped
    }

    /// Elements of one trained matrix of each shape on pipeline rank `stage`.
    pub fn matrix_shape_elements(&self, stage: u32) -> u64 {
        let units = self.chunks_of(stage).flat_map(|chunk| &chunk.units);
        let classes: BTreeSet<usize> = units.map(|unit| unit.lowered / MODES.len()).collect();
        let shapes = classes.into_iter().flat_map(|class| &self.shaped.matrices[class]);
        let shapes: BTreeSet<(u64, u64)> = shapes.copied().collect();
        shapes.into_iter().map(|(rows, columns)| rows * columns).sum()
    }

    /// The numbers that every rank keeps for a step of `micro_batches`.
    pub fn scalars(&self, micro_batches: u64) -> Scalars {
        let watches = self.shaped.watches.len() as u64;
        Scalars { losses: u64::from(self.losses), watches, micro_batches }
    }

    /// Units whose head uses the table of an embedding of the same rank, each with that embedding's unit.
    pub fn lenders(&self) -> Vec<(u32, u32)> {
        let has_table = |unit: &PlacedUnit| unit.parameters.table + unit.parameters.frozen_table > 0;
        let placed = || self.chunks.iter().flat_map(|chunk| &chunk.units);
        let Some(lender) = placed().find(|unit| has_table(unit) && unit.reads_tokens) else {
            return Vec::new();
        };
        placed().filter(|unit| unit.parameters.borrowed > 0).map(|unit| (unit.unit, lender.unit)).collect()
    }

    /// The chunks of pipeline rank `stage`, in model order.
    pub fn chunks_of(&self, stage: u32) -> impl Iterator<Item = &Chunk> {
        let held = held(&self.held, self.chunks_a_rank, stage);
        held.iter().map(|&chunk| &self.chunks[chunk as usize])
    }
}

/// The chunks of pipeline rank `stage` among those of all ranks.
fn held(chunks: &[u32], chunks_a_rank: usize, stage: u32) -> &[u32] {
    chunks.chunks(chunks_a_rank.max(1)).nth(stage as usize).unwrap_or_default()
}

impl Chunk {
    /// Runs of like units, which differ in nothing but their places: the first of each, and how many they are.
    pub fn runs(&self) -> impl DoubleEndedIterator<Item = (&PlacedUnit, u64)> {
        self.runs.iter().map(|&(start, count)| (&self.units[start as usize], u64::from(count)))
    }

    /// Writes the checkpoint modes of `strategy` into the units, and what of them is on the host; `seen` counts their
    /// rank's blocks.
    fn choose(&mut self, strategy: &Strategy, seen: &mut u32) {
        let (index, stage) = (self.index as usize, u64::from(self.stage));
        let blocks: u32 = strategy.chunks_of(stage).iter().map(|&chunk| strategy.cuts[chunk as usize]).sum();
        let offloaded =
            |category| offloaded_blocks(strategy.offload.fraction(category, stage as usize), blocks);
        let parameters_on_host = offloaded(OffloadCategory::Parameters);
        let activations_on_host = offloaded(OffloadCategory::Activations);
        let modes = strategy.checkpoint.get(index).map(|entry| entry.modes());
        let mut modes = modes.into_iter().flatten();
        let mut last = None;
        self.runs.clear();
        for (place, unit) in (0..).zip(&mut self.units) {
            if unit.is_block {
                let mode = modes.next().unwrap_or(CheckpointMode::None);
                unit.lowered = unit.lowered / MODES.len() * MODES.len() + mode as usize;
                unit.offloads_parameters = *seen < parameters_on_host;
                unit.offloads_activations = *seen < activations_on_host;
                *seen += 1;
            }
            let looks = Some((unit.lowered, unit.offloads_parameters, unit.offloads_activations));
            match self.runs.last_mut().filter(|_| looks == last) {
                Some((_, count)) => *count += 1,
                None => self.runs.push((place, 1)),
            }
            last = looks;
        }
    }
}

/// ⌈fraction · blocks⌉.
pub fn offloaded_blocks(fraction: f64, blocks: u32) -> u32 {
    (fraction * f64::from(blocks)).ceil() as u32
}

/// Where each chunk starts among the units, and where the last ends: blocks by the cuts, what stands before them with
/// the first, behind with the last, and heads between blocks with the chunk before.
fn starts(units: &[UnitLayers], strategy: &Strategy) -> Vec<usize> {
    let chunks = strategy.chunks() as usize;
    let mut starts = vec![0; chunks + 1];
    let mut end = 0_u32;
    let is_block = |unit: &UnitLayers| matches!(unit.kind, UnitKind::Block(_));
    // Behind the last block, the last chunk has the last head alone.
    let rest = units.len() - usize::from(units.last().is_some_and(|unit| !is_block(unit)));
    for chunk in 1..chunks {
        end += strategy.cuts.get(chunk - 1).copied().unwrap_or_default();
        let is_behind = |unit: &UnitLayers| matches!(unit.kind, UnitKind::Block(block) if block >= end);
        let from = starts[chunk - 1];
        starts[chunk] = units[from..].iter().position(is_behind).map_or(rest, |place| from + place);
    }
    starts[chunks] = units.len();
    starts
}
