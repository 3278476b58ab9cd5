//! A step's program, and programs of fewer micro-batches that tell its time by less playing.

use super::cases::Depth;
use crate::cost::Pricing;
use crate::program::Program;
use crate::search::Problem;
use crate::simulate::{busiest, play};
use crate::strategy::{Schedule, Strategy};

/// Programs of one step.
pub struct Programs {
    pub whole: Program,
    steady: Option<Shorter>,
    few: Option<Shorter>,
}

/// Two programs with less accumulation, and how many times their difference the whole is longer than the first.
struct Shorter {
    programs: [Program; 2],
    factor: f64,
}

impl Programs {
    /// The programs of `strategy`.
    pub fn new(problem: &Problem<'_>, strategy: &Strategy) -> Self {
        let pipeline = strategy.pipeline;
        let is_plain = matches!(strategy.schedule, Schedule::OneForwardOneBackward | Schedule::GPipe);
        // One accumulated micro-batch is another program: nothing is deferred.
        let (least, more) = if pipeline == 1 || is_plain { (2, 1) } else { (pipeline, pipeline) };
        Self {
            whole: problem.program(strategy),
            steady: Shorter::new(problem, strategy, 2 * pipeline, pipeline),
            few: Shorter::new(problem, strategy, least, more),
        }
    }

    /// Seconds of the step, played to `depth`.
    pub fn time(&self, depth: Depth, pricing: &dyn Pricing) -> f64 {
        let shorter = match depth {
            Depth::Passes if self.whole.ranks.len() > 1 => return busiest(&self.whole, pricing).0,
            Depth::Whole => None,
            Depth::Steady => self.steady.as_ref(),
            Depth::Few | Depth::Passes => self.few.as_ref().or(self.steady.as_ref()),
        };
        let Some(Shorter { programs, factor }) = shorter else {
            return play(&self.whole, pricing).step_time.0;
        };
        let [first, second] = [0, 1].map(|index| play(&programs[index], pricing).step_time.0);
        first + factor * (second - first)
    }
}

impl Shorter {
    /// Programs of `first` micro-batches and of `more` further ones; none if the whole is hardly longer.
    fn new(problem: &Problem<'_>, strategy: &Strategy, first: u64, more: u64) -> Option<Self> {
        if strategy.accumulation <= 2 * first + more {
            return None;
        }
        let program = |accumulation: u64| {
            let mut problem = problem.clone();
            problem.workload.global_batch = accumulation * strategy.data * strategy.micro_batch;
            problem.program(&Strategy { accumulation, ..strategy.clone() })
        };
        Some(Self {
            programs: [program(first), program(first + more)],
            factor: (strategy.accumulation - first) as f64 / more as f64,
        })
    }
}
