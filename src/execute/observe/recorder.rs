//! What listens to a run's steps: feeds them, and keeps what they give.

use std::ops::ControlFlow;

use crate::execute::data::Batches;
use crate::execute::device::Tracing;
use crate::execute::error::ExecuteError;
use crate::execute::fixed_kernel::FixedKernel;
use crate::execute::fleet::{Fleet, StepResult, Watcher};
use crate::execute::gradients::GradientFile;
use crate::execute::observe::marks::PATTERNS;
use crate::execute::observe::observer::Observer;
use crate::execute::observe::samples::Samples;
use crate::execute::ranks::rank::Rank;
use crate::simulate::Counters;
use crate::trace::NamedGradient;

/// Feeds a step and listens to nothing.
pub struct Loader<'a> {
    pub batches: &'a Batches,
    pub skipped: i64,
}

impl Watcher for Loader<'_> {
    fn load(&mut self, fleet: &Fleet, step: u64) -> Result<(), ExecuteError> {
        fleet.load(self.batches, step.saturating_add_signed(self.skipped))?;
        Ok(())
    }

    fn step(&mut self, _fleet: &Fleet, _result: &StepResult) -> Result<ControlFlow<()>, ExecuteError> {
        Ok(ControlFlow::Break(()))
    }
}

/// Keeps what the steps of a run give.
pub struct Recorder<'a> {
    pub observer: &'a mut dyn Observer,
    pub batches: &'a Batches,
    /// Batches read before, less steps made before.
    pub skipped: i64,
    /// The gradients to be written in the last step.
    pub file: Option<&'a GradientFile<'a>>,
    pub last: u64,
    /// Timed between steps, where it was timed when the cost model was measured.
    pub kernel: Option<FixedKernel>,
    pub steps: Steps,
}

/// What the steps of a run gave.
#[derive(Default)]
pub struct Steps {
    pub losses: Vec<f64>,
    /// By step and loss.
    pub parts: Vec<Vec<f64>>,
    pub samples: Samples,
    /// By rank, what the first step that was made held of device and host.
    pub held: Vec<(Counters, Counters)>,
    /// Where the gradients are that were written; empty where none were.
    pub gradients: Vec<NamedGradient>,
    pub broken_off: bool,
}

impl Recorder<'_> {
    /// Writes the gradients that were asked for, if not done yet.
    fn write_gradients(&mut self, fleet: &Fleet) -> Result<(), ExecuteError> {
        let Some(file) = self.file.filter(|_| self.steps.gradients.is_empty()) else { return Ok(()) };
        file.write(fleet)?;
        let gradients = fleet.gradients()?;
        self.steps.gradients = gradients.records(&file.names())?;
        Ok(())
    }
}

impl Watcher for Recorder<'_> {
    fn load(&mut self, fleet: &Fleet, step: u64) -> Result<(), ExecuteError> {
        fleet.load(self.batches, step.saturating_add_signed(self.skipped))?;
        if let Some(&pattern) = PATTERNS.get(self.steps.losses.len()) {
            fleet.mark(pattern);
        }
        Ok(())
    }

    fn tracing(&self, fleet: &Fleet) -> Tracing {
        self.steps.samples.tracing(fleet)
    }

    fn wants_gradients(&self, step: u64) -> bool {
        self.file.is_some() && step == self.last
    }

    fn gradients(&mut self, fleet: &Fleet, _step: u64) -> Result<(), ExecuteError> {
        self.write_gradients(fleet)
    }

    fn is_asked_to_end(&self) -> bool {
        self.observer.is_asked_to_end()
    }

    fn step(&mut self, fleet: &Fleet, result: &StepResult) -> Result<ControlFlow<()>, ExecuteError> {
        if let Some(&pattern) = PATTERNS.get(self.steps.losses.len()) {
            fleet.look(pattern);
        }
        if self.steps.held.is_empty() {
            self.steps.held = fleet.ranks.iter().map(Rank::counted).collect();
        }
        self.steps.losses.push(result.loss);
        self.steps.parts.push(result.parts.clone());
        self.steps.samples.add(fleet, result);
        if let Some(kernel) = &mut self.kernel {
            kernel.behind_step(result.seconds);
        }
        let mut flow = self.observer.step(result);
        if fleet.world.is_some() {
            flow = if result.is_last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        }
        self.steps.broken_off = flow.is_break();
        if flow.is_break() {
            // This was the last step after all.
            self.write_gradients(fleet)?;
        }
        Ok(flow)
    }
}
