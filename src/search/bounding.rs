//! Bounds every strategy of one mesh over all its inner choices, and hands on those that may win.

use std::collections::HashMap;

use crate::cost::{DevicePricing, Pricing as _};
use crate::profile::choices::Schedule;
use crate::program::state::StateRules;
use crate::search::axes::StateChoice;
use crate::search::floor::Pipeline;
use crate::search::forms::{Former, Forms};
use crate::search::load::Load;
use crate::search::space::{FrameChoice, Space};
use crate::search::state_floor::{Floor, FrameFloor};
use crate::strategy::Strategy;
use crate::strategy::rules::{self, RuleBreak};
use crate::units::Bytes;

/// An outer strategy that may win.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// No inner choice is faster, in seconds.
    pub floor: f64,
    /// The least that its optimizer step takes, in seconds.
    pub step: f64,
    /// Index into the space's tasks.
    pub task: usize,
    pub frame: FrameChoice,
    pub state: StateChoice,
}

/// What became of the strategies of one mesh.
#[derive(Clone, Debug, Default)]
pub struct Bounded {
    pub entries: Vec<Entry>,
    pub considered: u64,
    pub illegal: u64,
    pub out_of_memory: u64,
    /// Ruled out by time.
    pub bounded: u64,
    /// The leanest that does not fit: bytes at its peak, and what it is.
    pub leanest: Option<(Bytes, Strategy)>,
    /// The first broken rule.
    pub broken: Option<RuleBreak>,
}

/// Bounds strategies of a space.
pub struct Bounding<'a> {
    pub space: &'a Space<'a>,
    former: Former<'a>,
    /// Classes of units, and how many of each there are.
    classes: Vec<(usize, u64)>,
}

/// Forms of a shape with the loads read off them.
struct Shaped {
    forms: Forms,
    load: Load,
    hop: f64,
}

impl<'a> Bounding<'a> {
    /// Nothing is bounded yet.
    pub fn new(space: &'a Space<'a>) -> Self {
        let former = Former::new(space.problem);
        let mut classes: Vec<(usize, u64)> = Vec::new();
        for unit in former.units() {
            match classes.iter_mut().find(|(class, _)| *class == unit.class) {
                Some((_, count)) => *count += 1,
                None => classes.push((unit.class, 1)),
            }
        }
        Self { space, former, classes }
    }

    /// Bounds the strategies of task `index`; those that cannot be faster than `best` seconds cannot win.
    pub fn bound(&self, index: usize, best: f64) -> Bounded {
        let space = self.space;
        let task = &space.tasks[index];
        let mut result = Bounded::default();
        let mut shaped: Option<(FrameChoice, Shaped)> = None;
        let mut prices: HashMap<u64, DevicePricing<'_>> = HashMap::new();
        for frame in space.frames(task) {
            let (states, illegal) = space.states(task, &frame);
            let all = states.len() as u64 + illegal;
            result.considered += all;
            let mut strategy = space.outer(task, &frame);
            if !space.is_legal(&strategy) {
                result.illegal += all;
                if result.broken.is_none() {
                    result.broken = rules::check(&space.plainest(&strategy), &space.problem.facts).err();
                }
                continue;
            }
            result.illegal += illegal;
            let choice = shape_of(&frame);
            if shaped.as_ref().is_none_or(|(known, _)| *known != choice) {
                shaped = Some((choice, self.shaped(&strategy)));
            }
            let Some((_, shape)) = &shaped else { continue };
            let floors = self.frame_floor(&strategy, shape);
            let core = floors.pipeline.floor(&shape.load, 0.0);
            if core >= best {
                result.bounded += states.len() as u64;
                continue;
            }
            for state in states {
                state.apply(&mut strategy);
                let rules = StateRules::new(&strategy, &space.problem.workload, space.problem.engine);
                let pricing = prices.entry(strategy.shard).or_insert_with(|| self.anywhere(&strategy));
                match floors.of(&strategy, &rules, pricing, best) {
                    Floor::Seconds(floor) if floor >= best => result.bounded += 1,
                    Floor::Seconds(floor) => {
                        let step = floors.least_step(&rules, pricing);
                        result.entries.push(Entry { floor, step, task: index, frame, state: *state });
                    }
                    Floor::OutOfMemory(bytes) => {
                        result.out_of_memory += 1;
                        if result.leanest.as_ref().is_none_or(|(least, _)| bytes < *least) {
                            result.leanest = Some((bytes, strategy.clone()));
                        }
                    }
                }
            }
        }
        result
    }

    /// Strategies of task `index` that are likely to be good: small micro-batches, the plainest and the most sharded
    /// state.
    pub fn likely(&self, index: usize) -> Vec<Entry> {
        let space = self.space;
        let task = &space.tasks[index];
        let mut list = Vec::new();
        for frame in space.frames(task) {
            let mut strategy = space.outer(task, &frame);
            let is_usual = matches!(
                frame.schedule.0,
                Schedule::OneForwardOneBackward | Schedule::Interleaved | Schedule::ZeroBubbleV
            );
            if frame.micro.0 > 2 || !is_usual || !space.is_legal(&strategy) {
                continue;
            }
            let core = self.passes(&strategy);
            for state in space.states(task, &frame).0 {
                if state.shard != task.mesh.data || !matches!(state.zero, 1 | 3) {
                    continue;
                }
                state.apply(&mut strategy);
                if let Floor::Seconds(floor) = self.floor(&strategy, 1.2 * core) {
                    list.push(Entry { floor, step: 0.0, task: index, frame, state: *state });
                }
            }
        }
        // The best of each way to shard and to schedule: which of them fits is not known yet.
        list.sort_by(|one, other| one.floor.total_cmp(&other.floor));
        let mut seen: Vec<(u8, bool, u64, Schedule)> = Vec::new();
        list.retain(|entry| {
            let Entry { frame, state, .. } = entry;
            let way = (state.zero, state.reshard, frame.micro.0, frame.schedule.0);
            let is_new = !seen.contains(&way);
            seen.push(way);
            is_new
        });
        list
    }

    /// The bound of one strategy, whose state is in place, by itself.
    pub fn floor(&self, strategy: &Strategy, best: f64) -> Floor {
        let shape = self.shaped(strategy);
        let problem = self.space.problem;
        let rules = StateRules::new(strategy, &problem.workload, problem.engine);
        self.frame_floor(strategy, &shape).of(strategy, &rules, &self.anywhere(strategy), best)
    }

    /// The load of a strategy's shape, and its pipeline.
    pub fn pipeline(&self, strategy: &Strategy) -> (Load, Pipeline) {
        let shape = self.shaped(strategy);
        let pipeline = self.frame_floor(strategy, &shape).pipeline;
        (shape.load, pipeline)
    }

    /// Seconds of all passes at the least, whatever the state.
    pub fn passes(&self, strategy: &Strategy) -> f64 {
        let shape = self.shaped(strategy);
        self.frame_floor(strategy, &shape).pipeline.floor(&shape.load, 0.0)
    }

    fn anywhere(&self, strategy: &Strategy) -> DevicePricing<'a> {
        let problem = self.space.problem;
        DevicePricing::anywhere(problem.cluster, problem.engine, strategy, problem.workload.compute_type())
    }

    fn shaped(&self, strategy: &Strategy) -> Shaped {
        let forms = self.former.forms(strategy);
        let load = Load::new(self.former.units(), &forms, strategy.schedule.splits_weight());
        let pricing = self.anywhere(strategy);
        let bytes = Bytes(load.entering);
        let hop = if strategy.pipeline > 1 && load.is_plain {
            let way = pricing.send(bytes, 0, 1).seconds.0;
            if strategy.schedule.splits_weight() { way } else { 2.0 * way }
        } else {
            0.0
        };
        Shaped { forms, load, hop }
    }

    fn frame_floor<'s>(&'s self, strategy: &Strategy, shape: &'s Shaped) -> FrameFloor<'s> {
        let problem = self.space.problem;
        FrameFloor {
            load: &shape.load,
            pipeline: Pipeline {
                ranks: strategy.pipeline,
                chunks: strategy.virtual_stages,
                micro: strategy.accumulation,
                schedule: strategy.schedule,
                hop: shape.hop,
            },
            engine: problem.engine,
            room: problem.room(strategy),
            classes: &self.classes,
            forms: &shape.forms,
        }
    }
}

/// `frame` without what makes no difference to forms and loads.
fn shape_of(frame: &FrameChoice) -> FrameChoice {
    let splits = frame.schedule.0.splits_weight();
    let schedule = if splits { Schedule::ZeroBubbleH1 } else { Schedule::OneForwardOneBackward };
    FrameChoice { schedule: (schedule, 1), ..*frame }
}
