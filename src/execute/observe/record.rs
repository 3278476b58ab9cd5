//! What a trace says of a run's instructions: their names, when each ran, and the memory curve.

use crate::execute::comm::Peers;
use crate::execute::observe::samples::RankSpans;
use crate::execute::observe::words;
use crate::execute::ranks::placement::{Issue, Placement};
use crate::execute::run::Run;
use crate::plan::GradientRecord;
use crate::plan::gradients::{self, Lived};
use crate::program::Pass;
use crate::program::instruction::Task;
use crate::simulate::Counters;
use crate::strategy::Axis;
use crate::trace::{InstructionRecord, Machine, Moment, RankTrace, StageTrace, TimeFrom, today};

/// The instructions and memory curves of each stage; `placements` are one a stage, `held` one a rank.
pub fn stages(run: &Run, placements: &[&Placement], held: &[(Counters, Counters)]) -> Vec<StageTrace> {
    let first = |stage: usize| {
        let on_stage = |rank: &u64| run.mesh.coordinate(*rank, Axis::Pipeline) as usize == stage;
        &held[(0..run.mesh.ranks()).find(on_stage).unwrap_or(0) as usize]
    };
    placements
        .iter()
        .enumerate()
        .map(|(stage, placement)| of_stage(run, (stage, placement), first(stage)))
        .collect()
}

/// The instructions and memory curves of one stage, by what one of its ranks held.
pub fn of_stage(
    run: &Run,
    (stage, placement): (usize, &Placement),
    (device, host): &(Counters, Counters),
) -> StageTrace {
    StageTrace {
        stage: stage as u32,
        instructions: placement.issues.iter().map(|issue| instruction(run, issue)).collect(),
        device_curve: curve(device),
        host_curve: curve(host),
        device_peak: peak_instruction(run, (stage, placement), device),
        host_peak: peak_instruction(run, (stage, placement), host),
    }
}

/// This machine, today.
pub fn machine() -> Machine {
    Machine {
        cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
        date: today(),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        gpu: None,
        products: None,
        hosts: Vec::new(),
        library: None,
    }
}

/// Where gradients live in the program that is performed.
pub fn gradients(run: &Run) -> Vec<GradientRecord> {
    let lived = Lived { model: &run.model, units: &run.units, layout: &run.layout, rules: &run.rules };
    gradients::gradients(&lived, &run.program)
}

fn instruction(run: &Run, issue: &Issue) -> InstructionRecord {
    InstructionRecord {
        micro: issue.micro,
        stream: words::stream(issue.stream).to_owned(),
        cause: words::cause(issue.cause).to_owned(),
        work: work(run, issue),
        time_from: slice_time(run, issue),
    }
}

/// Where the time of `issue` comes from, if its rank has no peers.
fn slice_time(run: &Run, issue: &Issue) -> Option<TimeFrom> {
    let is_priced = issue.op.is_communication();
    let time_from = if is_priced { TimeFrom::Priced } else { TimeFrom::Measured };
    Some(time_from).filter(|_| run.settings.peers == Peers::Absent)
}

fn curve(counters: &Counters) -> Vec<Moment> {
    counters.curve.iter().map(|&(instruction, bytes)| Moment { instruction, bytes }).collect()
}

/// The instruction at which `counters` stand highest: `backward of micro-batch 0, block 3 mlp: linear (up)`.
pub fn peak_instruction(run: &Run, (stage, placement): (usize, &Placement), counters: &Counters) -> String {
    let Some(issue) = counters.peak_issue.and_then(|issue| placement.issues.get(issue)) else {
        return "the state that is always held".to_owned();
    };
    let program = &run.program.ranks[stage];
    let call = program.calls[issue.call as usize];
    let pass = match program.templates[call.template as usize].pass {
        Some(Pass::Forward) => "forward",
        Some(Pass::Backward) => "backward",
        Some(Pass::Weight) => "weight gradients",
        None => return format!("optimizer step, {}", work(run, issue)),
    };
    format!("{pass} of micro-batch {}, {}", issue.micro, work(run, issue))
}

/// What an instruction does, in words: its layer and kernel, or its task.
pub fn work(run: &Run, issue: &Issue) -> String {
    let layers = issue.unit.map(|unit| run.units[unit as usize].layers.clone());
    let layer = match (issue.task, layers) {
        (Task::Kernel { layer, .. }, Some(layers)) => layers.start + usize::from(layer),
        (_, Some(layers)) => layers.start,
        (_, None) => return words::task(issue.task),
    };
    format!("{}: {}", run.model.layer(layer).name, words::task(issue.task))
}

/// When each rank ran its instructions; no times where no step was made.
pub fn ranks(run: &Run, placements: &[&Placement], spans: Option<&[RankSpans]>) -> Vec<RankTrace> {
    let rank = |rank: u64| {
        let stage = run.mesh.coordinate(rank, Axis::Pipeline);
        let mut trace = RankTrace { rank, stage: stage as u32, ..RankTrace::default() };
        let Some(spans) = spans.and_then(|spans| spans.get(rank as usize)) else { return trace };
        let placement = placements[stage as usize];
        trace.start_us.resize(placement.issues.len(), 0.0);
        trace.end_us.resize(placement.issues.len(), 0.0);
        for (stream, spans) in placement.streams.iter().zip(spans) {
            for (&issue, span) in stream.iter().zip(spans) {
                trace.start_us[issue as usize] = microseconds(span.start);
                trace.end_us[issue as usize] = microseconds(span.end);
            }
        }
        trace
    };
    (0..run.mesh.ranks()).map(rank).collect()
}

/// To a tenth of a microsecond, which is finer than threads start.
pub fn microseconds(seconds: f64) -> f64 {
    (seconds * 1e7).round() / 10.0
}
