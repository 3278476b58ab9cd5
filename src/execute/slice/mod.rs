//! Some ranks of a plan by themselves: each in turn has the device for a few steps, with its own shapes and its own
//! program, while its peers are absent.

mod composed;
mod record;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::cost::Pricing;
use crate::execute::data::Batches;
use crate::execute::devices;
use crate::execute::error::ExecuteError;
use crate::execute::fleet::Fleet;
use crate::execute::observe::observer::Observer;
use crate::execute::observe::recorder::{Recorder, Steps};
use crate::execute::ranks::parts;
use crate::execute::ranks::placement::{Placement, Stages};
use crate::execute::room::{self, Beside, Seekers};
use crate::execute::run::{Job, Run, Settings};
use crate::execute::session::{DataRequest, Failure, Outcome, batches};
use crate::execute::weights::Weights;
use crate::plan::Plan;
use crate::search::Problem;
use crate::strategy::Axis;
use crate::trace::Resident;
use crate::units::Bytes;

/// What is to be run.
pub struct Request {
    /// Of `job`, with its prediction; communication has the prices of its cost model.
    pub plan: Plan,
    pub job: Job,
    /// The cores are those of this machine.
    pub settings: Settings,
    /// Of each rank, at least one.
    pub steps: u64,
    pub data: DataRequest,
    /// At least one, none of them twice.
    pub ranks: Vec<u64>,
}

/// What one rank gave.
struct Alone {
    rank: u64,
    stage: usize,
    steps: Steps,
    /// How far steps wrote into its arenas.
    written: [Bytes; 2],
    resident: Resident,
    /// The GPU that it ran on.
    gpu: Option<String>,
}

/// Performs `request`.
///
/// # Errors
/// What cannot be used, and memory that this machine has not for one of the ranks: before memory is taken.
pub fn run(request: &Request, observer: &mut dyn Observer) -> Result<Outcome, Failure> {
    let Request { plan, job, steps, .. } = request;
    let cluster = plan.made_cluster().map_err(ExecuteError::Unsupported)?;
    let problem = Problem::new(&job.model, &cluster, job.workload, job.engine, None);
    let pricing = problem.pricing(&job.strategy);
    let mut settings = request.settings;
    if pricing.shares_machine() {
        settings.cores = (settings.cores / cluster.devices_per_node.max(1) as usize).max(1);
    }
    let mut run = Run::new(job.clone(), settings)?;
    let last = run.mesh.ranks() - 1;
    if let Some(&rank) = request.ranks.iter().find(|rank| **rank > last) {
        return Err(ExecuteError::NoSuchRank { rank, last }.into());
    }
    let stages = parts::stages(&run);
    let batches = batches(&request.data, &run)?;
    let weights = Weights::random(&run.model, settings.seed);
    let stage_of = |run: &Run, rank: u64| run.mesh.coordinate(rank, Axis::Pipeline) as usize;
    let mut peak = Bytes::ZERO;
    let device = devices::device(&run, 1, None)?;
    for &rank in &request.ranks {
        let placing = &stages[stage_of(&run, rank)].placing;
        let (laid_out, _, need) = parts::part(&run, rank, Stages::All(&stages))?;
        let beside = Beside::of(&run, &[&laid_out]);
        room::check(&*device, Seekers::One(rank as usize), &[placing], (&[need], &beside))?;
        peak = peak.max(placing.device.live);
    }
    drop(device);
    observer.ready(peak.0);
    let mut done = Vec::new();
    for &rank in &request.ranks {
        let (returned, alone) = alone(run, (rank, &stages), (&weights, &batches), *steps, observer)?;
        run = returned;
        let broken_off = alone.steps.broken_off;
        done.push(alone);
        if broken_off {
            break;
        }
    }
    let made = done.iter().map(|alone| alone.steps.samples.seconds().len() as u64).sum::<u64>();
    let was_broken_off = made < steps * request.ranks.len() as u64;
    let placements: Vec<&Placement> = stages.iter().map(AsRef::as_ref).collect();
    let composed = composed::compose(&run, &placements, &pricing, &done);
    let gpu = done.first().and_then(|alone| alone.gpu.clone());
    let mut trace = record::trace(plan.clone(), (&run, &placements), done, composed);
    trace.machine.gpu = gpu;
    if let (Some(slice), true) = (&mut trace.slice, pricing.shares_machine()) {
        slice.notes.push(record::shared(settings.cores));
    }
    Ok(Outcome { trace: Some(trace), was_broken_off })
}

/// Makes `steps` steps of `rank` of `run` alone, and gives the run back.
fn alone(
    run: Run,
    (rank, stages): (u64, &[Arc<Placement>]),
    (weights, batches): (&Weights, &Batches),
    steps: u64,
    observer: &mut dyn Observer,
) -> Result<(Run, Alone), ExecuteError> {
    let fleet = Fleet::of_one(run, rank, stages)?;
    fleet.set_parameters(weights);
    let mut recorder = Recorder {
        observer,
        batches,
        skipped: 0,
        file: None,
        last: steps - 1,
        kernel: None,
        steps: Steps::default(),
    };
    fleet.train((0, steps), &mut recorder)?;
    let steps = recorder.steps;
    let only = &fleet.ranks[0];
    let alone = Alone {
        rank,
        stage: only.stage as usize,
        steps,
        written: only.written.each_ref().map(|end| Bytes(end.load(Ordering::Relaxed) as u64)),
        resident: fleet.resident(),
        gpu: fleet.gpu().map(str::to_owned),
    };
    Ok((fleet.run, alone))
}
