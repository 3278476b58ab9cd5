//! All ranks of a run in this process: their memory, their threads, and the steps that they make together.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use crate::execute::bind::Bound;
use crate::execute::comm::Peers;
use crate::execute::control::Control;
use crate::execute::device::cpu::Cpu;
#[cfg(unix)]
use crate::execute::device::cuda::{self, Cuda};
use crate::execute::device::{Device, FreeMemory, Tracing};
use crate::execute::error::ExecuteError;
use crate::execute::kernels::gradient_norm::SquareSum;
use crate::execute::observe::span::Span;
use crate::execute::ranks::parts::{self, Parts};
use crate::execute::ranks::placement::Placement;
use crate::execute::ranks::rank::Rank;
use crate::execute::room::{self, Beside};
use crate::execute::run::{DeviceKind, Run, Weighing};
use crate::execute::storage::Types;
use crate::execute::threads::{Work, together};
use crate::execute::worker::Worker;
use crate::lower::Stream;
use crate::ops::Group;
use crate::program::placing::Placing;
use crate::program::scalars::Scalar;
use crate::trace::{self, Resident};
use crate::units::Bytes;

/// The ranks of a run, or one of them alone.
pub struct Fleet {
    pub run: Run,
    /// By number, without a gap.
    pub ranks: Vec<Rank>,
    /// By rank, what its instructions ask of the device.
    bound: Vec<Bound>,
    pub(super) device: Box<dyn Device + Send>,
    /// Held by whoever computes a step, or reads or writes memory between two.
    at_work: RwLock<()>,
    /// Memory that was taken before the arenas were.
    taken_before: Option<Bytes>,
    /// What the ranks take of the GPU beside their arenas.
    beside: Bytes,
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

    /// Whether the instructions of the next step are timed one by one.
    fn tracing(&self, _fleet: &Fleet) -> Tracing {
        Tracing::On
    }

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
        let parts = Parts::of(&run)?;
        Self::of(run, parts)
    }

    /// Lays out rank `index` of `run`, whose peers are absent, and takes its memory; `stages` are laid out. Messages to it
    /// are in its inboxes from the start: small numbers.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_one(mut run: Run, index: u64, stages: &[Arc<Placement>]) -> Result<Self, ExecuteError> {
        run.settings.peers = Peers::Absent;
        let parts = Parts::alone(&run, index, stages)?;
        let fleet = Self::of(run, parts)?;
        fleet.fill_inboxes();
        Ok(fleet)
    }

    fn of(run: Run, Parts { ranks, bound, needs }: Parts) -> Result<Self, ExecuteError> {
        let mut device = device(&run, ranks.len() as u64)?;
        let placings: Vec<&Placing> = ranks.iter().map(|rank| &rank.placement.placing).collect();
        let alone = match (run.settings.peers, ranks.as_slice()) {
            (Peers::Absent, [rank]) => Some(rank.index),
            _ => None,
        };
        let ranks_here: Vec<&Rank> = ranks.iter().collect();
        room::check(&*device, alone, &placings, (&needs, &Beside::of(&run, &ranks_here)))?;
        let taken_before = device.taken_memory()?;
        let beside = device.beside(&needs);
        device.allocate(needs)?;
        Ok(Self {
            run,
            ranks,
            bound,
            device,
            at_work: RwLock::default(),
            taken_before,
            beside,
            has_gradients: AtomicBool::new(false),
        })
    }

    /// The place on the device of rank number `rank`.
    pub(super) fn on_device(&self, rank: usize) -> usize {
        rank - self.ranks.first().map_or(0, |first| first.index)
    }

    /// Looks at every output of the forward pass from now on.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn inspect(&mut self) -> Result<(), ExecuteError> {
        self.run.settings.inspect = true;
        self.bound = Parts::of(&self.run)?.bound;
        Ok(())
    }

    /// While it is held, no step is computed.
    pub(super) fn idle(&self) -> RwLockReadGuard<'_, ()> {
        self.at_work.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// While it is held, no step is computed, and nobody else uses the ranks' memory.
    pub(super) fn alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.at_work.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes steps `first` to `first + count − 1`, or until the watcher breaks off.
    ///
    /// # Errors
    /// The first failure of a rank or of the watcher; all threads have ended by then.
    pub fn train(&self, (first, count): (u64, u64), watcher: &mut dyn Watcher) -> Result<(), ExecuteError> {
        let queues = self.device.open()?;
        let mut workers = Vec::new();
        for (index, rank) in self.ranks.iter().enumerate() {
            for stream in Stream::ALL {
                if !rank.placement.streams[stream as usize].is_empty() {
                    let queue = queues.queue(index, stream, &self.groups(index, stream))?;
                    workers.push((index, Worker::new(rank, &self.bound[index], stream, queue)));
                }
            }
        }
        let control = Control {
            queues: &*queues,
            gate: Barrier::new(workers.len() + 1),
            stop: AtomicBool::new(false),
            pauses: AtomicBool::new(false),
            step: Mutex::new((first, Instant::now(), Tracing::On)),
            failure: Mutex::new(None),
        };
        let control = &control;
        let serve = |(rank, worker)| -> Work<'_> { Box::new(move || control.serve(rank, worker)) };
        let others: Vec<_> = workers.into_iter().map(serve).collect();
        let threads = others.len();
        let steps = || {
            let result = self.steps(control, (first, count), watcher);
            control.stop.store(true, Ordering::Release);
            control.gate.wait();
            result
        };
        together(others, steps)
            .unwrap_or_else(|error| Err(ExecuteError::Threads { threads, reason: error.to_string() }))
    }

    fn steps(
        &self,
        control: &Control<'_>,
        (first, count): (u64, u64),
        watcher: &mut dyn Watcher,
    ) -> Result<(), ExecuteError> {
        // Threads make ready what they will do.
        control.gate.wait();
        control.take_failure()?;
        for step in first..first + count {
            self.has_gradients.store(false, Ordering::Release);
            watcher.load(self, step)?;
            self.load_scalars(step);
            let pauses = watcher.wants_gradients(step);
            control.pauses.store(pauses, Ordering::Release);
            let mut at_work = Some(self.alone());
            let tracing = watcher.tracing(self);
            // The GPU's clock and the host's begin together.
            control.queues.restart();
            self.check()?;
            let began = Instant::now();
            *control.step.lock().unwrap_or_else(PoisonError::into_inner) = (step, began, tracing);
            control.gate.wait();
            let mut watched = Ok(());
            if pauses {
                control.gate.wait();
                drop(at_work.take());
                if !control.failed() {
                    self.has_gradients.store(true, Ordering::Release);
                    watched = watcher.gradients(self, step);
                    self.has_gradients.store(false, Ordering::Release);
                }
                at_work = Some(self.alone());
                control.gate.wait();
            }
            control.gate.wait();
            drop(at_work);
            let seconds = began.elapsed().as_secs_f64();
            control.take_failure()?;
            watched?;
            // The optimizer only read them.
            self.has_gradients.store(true, Ordering::Release);
            let flow = watcher.step(self, &self.result(step, seconds))?;
            self.check()?;
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// The GPU that it trains on.
    pub fn gpu(&self) -> Option<&str> {
        self.device.gpu()
    }

    /// Who computes products of matrices on the GPU.
    pub fn products(&self) -> Option<trace::Products> {
        self.device.products()
    }

    /// Memory that is taken now, and what was taken before the arenas with these.
    pub fn resident(&self) -> Resident {
        let is_apart = matches!(self.device.free_memory(), FreeMemory::Apart { .. });
        let arenas = |rank: &Rank| {
            let placing = &rank.placement.placing;
            let on_host = if is_apart { Bytes::ZERO } else { placing.host.extent.aligned() };
            placing.device.extent.aligned() + on_host
        };
        let arenas: Bytes = self.ranks.iter().map(arenas).sum();
        Resident {
            predicted: self.taken_before.map(|before| before + arenas + self.beside),
            // Behind a step that the GPU has ended, its driver says nothing.
            measured: self.device.taken_memory().ok().flatten(),
        }
    }

    /// Memory of that GPU that is free now.
    pub fn free_on_gpu(&self) -> Option<Bytes> {
        match self.device.free_memory() {
            FreeMemory::Apart { device, .. } => Some(device),
            FreeMemory::Shared(_) => None,
        }
    }

    /// Whether all that was copied to and from the ranks' memory until now is there.
    ///
    /// # Errors
    /// Why a copy was not made.
    pub fn check(&self) -> Result<(), ExecuteError> {
        self.device.failure().map_or(Ok(()), Err)
    }

    pub(super) fn has_gradients(&self) -> bool {
        self.has_gradients.load(Ordering::Acquire)
    }

    fn result(&self, step: u64, seconds: f64) -> StepResult {
        let mut parts = vec![0.0; self.run.weighings.len()];
        let (mut squares, mut adaptive) = (0.0, 0.0);
        for rank in &self.ranks {
            squares = SquareSum::of(&self.scalar(rank, Scalar::Squares)).total();
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

    /// The groups in which `stream` of rank `index` has collectives.
    fn groups(&self, index: usize, stream: Stream) -> Vec<(Group, &[usize])> {
        let rank = &self.ranks[index];
        let groups = parts::groups(rank, &self.bound[index], stream);
        groups.into_iter().map(|group| (group, rank.members(group))).collect()
    }

    /// When each instruction of `stream` on rank `rank` ran in the last step.
    pub fn spans(&self, rank: usize, stream: Stream) -> Vec<Span> {
        self.ranks[rank].spans[stream as usize].lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The device that ranks of `run` train on, `ranks` of them here.
///
/// # Errors
/// If it cannot be used, or has no kernels for the run's numbers.
pub(super) fn device(run: &Run, ranks: u64) -> Result<Box<dyn Device + Send>, ExecuteError> {
    let (settings, types) = (&run.settings, Types::new(run.rules.compute, run.rules.gradient));
    match settings.device {
        DeviceKind::Cpu => Ok(Box::new(Cpu::new(types, settings.cores)?)),
        #[cfg(unix)]
        DeviceKind::Cuda if ranks > 1 => Err(cuda::few_devices(ranks)),
        #[cfg(unix)]
        DeviceKind::Cuda | DeviceKind::SharedCuda => Ok(Box::new(Cuda::new(0, types, settings.cores)?)),
        #[cfg(not(unix))]
        DeviceKind::Cuda | DeviceKind::SharedCuda => {
            Err(ExecuteError::Unsupported(format!("{ranks} ranks on CUDA on this system")))
        }
    }
}
