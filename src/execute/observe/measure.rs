//! Rows of predicted beside measured: what each rank held and where its step went.

use std::collections::{BTreeMap, HashMap};

use crate::execute::observe::samples::RankSpans;
use crate::execute::observe::span::Span;
use crate::execute::ranks::placement::{Issue, Placement};
use crate::execute::run::Run;
use crate::lower::{Category, Stream};
use crate::plan::{CauseSeconds, Prediction};
use crate::program::Cause;
use crate::program::instruction::{Message, Task};
use crate::simulate::{CauseTimes, Counters, account};
use crate::strategy::Axis;
use crate::trace::{ExtentRow, MemoryRow, Resident, Space, TOTAL, TimeRow};
use crate::units::{Bytes, Seconds};

/// What was measured of a run's memory.
pub struct Measured {
    /// Those that were looked at.
    pub ranks: Vec<u64>,
    /// By rank, what the instructions that were performed held of device and host.
    pub held: Vec<(Counters, Counters)>,
    /// By rank, how far steps wrote into its arenas; none where no step was made.
    pub written: Option<Vec<[Bytes; 2]>>,
    pub resident: Resident,
}

/// Memory of every rank, space and category: predicted by the program's own sum, measured by what was performed.
pub fn memory(run: &Run, measured: &Measured) -> Vec<MemoryRow> {
    let accounts: Vec<_> = run.program.ranks.iter().map(account).collect();
    let mut rows = Vec::new();
    for (&rank, held) in measured.ranks.iter().zip(&measured.held) {
        let stage = run.mesh.coordinate(rank, Axis::Pipeline) as usize;
        let spaces =
            [(Space::Device, &accounts[stage].0, &held.0), (Space::Host, &accounts[stage].1, &held.1)];
        for (space, predicted, measured) in spaces {
            let row = |category: &str, predicted: [Bytes; 2], measured: [Bytes; 2]| MemoryRow {
                rank,
                space,
                category: category.to_owned(),
                predicted_bytes: predicted[0],
                measured_bytes: measured[0],
                predicted_own_peak_bytes: predicted[1],
                measured_own_peak_bytes: measured[1],
            };
            let of =
                |held: &Counters, one: Category| [held.at_peak, held.own_peak].map(|by| by[one as usize]);
            rows.extend(Category::ALL.map(|one| row(one.name(), of(predicted, one), of(measured, one))));
            rows.push(row(TOTAL, [predicted.peak(); 2], [measured.peak(); 2]));
        }
    }
    rows
}

/// How far every rank's arenas are used; `placements` are one a stage.
pub fn extents(run: &Run, placements: &[&Placement], measured: &Measured) -> Vec<ExtentRow> {
    let mut rows = Vec::new();
    for (number, &rank) in measured.ranks.iter().enumerate() {
        let placement = placements[run.mesh.coordinate(rank, Axis::Pipeline) as usize];
        let (device, host) = placement.written();
        let spaces = [
            (Space::Device, &placement.placing.device, device),
            (Space::Host, &placement.placing.host, host),
        ];
        for (place, (space, placed, predicted)) in spaces.into_iter().enumerate() {
            let written = measured.written.as_ref().map(|written| written[number][place]);
            rows.push(ExtentRow {
                rank,
                space,
                live_bytes: placed.live,
                extent_bytes: placed.extent,
                predicted_bytes: Bytes(predicted as u64),
                measured_bytes: written,
            });
        }
    }
    rows
}

/// Time of every rank by cause; `spans` are those of the measured step, if one was made.
pub fn time(
    run: &Run,
    placements: &[&Placement],
    prediction: &Prediction,
    spans: Option<&[RankSpans]>,
) -> Vec<TimeRow> {
    let begun = spans.map(|spans| begun(run, placements, spans));
    let mut rows = Vec::new();
    for rank in 0..run.mesh.ranks() {
        let stage = run.mesh.coordinate(rank, Axis::Pipeline) as usize;
        let measured = spans
            .zip(begun.as_ref())
            .map(|(spans, begun)| causes(run, (rank, placements[stage]), &spans[rank as usize], begun));
        let measured = measured.map(|causes| causes.parts());
        rows.extend(rows_of(rank, &prediction.ranks[stage].time_s, |place| Some(measured?[place].1)));
    }
    rows
}

/// Time of a rank by cause where its peers were absent. The time of computing was measured. That of communication was
/// not, and neither was the time spent waiting for it.
pub fn time_alone(
    rank: u64,
    placement: &Placement,
    predicted: &CauseSeconds,
    spans: &RankSpans,
) -> Vec<TimeRow> {
    let works = performed(placement, spans).filter(|(issue, _)| !issue.op.is_communication());
    let works: Vec<_> = works.map(|(issue, span)| (issue.cause, span)).collect();
    let end = works.iter().map(|(_, span)| span.end).fold(0.0, f64::max);
    let parts = CauseSeconds::from(swept(&works, end)).parts();
    let measured = |place: usize| {
        let (cause, seconds) = parts[place];
        matches!(cause, "compute" | "recompute" | "optimizer").then_some(seconds)
    };
    rows_of(rank, predicted, measured).collect()
}

/// Rows of what is `predicted`, and of what `measured` says of each part.
fn rows_of(
    rank: u64,
    predicted: &CauseSeconds,
    measured: impl Fn(usize) -> Option<Seconds>,
) -> impl Iterator<Item = TimeRow> {
    predicted.parts().into_iter().enumerate().map(move |(place, (cause, predicted_s))| TimeRow {
        rank,
        cause: cause.to_owned(),
        predicted_s,
        measured_s: measured(place),
    })
}

/// When each message was sent: by sending rank, what names it, and its micro-batch.
type Begun = HashMap<(u64, Message, u32), f64>;

fn begun(run: &Run, placements: &[&Placement], spans: &[RankSpans]) -> Begun {
    let of = |rank: u64| {
        let placement = placements[run.mesh.coordinate(rank, Axis::Pipeline) as usize];
        performed(placement, &spans[rank as usize]).filter_map(move |(issue, span)| {
            let message = issue.message.filter(|_| issue.task == Task::Send)?;
            Some(((rank, message, issue.micro), span.start))
        })
    };
    (0..run.mesh.ranks()).flat_map(of).collect()
}

/// When what `issue` on `rank` awaits was under way, not before `start`; `start` where it awaits nothing.
fn under_way(begun: &Begun, run: &Run, rank: u64, issue: &Issue, start: f64) -> f64 {
    let (Task::Receive, Some(message)) = (issue.task, issue.message) else { return start };
    let sender = run.rank_at_stage(rank as usize, run.stage_of_chunk(message.from)) as u64;
    begun.get(&(sender, message, issue.micro)).map_or(start, |&sent| sent.max(start))
}

/// A rank's instructions with their spans, stream by stream.
pub(in crate::execute) fn performed<'a>(
    placement: &'a Placement,
    spans: &'a RankSpans,
) -> impl Iterator<Item = (&'a Issue, Span)> {
    Stream::ALL.into_iter().flat_map(move |stream| {
        let issues =
            placement.streams[stream as usize].iter().map(|&issue| &placement.issues[issue as usize]);
        issues.zip(spans[stream as usize].iter().copied())
    })
}

/// Where the step of `rank` went; while a receive's sender has not begun, it is bubble.
fn causes(run: &Run, (rank, placement): (u64, &Placement), spans: &RankSpans, begun: &Begun) -> CauseSeconds {
    let mut works = Vec::new();
    let mut end = 0.0_f64;
    for (issue, span) in performed(placement, spans) {
        end = end.max(span.end);
        let start = under_way(begun, run, rank, issue, span.start).min(span.end);
        if issue.task != Task::Nothing {
            works.push((issue.cause, Span { start, end: span.end }));
        }
    }
    swept(&works, end).into()
}

/// The causes of a step that ended at `end` and did `works`.
fn swept(works: &[(Cause, Span)], end: f64) -> CauseTimes {
    // Time, cause, and whether something of that cause begins or ends.
    let mut events: Vec<(f64, Cause, i32)> = works
        .iter()
        .filter(|(_, span)| span.start < span.end)
        .flat_map(|&(cause, span)| [(span.start, cause, 1), (span.end, cause, -1)])
        .collect();
    events.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (mut causes, mut running, mut now) = (CauseTimes::default(), BTreeMap::new(), 0.0);
    for (at, cause, change) in events {
        causes
            .add(Seconds(at - now), running.iter().filter(|(_, count)| **count > 0).map(|(cause, _)| *cause));
        now = at;
        *running.entry(cause).or_insert(0) += change;
    }
    causes.add(Seconds(end - now), std::iter::empty());
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_belongs_to_the_first_cause_that_runs() {
        let work = |cause, start, end| (cause, Span { start, end });
        let causes = swept(
            &[
                work(Cause::Compute, 1.0, 3.0),
                work(Cause::Communication, 2.0, 6.0),
                work(Cause::Copy, 5.0, 7.0),
                work(Cause::Recompute, 2.5, 3.5),
                work(Cause::Optimizer, 8.0, 9.0),
                work(Cause::Optimizer, 8.5, 9.5),
                work(Cause::Compute, 8.0, 9.75),
                work(Cause::Compute, 4.0, 4.0),
            ],
            10.0,
        );
        let parts = [Cause::Optimizer, Cause::Recompute, Cause::Compute, Cause::Communication, Cause::Copy]
            .map(|cause| causes.of(cause).0);
        assert_eq!(parts, [1.5, 1.0, 1.75, 2.5, 1.0]);
        assert_eq!((causes.bubble.0, causes.total().0), (2.25, 10.0));
    }
}
