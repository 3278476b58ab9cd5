//! The strategies of one mesh that may take little memory, whatever time they take.

use crate::program::state::{DistinctRules, StateRules};
use crate::search::bounding::{Bounding, Entry, Shaped};
use crate::search::problem::Problem;
use crate::search::space::PassChoice;
use crate::strategy::Strategy;
use crate::units::Bytes;

/// What of its memory a strategy is to stay below.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// What its program peaks at.
    pub peak: Bytes,
    /// What its process takes.
    pub process: Bytes,
}

impl Limit {
    /// Bytes that the program of `strategy` may peak at.
    pub fn room(self, problem: &Problem<'_>, strategy: &Strategy) -> f64 {
        problem.room_within(strategy, self.process).min(self.peak.0 as f64)
    }
}

/// The strategies of one mesh that may be lean.
#[derive(Clone, Debug, Default)]
pub struct Lean {
    pub entries: Vec<(Bytes, Entry)>,
    pub considered: u64,
    pub illegal: u64,
    /// Time was up before all of them were looked at.
    pub is_cut: bool,
}

impl Bounding<'_> {
    /// The strategies of task `index` that may stay within `limit` under some inner choice. With each comes a lower bound
    /// of its program's peak. Time plays no part. With `is_first`, only strategies with the smallest micro-batch and one
    /// chunk a rank are looked at.
    pub fn lean(&self, index: usize, limit: Limit, is_first: bool) -> Lean {
        let space = self.space;
        let task = &space.tasks[index];
        let mut result = Lean::default();
        let mut shaped: Option<(PassChoice, Shaped)> = None;
        let mut smallest = u64::MAX;
        for pass_choice in space.pass_choices(task) {
            if space.deadline.is_over() {
                result.is_cut = true;
                break;
            }
            smallest = smallest.min(pass_choice.micro.0);
            if is_first && (pass_choice.micro.0 > smallest || pass_choice.schedule.1 > 1) {
                continue;
            }
            let (states, legal, illegal) = space.states(task, &pass_choice);
            result.considered += legal + illegal;
            let mut strategy = space.outer(task, &pass_choice);
            if !space.is_legal(&strategy) {
                result.illegal += legal + illegal;
                continue;
            }
            result.illegal += illegal;
            let shape = self.shape(&mut shaped, &pass_choice, &strategy);
            let bounds = self.strategy_bounds(&strategy, shape);
            if bounds.least_passing() >= limit.room(space.problem, &strategy) {
                continue;
            }
            let mut seen: Vec<(DistinctRules, usize)> = Vec::new();
            for state in states {
                state.apply(&mut strategy);
                let rules = StateRules::new(&strategy, &space.problem.workload, space.problem.engine);
                if self.is_known(&mut seen, &rules, state) {
                    continue;
                }
                let room = limit.room(space.problem, &strategy);
                let Some(least) = bounds.least_memory(&rules, room) else { continue };
                let entry = Entry {
                    lower_bound: 0.0,
                    step: 0.0,
                    place: result.entries.len() as u64,
                    task: index,
                    pass_choice,
                    state: *state,
                    order: strategy.order,
                };
                result.entries.push((Bytes(least as u64), entry));
            }
        }
        result
    }
}
