//! A run of which nothing is computed: what its ranks would hold, counted.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use rayon::prelude::*;

use crate::execute::device::null::Null;
use crate::execute::device::{Device, Tracing};
use crate::execute::error::ExecuteError;
use crate::execute::observe::measure::Measured;
use crate::execute::observe::samples::Samples;
use crate::execute::ranks::parts;
use crate::execute::ranks::placement::{Placement, Stages};
use crate::execute::run::{Job, Run, Settings};
use crate::execute::session::trace;
use crate::execute::worker::Worker;
use crate::lower::Stream;
use crate::plan::Plan;
use crate::strategy::Axis;
use crate::trace::{Resident, Trace};

/// Lays out every rank of `job` without its memory: what would be handed out, counted.
///
/// # Errors
/// What the embedded backend has no kernel for.
pub fn dry_run(plan: Plan, job: Job, settings: Settings) -> Result<Trace, ExecuteError> {
    let run = Run::new(job, settings)?;
    let stages = parts::stages(&run);
    corners(&run).into_par_iter().try_for_each(|rank| count(&run, rank, &stages))?;
    let placements: Vec<&Placement> = stages.iter().map(AsRef::as_ref).collect();
    let all: Vec<_> = placements.iter().map(|placement| placement.counted(|_| true)).collect();
    let stage = |rank: u64| run.mesh.coordinate(rank, Axis::Pipeline) as usize;
    let held = (0..run.mesh.ranks()).map(|rank| all[stage(rank)].clone()).collect();
    let ranks = (0..run.mesh.ranks()).collect();
    let measured = Measured { ranks, held, written: None, resident: Resident::default() };
    Ok(trace(plan, (&run, &placements), &measured, (&Samples::default(), None)))
}

/// The first and the last rank of each stage: all ranks of a stage run one program, on shards between these.
fn corners(run: &Run) -> BTreeSet<u64> {
    let of_stage = |stage| {
        let is_of = move |rank: &u64| run.mesh.coordinate(*rank, Axis::Pipeline) == stage;
        let ranks = || (0..run.mesh.ranks()).filter(is_of);
        [ranks().next(), ranks().next_back()]
    };
    (0..run.strategy.pipeline).flat_map(of_stage).flatten().collect()
}

/// Submits a step of rank `index` to a device that only looks at it.
fn count(run: &Run, index: u64, stages: &[Arc<Placement>]) -> Result<(), ExecuteError> {
    let (rank, bound, need) = parts::part(run, index, Stages::All(stages))?;
    let mut null = Null::new(index as usize);
    null.allocate(vec![need])?;
    let queues = null.open()?;
    for stream in Stream::ALL {
        let mut worker = Worker::new(&rank, &bound, stream, queues.queue(0, stream, &[])?);
        let (_, end) = worker.parts();
        worker.perform(0, 0..end, (Instant::now(), Tracing::On))?;
    }
    Ok(())
}
