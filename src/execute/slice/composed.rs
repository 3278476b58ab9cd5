//! The step that a slice gives: played as the simulator plays, with what the slice's ranks took in place of prices.

use std::collections::HashMap;

use super::Alone;
use crate::cost::Pricing;
use crate::execute::observe::measure::performed;
use crate::execute::ranks::placement::Placement;
use crate::execute::run::Run;
use crate::simulate::{Playback, StageSeconds, Timeline, play_measured};
use crate::units::Seconds;

/// A step of all stages.
pub(super) struct Composed {
    pub playback: Playback,
    /// By stage, when each instruction would run.
    pub timelines: Vec<Timeline>,
    /// By stage, whether its computing was measured.
    pub is_measured: Vec<bool>,
}

/// Composes a step of `run`: what `done` measured, and `pricing` for communication and for stages of which no rank ran.
/// `placements` are one a stage. Of several ranks of a stage the slower counts, instruction by instruction.
pub(super) fn compose(
    run: &Run,
    placements: &[&Placement],
    pricing: &dyn Pricing,
    done: &[Alone],
) -> Composed {
    let mut measured: Vec<Option<StageSeconds>> = vec![None; placements.len()];
    for alone in done {
        let seconds = seconds(run, alone, placements[alone.stage]);
        match &mut measured[alone.stage] {
            Some(known) => known.slower(&seconds),
            empty => *empty = Some(seconds),
        }
    }
    let (playback, timelines) = play_measured(&run.program, pricing, &measured);
    Composed { playback, timelines, is_measured: measured.iter().map(Option::is_some).collect() }
}

/// What each instruction of a template took without communication: the mean over the template's calls in the step nearest
/// to the median.
fn seconds(run: &Run, alone: &Alone, placement: &Placement) -> StageSeconds {
    let program = &run.program.ranks[alone.stage];
    let mut sums: HashMap<(u32, u32), (f64, u32)> = HashMap::new();
    let spans = alone.steps.samples.spans().and_then(|(spans, _)| spans.first());
    for (issue, span) in spans.into_iter().flat_map(|spans| performed(placement, spans)) {
        if !issue.op.is_communication() {
            let template = program.calls[issue.call as usize].template;
            let (sum, count) = sums.entry((template, issue.instruction)).or_default();
            *sum += span.end - span.start;
            *count += 1;
        }
    }
    let mut seconds = StageSeconds::new(program);
    for ((template, instruction), (sum, count)) in sums {
        seconds.set(template, instruction, Seconds(sum / f64::from(count)));
    }
    seconds
}
