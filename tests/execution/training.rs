//! Runs of small models: a job, its losses, its gradients before the first update, its parameters at the end.

use std::ops::ControlFlow;

use meshwright::execute::contents::{Kept, Tensors};
use meshwright::execute::data::{Batches, Tokens};
use meshwright::execute::device::Tracing;
use meshwright::execute::element::Element;
use meshwright::execute::error::ExecuteError;
use meshwright::execute::fleet::{Fleet, StepResult, Watcher};
use meshwright::execute::run::{Job, Run, Settings};
use meshwright::execute::weights::Weights;

/// What a run gave.
pub struct Trained {
    pub losses: Vec<f64>,
    pub parts: Vec<Vec<f64>>,
    pub norms: Vec<f64>,
    /// Of the first step.
    pub gradients: Tensors,
    pub parameters: Tensors,
    pub fleet: Fleet,
}

/// How steps are made.
pub struct Manner<'a> {
    /// On a GPU, which is given graphs where nothing is traced.
    pub tracing: Tracing,
    /// What is done before a step.
    pub before: &'a dyn Fn(&Fleet, u64),
    /// What is done behind a step that has failed.
    pub behind_failure: &'a dyn Fn(&Fleet),
}

impl Default for Manner<'_> {
    fn default() -> Self {
        Self { tracing: Tracing::Off, before: &|_, _| {}, behind_failure: &|_| {} }
    }
}

struct Recorder<'a, T, G> {
    types: std::marker::PhantomData<(T, G)>,
    manner: Manner<'a>,
    batches: &'a Batches,
    losses: Vec<f64>,
    parts: Vec<Vec<f64>>,
    norms: Vec<f64>,
    gradients: Tensors,
}

impl<T: Element, G: Element<Wide = T::Wide>> Watcher for Recorder<'_, T, G> {
    fn load(&mut self, fleet: &Fleet, step: u64) -> Result<(), ExecuteError> {
        fleet.load(self.batches, step)?;
        (self.manner.before)(fleet, step);
        Ok(())
    }

    fn tracing(&self, fleet: &Fleet) -> Tracing {
        if fleet.gpu().is_some() { self.manner.tracing } else { Tracing::On }
    }

    fn wants_gradients(&self, step: u64) -> bool {
        step == 0
    }

    fn gradients(&mut self, fleet: &Fleet, _step: u64) -> Result<(), ExecuteError> {
        self.gradients = fleet.read(Kept::Gradients);
        Ok(())
    }

    fn step(&mut self, _fleet: &Fleet, result: &StepResult) -> Result<ControlFlow<()>, ExecuteError> {
        self.losses.push(result.loss);
        self.parts.push(result.parts.clone());
        self.norms.push(result.gradient_norm);
        Ok(ControlFlow::Continue(()))
    }
}

/// Trains `job` in f64 for `steps` steps on `tokens`.
pub fn train(job: Job, settings: Settings, tokens: Tokens, weights: &Weights, steps: u64) -> Trained {
    let run = Run::new(job, settings).expect("a trainable job");
    train_run::<f64, f64>(run, tokens, weights, steps).unwrap_or_else(|error| panic!("{error}"))
}

/// Trains `run` in `T` with gradients in `G`.
pub fn train_run<T: Element, G: Element<Wide = T::Wide>>(
    run: Run,
    tokens: Tokens,
    weights: &Weights,
    steps: u64,
) -> Result<Trained, ExecuteError> {
    train_in::<T, G>(Manner::default(), run, tokens, weights, steps)
}

/// Trains `run` in this manner.
pub fn train_in<T: Element, G: Element<Wide = T::Wide>>(
    manner: Manner<'_>,
    run: Run,
    tokens: Tokens,
    weights: &Weights,
    steps: u64,
) -> Result<Trained, ExecuteError> {
    let (workload, data) = (run.workload, run.strategy.data);
    let batches = Batches::new(tokens, workload.seq_len, workload.global_batch, data, None).expect("data");
    let fleet = Fleet::new(run)?;
    fleet.set_parameters(weights);
    let behind_failure = manner.behind_failure;
    let mut recorder = Recorder::<T, G> {
        types: std::marker::PhantomData,
        manner,
        batches: &batches,
        losses: Vec::new(),
        parts: Vec::new(),
        norms: Vec::new(),
        gradients: Tensors::new(),
    };
    fleet.train((0, steps), &mut recorder).inspect_err(|_| behind_failure(&fleet))?;
    let parameters = fleet.read(Kept::Parameters);
    let Recorder { losses, parts, norms, gradients, .. } = recorder;
    Ok(Trained { losses, parts, norms, gradients, parameters, fleet })
}
