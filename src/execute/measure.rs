//! Rows of predicted beside measured: what each rank held and where its step went.

use std::collections::HashMap;

use crate::execute::counters::Counters;
use crate::execute::placement::{Issue, Placement};
use crate::execute::run::Run;
use crate::execute::samples::RankSpans;
use crate::execute::worker::Span;
use crate::lower::{Category, Stream};
use crate::plan::{CauseSeconds, Prediction};
use crate::program::Cause;
use crate::program::instruction::{Message, Task};
use crate::simulate::{Holdings, account};
use crate::strategy::Axis;
use crate::trace::{MemoryRow, Space, TOTAL, TimeRow};
use crate::units::{Bytes, Seconds};

/// Memory of every rank, space and category: predicted by the program's own sum, measured as it was handed out.
/// `placements` are one a stage.
pub fn memory(run: &Run, placements: &[&Placement]) -> Vec<MemoryRow> {
    let accounts: Vec<_> = run.program.ranks.iter().map(account).collect();
    let mut rows = Vec::new();
    for rank in 0..run.mesh.ranks() {
        let stage = run.mesh.coordinate(rank, Axis::Pipeline) as usize;
        let placement = placements[stage];
        let spaces = [
            (Space::Device, &accounts[stage].device, &placement.device),
            (Space::Host, &accounts[stage].host, &placement.host),
        ];
        for (space, predicted, measured) in spaces {
            rows.extend(Category::ALL.map(|category| row((rank, space), category, predicted, measured)));
            rows.push(MemoryRow {
                rank,
                space,
                category: TOTAL.to_owned(),
                predicted_bytes: predicted.peak(),
                measured_bytes: Bytes(measured.peak()),
                predicted_own_peak_bytes: predicted.peak(),
                measured_own_peak_bytes: Bytes(measured.peak()),
            });
        }
    }
    rows
}

fn row(
    (rank, space): (u64, Space),
    category: Category,
    predicted: &Holdings,
    measured: &Counters,
) -> MemoryRow {
    MemoryRow {
        rank,
        space,
        category: category.name().to_owned(),
        predicted_bytes: predicted.at_peak[category as usize],
        measured_bytes: Bytes(measured.at_peak(category)),
        predicted_own_peak_bytes: predicted.own_peak[category as usize],
        measured_own_peak_bytes: Bytes(measured.own_peak(category)),
    }
}

/// Time of every rank by cause; `spans` are those of the measured step, if one was made.
pub fn time(
    run: &Run,
    placements: &[&Placement],
    prediction: &Prediction,
    spans: Option<&[RankSpans]>,
) -> Vec<TimeRow> {
    let begun = spans.map(|spans| Begun::new(run, placements, spans));
    let mut rows = Vec::new();
    for rank in 0..run.mesh.ranks() {
        let stage = run.mesh.coordinate(rank, Axis::Pipeline) as usize;
        let measured = spans
            .zip(begun.as_ref())
            .map(|(spans, begun)| causes(run, (rank, placements[stage]), &spans[rank as usize], begun));
        let predicted = prediction.ranks[stage].time_s.parts();
        let measured = measured.map(|causes| causes.parts());
        rows.extend(predicted.into_iter().enumerate().map(|(place, (cause, seconds))| TimeRow {
            rank,
            cause: cause.to_owned(),
            predicted_s: seconds,
            measured_s: measured.map(|parts| parts[place].1),
        }));
    }
    rows
}

/// One end of a message: the rank at this end, what names the message, and whether it sends.
type End = (u64, Message, u32, bool);

/// When each end of every message began.
struct Begun(HashMap<End, f64>);

impl Begun {
    fn new(run: &Run, placements: &[&Placement], spans: &[RankSpans]) -> Self {
        let mut begun = HashMap::new();
        for rank in 0..run.mesh.ranks() {
            let placement = placements[run.mesh.coordinate(rank, Axis::Pipeline) as usize];
            for (issue, span) in performed(placement, &spans[rank as usize]) {
                if let Some((message, sends)) = message(issue) {
                    begun.insert((rank, message, issue.micro, sends), span.start);
                }
            }
        }
        Self(begun)
    }

    /// When both ends of the message of `issue` on `rank` had begun: nothing moves before.
    fn both(&self, run: &Run, rank: u64, issue: &Issue, start: f64) -> f64 {
        let Some((message, sends)) = message(issue) else { return start };
        let other = if sends { message.to } else { message.from };
        let peer = run.rank_at_stage(rank as usize, run.stage_of_chunk(other)) as u64;
        self.0.get(&(peer, message, issue.micro, !sends)).map_or(start, |&other| other.max(start))
    }
}

/// The message of a send or receive, and whether it is sent.
const fn message(issue: &Issue) -> Option<(Message, bool)> {
    match (issue.task, issue.message) {
        (Task::Send, Some(message)) => Some((message, true)),
        (Task::Receive, Some(message)) => Some((message, false)),
        _ => None,
    }
}

/// A rank's instructions with their spans, stream by stream.
pub(super) fn performed<'a>(
    placement: &'a Placement,
    spans: &'a RankSpans,
) -> impl Iterator<Item = (&'a Issue, Span)> {
    Stream::ALL.into_iter().flat_map(move |stream| {
        let issues =
            placement.streams[stream as usize].iter().map(|&issue| &placement.issues[issue as usize]);
        issues.zip(spans[stream as usize].iter().copied())
    })
}

/// Where the step of `rank` went: an instant belongs to the first that runs of optimizer, recompute, compute,
/// communication and copy; otherwise, and while the other end of a message has not begun, it is bubble.
fn causes(run: &Run, (rank, placement): (u64, &Placement), spans: &RankSpans, begun: &Begun) -> CauseSeconds {
    // Time, cause, and whether something of that cause begins or ends.
    let mut events: Vec<(f64, Cause, i32)> = Vec::new();
    let mut end = 0.0_f64;
    for (issue, span) in performed(placement, spans) {
        end = end.max(span.end);
        let start = begun.both(run, rank, issue, span.start).min(span.end);
        if start < span.end && issue.task != Task::Nothing {
            events.extend([(start, issue.cause, 1), (span.end, issue.cause, -1)]);
        }
    }
    events.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut running = [0_i32; 5];
    let mut seconds = [0.0_f64; 5];
    let mut now = 0.0;
    for (at, cause, change) in events {
        if let Some(first) = running.iter().position(|&count| count > 0) {
            seconds[first] += at - now;
        }
        now = at;
        running[cause as usize] += change;
    }
    let of = |cause: Cause| Seconds(seconds[cause as usize]);
    CauseSeconds {
        compute: of(Cause::Compute),
        recompute: of(Cause::Recompute),
        communication_exposed: of(Cause::Communication),
        copy_exposed: of(Cause::Copy),
        bubble: Seconds((end - seconds.iter().sum::<f64>()).max(0.0)),
        optimizer: of(Cause::Optimizer),
    }
}
