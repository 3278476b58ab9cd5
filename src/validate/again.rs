//! A run of our own predicted anew, with the code of today and the cost model that its plan was made with.

use crate::cluster::{Cluster, ClusterDocument};
use crate::model::{Model, layer_graph};
use crate::profile::EngineProfile;
use crate::profile::engines::engine;
use crate::search::Problem;
use crate::strategy::Draft;
use crate::trace::{Space, TOTAL, Trace};
use crate::units::Bytes;
use crate::validate::document::{Errors, Quantities, Run};
use crate::validate::launches::simulate;

/// The run called `id`, and its task as text: runs of one task differ in their strategies only.
pub(super) fn predict(
    id: &str,
    trace: &Trace,
    as_engine: Option<&EngineProfile>,
) -> Result<(Run, String), String> {
    if let Some(slice) = &trace.slice {
        return Err(format!(
            "is a slice of {} of {} ranks with peers absent: its communication is priced, so no step was measured",
            slice.ranks.len(),
            trace.plan.cluster.devices
        ));
    }
    let plan = &trace.plan;
    let (model, cluster) = (model(trace)?, cluster(trace)?);
    let own = engine(&plan.engine);
    let engine = as_engine.or(own).ok_or_else(|| format!("there is no engine {}", plan.engine))?;
    let problem = Problem::new(&model, &cluster, plan.workload, engine, None);
    let draft = Draft::parse(&plan.strategy.text).map_err(|error| error.to_string())?;
    let strategy = draft.resolve(&problem.facts).map_err(|error| error.to_string())?;
    let (prediction, launches, _) = simulate(&problem, &strategy);
    let predicted = Quantities {
        step_time_s: Some(prediction.step_time_s),
        peak_memory_bytes: Some(prediction.safe_memory_bytes.allocated),
    };
    let totals = trace.memory.iter().filter(|row| row.space == Space::Device && row.category == TOTAL);
    let measured = Quantities {
        step_time_s: trace.step_time_s.measured,
        peak_memory_bytes: totals.map(|row| row.measured_bytes).max().filter(|bytes| *bytes > Bytes::ZERO),
    };
    let task = format!("{} {} {:?}", plan.model.name, plan.cluster.name, plan.workload);
    let run = Run {
        id: id.to_owned(),
        family: plan.engine.clone(),
        quality: "A".to_owned(),
        memory_kind: "allocated".to_owned(),
        error: Errors::of(&predicted, &measured),
        left_out: None,
        predicted,
        measured,
        time_s: prediction.time_s,
        launches,
        memory_bytes: prediction.memory_bytes,
        assumed: Vec::new(),
    };
    Ok((run, task))
}

fn model(trace: &Trace) -> Result<Model, String> {
    let document =
        serde_json::from_value(trace.plan.model.graph.clone()).map_err(|error| error.to_string())?;
    layer_graph::model(document).map_err(|error| error.to_string())
}

fn cluster(trace: &Trace) -> Result<Cluster, String> {
    let document: ClusterDocument =
        serde_json::from_value(trace.plan.cluster.document.clone()).map_err(|error| error.to_string())?;
    document.cluster().map_err(|error| error.to_string())
}
