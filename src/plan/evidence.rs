//! What measured runs a plan rests on, as the document says it.

use crate::plan::document::{EvidenceRecord, NearRun, Prediction};
use crate::profile::coverage::{Coverage, evidence_table};
use crate::profile::device::DeviceClass;
use crate::search::Problem;
use crate::strategy::Strategy;
use crate::strategy::features::features;

/// Runs that are named.
const NAMED: usize = 5;

/// The evidence for `strategy`, of which `prediction` is predicted.
pub fn evidence(problem: &Problem<'_>, strategy: &Strategy, prediction: &Prediction) -> EvidenceRecord {
    let Coverage { near, mut unvalidated, .. } = problem.coverage(strategy);
    let device = &problem.cluster.device;
    if device.class != DeviceClass::Cpu {
        unvalidated.extend(evidence_table().faster_than_life(&device.name, prediction.mfu));
    }
    let node = u64::from(problem.cluster.devices_per_node);
    let own = features(strategy, &problem.workload, node);
    let errors: Vec<f64> = near.iter().filter_map(|run| run.time_error).map(f64::abs).collect();
    let nearest = near.iter().take(NAMED).map(|run| NearRun {
        id: run.id.clone(),
        engine: run.engine.clone(),
        shared: own.iter().filter(|one| run.has(**one)).map(ToString::to_string).collect(),
        time_error: run.time_error,
        memory_error: run.memory_error,
        mfu: run.mfu,
    });
    EvidenceRecord {
        runs: near.len() as u64,
        nearest: nearest.collect(),
        mape: (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64),
        unvalidated,
    }
}
