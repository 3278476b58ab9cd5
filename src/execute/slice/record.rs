//! The trace of a slice: what was measured of its ranks, and what was composed.

use std::collections::BTreeMap;

use super::Alone;
use super::composed::Composed;
use crate::execute::observe::measure::{self, Measured};
use crate::execute::observe::record::{self, microseconds};
use crate::execute::observe::samples::RankSpans;
use crate::execute::ranks::placement::Placement;
use crate::execute::run::Run;
use crate::plan::Plan;
use crate::simulate::Timeline;
use crate::trace::{ComposedStage, RankTrace, Slice, StepTime, TimeFrom, Trace, VERSION};

/// The trace of what was `done`, with the step `composed` of it; `placements` are one a stage.
pub(super) fn trace(
    plan: Plan,
    (run, placements): (&Run, &[&Placement]),
    done: Vec<Alone>,
    composed: Composed,
) -> Trace {
    let spans = |alone: &Alone| alone.steps.samples.spans().and_then(|(spans, _)| spans.first().cloned());
    let (mut time, mut ranks) = (Vec::new(), Vec::new());
    let mut stages: Vec<_> = Vec::new();
    for alone in &done {
        let (stage, placement) = (alone.stage, placements[alone.stage]);
        if let Some(spans) = spans(alone) {
            let predicted = &plan.prediction.ranks[stage].time_s;
            time.extend(measure::time_alone(alone.rank, placement, predicted, &spans));
            ranks.push(rank(alone, placement, &spans, &composed.timelines[stage]));
        }
        if let Some(held) = alone.steps.held.first()
            && stages.iter().all(|(known, _)| *known != stage)
        {
            stages.push((stage, record::of_stage(run, (stage, placement), held)));
        }
    }
    stages.sort_by_key(|(stage, _)| *stage);
    let measured = Measured {
        ranks: done.iter().map(|alone| alone.rank).collect(),
        written: Some(done.iter().map(|alone| alone.written).collect()),
        resident: done.last().map(|alone| alone.resident).unwrap_or_default(),
        held: done.into_iter().filter_map(|alone| alone.steps.held.into_iter().next()).collect(),
    };
    Trace {
        version: VERSION,
        machine: record::machine(),
        slice: Some(slice(measured.ranks.clone(), &composed)),
        first_step: 0,
        losses: Vec::new(),
        loss_parts: BTreeMap::new(),
        step_times_s: Vec::new(),
        step_time_s: StepTime {
            predicted: plan.prediction.step_time_s,
            measured: None,
            drift: None,
            elsewhere: None,
        },
        planned: None,
        memory: measure::memory(run, &measured),
        extent: measure::extents(run, placements, &measured),
        resident_bytes: measured.resident,
        time,
        gradients: record::gradients(run),
        named_gradients: Vec::new(),
        failure: None,
        stages: stages.into_iter().map(|(_, stage)| stage).collect(),
        ranks,
        plan,
    }
}

fn slice(ranks: Vec<u64>, composed: &Composed) -> Slice {
    let stages = composed.playback.ranks.iter().zip(&composed.is_measured).map(|(stage, is_measured)| {
        let time_from = if *is_measured { TimeFrom::Measured } else { TimeFrom::Priced };
        ComposedStage { stage: stage.stage, time_from, time_s: stage.causes.into() }
    });
    Slice {
        ranks,
        composed_step_time_s: Some(composed.playback.step_time),
        composed: stages.collect(),
        notes: vec![
            "Peers were absent: in place of what they would have sent stood the rank's own shard, its own part once more \
             for each member of a sum, and small numbers for messages between stages."
                .to_owned(),
        ],
    }
}

/// That ranks which would share a machine had no neighbours.
pub(super) fn shared(cores: usize) -> String {
    let cores = if cores == 1 { "1 core".to_owned() } else { format!("{cores} cores") };
    format!(
        "The plan's ranks share a machine; here each had {cores} and no neighbours, so its times may be shorter than \
         beside them."
    )
}

/// When a rank's instructions would run in the composed step, and what each took that was measured.
fn rank(alone: &Alone, placement: &Placement, spans: &RankSpans, timeline: &Timeline) -> RankTrace {
    let side = |side: usize| timeline.iter().map(|ran| microseconds(ran[side].0)).collect();
    let mut measured_us = vec![None; placement.issues.len()];
    for (stream, spans) in placement.streams.iter().zip(spans) {
        for (&issue, span) in stream.iter().zip(spans) {
            let is_priced = placement.issues[issue as usize].op.is_communication();
            measured_us[issue as usize] = (!is_priced).then(|| microseconds(span.end - span.start));
        }
    }
    RankTrace { rank: alone.rank, stage: alone.stage as u32, start_us: side(0), end_us: side(1), measured_us }
}
