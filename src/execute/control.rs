//! What the threads of a run and its main thread tell each other: when a step begins and ends, and who failed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::Instant;

use crate::execute::comm::CommError;
use crate::execute::device::{Queues, Readiness, Tracing};
use crate::execute::error::ExecuteError;
use crate::execute::worker::Worker;
use crate::execute::world::World;

/// What the threads of a run and its main thread tell each other.
pub(super) struct Control<'a> {
    pub(super) queues: &'a dyn Queues,
    pub(super) gate: Barrier,
    /// Where each rank is a process, those of the run: they wait for this one.
    pub(super) world: Option<&'a World>,
    pub(super) stop: AtomicBool,
    /// The step is halted before the optimizer.
    pub(super) pauses: AtomicBool,
    pub(super) step: Mutex<(u64, Instant, Tracing)>,
    /// The least ready rank of all processes, once a step was made.
    pub(super) all_ready: Mutex<Option<Readiness>>,
    /// The least ready rank of this process, in this step.
    pub(super) least_ready: Mutex<Readiness>,
    pub(super) failure: Mutex<Option<ExecuteError>>,
}

impl Control<'_> {
    pub(super) fn failed(&self) -> bool {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    pub(super) fn take_failure(&self) -> Result<(), ExecuteError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    /// All ranks of the run are `ready`; those of this process are asked anew.
    pub(super) fn set_ready(&self, ready: Readiness) {
        *self.all_ready.lock().unwrap_or_else(PoisonError::into_inner) = Some(ready);
        *self.least_ready.lock().unwrap_or_else(PoisonError::into_inner) = Readiness::Ready;
    }

    /// How ready the least ready rank of this process is.
    pub(super) fn ready(&self) -> Readiness {
        *self.least_ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn serve(&self, rank: usize, mut worker: Worker<'_>) {
        self.guard(rank, || worker.prepare());
        self.gate.wait();
        loop {
            self.gate.wait();
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            let (step, began, tracing) = *self.step.lock().unwrap_or_else(PoisonError::into_inner);
            let (halt, end) = worker.parts();
            if self.pauses.load(Ordering::Acquire) {
                self.guard(rank, || worker.perform(step, 0..halt, (began, tracing)));
                self.gate.wait();
                self.gate.wait();
                self.guard(rank, || worker.perform(step, halt..end, (began, tracing)));
            } else {
                let ready = *self.all_ready.lock().unwrap_or_else(PoisonError::into_inner);
                self.guard(rank, || worker.step(step, (began, tracing), ready));
            }
            let mut least = self.least_ready.lock().unwrap_or_else(PoisonError::into_inner);
            *least = (*least).min(worker.readiness());
            drop(least);
            self.gate.wait();
        }
    }

    /// Does `work` of `rank`; the first failure is kept, and all ranks are told.
    fn guard(&self, rank: usize, mut work: impl FnMut() -> Result<(), ExecuteError>) {
        if let Err(error) = self.queues.guard(rank, &mut work) {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            // Others only say that this one failed.
            let is_echo = matches!(
                &error,
                ExecuteError::Communication(CommError::Aborted { rank: other, .. }) if *other != rank
            );
            if failure.is_none() && !is_echo {
                if let Some(world) = self.world {
                    world.control().fail(&error.to_string(), "");
                }
                *failure = Some(error);
            }
        }
    }
}
