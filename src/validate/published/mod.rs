//! Published runs predicted: each as the engine named in it would run it, from what its user knew beforehand.

mod check;
pub mod cluster;
pub mod engines;
pub mod measured;
mod model;
mod strategy;

pub use check::flags;
pub use measured::{MemoryKind, MemoryRank};

use crate::cluster::Cluster;
use crate::model::Model;
use crate::profile::{DeviceModel, EngineProfile};
use crate::search::Problem;
use crate::simulate::{peak, play};
use crate::strategy::{CheckpointEntry, CheckpointMode, Draft, Facts, Strategy, Workload};
use crate::trace::published::PublishedRun;
use crate::units::{Bytes, Seconds};
use crate::validate::document::{Errors, Flag, Quantities, Run};
use crate::validate::launches::simulate;

/// What a published run trained, on what, and how: all that its user knew beforehand.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub model: Model,
    pub cluster: Cluster,
    pub engine: EngineProfile,
    pub workload: Workload,
    pub strategy: Strategy,
}

/// Reads the scenario off `run`: devices as `models` has them by name, built in where it has none; the engine named
/// in it, or `as_engine`.
///
/// # Errors
/// Says which field is missing, contradicts another, or asks for what is not planned.
pub fn scenario(
    run: &PublishedRun,
    models: &dyn Fn(&str) -> Option<DeviceModel>,
    as_engine: Option<&EngineProfile>,
) -> Result<Scenario, String> {
    check::record(run)?;
    let profile = as_engine.map_or_else(|| engines::profile(run), Ok)?;
    let engine = engines::configured(run, profile);
    let model = model::model(run)?;
    let cluster = cluster::cluster(run, models)?;
    let workload = strategy::workload(run, engine.defaults.dropout)?;
    let mut draft = strategy::draft(run, &model, profile)?;
    let facts = Facts::new(&model, cluster.devices(), &workload, &engine);
    let mut strategy = draft.resolve(&facts).map_err(|error| error.to_string())?;
    let problem = Problem::new(&model, &cluster, workload, &engine, None);
    let stated = run.strategy.checkpointing.as_deref();
    let is_open = stated.is_none_or(|text| text.starts_with(strategy::SOME_BLOCKS));
    if is_open && !fits(&problem, &strategy) {
        // The run fitted: where it would not without, the least was recomputed with which it does.
        strategy = least_recompute(&problem, &facts, &mut draft).unwrap_or(strategy);
    }
    if draft.micro_batch.is_none() {
        strategy = fastest(&problem, &facts, draft, strategy);
    }
    drop(problem);
    Ok(Scenario { model, cluster, engine, workload, strategy })
}

/// `draft` with the least recomputation that fits: what its engine recomputes selectively, else the fewest first blocks
/// of each chunk, else all; selectively, too, if nothing fits.
fn least_recompute(problem: &Problem<'_>, facts: &Facts, draft: &mut Draft) -> Option<Strategy> {
    let mut with = |entry: CheckpointEntry| {
        draft.checkpoint = Some(vec![entry]);
        draft.resolve(facts).ok()
    };
    let selective = with(CheckpointEntry::Whole(CheckpointMode::Selective))?;
    let full = with(CheckpointEntry::Whole(CheckpointMode::Full))?;
    if fits(problem, &selective) || !fits(problem, &full) {
        return with(CheckpointEntry::Whole(CheckpointMode::Selective));
    }
    let (mut low, mut high) = (0, full.cuts.iter().copied().max().unwrap_or(0));
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(problem, &with(CheckpointEntry::First(middle))?) { high = middle } else { low = middle }
    }
    with(CheckpointEntry::First(high))
}

/// What a user takes who tunes the micro-batch and publishes the best: of `strategy` and those with twice the
/// micro-batch, again and again, the last that is faster than the one before and fits.
fn fastest(problem: &Problem<'_>, facts: &Facts, mut draft: Draft, strategy: Strategy) -> Strategy {
    let seconds =
        |strategy: &Strategy| play(&problem.program(strategy), &problem.pricing(strategy)).step_time;
    let mut best = (seconds(&strategy), strategy);
    loop {
        draft.micro_batch = best.1.micro_batch.checked_mul(2);
        let Ok(larger) = draft.resolve(facts) else { return best.1 };
        if !fits(problem, &larger) {
            return best.1;
        }
        let time = seconds(&larger);
        if time >= best.0 {
            return best.1;
        }
        best = (time, larger);
    }
}

/// Whether the worst rank's process fits its device.
fn fits(problem: &Problem<'_>, strategy: &Strategy) -> bool {
    let program = problem.program(strategy);
    let peak = program.ranks.iter().map(|rank| peak(rank).total).max().unwrap_or_default();
    problem.process_memory(strategy, peak).process <= problem.memory_limit
}

/// Predicts `run` with the built-in cost models; with it comes its task: runs of one differ in strategy only. What is
/// measured and flagged is not judged; `flags` takes what else cannot be.
///
/// # Errors
/// Says why it cannot be predicted.
pub(super) fn judge(
    run: &PublishedRun,
    engine: Option<&EngineProfile>,
    flags: &mut Vec<Flag>,
) -> Result<(Run, String), String> {
    let scenario = scenario(run, &|_| None, engine)?;
    let Scenario { model, cluster, engine, workload, strategy } = &scenario;
    let problem = Problem::new(model, cluster, *workload, engine, None);
    let (prediction, launches, peaks) = simulate(&problem, strategy);
    let memory = measured::peak_memory(run);
    let peak = measured::memory_rank(run).of_peaks(peaks.into_iter());
    let counted = problem.process_memory(strategy, peak);
    let (_, kind) = memory.unwrap_or((Bytes::ZERO, MemoryKind::Allocated));
    let predicted = Quantities {
        step_time_s: Some(prediction.step_time_s),
        peak_memory_bytes: kind.of_process(&counted),
    };
    let measured = Quantities {
        step_time_s: measured::step_time(run),
        peak_memory_bytes: memory.map(|(bytes, _)| bytes),
    };
    let share = |seconds: Seconds| prediction.mfu * prediction.step_time_s.0 / seconds.0;
    let flag = measured.step_time_s.and_then(|seconds| check::too_fast(&run.id, share(seconds)));
    flags.extend(flag);
    let is_flagged = |field: &str| flags.iter().any(|flag| flag.field == field);
    let judged = Quantities {
        step_time_s: measured.step_time_s.filter(|_| !is_flagged("measured.step_time_s")),
        peak_memory_bytes: measured.peak_memory_bytes.filter(|_| !is_flagged("measured.peak_memory_gib")),
    };
    let document = Run {
        id: run.id.clone(),
        family: run.family.clone(),
        quality: run.quality.name().to_owned(),
        memory_kind: kind.name().to_owned(),
        error: Errors::of(&predicted, &judged),
        left_out: None,
        predicted,
        measured,
        time_s: prediction.time_s,
        launches,
        memory_bytes: prediction.memory_bytes,
        assumed: assumed(run),
    };
    Ok((document, task(run)))
}

/// What runs of one source that differ in strategy alone have in common: model, devices and work.
fn task(run: &PublishedRun) -> String {
    let (model, hardware, strategy) = (&run.model, &run.hardware, &run.strategy);
    format!(
        "{} {} {:?} {:?} {:?} {} {} {} {:?} {}",
        run.family,
        model.kind,
        model.layers,
        model.hidden,
        model.ffn_hidden,
        model.seq_len,
        hardware.gpu,
        hardware.num_gpus,
        strategy.global_batch,
        strategy.dtype
    )
}

/// Fields that change predictions and that the record of `run` leaves open.
fn assumed(run: &PublishedRun) -> Vec<String> {
    let (hardware, strategy) = (&run.hardware, &run.strategy);
    let interleaves = strategy
        .schedule
        .as_deref()
        .is_some_and(|schedule| schedule.to_ascii_lowercase().contains("interleaved"));
    let open = [
        ("strategy.checkpointing", strategy.checkpointing.is_none()),
        ("strategy.flash_attention", strategy.flash_attention.is_none()),
        ("strategy.micro_batch", strategy.micro_batch.is_none()),
        (
            "strategy.schedule",
            strategy.pp.is_some_and(|pipeline| pipeline > 1)
                && strategy.schedule.is_none()
                && strategy.virtual_pp.is_none(),
        ),
        ("strategy.virtual_pp", interleaves && strategy.virtual_pp.is_none()),
        (
            "hardware.inter_node",
            hardware.num_gpus > hardware.gpus_per_node && !hardware.inter_node.contains("Gb/s"),
        ),
    ];
    open.into_iter().filter(|(_, is_open)| *is_open).map(|(field, _)| field.to_owned()).collect()
}
