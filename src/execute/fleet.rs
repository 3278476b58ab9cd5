//! The ranks of a run that are in this process, all or one of them: their memory, their threads, and the steps that they
//! make together.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use crate::execute::bind::Bound;
use crate::execute::comm::{Carrier, CommError, Peers};
use crate::execute::control::Control;
use crate::execute::device::{Device, FreeMemory, Readiness, Tracing};
use crate::execute::devices;
use crate::execute::error::ExecuteError;
use crate::execute::observe::span::Span;
use crate::execute::ranks::parts::{self, Parts};
use crate::execute::ranks::placement::{Placement, Stages};
use crate::execute::ranks::rank::Rank;
use crate::execute::room::{self, Beside, Seekers};
use crate::execute::run::{DeviceKind, Run};
use crate::execute::share::{Share, Sums};
use crate::execute::submitting::workers;
use crate::execute::threads::{Work, together};
use crate::execute::world::World;
use crate::lower::Stream;
use crate::program::placing::Placing;
use crate::trace::{self, Resident};
use crate::units::Bytes;

/// The ranks of a run, one of them alone, or one whose peers are other processes.
pub struct Fleet {
    pub run: Run,
    /// Where each rank is a process, those of the run.
    pub world: Option<Arc<World>>,
    /// The step of each stage, laid out; where each rank is a process, that of its own.
    stages: Vec<Arc<Placement>>,
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
    /// From its begin to the next one's, less what its watcher does: ids are loaded and losses read in it too.
    pub seconds: f64,
    /// When it began, by the clock of this process.
    pub began: Instant,
    /// A rank is asked to end the run.
    pub is_last: bool,
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

    /// Whether somebody wants the run to end after this step. Where ranks are processes it counts if any is asked.
    fn is_asked_to_end(&self) -> bool {
        false
    }

    /// A step is done. Breaking off ends the run; where ranks are processes, all break off at [`StepResult::is_last`].
    fn step(&mut self, fleet: &Fleet, result: &StepResult) -> Result<ControlFlow<()>, ExecuteError>;
}

impl Fleet {
    /// Lays out all ranks of `run` and takes their memory.
    ///
    /// # Errors
    /// If this machine has less than they need, or the program keeps other state than the model has.
    pub fn new(run: Run) -> Result<Self, ExecuteError> {
        let stages = parts::stages(&run);
        let parts = Parts::of(&run, &stages)?;
        Self::of(run, (parts, stages), None)
    }

    /// Lays out the rank of `run` that this process is in `world`, and takes its memory.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_process(run: Run, world: Arc<World>) -> Result<Self, ExecuteError> {
        let rank = world.own.rank as u64;
        let stage = parts::stage_of(&run, rank);
        let parts = Parts::alone(&run, rank, Stages::Own(&stage))?;
        Self::of(run, (parts, vec![stage]), Some(world))
    }

    /// Lays out rank `index` of `run`, whose peers are absent, and takes its memory; `stages` are laid out. Messages to it
    /// are in its inboxes from the start: small numbers.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_one(mut run: Run, index: u64, stages: &[Arc<Placement>]) -> Result<Self, ExecuteError> {
        run.settings.peers = Peers::Absent;
        let parts = Parts::alone(&run, index, Stages::All(stages))?;
        let fleet = Self::of(run, (parts, stages.to_vec()), None)?;
        fleet.fill_inboxes();
        Ok(fleet)
    }

    fn of(
        run: Run,
        (Parts { ranks, bound, needs }, stages): (Parts, Vec<Arc<Placement>>),
        world: Option<Arc<World>>,
    ) -> Result<Self, ExecuteError> {
        let mut device = devices::device(&run, ranks.len() as u64, world.as_ref())?;
        let placings: Vec<&Placing> = ranks.iter().map(|rank| &rank.placement.placing).collect();
        let seekers = match (run.settings.peers, ranks.as_slice(), &world) {
            (_, _, Some(world)) => Seekers::Host(world),
            (Peers::Absent, [rank], None) => Seekers::One(rank.index),
            _ => Seekers::All,
        };
        let ranks_here: Vec<&Rank> = ranks.iter().collect();
        room::check(&*device, seekers, &placings, (&needs, &Beside::of(&run, &ranks_here)))?;
        let taken_before = device.taken_memory()?;
        let beside = device.beside(&needs);
        device.allocate(needs)?;
        Ok(Self {
            run,
            world,
            stages,
            ranks,
            bound,
            device,
            at_work: RwLock::default(),
            taken_before,
            beside,
            has_gradients: AtomicBool::new(false),
        })
    }

    /// The step of each stage, laid out.
    pub fn stages(&self) -> Cow<'_, [Arc<Placement>]> {
        match &self.world {
            Some(_) => Cow::Owned(parts::stages(&self.run)),
            None => Cow::Borrowed(&self.stages),
        }
    }

    /// The step of each stage that a rank of this process is at, laid out.
    pub fn stages_here(&self) -> Cow<'_, [Arc<Placement>]> {
        Cow::Borrowed(&self.stages)
    }

    /// The place on the device of rank number `rank`.
    pub(super) fn on_device(&self, rank: usize) -> usize {
        rank - self.ranks.first().map_or(0, |first| first.index)
    }

    /// Whether parameters are those of a step's begin after its loss was no number. Ranks with a GPU each may do the step as
    /// one graph, at whose end their losses are looked at: another rank may have updated its own.
    pub fn keeps_parameters_of_a_lost_step(&self) -> bool {
        self.run.settings.device != DeviceKind::Cuda || self.ranks.len() == 1
    }

    /// Looks at every output of the forward pass from now on.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn inspect(&mut self) -> Result<(), ExecuteError> {
        self.run.settings.inspect = true;
        self.bound = Parts::of(&self.run, &self.stages)?.bound;
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
        let parts = (&*self.ranks, &*self.bound);
        let workers = workers(&self.run, parts, (self.device.submission(), &*queues))?;
        let control = Control {
            queues: &*queues,
            gate: Barrier::new(workers.len() + 1),
            world: self.world.as_deref(),
            stop: AtomicBool::new(false),
            pauses: AtomicBool::new(false),
            step: Mutex::new((first, Instant::now(), Tracing::On)),
            all_ready: Mutex::new(None),
            least_ready: Mutex::new(Readiness::Ready),
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
            let begin = Instant::now();
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
            self.ranks.iter().for_each(|rank| rank.position.begin(step));
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
            self.ranks.iter().for_each(|rank| rank.position.end());
            control.take_failure()?;
            watched?;
            // The optimizer only read them.
            self.has_gradients.store(true, Ordering::Release);
            let asked = (watcher.is_asked_to_end(), control.ready());
            let (result, ready) = self.result((step, begin, began), asked)?;
            control.set_ready(ready);
            let flow = watcher.step(self, &result)?;
            self.check()?;
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// What carries memory of hosts between ranks that are processes.
    pub(super) fn carrier(&self) -> Result<Arc<dyn Carrier>, ExecuteError> {
        self.device.carrier().ok_or_else(|| {
            let (what, reason) = ("a save".to_owned(), "nothing joins the ranks' hosts".to_owned());
            CommError::Network { what, reason }.into()
        })
    }

    /// What joins the ranks' GPUs, with its version, where each rank has one.
    pub fn library(&self) -> Option<String> {
        self.device.library()
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
        let is_apart = !matches!(self.device.free_memory(), FreeMemory::Shared(_));
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
            FreeMemory::Apart { device, .. } | FreeMemory::Each { device, .. } => Some(device),
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

    fn result(
        &self,
        (step, begin, began): (u64, Instant, Instant),
        asked: (bool, Readiness),
    ) -> Result<(StepResult, Readiness), ExecuteError> {
        let share = |rank| Share::new(&self.run, begin, asked, |scalar| self.scalar(rank, scalar));
        let shares: Vec<Share> = self.ranks.iter().map(share).collect();
        let shares = match (&self.world, shares.as_slice()) {
            (Some(world), [own]) => world.all_gather(own)?,
            _ => shares,
        };
        let sums = Sums::of(&self.run, &shares);
        let result = StepResult {
            step,
            loss: sums.loss,
            parts: sums.parts,
            gradient_norm: sums.gradient_norm,
            seconds: sums.seconds,
            began,
            is_last: sums.is_asked_to_end,
        };
        Ok((result, sums.ready))
    }

    /// When each instruction of `stream` on rank `rank` ran in the last step.
    pub fn spans(&self, rank: usize, stream: Stream) -> Vec<Span> {
        self.ranks[rank].spans[stream as usize].lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
