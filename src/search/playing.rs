//! Playing strategies in a search, as long as one may win and there is time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::cost::{DevicePricing, NeverLate, Unhindered};
use crate::ops::Op;
use crate::program::build::build_on;
use crate::program::instruction::Task;
use crate::program::placing::Extent;
use crate::program::{Layout, Program, RankProgram};
use crate::search::closed_forms::ClosedForms;
use crate::search::problem::{Candidate, Problem};
use crate::simulate::{Below, Playback, play_counting};
use crate::strategy::Strategy;
use crate::units::{Bytes, Seconds};

/// What it takes to play a block's passes and to place what they hold, at the most.
const PLAYING_A_BLOCK: Duration = Duration::from_micros(15);
/// What it takes to place what an instruction allocates, at the most.
const PLACING_AN_INSTRUCTION: Duration = Duration::from_micros(20);

/// Whether what runs together slows each other down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hindered {
    No,
    Yes,
}

impl<'a> ClosedForms<'a> {
    /// Plays what choices have in common, on a host that is never late, until it is known to take `limit` or more; also
    /// how many instructions were built and events played. Of the activations of `strategy` only so much is copied as
    /// `copied` keeps, which recomputes more.
    pub fn play_relaxed(
        &self,
        (strategy, copied): (&Strategy, &Strategy),
        hindered: Hindered,
        limit: Seconds,
    ) -> (Below, u64) {
        let (mut program, pricing) = self.program(strategy);
        if copied != strategy {
            let shaped = self.shaped(strategy, pricing.as_ref());
            let layout = Layout::place(&shaped.units, copied);
            let units = layout.chunks.iter().flat_map(|chunk| &chunk.units);
            let kept: HashMap<u32, Bytes> =
                units.map(|unit| (unit.unit, layout.lowered(unit).kept_bytes())).collect();
            let templates = program.ranks.iter_mut().flat_map(|rank| &mut rank.templates);
            for instruction in templates.flat_map(|template| &mut template.instructions) {
                let unit = instruction.unit.and_then(|unit| kept.get(&unit));
                match (instruction.task, &mut instruction.op) {
                    (Task::StashActivations, Op::CopyOut(bytes))
                    | (Task::UnstashActivations, Op::CopyIn(bytes)) => {
                        *bytes = unit.copied().unwrap_or_default();
                    }
                    _ => {}
                }
            }
        }
        let looking = self.deadline.looking();
        let (below, events) = match hindered {
            Hindered::Yes => play_counting(&program, &NeverLate(pricing.as_ref()), limit, looking),
            Hindered::No => play_counting(&program, &Unhindered(pricing.as_ref()), limit, looking),
        };
        (below, events + instructions(&program))
    }

    /// Plays `strategy` until it is known to take `limit` or more; also its program, and how many instructions were
    /// built and events played.
    pub fn play_below(&self, strategy: &Strategy, limit: Seconds) -> (Program, Below, u64) {
        let (program, pricing) = self.program(strategy);
        let (below, events) = play_counting(&program, pricing.as_ref(), limit, self.deadline.looking());
        let effort = events + instructions(&program);
        (program, below, effort)
    }

    /// Plays `strategy`, which must be legal; none if the search ends first.
    pub fn play(&self, strategy: Strategy) -> Option<Candidate> {
        if !self.has_time_to_play(&strategy) {
            return None;
        }
        let (program, pricing) = self.program(&strategy);
        match play_counting(&program, pricing.as_ref(), Seconds(f64::INFINITY), self.deadline.end()).0 {
            Below::Played(playback) => Some(self.candidate(strategy, &program, playback)),
            Below::Slower(_) => None,
        }
    }

    /// `strategy`, whose program has this playback. Its buffers are placed as low as can be found, or, where there is
    /// no time for that, as they come.
    pub fn candidate(&self, strategy: Strategy, program: &Program, playback: Playback) -> Candidate {
        let enough = if self.has_time_to_place(program) { Extent::default() } else { Extent::MAX };
        self.problem.candidate(strategy, program, playback, enough)
    }

    /// Whether there is time to play `strategy`.
    pub fn has_time_to_play(&self, strategy: &Strategy) -> bool {
        let blocks = strategy.cuts.iter().map(|&blocks| u64::from(blocks) + 1).sum::<u64>();
        let passes = blocks.saturating_mul(strategy.accumulation);
        self.deadline.allows(PLAYING_A_BLOCK.saturating_mul(u32::try_from(passes).unwrap_or(u32::MAX)))
    }

    /// Whether there is time to place the buffers of `program` as low as can be found.
    pub fn has_time_to_place(&self, program: &Program) -> bool {
        let length = |template: u32, rank: &RankProgram| rank.templates[template as usize].instructions.len();
        let issued =
            |rank: &RankProgram| rank.calls.iter().map(|call| length(call.template, rank)).sum::<usize>();
        let issued: usize = program.ranks.iter().map(issued).sum();
        self.deadline.allows(PLACING_AN_INSTRUCTION.saturating_mul(u32::try_from(issued).unwrap_or(u32::MAX)))
    }

    /// The step program of `strategy`, and what its ops cost.
    fn program(&self, strategy: &Strategy) -> (Program, Arc<DevicePricing<'a>>) {
        let Problem { workload, engine, .. } = self.problem;
        let pricing = self.pricing(strategy);
        let shaped = self.shaped(strategy, pricing.as_ref());
        let layout = Layout::place(&shaped.units, strategy);
        (build_on(&layout, strategy, workload, engine), pricing)
    }
}

/// Instructions of the templates of `program`.
fn instructions(program: &Program) -> u64 {
    let templates = program.ranks.iter().flat_map(|rank| &rank.templates);
    templates.map(|template| template.instructions.len() as u64).sum()
}
