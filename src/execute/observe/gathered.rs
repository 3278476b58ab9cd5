//! What the processes of a job measured, gathered at rank 0: one timeline and one account of memory for all.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::execute::error::ExecuteError;
use crate::execute::observe::measure::Measured;
use crate::execute::observe::samples::RankSpans;
use crate::execute::observe::span::Span;
use crate::execute::world::World;
use crate::simulate::Counters;
use crate::trace::Resident;
use crate::units::Bytes;

/// What one process measured.
#[derive(Serialize, Deserialize)]
struct Measurements {
    held: (Counters, Counters),
    written: Option<[Bytes; 2]>,
    resident: Resident,
    /// By stream, when its instructions began and ended, in seconds since its step began.
    spans: Option<Vec<Vec<[f64; 2]>>>,
    /// When that step began, by the clock of the process.
    began: f64,
}

/// Begins and ends of spans.
fn pairs(spans: &[Span]) -> Vec<[f64; 2]> {
    spans.iter().map(|span| [span.start, span.end]).collect()
}

/// What all processes of `world` measured, each `own`, with the `spans` of one step that began at a time. Spans are moved to
/// one clock, by which the first rank begins the step at 0. Elsewhere than at rank 0, `own`.
///
/// # Errors
/// Why the job failed.
pub fn all(
    world: &World,
    own: Measured,
    spans: Option<(&[RankSpans], Instant)>,
) -> Result<(Measured, Option<Vec<RankSpans>>), ExecuteError> {
    let share = Measurements {
        held: own.held.first().cloned().unwrap_or_default(),
        written: own.written.as_ref().and_then(|written| written.first().copied()),
        resident: own.resident,
        spans: spans.and_then(|(spans, _)| Some(spans.first()?.iter().map(|spans| pairs(spans)).collect())),
        began: spans.map_or(0.0, |(_, began)| world.clock(began)),
    };
    let Some(shares) = world.gather(&share)? else {
        return Ok((own, spans.map(|(spans, _)| spans.to_vec())));
    };
    let clocks = world.control().clocks();
    let began: Vec<f64> = shares.iter().zip(&clocks).map(|(share, clock)| share.began - clock).collect();
    let first = began.iter().copied().fold(f64::INFINITY, f64::min);
    let moved = |(share, began): (&Measurements, &f64)| -> Option<RankSpans> {
        let later = began - first;
        let span = |[start, end]: &[f64; 2]| Span { start: start + later, end: end + later };
        let streams = share.spans.as_ref()?.iter().map(|spans| spans.iter().map(span).collect());
        streams.collect::<Vec<Vec<Span>>>().try_into().ok()
    };
    let spans = shares.iter().zip(&began).map(moved).collect();
    let sum = |of: fn(&Resident) -> Option<Bytes>| shares.iter().map(|share| of(&share.resident)).sum();
    let resident = Resident { predicted: sum(|of| of.predicted), measured: sum(|of| of.measured) };
    let written = shares.iter().map(|share| share.written).collect();
    let held = shares.into_iter().map(|share| share.held).collect();
    Ok((Measured { ranks: (0..world.own.size as u64).collect(), held, written, resident }, spans))
}
