//! How long a run of so many tokens takes, with the time that failures and checkpoints cost (`docs/concepts/goodput.md`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::program::state::StateRules;
use crate::search::{Candidate, Problem};
use crate::strategy::Strategy;
use crate::units::{Bytes, BytesPerSecond, Seconds, Tokens};

/// What a device writes of a checkpoint in a second where nothing else is said: an estimate. 7 TB/s at the peak for
/// 16,384 GPUs are 0.43 GB/s each (Grattafiori et al. 2024, The Llama 3 Herd of Models, arXiv 2407.21783, section 3.3.1).
pub const CHECKPOINT_BANDWIDTH: BytesPerSecond = BytesPerSecond(4e8);

/// From a failure until the run goes on from its last checkpoint, where nothing else is said: an estimate.
pub const RESTART_TIME: Seconds = Seconds(600.0);

/// A run of many steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    pub tokens: Tokens,
    pub failures: Option<Failures>,
}

/// Failures, and what is done about them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Failures {
    /// Mean time between failures of one device with its share of node and network; that of a job is this over its
    /// devices.
    pub device_mtbf: Seconds,
    /// Of training between two checkpoints; the best one where none is given.
    pub interval: Option<Seconds>,
    /// What each device writes of a checkpoint in a second, all at once.
    pub bandwidth: BytesPerSecond,
    pub restart: Seconds,
}

/// The time of a run; without failures `goodput` is 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Goodput {
    pub tokens: Tokens,
    pub steps: u64,
    /// Wall time, failures included; null where the run would never end.
    pub days: Option<f64>,
    /// Useful time over wall time.
    pub goodput: f64,
    /// Wall time were there no failures and no checkpoints.
    pub days_without_failures: f64,
    /// Of the whole job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtbf_s: Option<Seconds>,
    /// Training between two checkpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_s: Option<Seconds>,
    /// Weights and moments that the fullest device writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_bytes: Option<Bytes>,
    /// How long training stands still for a checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_s: Option<Seconds>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_s: Option<Seconds>,
    /// To be expected in the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<f64>,
}

const DAY: f64 = 86_400.0;
/// A run that gets on by less is not going to end.
const LEAST_GOODPUT: f64 = 1e-6;

/// How `run` goes under `candidate`, which fits `problem`.
pub fn goodput(problem: &Problem<'_>, candidate: &Candidate, run: &Run) -> Goodput {
    let step = candidate.playback.step_time;
    let steps = run.tokens.0.div_ceil(problem.workload.tokens());
    let useful = step * steps as f64;
    let Some(failures) = run.failures else {
        let days = useful.0 / DAY;
        return Goodput {
            tokens: run.tokens,
            steps,
            days: Some(days),
            goodput: 1.0,
            days_without_failures: days,
            mtbf_s: None,
            interval_s: None,
            checkpoint_bytes: None,
            checkpoint_s: None,
            restart_s: None,
            failures: None,
        };
    };
    let mtbf = failures.device_mtbf / candidate.strategy.devices() as f64;
    let bytes = checkpoint_bytes(problem, &candidate.strategy);
    let write = bytes.at(failures.bandwidth);
    // A checkpoint is taken between steps.
    let interval = failures.interval.unwrap_or_else(|| best_interval(write, mtbf)).max(step);
    let share = useful_share(interval, write, failures.restart, mtbf);
    let wall = (share >= LEAST_GOODPUT).then(|| useful / share);
    Goodput {
        tokens: run.tokens,
        steps,
        days: wall.map(|wall| wall.0 / DAY),
        goodput: if wall.is_some() { share } else { 0.0 },
        days_without_failures: useful.0 / DAY,
        mtbf_s: Some(mtbf),
        interval_s: Some(interval),
        checkpoint_bytes: Some(bytes),
        checkpoint_s: Some(write),
        restart_s: Some(failures.restart),
        failures: wall.map(|wall| wall.0 / mtbf.0),
    }
}

/// The training between two checkpoints that ends a run soonest, when a checkpoint takes `write` and failures come
/// `mtbf` apart in the mean: Young's √(2·write·mtbf) (1974) with the terms that Daly adds (2006, equation 37).
fn best_interval(write: Seconds, mtbf: Seconds) -> Seconds {
    if write.0 >= 2.0 * mtbf.0 {
        return mtbf;
    }
    let ratio = write.0 / (2.0 * mtbf.0);
    Seconds((2.0 * write.0 * mtbf.0).sqrt() * (1.0 + ratio.sqrt() / 3.0 + ratio / 9.0) - write.0)
}

/// Useful time over wall time, for failures that come at random: with interval τ, checkpoint δ, restart R and mean
/// time between failures M, τ / (M·e^(R/M)·(e^((τ+δ)/M) − 1)), from the complete cost function of Daly 2006.
fn useful_share(interval: Seconds, write: Seconds, restart: Seconds, mtbf: Seconds) -> f64 {
    let segment = ((interval.0 + write.0) / mtbf.0).exp_m1();
    let share = interval.0 / (mtbf.0 * (restart.0 / mtbf.0).exp() * segment);
    if share.is_finite() { share } else { 0.0 }
}

/// What the fullest device writes: of each element whose state it owns, the weight and two moments in the type that
/// state is kept in. Of replicas only one writes, at the same time as all other owners.
fn checkpoint_bytes(problem: &Problem<'_>, strategy: &Strategy) -> Bytes {
    let layout = problem.layout(strategy);
    let rules = StateRules::new(strategy, &problem.workload, problem.engine);
    let owned = |stage| -> u64 {
        let units = layout.chunks_of(stage).flat_map(|chunk| &chunk.units);
        units.map(|unit| rules.optimizer_elements(&unit.parameters)).sum()
    };
    let most = (0..strategy.pipeline as u32).map(owned).max().unwrap_or(0);
    Bytes(most * 3 * problem.workload.state_type().size())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MINUTE: f64 = 60.0;

    fn minutes(count: f64) -> Seconds {
        Seconds(count * MINUTE)
    }

    #[test]
    fn intervals_are_those_of_the_paper() {
        // Daly 2006, figures 3 to 5: checkpoints of 5 minutes; failures 24 hours, 6 hours and 15 minutes apart.
        for (mtbf, interval) in [(1440.0, 117.0), (360.0, 57.0), (15.0, 9.1)] {
            let found = best_interval(minutes(5.0), minutes(mtbf)).0 / MINUTE;
            assert!((found - interval).abs() < 0.6, "{found} is not {interval}");
        }
        assert_eq!(best_interval(minutes(50.0), minutes(15.0)), minutes(15.0));
    }

    #[test]
    fn rare_failures_cost_what_young_reckons() {
        // Half an interval for each failure, and a checkpoint for each interval.
        let (write, mtbf) = (Seconds(1.0), Seconds(1e6));
        let interval = best_interval(write, mtbf);
        let lost = write.0 / interval.0 + interval.0 / 2.0 / mtbf.0;
        let share = useful_share(interval, write, Seconds(0.0), mtbf);
        assert!((1.0 - share - lost).abs() < 1e-5, "{share}");
    }

    #[test]
    fn a_run_that_cannot_get_on_has_no_goodput() {
        assert_eq!(useful_share(Seconds(10.0), Seconds(1e6), Seconds(600.0), Seconds(1.0)), 0.0);
        assert_eq!(useful_share(Seconds(10.0), Seconds(1.0), Seconds(1e9), Seconds(1.0)), 0.0);
    }

    proptest! {
        #[test]
        fn no_other_interval_is_much_better(write in 0.1..1e4f64, rarer in 2.0..1e5f64, factor in 0.05..20.0f64) {
            let (write, mtbf) = (Seconds(write), Seconds(write * rarer));
            let best = best_interval(write, mtbf);
            let share = |interval| useful_share(interval, write, Seconds(60.0), mtbf);
            prop_assert!(share(best * factor) <= share(best) * 1.001);
        }

        #[test]
        fn goodput_falls_with_failures_and_with_what_they_cost(
            write in 0.1..1e3f64, mtbf in 1e3..1e7f64, interval in 1.0..1e4f64
        ) {
            let (write, mtbf, interval) = (Seconds(write), Seconds(mtbf), Seconds(interval));
            let share = |write, restart, mtbf| useful_share(interval, write, Seconds(restart), mtbf);
            let here = share(write, 100.0, mtbf);
            prop_assert!((0.0..1.0).contains(&here));
            prop_assert!(share(write, 100.0, mtbf / 2.0) < here);
            prop_assert!(share(write, 200.0, mtbf) < here);
            prop_assert!(share(write * 2.0, 100.0, mtbf) < here);
        }
    }
}
