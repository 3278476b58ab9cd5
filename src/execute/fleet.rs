//! All ranks of a run in this process: their memory, their threads, and the steps that they make together.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use crate::execute::arena::Arena;
use crate::execute::comm::{Channel, CommError, Endpoint, Hub};
use crate::execute::element::Element;
use crate::execute::error::ExecuteError;
use crate::execute::kernels::gradient_norm::SquareSum;
use crate::execute::layout::UnitTensors;
use crate::execute::mapping::Slot;
use crate::execute::marks::resident;
use crate::execute::placement::Placement;
use crate::execute::pool::Pool;
use crate::execute::progress::Progress;
use crate::execute::rank::{Rank, Unit};
use crate::execute::run::{Run, Weighing};
use crate::execute::state::{UnitState, pieces};
use crate::execute::watched::Watched;
use crate::execute::worker::{Span, Worker};
use crate::lower::{Shape, Stream};
use crate::ops::{Group, Op};
use crate::program::build;
use crate::program::layout::PlacedWatch;
use crate::program::placing::Placing;
use crate::program::scalars::Scalar;
use crate::program::state::offloaded_elements;
use crate::strategy::Axis;
use crate::strategy::mesh::Group as MeshGroup;
use crate::units::Bytes;

/// The ranks of a run.
pub struct Fleet {
    pub run: Run,
    pub ranks: Vec<Rank>,
    /// What was resident before the arenas were taken.
    pub resident_before: Option<Bytes>,
    /// The ranks hold the gradients of a step, and nothing writes to them.
    has_gradients: AtomicBool,
}

/// What a step gave.
#[derive(Clone, Debug)]
pub struct StepResult {
    pub step: u64,
    /// Σ wᵢLᵢ, and each loss by itself: means over the step's targets, in nats.
    pub loss: f64,
    pub parts: Vec<f64>,
    /// Norm of the gradient before clipping; 0 where nothing clips.
    pub gradient_norm: f64,
    pub seconds: f64,
}

/// Where a step stands when its watcher is called.
pub trait Watcher {
    /// Tokens and targets of the step are due in the ranks' memory.
    fn load(&mut self, fleet: &Fleet, step: u64) -> Result<(), ExecuteError>;

    /// Whether [`Self::gradients`] is to be called in `step`.
    fn wants_gradients(&self, _step: u64) -> bool {
        false
    }

    /// Gradients are accumulated and synchronised, and not yet clipped.
    fn gradients(&mut self, _fleet: &Fleet, _step: u64) -> Result<(), ExecuteError> {
        Ok(())
    }

    /// A step is done. Breaking off ends the run.
    fn step(&mut self, fleet: &Fleet, result: &StepResult) -> Result<ControlFlow<()>, ExecuteError>;
}

impl Fleet {
    /// Lays out all ranks of `run` and takes their memory.
    ///
    /// # Errors
    /// If this machine has less than they need, or the program keeps other state than the model has.
    pub fn new(run: Run) -> Result<Self, ExecuteError> {
        let shape = Shape::new(&run.strategy, &run.workload, run.engine);
        let mut placements: HashMap<u64, Arc<Placement>> = HashMap::new();
        for stage in 0..run.strategy.pipeline {
            let placement = Placement::new(&run.program.ranks[stage as usize]);
            placements.insert(stage, Arc::new(placement));
        }
        let sum = |bytes: fn(&Placing) -> Bytes| -> Bytes {
            let of = |rank: u64| bytes(&placements[&run.mesh.coordinate(rank, Axis::Pipeline)].placing);
            (0..run.mesh.ranks()).map(of).sum()
        };
        let extent = sum(|placing| placing.device.extent + placing.host.extent);
        let live = sum(|placing| placing.device.live + placing.host.live);
        let available = available_memory();
        if extent > available {
            return Err(ExecuteError::Memory { ranks: run.mesh.ranks(), extent, live, available });
        }
        let resident_before = resident();
        let ranks = (0..run.mesh.ranks()).map(|rank| build_rank(&run, rank, &shape, &placements));
        let ranks = ranks.collect::<Result<_, _>>()?;
        Ok(Self { run, ranks, resident_before, has_gradients: AtomicBool::new(false) })
    }

    /// Makes steps `first` to `first + count − 1`, or until the watcher breaks off.
    ///
    /// # Errors
    /// The first failure of a rank or of the watcher; all threads have ended by then.
    pub fn train<T: Element, G: Element<Wide = T::Wide>>(
        &self,
        (first, count): (u64, u64),
        watcher: &mut dyn Watcher,
    ) -> Result<(), ExecuteError> {
        let hub = Hub::new(self.ranks.len());
        let threads = self.run.settings.cores / self.ranks.len();
        let pools: Vec<Option<rayon::ThreadPool>> = (0..self.ranks.len())
            .map(|rank| {
                let pool =
                    (threads > 1).then(|| rayon::ThreadPoolBuilder::new().num_threads(threads).build());
                pool.transpose().map_err(|error| ExecuteError::Rank { rank, message: error.to_string() })
            })
            .collect::<Result<_, _>>()?;
        let mut workers: Vec<(usize, Worker<'_, T, G>)> = Vec::new();
        for (index, rank) in self.ranks.iter().enumerate() {
            for stream in Stream::ALL {
                if rank.placement.streams[stream as usize].is_empty() {
                    continue;
                }
                let endpoints = self.endpoints(&hub, rank, stream)?;
                let pool = match &pools[index] {
                    Some(pool) if stream == Stream::Compute || stream == Stream::Host => Pool::Threads(pool),
                    _ => Pool::Serial,
                };
                workers.push((
                    index,
                    Worker::new((&self.run, &self.ranks), rank, stream, pool, endpoints, hub.mailbox(index)?),
                ));
            }
        }
        let control = Control {
            ranks: &self.ranks,
            hub: &hub,
            gate: Barrier::new(workers.len() + 1),
            stop: AtomicBool::new(false),
            pauses: AtomicBool::new(false),
            step: Mutex::new((first, Instant::now())),
            failure: Mutex::new(None),
        };
        thread::scope(|scope| {
            for (rank, worker) in workers {
                let control = &control;
                scope.spawn(move || control.serve(rank, worker));
            }
            let result = self.steps(&control, (first, count), watcher);
            control.stop.store(true, Ordering::Release);
            control.gate.wait();
            result
        })
    }

    fn steps(
        &self,
        control: &Control<'_>,
        (first, count): (u64, u64),
        watcher: &mut dyn Watcher,
    ) -> Result<(), ExecuteError> {
        for step in first..first + count {
            self.has_gradients.store(false, Ordering::Release);
            watcher.load(self, step)?;
            for rank in &self.ranks {
                rank.progress.restart();
            }
            self.load_scalars(step);
            let pauses = watcher.wants_gradients(step);
            control.pauses.store(pauses, Ordering::Release);
            let began = Instant::now();
            *control.step.lock().unwrap_or_else(PoisonError::into_inner) = (step, began);
            control.gate.wait();
            let mut watched = Ok(());
            if pauses {
                control.gate.wait();
                if !control.failed() {
                    self.has_gradients.store(true, Ordering::Release);
                    watched = watcher.gradients(self, step);
                    self.has_gradients.store(false, Ordering::Release);
                }
                control.gate.wait();
            }
            control.gate.wait();
            let seconds = began.elapsed().as_secs_f64();
            if let Some(failure) = control.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return Err(failure);
            }
            watched?;
            // The optimizer only read them.
            self.has_gradients.store(true, Ordering::Release);
            if watcher.step(self, &self.result(step, seconds))?.is_break() {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn has_gradients(&self) -> bool {
        self.has_gradients.load(Ordering::Acquire)
    }

    fn result(&self, step: u64, seconds: f64) -> StepResult {
        let mut parts = vec![0.0; self.run.weighings.len()];
        let (mut squares, mut adaptive) = (0.0, 0.0);
        for rank in &self.ranks {
            squares = SquareSum::of(self.scalar(rank, Scalar::Squares)).total();
            for ((loss, sum), weighing) in (0..).zip(&mut parts).zip(&self.run.weighings) {
                for micro in 0..self.run.strategy.accumulation as u32 {
                    let part = self.scalar(rank, Scalar::Loss { loss, micro })[0];
                    *sum += part;
                    if let Weighing::Adaptive { .. } = weighing {
                        adaptive += part * self.scalar(rank, Scalar::Weight { loss, micro })[0];
                    }
                }
            }
        }
        let tokens = self.run.workload.tokens() as f64;
        parts.iter_mut().for_each(|part| *part /= tokens);
        let fixed = self.run.weighings.iter().zip(&parts).map(|(weighing, part)| match weighing {
            Weighing::Fixed(weight) => weight * part,
            Weighing::Adaptive { .. } => 0.0,
        });
        let loss = fixed.sum::<f64>() + adaptive / tokens;
        StepResult { step, loss, parts, gradient_norm: squares.sqrt(), seconds }
    }

    /// The endpoints that `stream` of `rank` needs.
    fn endpoints(
        &self,
        hub: &Hub,
        rank: &Rank,
        stream: Stream,
    ) -> Result<[Option<Endpoint>; Group::COUNT], ExecuteError> {
        let mut endpoints: [Option<Endpoint>; Group::COUNT] = Default::default();
        for &issue in &rank.placement.streams[stream as usize] {
            let issue = &rank.placement.issues[issue as usize];
            let Op::Collective(op) = issue.op else { continue };
            let slot = &mut endpoints[op.group as usize];
            if slot.is_none() {
                let (group, members) = (op.group, self.members(op.group, rank.index));
                *slot = Some(hub.endpoint(rank.index, Channel { group, stream }, &members)?);
            }
        }
        Ok(endpoints)
    }

    /// The ranks of the group of kind `group` that `rank` is in.
    pub fn members(&self, group: Group, rank: usize) -> Vec<usize> {
        let run = &self.run;
        if let Some(kind) = MeshGroup::of(group) {
            return run.mesh.group(kind, rank as u64).into_iter().map(|member| member as usize).collect();
        }
        if group == Group::World {
            return (0..self.ranks.len()).collect();
        }
        let last = build::tied_head(&run.layout).map_or(0, |(stage, _)| u64::from(stage));
        let mut pair = [0, last].map(|stage| run.rank_at_stage(rank, stage)).to_vec();
        pair.dedup();
        pair
    }

    /// When each instruction of `stream` on rank `rank` ran in the last step.
    pub fn spans(&self, rank: usize, stream: Stream) -> Vec<Span> {
        self.ranks[rank].spans[stream as usize].lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What the threads of a run and its main thread tell each other.
struct Control<'a> {
    ranks: &'a [Rank],
    hub: &'a Hub,
    gate: Barrier,
    stop: AtomicBool,
    /// The step is halted before the optimizer.
    pauses: AtomicBool,
    step: Mutex<(u64, Instant)>,
    failure: Mutex<Option<ExecuteError>>,
}

impl Control<'_> {
    fn failed(&self) -> bool {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn serve<T: Element, G: Element<Wide = T::Wide>>(&self, rank: usize, mut worker: Worker<'_, T, G>) {
        loop {
            self.gate.wait();
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            let (step, began) = *self.step.lock().unwrap_or_else(PoisonError::into_inner);
            let (halt, end) = worker.parts();
            if self.pauses.load(Ordering::Acquire) {
                self.guard(rank, || worker.perform(step, 0..halt, began));
                self.gate.wait();
                self.gate.wait();
                self.guard(rank, || worker.perform(step, halt..end, began));
            } else {
                self.guard(rank, || worker.perform(step, 0..end, began));
            }
            self.gate.wait();
        }
    }

    /// Does `work` of `rank`; the first failure is kept, and all ranks are told.
    fn guard(&self, rank: usize, work: impl FnOnce() -> Result<(), ExecuteError>) {
        if let Err(error) = self.hub.guard(rank, work) {
            self.ranks[rank].progress.fail();
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            // Others only say that this one failed.
            let is_echo = matches!(
                &error,
                ExecuteError::Communication(CommError::Aborted { rank: other, .. }) if *other != rank
            );
            if failure.is_none() && !is_echo {
                *failure = Some(error);
            }
        }
    }
}

fn build_rank(
    run: &Run,
    index: u64,
    shape: &Shape<'_>,
    placements: &HashMap<u64, Arc<Placement>>,
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
    let placement = Arc::clone(&placements[&stage]);
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
        stage: stage as u32,
        slot,
        shard: if shards { place(MeshGroup::Shard) as usize } else { 0 },
        expert_shard: if shards { place(MeshGroup::ExpertShard) as usize } else { 0 },
        context: mesh.coordinate(index, Axis::Context),
        data_rank: mesh.data_rank(index),
        is_first_holder: is_first(MeshGroup::Replica, MeshGroup::Gradient),
        is_first_expert_holder: is_first(MeshGroup::ExpertReplica, MeshGroup::ExpertData),
        device: Arena::new(placement.placing.device.extent.0 as usize),
        host: Arena::new(placement.placing.host.extent.0 as usize),
        spans: std::array::from_fn(|_| Mutex::default()),
        placement,
        units,
        watched: Vec::new(),
        pieces: Vec::new(),
        owned_on_host: offloaded_elements(strategy, stage as usize, owned_start as u64) as usize,
        positions: (0..strategy.context).map(|context| run.positions(context)).collect(),
        all_positions: (0..run.workload.seq_len as u32).collect(),
        stream_positions: Vec::new(),
        stream_rows: Vec::new(),
        progress: Progress::default(),
        written: Default::default(),
        scalars: run.layout.scalars(strategy.accumulation),
    };
    let local = rank.positions[rank.context as usize].clone();
    let tokens = run.workload.seq_len as u32;
    let rows = (0..strategy.micro_batch as u32)
        .flat_map(|sequence| local.iter().map(move |&position| (position, sequence * tokens + position)));
    let share = shape.stream_tokens() as usize;
    let first = if strategy.sequence_parallel { slot.tensor as usize * share } else { 0 };
    (rank.stream_positions, rank.stream_rows) = rows.skip(first).take(share).unzip();
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

/// Bytes that this machine can still hand out.
fn available_memory() -> Bytes {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kibibytes.map_or(Bytes(u64::MAX), Bytes::kib)
}
