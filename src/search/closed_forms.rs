//! Both closed costs of strategies, with what many strategies share made once.

use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use crate::cost::DevicePricing;
use crate::cost::bound::Bound;
use crate::cost::digest::UnitDigest;
use crate::cost::instants::{Instant, instants_of};
use crate::cost::known_chunks::KnownChunks;
use crate::cost::ledger::Ledger;
use crate::cost::route::EXPOSED_COPIES;
use crate::cost::unit_cost::UnitCosts;
use crate::lower::Shape;
use crate::lower::unit::{UnitKind, UnitLayers, units};
use crate::profile::choices::{
    CheckpointMode, Compression, ContextKind, GradientSync, OffloadCategory, Schedule,
};
use crate::program::Layout;
use crate::program::build::tied_elements;
use crate::program::layout::ShapedUnits;
use crate::program::state::StateRules;
use crate::search::cache::Cache;
use crate::search::deadline::Deadline;
use crate::search::integer::{Kind, Mode};
use crate::search::links::{KnownLinks, Links};
use crate::search::problem::{Problem, ProcessMemory};
use crate::strategy::{Capacity, MeshOrder, Strategy};
use crate::units::{Bytes, ElementType, Seconds};

/// Memory and time of a strategy in closed form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Closed {
    /// The worst rank's device peak: exact.
    pub peak: Bytes,
    pub memory: ProcessMemory,
    /// The worst rank's host peak: exact.
    pub host: Bytes,
    /// A lower bound of the step time.
    pub bound: Seconds,
    /// What it likely is, to tell what to try first.
    pub likely: Seconds,
}

/// What all inner choices of an outer strategy share.
pub struct OuterCosts<'a> {
    pub pricing: Arc<DevicePricing<'a>>,
    shaped: Arc<Shaped>,
    pub rules: StateRules,
    costs: UnitCosts,
    known: KnownChunks,
    /// By rank.
    instants: Vec<OnceLock<Arc<Vec<Instant>>>>,
}

impl OuterCosts<'_> {
    /// The same where blocks hold, whatever they recompute, what they hold at the least in one of `modes`.
    #[must_use]
    pub fn leanest(&self, modes: &[CheckpointMode]) -> Self {
        Self {
            pricing: Arc::clone(&self.pricing),
            shaped: Arc::clone(&self.shaped),
            rules: self.rules,
            costs: self.costs.leanest(modes),
            known: KnownChunks::default(),
            instants: self.instants.clone(),
        }
    }
}

/// Blocks of one class in one chunk.
#[derive(Clone, Debug)]
pub struct ChunkKind {
    /// In model order, over all ranks.
    pub chunk: usize,
    pub class: usize,
    pub kind: Kind,
}

/// What two strategies must share to share lowered units and their prices.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ShapeKey {
    sizes: [u64; 5],
    sequence_parallel: bool,
    context_kind: ContextKind,
    capacity: Capacity,
    chunked_loss: bool,
    fused: bool,
    splits_weight: bool,
    compression: Compression,
    /// Where the groups lie that layers send in.
    links: Links,
    /// Ranks of a stage, where they share the cores of a machine.
    alike: Option<u64>,
}

impl ShapeKey {
    fn new(strategy: &Strategy, links: Links, shares_cores: bool) -> Self {
        use crate::profile::choices::{AttentionKernel, LossMode};
        Self {
            sizes: [
                strategy.tensor,
                strategy.context,
                strategy.expert,
                strategy.expert_tensor,
                strategy.micro_batch,
            ],
            sequence_parallel: strategy.sequence_parallel,
            context_kind: strategy.context_kind,
            capacity: strategy.capacity,
            chunked_loss: strategy.loss == LossMode::Chunked,
            fused: strategy.attention == AttentionKernel::Fused,
            splits_weight: strategy.schedule.splits_weight(),
            compression: strategy.compression,
            links,
            alike: shares_cores.then_some(strategy.tensor * strategy.context * strategy.data),
        }
    }
}

/// Shapes and prices that are remembered at once; neighbouring strategies share them, distant ones do not.
const MOST_SHAPES: usize = 512;
const MOST_PRICES: usize = 4_096;
const MOST_SCHEDULES: usize = 65_536;
const MOST_STEPS: usize = 262_144;

/// Units lowered under one shape, with their digests.
pub struct Shaped {
    pub units: Arc<ShapedUnits>,
    pub digests: Vec<UnitDigest>,
}

/// What prices depend on: sizes and order of the mesh that groups are read off, and whether tensor ranks split
/// sequences, as some engines cut messages between stages where they do not.
type PricingKey = ([u64; 7], MeshOrder, bool);

/// Schedule, pipeline ranks, one of them, micro-batches and chunks.
type ScheduleKey = (Schedule, u64, u64, u64, u64);

/// Classes of blocks, and how many of each stand in a row.
type ClassRuns = SmallVec<[(usize, u32); 2]>;

/// What an optimizer step depends on.
#[derive(PartialEq, Eq, Hash)]
struct StepKey {
    pricing: PricingKey,
    rules: (u8, GradientSync, bool, bool),
    types: (ElementType, ElementType),
    bucket: u64,
    overlap: bool,
    /// Blocks of the rank, whether it has the model's first and last chunk, and elements of a table that it shares.
    blocks: ClassRuns,
    ends: (bool, bool),
    tied: u64,
    /// The shares of optimizer state and parameters on the host, as bits.
    hosted: [u64; 2],
}

/// Computes closed forms, remembering shapes and schedules.
pub struct ClosedForms<'a> {
    pub problem: &'a Problem<'a>,
    units: Arc<Vec<UnitLayers>>,
    /// The class of each block, in model order.
    blocks: Vec<usize>,
    shapes: Cache<ShapeKey, Shaped>,
    schedules: Cache<ScheduleKey, Vec<Instant>>,
    prices: Cache<PricingKey, DevicePricing<'a>>,
    steps: Cache<StepKey, f64>,
    links: KnownLinks,
    pub deadline: Deadline,
}

impl<'a> ClosedForms<'a> {
    /// Nothing is computed yet, and there is time.
    pub fn new(problem: &'a Problem<'a>) -> Self {
        Self::until(problem, Deadline::default())
    }

    /// The same of a search that ends.
    pub fn until(problem: &'a Problem<'a>, deadline: Deadline) -> Self {
        let units = units(problem.model);
        let blocks = units.iter().filter(|unit| matches!(unit.kind, UnitKind::Block(_)));
        Self {
            problem,
            blocks: blocks.map(|unit| unit.class).collect(),
            units: Arc::new(units),
            shapes: Cache::new(MOST_SHAPES),
            schedules: Cache::new(MOST_SCHEDULES),
            prices: Cache::new(MOST_PRICES),
            steps: Cache::new(MOST_STEPS),
            links: KnownLinks::default(),
            deadline,
        }
    }

    /// Whether all blocks of the model are of one class.
    pub fn has_like_blocks(&self) -> bool {
        self.blocks.windows(2).all(|pair| pair[0] == pair[1])
    }

    /// The first block behind which `count` blocks stand like those behind the first `used`.
    pub fn first_alike(&self, used: u32, count: u32) -> u32 {
        let wanted = &self.blocks[used as usize..(used + count) as usize];
        let place = self.blocks.windows(wanted.len().max(1)).position(|found| found == wanted);
        place.map_or(0, |place| place as u32)
    }

    /// The blocks of `chunks` under the cuts of `strategy`.
    fn runs_of(&self, strategy: &Strategy, chunks: &[u64]) -> ClassRuns {
        let mut runs = ClassRuns::new();
        for &chunk in chunks {
            let (before, own) = strategy.cuts.split_at(chunk as usize);
            let first = before.iter().sum::<u32>() as usize;
            for blocks in self.blocks[first..first + own[0] as usize].chunk_by(|one, other| one == other) {
                let count = blocks.len() as u32;
                match runs.last_mut().filter(|(class, _)| *class == blocks[0]) {
                    Some((_, known)) => *known += count,
                    None => runs.push((blocks[0], count)),
                }
            }
        }
        runs
    }

    /// Prices under the mesh of `strategy`.
    pub fn pricing(&self, strategy: &Strategy) -> Arc<DevicePricing<'a>> {
        self.prices.of(pricing_key(strategy), || self.problem.pricing(strategy))
    }

    /// The number of the links under `pricing`.
    pub fn links(&self, pricing: &DevicePricing<'_>) -> Links {
        self.links.number(pricing)
    }

    /// The units of the problem's model under the shape of `strategy`.
    pub fn shaped(&self, strategy: &Strategy, pricing: &DevicePricing<'_>) -> Arc<Shaped> {
        let shares_cores = self.problem.cluster.device.cores.is_some();
        let key = ShapeKey::new(strategy, self.links(pricing), shares_cores);
        self.shapes.of(key, || {
            let shape = Shape::new(strategy, &self.problem.workload, self.problem.engine);
            let units = ShapedUnits::new(self.problem.model, &self.units, shape);
            let digests = units.lowered().iter().map(|unit| UnitDigest::new(unit, pricing)).collect();
            Shaped { units: Arc::new(units), digests }
        })
    }

    /// The named instants of pipeline rank `stage` under the strategy's schedule.
    pub fn instants(&self, strategy: &Strategy, stage: u64) -> Arc<Vec<Instant>> {
        let (pipeline, micro) = (strategy.pipeline, strategy.accumulation);
        let key = (strategy.schedule, pipeline, stage, micro, strategy.virtual_stages);
        self.schedules.of(key, || instants_of(key.0, key.1, key.2, key.3, key.4))
    }

    /// What all inner choices of `strategy` share.
    pub fn outer(&self, strategy: &Strategy) -> OuterCosts<'a> {
        let pricing = self.pricing(strategy);
        let shaped = self.shaped(strategy, pricing.as_ref());
        let rules = StateRules::new(strategy, &self.problem.workload, self.problem.engine);
        let costs =
            UnitCosts::new(&shaped.units, &shaped.digests, &rules, self.problem.engine, pricing.as_ref());
        let ranks = 0..strategy.pipeline;
        let instants = ranks.map(|_| OnceLock::new()).collect();
        OuterCosts { pricing, shaped, rules, costs, known: KnownChunks::default(), instants }
    }

    /// One rank of `strategy` laid out; its cuts, checkpoint modes and offload need be right for that rank alone.
    pub fn layout(&self, outer: &OuterCosts<'a>, strategy: &Strategy, stage: u32) -> Layout {
        Layout::place_on(&outer.shaped.units, strategy, |other| other == stage)
    }

    /// All ranks of `strategy` laid out.
    pub fn whole_layout(&self, outer: &OuterCosts<'a>, strategy: &Strategy) -> Layout {
        Layout::place(&outer.shaped.units, strategy)
    }

    /// Device peak of each rank.
    pub fn device_peaks(&self, strategy: &Strategy) -> Vec<Bytes> {
        let outer = self.outer(strategy);
        let layout = Layout::place(&outer.shaped.units, strategy);
        let ledger = self.ledger(&outer, strategy, &layout);
        let stages = 0..strategy.pipeline as u32;
        stages.map(|stage| ledger.peak(stage, &self.instants(strategy, u64::from(stage)))).collect()
    }

    /// Device and host peak of the rank that `layout` places.
    pub fn peaks(
        &self,
        outer: &OuterCosts<'a>,
        strategy: &Strategy,
        layout: &Layout,
        stage: u32,
    ) -> (Bytes, Bytes) {
        let ledger = self.ledger(outer, strategy, layout);
        let rank = u64::from(stage);
        let instants = outer.instants[stage as usize].get_or_init(|| self.instants(strategy, rank));
        (ledger.peak(stage, instants), ledger.host(stage, instants))
    }

    /// The kinds of blocks of the rank that `layout` places, chunk by chunk: what one keeps while as many micro-batches
    /// are in flight as there ever are, and what its passes take, mode by mode.
    pub fn kinds(
        &self,
        outer: &OuterCosts<'a>,
        strategy: &Strategy,
        layout: &Layout,
        stage: u32,
    ) -> Vec<ChunkKind> {
        let rank = u64::from(stage);
        let instants = outer.instants[stage as usize].get_or_init(|| self.instants(strategy, rank));
        let costs = outer.costs.on(stage);
        let mut list: Vec<ChunkKind> = Vec::new();
        for (turn, chunk) in strategy.chunks_of(rank).into_iter().enumerate() {
            let held = instants.iter().filter_map(|instant| instant.held.get(turn)).map(|held| held.0);
            // One more while its forward runs.
            let held = f64::from(held.max().unwrap_or(0).max(1));
            for class in layout.block_classes(chunk as usize) {
                let known =
                    list.iter_mut().find(|known| (known.chunk, known.class) == (chunk as usize, class));
                if let Some(known) = known {
                    known.kind.count += 1;
                    continue;
                }
                let modes = CheckpointMode::ALL.iter().map(|&mode| {
                    let digest = &costs[layout.shaped().form_of(class, mode)].digest;
                    let passes = digest.forward.chain.0 + digest.backward.chain.0 + digest.weight.chain.0;
                    let seconds = strategy.accumulation as f64 * passes;
                    Mode { bytes: held * digest.kept.max(0) as f64, seconds }
                });
                let kind = Kind { count: 1, modes: modes.collect() };
                list.push(ChunkKind { chunk: chunk as usize, class, kind });
            }
        }
        list
    }

    /// When the last pass of `strategy` ends at the earliest, whatever its state.
    pub fn passes(&self, outer: &OuterCosts<'a>, strategy: &Strategy) -> Seconds {
        let layout = Layout::place(&outer.shaped.units, strategy);
        self.time(outer, strategy, &layout).passes()
    }

    /// The closed form of memory over one layout.
    fn ledger<'v>(
        &'v self,
        outer: &'v OuterCosts<'a>,
        strategy: &'v Strategy,
        layout: &'v Layout,
    ) -> Ledger<'v> {
        let OuterCosts { costs, rules, known, .. } = outer;
        Ledger { layout, costs, strategy, engine: self.problem.engine, rules, known }
    }

    /// The closed form of time over one layout.
    pub fn time<'v>(
        &'v self,
        outer: &'v OuterCosts<'a>,
        strategy: &'v Strategy,
        layout: &'v Layout,
    ) -> Bound<'v> {
        let Problem { workload, engine, .. } = self.problem;
        let OuterCosts { costs, rules, pricing, known, .. } = outer;
        let pricing = pricing.as_ref();
        Bound { layout, copied: layout, costs, strategy, workload, engine, rules, pricing, known }
    }

    /// Seconds of the optimizer step of rank `stage` of `strategy`, which `layout` places.
    pub fn optimizer_step(
        &self,
        outer: &OuterCosts<'a>,
        strategy: &Strategy,
        layout: &Layout,
        stage: u32,
    ) -> f64 {
        let step = || self.time(outer, strategy, layout).optimizer_step(stage);
        let chunks = strategy.chunks_of(u64::from(stage));
        let share = |category| strategy.offload.fraction(category, stage as usize).to_bits();
        let key = StepKey {
            pricing: pricing_key(strategy),
            rules: (strategy.zero, strategy.sync, strategy.accumulation > 1, strategy.reshard_after_forward),
            types: (strategy.gradient_type, strategy.reduce_type),
            bucket: strategy.bucket,
            overlap: strategy.overlap,
            blocks: self.runs_of(strategy, &chunks),
            ends: (chunks.contains(&0), chunks.contains(&(strategy.chunks() - 1))),
            tied: tied_elements(layout, stage),
            hosted: [share(OffloadCategory::Optimizer), share(OffloadCategory::Parameters)],
        };
        *self.steps.of(key, step)
    }

    /// Both closed costs of `strategy`, which must be legal.
    pub fn close(&self, strategy: &Strategy) -> Closed {
        self.close_under(&self.outer(strategy), strategy)
    }

    /// The same with what it shares with others, `outer`, at hand.
    pub fn close_under(&self, outer: &OuterCosts<'a>, strategy: &Strategy) -> Closed {
        let problem = self.problem;
        let layout = Layout::place(&outer.shaped.units, strategy);
        let (ledger, bound) = (self.ledger(outer, strategy, &layout), self.time(outer, strategy, &layout));
        let (mut peak, mut host) = (Bytes::ZERO, Bytes::ZERO);
        for stage in 0..strategy.pipeline as u32 {
            let instants = self.instants(strategy, u64::from(stage));
            peak = peak.max(ledger.peak(stage, &instants));
            host = host.max(ledger.host(stage, &instants));
        }
        let memory = problem.process_memory(strategy, peak);
        let likely = Seconds(EXPOSED_COPIES * bound.most_copies());
        let steps =
            (0..strategy.pipeline as u32).map(|stage| self.optimizer_step(outer, strategy, &layout, stage));
        let bound = bound.step_time_with(&steps.collect::<Vec<_>>());
        Closed { peak, memory, host, bound, likely: bound + likely }
    }

    /// Whether a strategy with these closed forms fits devices and hosts.
    pub fn fits(&self, closed: &Closed) -> bool {
        closed.memory.process <= self.problem.memory_limit && closed.host <= self.problem.host_limit
    }
}

/// What the prices of `strategy` depend on.
fn pricing_key(strategy: &Strategy) -> PricingKey {
    let sizes = [
        strategy.tensor,
        strategy.context,
        strategy.pipeline,
        strategy.data,
        strategy.shard,
        strategy.expert,
        strategy.expert_tensor,
    ];
    (sizes, strategy.order, strategy.sequence_parallel)
}
