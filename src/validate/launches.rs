//! A strategy simulated, with how much of its kernels' time the device waits for the host to issue them.

use crate::cost::{Price, Pricing};
use crate::plan::{Prediction, prediction};
use crate::program::placing::Extent;
use crate::program::{Instruction, RankProgram};
use crate::search::Problem;
use crate::simulate::{Issue, play};
use crate::strategy::Strategy;
use crate::units::{Bytes, Seconds};

/// The prediction of `strategy`, which must be legal, and the share of the busiest rank's kernel time in which its
/// device waits for the host; with them the memory peak of every pipeline rank's program.
pub(super) fn simulate(problem: &Problem<'_>, strategy: &Strategy) -> (Prediction, f64, Vec<Bytes>) {
    let program = problem.program(strategy);
    let pricing = problem.pricing(strategy);
    let playback = play(&program, &pricing);
    let busiest = playback.busiest().stage as usize;
    let launches = share(&program.ranks[busiest], &pricing);
    let peaks: Vec<Bytes> = playback.ranks.iter().map(|rank| rank.memory.total).collect();
    let candidate = problem.candidate(strategy.clone(), &program, playback, Extent::default());
    (prediction(problem, &candidate), launches, peaks)
}

/// Share of the time of `rank`'s kernels in which they are not issued yet, pass by pass.
fn share(rank: &RankProgram, pricing: &dyn Pricing) -> f64 {
    let mut uses = vec![0_u64; rank.templates.len()];
    for call in &rank.calls {
        uses[call.template as usize] += 1;
    }
    let (mut waiting, mut all) = (0.0, 0.0);
    for (template, uses) in rank.templates.iter().zip(uses) {
        let price = |instruction: &Instruction| match instruction.message {
            Some(_) => Price::alone(Seconds::ZERO),
            None => pricing.price(&instruction.op, rank.stage),
        };
        let prices: Vec<Price> = template.instructions.iter().map(price).collect();
        let issue = Issue::of(&template.instructions, &prices, pricing);
        waiting += uses as f64 * issue.waiting();
        all += uses as f64 * (issue.device + issue.waiting());
    }
    if all > 0.0 { waiting / all } else { 0.0 }
}
