//! What single ops took, out of observed steps.

use std::collections::HashMap;

use crate::calibrate::observe::{Observation, mean, median};
use crate::execute::observe::span::Span;
use crate::execute::ranks::placement::Issue;
use crate::lower::Stream;
use crate::ops::{Collective, Op};
use crate::program::instruction::Task;

/// An op and the seconds that it took.
pub type Sample = (Op, f64);

/// The mean time of every op that rank 0 performed on `stream`, in the order of first use.
pub fn ops(seen: &Observation, stream: Stream) -> Vec<Sample> {
    times(seen, stream).into_iter().map(|(op, times)| (op, mean(&times))).collect()
}

/// The times of every op that rank 0 performed on `stream`, in the order of first use.
pub fn times(seen: &Observation, stream: Stream) -> Vec<(Op, Vec<f64>)> {
    let placement = &seen.fleet.ranks[0].placement;
    let mut order = Vec::new();
    let mut times: HashMap<Op, Vec<f64>> = HashMap::new();
    for (position, &issue) in placement.streams[stream as usize].iter().enumerate() {
        let issue = &placement.issues[issue as usize];
        if issue.task == Task::Nothing {
            continue;
        }
        let seconds = seen.spans.iter().map(|step| {
            let span: Span = step[0][stream as usize][position];
            span.end - span.start
        });
        let known = times.entry(issue.op).or_insert_with(|| {
            order.push(issue.op);
            Vec::new()
        });
        known.extend(seconds);
    }
    order.into_iter().filter_map(|op| Some((op, times.remove(&op)?))).collect()
}

/// The mean times of the kernels of rank 0, by op.
pub fn kernels(seen: &Observation) -> HashMap<Op, f64> {
    ops(seen, Stream::Compute).into_iter().collect()
}

/// The mean of each op's times in several observations.
pub fn merged(turns: Vec<HashMap<Op, f64>>) -> HashMap<Op, f64> {
    let mut times: HashMap<Op, Vec<f64>> = HashMap::new();
    for (op, seconds) in turns.into_iter().flatten() {
        times.entry(op).or_default().push(seconds);
    }
    times.into_iter().map(|(op, seconds)| (op, mean(&seconds))).collect()
}

/// The mean time from the end of an instruction of rank 0's compute stream to the start of the next.
pub fn gap(seen: &Observation) -> f64 {
    let gaps = seen.spans.iter().flat_map(|step| {
        let spans = &step[0][Stream::Compute as usize];
        spans.windows(2).map(|pair| pair[1].start - pair[0].end)
    });
    mean(&gaps.collect::<Vec<_>>())
}

/// Median times of the collectives inside layers that computing waits for, from when a rank has computed what goes in
/// until it goes on: the mean of the ranks, so that waiting for one that is slower just then is part of it.
pub fn collectives(seen: &Observation) -> Vec<(Collective, f64)> {
    let placement = &seen.fleet.ranks[0].placement;
    let compute = &placement.streams[Stream::Compute as usize];
    let mut times: HashMap<Collective, Vec<f64>> = HashMap::new();
    let mut order = Vec::new();
    for (position, &index) in placement.streams[Stream::Model as usize].iter().enumerate() {
        let Issue { op: Op::Collective(op), .. } = placement.issues[index as usize] else { continue };
        let next = compute.partition_point(|&other| other < index);
        let waits_on =
            |other: &u32| placement.issues[*other as usize].waits[Stream::Model as usize] > position as u32;
        if next == 0 || !compute.get(next).is_some_and(waits_on) {
            continue;
        }
        for step in &seen.spans {
            let own = step.iter().map(|rank| &rank[Stream::Compute as usize]);
            let seconds: Vec<f64> = own.map(|spans| spans[next].start - spans[next - 1].end).collect();
            times
                .entry(op)
                .or_insert_with(|| {
                    order.push(op);
                    Vec::new()
                })
                .push(mean(&seconds));
        }
    }
    order.into_iter().map(|op| (op, times.remove(&op).map_or(0.0, median))).collect()
}
