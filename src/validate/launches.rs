//! A strategy simulated, with how much of its kernels' time goes to launching them.

use crate::cost::Pricing;
use crate::lower::Stream;
use crate::plan::{Prediction, prediction};
use crate::program::RankProgram;
use crate::search::{Candidate, Problem};
use crate::simulate::play;
use crate::strategy::Strategy;
use crate::units::Seconds;

/// What is predicted of `strategy`, which must be legal, and the share of the slowest rank's kernel time that goes to
/// kernels too short for the device to be busy.
pub(super) fn simulate(problem: &Problem<'_>, strategy: &Strategy) -> (Prediction, f64) {
    let program = problem.program(strategy);
    let pricing = problem.pricing(strategy);
    let playback = play(&program, &pricing);
    let device = &problem.cluster.device;
    let launch = device.kernel_time.value.max(problem.engine.timing.host_time.value);
    let slowest = playback.slowest().stage as usize;
    let launches = share(&program.ranks[slowest], &pricing, launch);
    let peak = playback.ranks.iter().map(|rank| rank.memory.total).max().unwrap_or_default();
    let memory = problem.process_memory(strategy, peak);
    let candidate = Candidate { strategy: strategy.clone(), playback, memory };
    (prediction(problem, &candidate), launches)
}

/// Share of `rank`'s kernel time that is in kernels of at most one and a half launches.
fn share(rank: &RankProgram, pricing: &dyn Pricing, launch: Seconds) -> f64 {
    let mut uses = vec![0_u64; rank.templates.len()];
    for call in &rank.calls {
        uses[call.template as usize] += 1;
    }
    let (mut short, mut all) = (0.0, 0.0);
    for (template, uses) in rank.templates.iter().zip(uses) {
        let kernels = template.instructions.iter().filter(|instruction| instruction.stream == Stream::Compute);
        for instruction in kernels {
            let seconds = pricing.price(&instruction.op, rank.stage).seconds.0;
            all += uses as f64 * seconds;
            short += if seconds <= 1.5 * launch.0 { uses as f64 * seconds } else { 0.0 };
        }
    }
    if all > 0.0 { short / all } else { 0.0 }
}
