//! Published runs predicted: each as the engine named in it would run it, from what its user knew beforehand.

mod cluster;
mod engines;
mod measured;
mod model;
mod strategy;

pub use measured::MemoryKind;

use crate::cluster::Cluster;
use crate::model::Model;
use crate::profile::{DeviceModel, EngineProfile};
use crate::strategy::{Facts, Strategy, Workload};
use crate::trace::published::{PublishedRun, Quality};
use crate::units::{Bytes, Seconds};

/// What a published run trained, on what, and how: all that its user knew beforehand.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub model: Model,
    pub cluster: Cluster,
    pub engine: EngineProfile,
    pub workload: Workload,
    pub strategy: Strategy,
}

/// What it measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    pub step_time: Option<Seconds>,
    pub peak_memory: Option<(Bytes, MemoryKind)>,
    pub quality: Quality,
}

/// Reads the scenario off `run`; devices are as `models` has them by name, built in where it has none.
///
/// # Errors
/// Says which field is missing, contradicts another, or asks for what is not planned.
pub fn scenario(
    run: &PublishedRun,
    models: &dyn Fn(&str) -> Option<DeviceModel>,
    engines: &dyn Fn(&str) -> Option<EngineProfile>,
) -> Result<Scenario, String> {
    let built_in = engines::profile(&run.framework)?;
    let engine = engines(&built_in.name).unwrap_or_else(|| built_in.clone());
    let model = model::model(run)?;
    let cluster = cluster::cluster(run, models)?;
    let workload = strategy::workload(run, engine.defaults.dropout)?;
    let draft = strategy::draft(run, &model, &engine)?;
    let facts = Facts::new(&model, cluster.devices(), &workload, &engine);
    let strategy = draft.resolve(&facts).map_err(|error| error.to_string())?;
    Ok(Scenario { model, cluster, engine, workload, strategy })
}

/// What `run` measured, where it is of use.
pub fn outcome(run: &PublishedRun) -> Outcome {
    Outcome {
        step_time: measured::step_time(run),
        peak_memory: measured::peak_memory(run),
        quality: run.quality,
    }
}
