//! A whole run, from what was asked for to the trace: weights and data opened, steps made, results kept.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use thiserror::Error;

use crate::execute::data::{Batches, DataFormat, Synthetic, TokenFile, Tokens};
use crate::execute::error::ExecuteError;
use crate::execute::fixed_kernel::FixedKernel;
use crate::execute::fleet::Fleet;
use crate::execute::gradients::{GradientFile, Wanted};
use crate::execute::observe::load::Load;
use crate::execute::observe::measure::Measured;
use crate::execute::observe::observer::Observer;
use crate::execute::observe::recorder::{Loader, Recorder, Steps};
use crate::execute::observe::samples::{RankSpans, Samples};
use crate::execute::observe::{gathered, measure, record};
use crate::execute::ranks::placement::Placement;
use crate::execute::ranks::rank::Rank;
use crate::execute::run::{Job, Run, Settings};
use crate::execute::weights::{self, Begin, Opened, Progress, WeightsError};
use crate::execute::world::World;
use crate::files::Target;
use crate::model::layer::LayerKind;
use crate::model::{LossTerm, Model};
use crate::plan::Plan;
use crate::simulate::Counters;
use crate::trace::{PlannedTime, Resident, StepTime, Trace, VERSION};
use crate::units::{Bytes, FlopsPerSecond, Seconds};

/// Ranks that run in one process at most: each is several threads.
const MOST_RANKS: u64 = 1024;

/// What is to be run.
pub struct Request {
    /// Of `job`, with its prediction.
    pub plan: Plan,
    pub job: Job,
    /// What a plan that was read predicted by itself, where `plan` predicts by another cost model.
    pub planned: Option<PlannedTime>,
    /// Speed of the fixed kernel when the cost model of `plan` was measured.
    pub calibrated: Option<FlopsPerSecond>,
    /// Its seed is that of freshly drawn weights too.
    pub settings: Settings,
    pub steps: u64,
    pub data: DataRequest,
    /// A folder of weights to start from, and where in the run that it may hold.
    pub init: Option<(PathBuf, Begin)>,
    /// Where weights and state go at the end.
    pub save: Option<PathBuf>,
    /// Which gradients of the last step are kept, and where: where ranks are processes, rank 0 says where.
    pub gradients: Option<(Wanted, Option<Target>)>,
    /// Where each rank is a process, those of the run.
    pub world: Option<Arc<World>>,
}

/// What is trained on.
#[derive(Clone, Debug, Default)]
pub struct DataRequest {
    /// None is a synthetic stream.
    pub file: Option<PathBuf>,
    pub format: Option<DataFormat>,
    /// The seed of a permutation of the windows.
    pub shuffle: Option<u64>,
}

/// What a run left.
pub struct Outcome {
    /// None where ranks are processes and this one is not rank 0, which has it.
    pub trace: Option<Trace>,
    /// The observer broke it off before its last step.
    pub was_broken_off: bool,
}

/// A run that could not start, or that failed on its way.
#[derive(Debug, Error)]
#[error("{error}")]
pub struct Failure {
    pub error: ExecuteError,
    /// Of the steps that were complete; none of a run that did not start.
    pub trace: Option<Box<Trace>>,
}

impl From<ExecuteError> for Failure {
    fn from(error: ExecuteError) -> Self {
        Self { error, trace: None }
    }
}

/// Performs `request`.
///
/// # Errors
/// What cannot be used (found before memory is taken), what this machine lacks, or why a rank failed: then with the
/// trace of the steps before.
pub fn run(request: &Request, observer: &mut dyn Observer) -> Result<Outcome, Failure> {
    let ranks = request.job.strategy.devices();
    if request.world.is_none() && ranks > MOST_RANKS {
        let what =
            format!("{ranks} ranks in one process; {MOST_RANKS} at most (--dry-run counts any number)");
        return Err(ExecuteError::Unsupported(what).into());
    }
    let run = Run::new(request.job.clone(), request.settings)?;
    perform(run, request, observer)
}

/// A fleet that is filled and what its steps read.
struct Ready<'a> {
    fleet: Fleet,
    batches: Batches,
    file: Option<GradientFile<'a>>,
    /// Steps made before, and sequences read in them.
    first: u64,
    position: u64,
    /// On what it starts from.
    remark: Option<String>,
}

fn ready(run: Run, request: &Request) -> Result<Ready<'_>, ExecuteError> {
    let model = &request.job.model;
    let Opened { weights, state, remark } = match &request.init {
        Some((folder, begin)) => Opened::new(model, folder, *begin)?,
        None => Opened::drawn(model, request.settings.seed),
    };
    let file = match &request.gradients {
        Some((wanted, target)) => Some(GradientFile::new(model, wanted, target.as_ref())?),
        None => None,
    };
    let batches = batches(&request.data, &run)?;
    let fleet = match &request.world {
        Some(world) => Fleet::of_process(run, world.clone())?,
        None => Fleet::new(run)?,
    };
    fleet.set_parameters(&weights);
    let (mut first, mut position) = (0, 0);
    if let Some(state) = &state {
        fleet.set_moments(&state.first, &state.second);
        (first, position) = (state.step, state.data_position);
    }
    Ok(Ready { fleet, batches, file, first, position, remark })
}

fn perform(run: Run, request: &Request, observer: &mut dyn Observer) -> Result<Outcome, Failure> {
    let Ready { fleet, batches, file, first, position, remark } = ready(run, request)?;
    if let Some(remark) = remark {
        observer.remark(&remark);
    }
    let peak = fleet.ranks.iter().map(|rank| rank.placement.placing.device.live.0).max();
    observer.ready(peak.unwrap_or_default());
    if let (Some(world), [rank]) = (&request.world, fleet.ranks.as_slice()) {
        let position = rank.position.clone();
        let step = request.plan.prediction.step_time_s.0;
        world.control().follow(Some(Arc::new(move || position.doing())), step);
    }
    // A process of a job has some of the machine's cores, and the kernel was timed on all.
    let is_timed = request.steps > 0 && request.world.is_none();
    let mut kernel =
        request.calibrated.filter(|_| is_timed).map(|_| FixedKernel::new(request.settings.cores));
    if let Some(kernel) = &mut kernel {
        kernel.turns();
    }
    // Another batch size reads on from the next whole batch.
    let skipped = position.div_ceil(fleet.run.workload.global_batch) as i64 - first as i64;
    let mut recorder = Recorder {
        observer,
        batches: &batches,
        skipped,
        file: file.as_ref(),
        last: (first + request.steps).saturating_sub(1),
        kernel,
        steps: Steps::default(),
    };
    // Other processes of the job are not others.
    let load = Load::begin().filter(|_| request.world.is_none());
    let trained = if request.steps > 0 { fleet.train((first, request.steps), &mut recorder) } else { Ok(()) };
    let elsewhere = load.filter(|_| request.steps > 0).and_then(|load| load.cores());
    let now = recorder.kernel.and_then(|mut kernel| {
        kernel.turns();
        kernel.speed()
    });
    let steps = recorder.steps;
    let done = steps.losses.len() as u64;
    if let Some(world) = &request.world {
        world.control().follow(None, 0.0);
    }
    let was_broken_off = steps.broken_off && done < request.steps;
    let read = (first as i64 + skipped) as u64 + done;
    let data_position = read * fleet.run.workload.global_batch;
    let progress = Progress { step: first + done, data_position };
    // The processes of a job that failed have no more to gather: rank 0 says what it knows itself.
    let is_failed_job = request.world.is_some() && trained.is_err();
    let (measured, spans) = match is_failed_job {
        true => (measured_here(&fleet, steps.held), None),
        false => measured(&fleet, steps.held, steps.samples.spans())?,
    };
    if request.world.as_ref().is_some_and(|world| !world.is_first()) {
        trained?;
        end(&fleet, request, progress)?;
        return Ok(Outcome { trace: None, was_broken_off });
    }
    let spans = spans.as_deref();
    let stages = if is_failed_job { fleet.stages_here() } else { fleet.stages() };
    let placements: Vec<&Placement> = stages.iter().map(AsRef::as_ref).collect();
    let mut trace =
        trace(request.plan.clone(), (&fleet.run, &placements), &measured, (&steps.samples, spans));
    if let Some(world) = &request.world {
        trace.machine.hosts = world.control().hosts();
        trace.machine.library = world.library().map(str::to_owned);
    }
    trace.machine.library = fleet.library().or(trace.machine.library.take());
    trace.machine.gpu = fleet.gpu().map(str::to_owned);
    trace.machine.products = fleet.products();
    trace.first_step = first;
    trace.planned = request.planned.clone();
    trace.step_time_s.drift = now.zip(request.calibrated).map(|(now, then)| now.0 / then.0);
    trace.step_time_s.elsewhere = elsewhere;
    trace.losses = steps.losses;
    trace.named_gradients = steps.gradients;
    let losses = &fleet.run.model.losses;
    if losses.len() > 1 {
        let part = |(index, term): (usize, &LossTerm)| {
            (term.name.clone(), steps.parts.iter().map(|parts| parts[index]).collect())
        };
        trace.loss_parts = losses.iter().enumerate().map(part).collect();
    }
    let ended = trained.map_err(|error| (error, true));
    let ended = ended.and_then(|()| end(&fleet, request, progress).map_err(|error| (error, false)));
    if let Err((error, in_training)) = ended {
        let can_repeat = in_training && !is_failed_job && fleet.keeps_parameters_of_a_lost_step();
        let error = if can_repeat { explained(fleet, error, &batches, skipped) } else { error };
        trace.failure = Some(error.to_string());
        return Err(Failure { error, trace: Some(Box::new(trace)) });
    }
    Ok(Outcome { trace: Some(trace), was_broken_off })
}

/// Saves what `fleet` holds where that is asked for. Its weights must be numbers in any case.
fn end(fleet: &Fleet, request: &Request, progress: Progress) -> Result<(), ExecuteError> {
    let (model, element) = (&fleet.run.model, fleet.run.workload.state_type());
    match (&request.save, &fleet.world) {
        (Some(folder), _) => {
            fleet.read_for(|values| {
                let written = weights::write(folder, model, element, progress, values)?;
                // Nothing is put there before all copies from the ranks' memory are known to be good.
                fleet.check()?;
                Ok(written.put()?)
            })?;
        }
        (None, _) if progress.step == 0 => {}
        (None, None) => {
            let values = |kept, parameter| fleet.read_one(kept, parameter);
            weights::check(model, element, progress.step, &values)?;
        }
        // Each process looks at what it holds.
        (None, Some(world)) => {
            let odd = fleet.first_odd(element).map(|(name, value)| (name, value.to_bits()));
            if let Some((name, value)) = world.all_gather(&odd)?.into_iter().flatten().next() {
                let (value, step) = (f64::from_bits(value), progress.step);
                return Err(WeightsError::NotFinite { name, value, step }.into());
            }
        }
    }
    Ok(())
}

/// The batches that `request` asks for, checked against the model's vocabulary.
pub(super) fn batches(request: &DataRequest, run: &Run) -> Result<Batches, ExecuteError> {
    let vocabulary = vocabulary(&run.model);
    let tokens = match &request.file {
        Some(path) => Tokens::File(TokenFile::open(path, request.format, vocabulary)?),
        None => Tokens::Synthetic(Synthetic::new(0, vocabulary)?),
    };
    let Run { workload, strategy, .. } = run;
    Ok(Batches::new(tokens, workload.seq_len, workload.global_batch, strategy.data, request.shuffle)?)
}

/// Ids below this may be looked up and predicted.
fn vocabulary(model: &Model) -> u32 {
    let sizes = model.layers().filter_map(|layer| match &layer.kind {
        LayerKind::Embedding(embedding) => Some(embedding.vocabulary),
        LayerKind::Head(head) => Some(head.vocabulary),
        _ => None,
    });
    sizes.min().map_or(u32::MAX, |least| u32::try_from(least).unwrap_or(u32::MAX))
}

/// `error`, with the place where numbers first stopped being finite if that is what it is: the step's forward pass is
/// made once more and looked at. Parameters are still those of its start, as no loss came through.
fn explained(mut fleet: Fleet, error: ExecuteError, batches: &Batches, skipped: i64) -> ExecuteError {
    let ExecuteError::NotFinite { step, value, .. } = error else { return error };
    if fleet.inspect().is_err() {
        return error;
    }
    match fleet.train((step, 1), &mut Loader { batches, skipped }) {
        Err(ExecuteError::NotFinite { rank, layer, what, .. }) => {
            ExecuteError::NotFinite { step, value, rank, layer, what }
        }
        _ => error,
    }
}

/// What all ranks of the run of `fleet` have held, as `held` says if a step was made, and written; and the `spans` of a step.
/// Where ranks are processes, rank 0 knows it of all.
fn measured(
    fleet: &Fleet,
    held: Vec<(Counters, Counters)>,
    spans: Option<(&[RankSpans], Instant)>,
) -> Result<(Measured, Option<Vec<RankSpans>>), ExecuteError> {
    let own = measured_here(fleet, held);
    match &fleet.world {
        Some(world) => gathered::all(world, own, spans),
        None => Ok((own, spans.map(|(spans, _)| spans.to_vec()))),
    }
}

/// Of the ranks of this process.
fn measured_here(fleet: &Fleet, mut held: Vec<(Counters, Counters)>) -> Measured {
    let ranks = &fleet.ranks;
    let has_steps = !held.is_empty();
    if !has_steps {
        held = ranks.iter().map(|rank| rank.placement.counted(|_| true)).collect();
    }
    let written = || {
        let of = |rank: &Rank| rank.written.each_ref().map(|end| Bytes(end.load(Ordering::Relaxed) as u64));
        ranks.iter().map(of).collect()
    };
    let resident = fleet.resident();
    Measured {
        ranks: ranks.iter().map(|rank| rank.index as u64).collect(),
        held,
        written: has_steps.then(written),
        resident: Resident { measured: resident.measured.filter(|_| has_steps), ..resident },
    }
}

/// A trace with everything but the losses.
pub(super) fn trace(
    plan: Plan,
    (run, placements): (&Run, &[&Placement]),
    measured: &Measured,
    (samples, spans): (&Samples, Option<&[RankSpans]>),
) -> Trace {
    Trace {
        version: VERSION,
        machine: record::machine(),
        slice: None,
        first_step: 0,
        losses: Vec::new(),
        loss_parts: BTreeMap::new(),
        step_times_s: samples.seconds().iter().copied().map(Seconds).collect(),
        step_time_s: StepTime {
            predicted: plan.prediction.step_time_s,
            measured: samples.median().map(Seconds),
            drift: None,
            elsewhere: None,
        },
        planned: None,
        memory: measure::memory(run, measured),
        extent: measure::extents(run, placements, measured),
        resident_bytes: measured.resident,
        time: measure::time(run, placements, &plan.prediction, spans),
        gradients: record::gradients(run),
        named_gradients: Vec::new(),
        failure: None,
        stages: record::stages(run, placements, &measured.held),
        ranks: record::ranks(run, placements, spans),
        plan,
    }
}
