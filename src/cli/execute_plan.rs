//! The plan that is to be executed: read, or made for the small GPT; made anew where flags say otherwise.

use std::path::Path;

use super::error::{CliError, Kind};
use super::freeze::freeze;
use super::machine::CostModel;
use super::predicted_by::PredictedBy;
use super::{quick, workload};
use crate::cluster::Cluster;
use crate::execute::run::{DeviceKind, Job};
use crate::plan::shell::quoted;
use crate::plan::{self, Plan, PlanFileError};
use crate::profile::EngineProfile;
use crate::profile::device::DeviceClass;
use crate::profile::engines::{self, engine};
use crate::search::{Problem, Request};
use crate::strategy::{Draft, Strategy, Workload};
use crate::trace::PlannedTime;
use crate::units::{ElementType, FlopsPerSecond};

/// The engine whose plans are executed.
const ENGINE: &str = "embedded";

/// What is to be other than the plan says.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    pub global_batch: Option<u64>,
    pub seq_len: Option<u64>,
    pub precision: Option<ElementType>,
    pub dropout: Option<f64>,
    pub clip: Option<f64>,
    pub freeze: Vec<String>,
    pub strategy: Option<Draft>,
}

/// A plan and the job that it describes.
pub struct Planned {
    pub plan: Plan,
    pub job: Job,
    /// By the cost model of the plan that was read, where `plan` is predicted by another one.
    pub own: Option<PlannedTime>,
    /// Speed of the fixed kernel when the cost model that `plan` is predicted by was measured.
    pub calibrated: Option<FlopsPerSecond>,
}

impl Changes {
    /// The strategy that is given, or that of `plan`.
    fn draft(&self, plan: &Plan) -> Result<Draft, CliError> {
        Ok(self.strategy.clone().map_or_else(|| Draft::parse(&plan.strategy.text), Ok)?)
    }

    /// `workload` with what is changed in it.
    fn over(&self, workload: Workload) -> Workload {
        Workload {
            global_batch: self.global_batch.unwrap_or(workload.global_batch),
            seq_len: self.seq_len.unwrap_or(workload.seq_len),
            precision: self.precision.unwrap_or(workload.precision),
            dropout: self.dropout.unwrap_or(workload.dropout),
            clip: self.clip.unwrap_or(workload.clip),
        }
    }
}

/// The plan of the small GPT by the cost model that predicts it, by the built-in one where it is only to be counted: the
/// best, or that of the strategy that is given. It is for as many ranks as are given.
pub fn quick(
    changes: &Changes,
    (device, ranks): (DeviceKind, Option<usize>),
    predicted_by: &PredictedBy,
) -> Result<Planned, CliError> {
    let (mut model, mut cluster) = (quick::model()?, quick::cluster(device, ranks)?);
    let workload = changes.over(quick::workload(cluster.devices()));
    workload::check(&mut model, &workload)?;
    freeze(&mut model, &changes.freeze, None)?;
    let cost_model = predicted_by.of_no_plan().map(|source| source.load(class(device))).transpose()?;
    if let Some(cost_model) = &cost_model {
        cluster = cost_model.cluster(&cluster);
    }
    let engine = engines::embedded();
    let problem = Problem::new(&model, &cluster, workload, engine, None);
    let plan = match &changes.strategy {
        Some(draft) => plan::simulate_draft(&problem, draft)?,
        None => plan::search(&problem, &Request::plain(), &|_| {})?,
    };
    let strategy = Draft::parse(&plan.strategy.text)?.resolve(&problem.facts)?;
    drop(problem);
    let calibrated = cost_model.as_ref().and_then(CostModel::fixed_kernel);
    Ok(Planned { plan, job: Job { model, strategy, workload, engine }, own: None, calibrated })
}

/// The plan in the file at `path`, predicted anew where another cost model than its own predicts it.
pub fn read(
    path: &Path,
    changes: &Changes,
    device: DeviceKind,
    predicted_by: &PredictedBy,
) -> Result<Planned, CliError> {
    let mut plan = plan::read(path)?;
    let engine = embedded(&plan)?;
    let refused = |reason: String| PlanFileError::NotAPlan { path: path.display().to_string(), reason };
    let mut model = plan.made_model().map_err(|error| refused(error.to_string()))?;
    let cluster = plan.made_cluster().map_err(refused)?;
    let workload = changes.over(plan.workload);
    workload::check(&mut model, &workload)?;
    freeze(&mut model, &changes.freeze, None)?;
    let mut draft = changes.draft(&plan)?;
    if changes.strategy.is_none() && workload.global_batch != plan.workload.global_batch {
        draft.accumulation = None;
    }
    let played = |cluster: &Cluster| -> Result<(Plan, Strategy), CliError> {
        let problem = Problem::new(&model, cluster, workload, engine, None);
        Ok((plan::simulate_draft(&problem, &draft)?, draft.resolve(&problem.facts)?))
    };
    let facts = Problem::new(&model, &cluster, workload, engine, None).facts;
    let mut strategy = draft.resolve(&facts)?;
    let is_other = workload != plan.workload
        || changes.strategy.is_some()
        || !changes.freeze.is_empty()
        || plan.prediction.ranks.len() as u64 != strategy.pipeline;
    if is_other {
        plan = played(&cluster)?.0;
    }
    let cost_model = predicted_by.of_plan(&cluster)?.map(|source| source.load(class(device))).transpose()?;
    let other = cost_model.as_ref().filter(|other| other.hash != plan.cost_model.hash);
    let own = other.map(|_| PlannedTime {
        cost_model: plan.cost_model.name.clone(),
        step_time_s: plan.prediction.step_time_s,
    });
    if let Some(other) = other {
        (plan, strategy) = played(&other.cluster(&cluster))?;
    }
    let calibrated = cost_model.as_ref().and_then(CostModel::fixed_kernel);
    Ok(Planned { plan, job: Job { model, strategy, workload, engine }, own, calibrated })
}

/// What ranks run on, as cost models have it.
const fn class(device: DeviceKind) -> DeviceClass {
    match device {
        DeviceKind::Cpu => DeviceClass::Cpu,
        DeviceKind::Cuda | DeviceKind::SharedCuda => DeviceClass::Gpu,
    }
}

fn embedded(plan: &Plan) -> Result<&'static EngineProfile, CliError> {
    let name = plan.engine.as_str();
    let anew = || {
        let work = &plan.workload;
        format!(
            "meshwright plan {} --cluster {} --global-batch {} --seq-len {} --precision {} --engine {ENGINE} --out \
             plan.json",
            quoted(&plan.model.name),
            quoted(&plan.cluster.name),
            work.global_batch,
            work.seq_len,
            work.precision
        )
    };
    match engine(name) {
        Some(engine) if name == ENGINE => Ok(engine),
        _ => Err(CliError {
            kind: Kind::Illegal,
            field: "engine".to_owned(),
            value: name.to_owned(),
            message: format!(
                "the plan is for the engine {name}, and plans for {ENGINE} are executed here; plan it anew: {}",
                anew()
            ),
            nearest: vec![ENGINE.to_owned()],
        }),
    }
}
