//! Published runs predicted: each as the engine named in it would run it, from what its user knew beforehand.

pub mod cluster;
pub mod engines;
pub mod measured;
mod model;
mod strategy;

pub use measured::MemoryKind;

use crate::cluster::Cluster;
use crate::model::Model;
use crate::profile::{DeviceModel, EngineProfile};
use crate::search::Problem;
use crate::strategy::{Facts, Strategy, Workload};
use crate::trace::published::PublishedRun;
use crate::units::Bytes;
use crate::validate::document::{Errors, Quantities, Run};

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
    let engine = as_engine.map_or_else(|| engines::profile(&run.framework), Ok)?;
    let engine = engines::configured(run, engine);
    let model = model::model(run)?;
    let cluster = cluster::cluster(run, models)?;
    let workload = strategy::workload(run, engine.defaults.dropout)?;
    let draft = strategy::draft(run, &model, &engine)?;
    let facts = Facts::new(&model, cluster.devices(), &workload, &engine);
    let strategy = draft.resolve(&facts).map_err(|error| error.to_string())?;
    Ok(Scenario { model, cluster, engine, workload, strategy })
}

/// Predicts `run` with the built-in cost models; with it comes its task: runs of one differ in strategy only.
///
/// # Errors
/// Says why it cannot be predicted.
pub(super) fn judge(run: &PublishedRun, engine: Option<&EngineProfile>) -> Result<(Run, String), String> {
    let scenario = scenario(run, &|_| None, engine)?;
    let Scenario { model, cluster, engine, workload, strategy } = &scenario;
    let problem = Problem::new(model, cluster, *workload, engine, None);
    let candidate = problem.play(strategy.clone());
    let memory = measured::peak_memory(run);
    let (_, kind) = memory.unwrap_or((Bytes::ZERO, MemoryKind::Allocated));
    let predicted = Quantities {
        step_time_s: Some(candidate.playback.step_time),
        peak_memory_bytes: kind.of_process(&candidate.memory),
    };
    let measured = Quantities {
        step_time_s: measured::step_time(run),
        peak_memory_bytes: memory.map(|(bytes, _)| bytes),
    };
    let (model, hardware, strategy) = (&run.model, &run.hardware, &run.strategy);
    let task = format!(
        "{} {:?} {:?} {:?} {} {} {} {:?} {}",
        model.kind,
        model.layers,
        model.hidden,
        model.ffn_hidden,
        model.seq_len,
        hardware.gpu,
        hardware.num_gpus,
        strategy.global_batch,
        strategy.dtype
    );
    let run = Run {
        id: run.id.clone(),
        family: run.family.clone(),
        quality: run.quality.name().to_owned(),
        memory_kind: kind.name().to_owned(),
        error: Errors::of(&predicted, &measured),
        predicted,
        measured,
    };
    Ok((run, task))
}
