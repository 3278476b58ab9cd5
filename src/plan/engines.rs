//! The best plan of each engine in use, side by side.

use crate::plan::assemble::digest;
use crate::plan::document::{EngineRecord, Plan};
use crate::plan::searched::{self, written};
use crate::profile::engines::engines_in_use;
use crate::search::map::{Setting, Watch};
use crate::search::{Failure, Objective, Problem, Request, search};

/// Plans for each engine; the document is that of the best by the measure of `request`, with one line for each engine.
///
/// # Errors
/// Why there is no plan for the engine of `home`, where no engine has one.
pub fn compare(home: &Setting<'_>, request: &Request, watch: Watch<'_>) -> Result<Plan, Failure> {
    let mut plans: Vec<Plan> = Vec::new();
    let mut records = Vec::new();
    let mut failed = None;
    for engine in engines_in_use() {
        if request.stop.is_asked() {
            break;
        }
        (watch.step)(&engine.name);
        let Setting { model, cluster, workload, memory_limit, .. } = home;
        let problem = Problem::new(model, cluster, *workload, engine, *memory_limit);
        match search(&problem, request, watch.progress) {
            Ok(outcome) => {
                let plan = written(&problem, &outcome);
                records.push(EngineRecord::of(&plan));
                plans.push(plan);
            }
            Err(failure) => {
                let is_home = engine.name == home.engine.name;
                records.push(EngineRecord::without(&engine.name, &failure.to_string()));
                if is_home {
                    failed = Some(failure);
                }
            }
        }
    }
    let best = plans.into_iter().min_by(|one, other| {
        let [one, other] = [one, other].map(|plan| measure(plan, request));
        one.total_cmp(&other)
    });
    let Some(mut plan) = best else {
        return match failed {
            Some(failure) => Err(failure),
            None => searched::search(&home.problem(), request, watch.progress),
        };
    };
    plan.engines = records;
    searched::say_interrupted(&mut plan, request);
    plan.digest = digest(&plan);
    Ok(plan)
}

/// What the best plan has least of: seconds of a step, for a robust plan those at the upper end of its interval; or bytes.
fn measure(plan: &Plan, request: &Request) -> f64 {
    let prediction = &plan.prediction;
    match (request.objective, request.tolerance) {
        (Objective::Memory, _) => prediction.peak_memory_bytes.0 as f64,
        (Objective::Time, None) => prediction.step_time_s.0,
        (Objective::Time, Some(_)) => prediction.interval.step_time_s[1].0,
    }
}
