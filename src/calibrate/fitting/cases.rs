//! Runs ready to be predicted over and over: their step programs depend on no number that is fitted.

use rayon::prelude::*;

use super::Request;
use super::models::Numbers;
use super::programs::Programs;
use crate::plan::mfu::model_flops;
use crate::profile::choices::Feature;
use crate::search::Problem;
use crate::simulate::peak;
use crate::strategy::features::features;
use crate::trace::published::{PublishedRun, Quality, Use};
use crate::units::Bytes;
use crate::validate::Measured;
use crate::validate::published::measured::{MemoryKind, memory_rank, peak_memory, step_time};
use crate::validate::published::{Scenario, cluster, engines, flags, scenario};

/// A run with its program.
pub struct Case {
    pub id: String,
    pub family: String,
    pub device: String,
    pub engine: String,
    /// What its errors count for: 1 for quality A, a half for B.
    pub weight: f64,
    /// Measured seconds of a step.
    pub time: Option<f64>,
    /// Measured bytes and what they count.
    pub memory: Option<(f64, MemoryKind)>,
    /// Whether the network takes part.
    pub spans_nodes: bool,
    run: Box<PublishedRun>,
    scenario: Scenario,
    programs: Programs,
    /// The peak of the rank that was measured.
    peak: Bytes,
    features: Vec<Feature>,
    /// Operations of the model in a step over the devices' dense peak: its time at full speed.
    ideal: f64,
}

/// Seconds of a step and bytes at its peak; 0 for what is not asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    pub time: f64,
    pub memory: f64,
}

/// How much of a step is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// All of it.
    Whole,
    /// As many micro-batches as bring its pipeline to a steady state; the others take what one more takes.
    Steady,
    /// As few as there can be.
    Few,
    /// The passes of a pipeline's busiest rank, one by one; without a pipeline, as few.
    Passes,
}

/// Runs that are fitted to, and those that are not, with the reason.
pub struct Cases {
    pub list: Vec<Case>,
    pub skipped: Vec<(String, String)>,
}

impl Cases {
    /// Those of `runs` that `request` asks for.
    pub fn of(runs: Vec<(String, Measured)>, numbers: &Numbers, request: &Request) -> Self {
        let made: Vec<Option<Result<Case, (String, String)>>> = runs
            .into_par_iter()
            .map(|(id, measured)| match measured {
                Measured::Published(run) => {
                    let is_wanted = run.quality < Quality::C && is_asked(&run, request);
                    is_wanted.then(|| Case::new(run, numbers).map_err(|reason| (id, reason)))
                }
                Measured::Own(_) => None,
                Measured::Unread { reason, .. } => Some(Err((id, reason))),
            })
            .collect();
        let mut cases = Self { list: Vec::new(), skipped: Vec::new() };
        for made in made.into_iter().flatten() {
            match made {
                Ok(case) => cases.list.push(case),
                Err(skipped) => cases.skipped.push(skipped),
            }
        }
        cases
    }

    /// Skips cases whose prediction is no positive number: they never enter a fit.
    pub fn keep_usable(&mut self, numbers: &Numbers) {
        let usable: Vec<bool> = self
            .list
            .par_iter()
            .map(|case| {
                let Prediction { time, memory } = case.predict(numbers, Some(Depth::Steady));
                let good = |value: f64| value.is_finite() && value > 0.0;
                (case.time.is_none() || good(time)) && (case.memory.is_none() || good(memory))
            })
            .collect();
        let mut usable = usable.into_iter();
        let skipped = &mut self.skipped;
        self.list.retain(|case| {
            let keep = usable.next().unwrap_or(false);
            if !keep {
                skipped.push((case.id.clone(), "its prediction is no positive number".to_owned()));
            }
            keep
        });
    }
}

fn is_asked(run: &PublishedRun, request: &Request) -> bool {
    let device = cluster::device_name(&run.hardware.gpu);
    let engine = engines::profile(run).ok().map(|engine| engine.name.as_str());
    let is = |wanted: &Option<String>, found: Option<&str>| {
        wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
    };
    is(&request.device, device) && is(&request.engine, engine)
}

impl Case {
    fn new(run: Box<PublishedRun>, numbers: &Numbers) -> Result<Self, String> {
        let can = |what: Use| run.usable_for.is_empty() || run.usable_for.contains(&what);
        let time = step_time(&run).map(|seconds| seconds.0).filter(|_| can(Use::StepTime));
        let memory = peak_memory(&run).filter(|_| can(Use::Memory));
        let flags = flags(&run);
        let is_sound = |field: &str| flags.iter().all(|flag| flag.field != field);
        let time = time.filter(|_| is_sound("measured.step_time_s"));
        let memory = memory.filter(|_| is_sound("measured.peak_memory_gib"));
        let memory = memory.map(|(bytes, kind)| (bytes.0 as f64, kind));
        let memory = memory.filter(|(_, kind)| *kind != MemoryKind::Unknown);
        if time.is_none() && memory.is_none() {
            return Err("neither step time nor memory of a known kind was measured".to_owned());
        }
        let device = cluster::device_name(&run.hardware.gpu).unwrap_or_default().to_owned();
        let engine = engines::profile(&run)?.name.clone();
        let profile = numbers.engines.get(&engine);
        let scenario = scenario(&run, &|name| numbers.devices.get(name).cloned(), profile)?;
        let problem =
            Problem::new(&scenario.model, &scenario.cluster, scenario.workload, &scenario.engine, None);
        let programs = Programs::new(&problem, &scenario.strategy);
        let peaks = programs.whole.ranks.iter().map(|rank| peak(rank).total);
        let peak = memory_rank(&run).of_peaks(peaks);
        let spans_nodes = scenario.cluster.levels.len() > 1;
        let Scenario { model, cluster, workload, strategy: own, .. } = &scenario;
        let features = features(own, workload, u64::from(cluster.devices_per_node));
        let rate = cluster.device.peak(workload.precision).0 * cluster.devices() as f64;
        let ideal = model_flops(model, workload).0 / rate;
        let weight = if run.quality == Quality::A { 1.0 } else { 0.5 };
        let (id, family) = (run.id.clone(), run.family.clone());
        Ok(Self {
            id,
            family,
            device,
            engine,
            weight,
            time,
            memory,
            spans_nodes,
            run,
            scenario,
            programs,
            peak,
            features,
            ideal,
        })
    }

    /// The features of its strategy.
    pub fn features(&self) -> &[Feature] {
        &self.features
    }

    /// The share of the dense peak that its model's operations reached, as it was measured.
    pub fn mfu(&self) -> Option<f64> {
        self.time.map(|seconds| self.ideal / seconds)
    }

    /// Predicts it by `numbers`; the step is played to `depth`, or not at all.
    pub fn predict(&self, numbers: &Numbers, depth: Option<Depth>) -> Prediction {
        let nothing = Prediction { time: f64::NAN, memory: f64::NAN };
        let Scenario { model, workload, strategy, .. } = &self.scenario;
        let cluster = cluster::cluster(&self.run, &|name| numbers.devices.get(name).cloned());
        let (Ok(cluster), Some(engine)) = (cluster, numbers.engines.get(&self.engine)) else {
            return nothing;
        };
        let engine = engines::configured(&self.run, engine);
        let problem = Problem::new(model, &cluster, *workload, &engine, None);
        let depth = depth.filter(|_| self.time.is_some());
        let time = depth.map_or(0.0, |depth| self.programs.time(depth, &problem.pricing(strategy)));
        let memory = problem.process_memory(strategy, self.peak);
        let memory = self.memory.and_then(|(_, kind)| kind.of_process(&memory));
        Prediction { time, memory: memory.map_or(0.0, |bytes| bytes.0 as f64) }
    }
}
