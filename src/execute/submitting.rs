//! Who submits a rank's instructions, and in which order: a thread for each of its streams, or one for all those of its
//! device.

#[cfg(test)]
mod tests;

use crate::cluster;
use crate::cost::DevicePricing;
use crate::execute::bind::Bound;
use crate::execute::device::{Queue, Queues, Submission};
use crate::execute::error::ExecuteError;
use crate::execute::ranks::parts;
use crate::execute::ranks::placement::Placement;
use crate::execute::ranks::rank::Rank;
use crate::execute::run::Run;
use crate::execute::worker::Worker;
use crate::lower::Stream;
use crate::ops::Group;
use crate::program::submission::{Submitted, submissions};
use crate::simulate::play_measured;

/// The GPU by whose times a step is put in order. It need not be the one that is there: ranks agree on any order.
const NOMINAL: &str = "h100-sxm";

/// The workers of `ranks` of `run`, each with the place of its rank. A worker is a thread's.
///
/// # Errors
/// If a queue cannot be had, or the ranks would wait for each other for ever.
pub fn workers<'r>(
    run: &Run,
    (ranks, bound): (&'r [Rank], &'r [Bound]),
    (submission, queues): (Submission, &'r dyn Queues),
) -> Result<Vec<(usize, Worker<'r>)>, ExecuteError> {
    let submitted = match submission {
        Submission::ThreadPerStream => Vec::new(),
        Submission::ThreadPerRank => submitted(run)?,
    };
    let mut workers = Vec::new();
    for (index, (rank, bound)) in ranks.iter().zip(bound).enumerate() {
        let mut on_device = Vec::new();
        for stream in Stream::ALL {
            if rank.placement.streams[stream as usize].is_empty() {
                continue;
            }
            let queue = queues.queue(index, stream, &groups(rank, bound, stream))?;
            match submission {
                Submission::ThreadPerRank if stream != Stream::Host => on_device.push((stream, queue)),
                _ => workers.push((index, Worker::new(rank, bound, stream, queue))),
            }
        }
        if let Some(submitted) = submitted.get(rank.stage as usize) {
            let (order, whole) = (order(submitted, &rank.placement), queues.whole_step(index));
            workers.push((index, Worker::of_device(rank, bound, (by_stream(on_device), whole), order)));
        }
    }
    Ok(workers)
}

fn by_stream<'r>(
    open: Vec<(Stream, Box<dyn Queue + 'r>)>,
) -> [Option<Box<dyn Queue + 'r>>; Stream::ALL.len()] {
    let mut queues: [Option<_>; Stream::ALL.len()] = Default::default();
    open.into_iter().for_each(|(stream, queue)| queues[stream as usize] = Some(queue));
    queues
}

/// The groups in which `stream` of `rank` has collectives.
fn groups<'r>(rank: &'r Rank, bound: &Bound, stream: Stream) -> Vec<(Group, &'r [usize])> {
    let mut groups = parts::groups(rank, bound, stream);
    // Processes make their channels in one order.
    groups.sort_unstable();
    groups.into_iter().map(|group| (group, rank.members(group))).collect()
}

/// What each rank of the stage at `placement` submits to its device, in order: of `submitted`, what is before the optimizer's
/// own work first, so that a step can be halted there. Nothing before that work waits for any of it, on no rank: it is the
/// end of the program's last call, after all passes and their messages. So this order is still one order of all that happens
/// in a step, and ranks that keep to it do not wait for each other for ever.
fn order(submitted: &[Submitted], placement: &Placement) -> Vec<Submitted> {
    let is_of_device = |one: &Submitted| match *one {
        Submitted::Instruction(number) => placement.issues[number as usize].stream != Stream::Host,
        Submitted::Post { .. } => true,
    };
    let mut order: Vec<Submitted> = submitted.iter().copied().filter(is_of_device).collect();
    order.sort_by_key(|one| !placement.is_before_optimizer(*one));
    order
}

/// By stage, what each of its ranks submits, in the order in which a nominal GPU would start it.
fn submitted(run: &Run) -> Result<Vec<Vec<Submitted>>, ExecuteError> {
    let nodes = run.strategy.devices().div_ceil(8);
    let cluster = cluster::load(&format!("{nodes}x8x{NOMINAL}"))
        .map_err(|error| ExecuteError::Program(error.to_string()))?;
    let pricing = DevicePricing::new(&cluster, run.engine, &run.strategy, run.workload.compute_type());
    let (_, times) = play_measured(&run.program, &pricing, &vec![None; run.program.ranks.len()]);
    submissions(&run.program, |stage, number| times[stage][number as usize][0])
        .map_err(|fault| ExecuteError::Program(fault.to_string()))
}
