//! Bounds every strategy of one mesh over all its inner choices, and hands on those that may win.

use std::collections::HashMap;

use crate::cost::{DevicePricing, Pricing as _};
use crate::profile::choices::Schedule;
use crate::profile::engine::Overlap;
use crate::program::state::StateRules;
use crate::search::ample::{self, Ample};
use crate::search::axes::StateChoice;
use crate::search::cache::Cache;
use crate::search::floor::{More, Pipeline};
use crate::search::forms::{Former, Forms};
use crate::search::links::Links;
use crate::search::load::Load;
use crate::search::orders;
use crate::search::problem::Problem;
use crate::search::space::{FrameChoice, Space, Task};
use crate::search::state_floor::{Floor, FrameFloor};
use crate::search::state_prices::{KnownPrices, StatePrices};
use crate::strategy::{MeshOrder, Strategy};
use crate::units::Bytes;

/// An outer strategy that may win.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// No inner choice is faster, in seconds.
    pub floor: f64,
    /// The least that its optimizer step takes, in seconds.
    pub step: f64,
    /// In the order in which its task's strategies were bounded.
    pub place: u64,
    /// Index into the space's tasks.
    pub task: usize,
    pub frame: FrameChoice,
    pub state: StateChoice,
    pub order: MeshOrder,
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
    /// Bounds that were computed, each for all mesh orders.
    pub computed: u64,
    /// The leanest that does not fit: bytes at its peak, and what it is.
    pub leanest: Option<(Bytes, Strategy)>,
    /// Time was up before all of them were looked at.
    pub is_cut: bool,
}

/// Shapes whose least time for each sequence is remembered at once.
const MOST_AMPLE: usize = 1 << 20;

/// Bounds strategies of a space.
pub struct Bounding<'a> {
    pub space: &'a Space<'a>,
    former: Former<'a>,
    ample: Cache<ample::Key, Ample>,
    /// Classes of units, and how many of each there are.
    classes: Vec<(usize, u64)>,
}

/// An order of a mesh, and what ops cost there.
struct Placed<'a> {
    order: MeshOrder,
    pricing: DevicePricing<'a>,
    links: Links,
    prices: KnownPrices,
}

/// Forms of a shape with the loads read off them; `send` is a message from rank to rank, in seconds.
struct Shaped {
    forms: Forms,
    load: Load,
    send: f64,
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
        Self { space, former, ample: Cache::new(MOST_AMPLE), classes }
    }

    /// Bounds the strategies of task `index`; those that cannot be faster than `best` seconds cannot win.
    pub fn bound(&self, index: usize, best: f64) -> Bounded {
        let space = self.space;
        let task = &space.tasks[index];
        let mut result = Bounded::default();
        let mut shaped: Option<(FrameChoice, Shaped)> = None;
        let mut prices = KnownPrices::default();
        for frame in space.frames(task) {
            if space.deadline.is_over() {
                result.is_cut = true;
                break;
            }
            let (states, legal, illegal) = space.states(task, &frame);
            let orders = |state: &StateChoice| space.orders(task, state);
            let all = legal + illegal;
            result.considered += all;
            let mut strategy = space.outer(task, &frame);
            if !space.is_legal(&strategy) {
                result.illegal += all;
                continue;
            }
            result.illegal += illegal;
            if best.is_finite() && self.ample(task, &frame, &strategy) >= best {
                result.bounded += legal;
                continue;
            }
            let shape = self.shape(&mut shaped, &frame, &strategy);
            let floors = self.frame_floor(&strategy, shape);
            let core = floors.pipeline.floor(&shape.load, More::default());
            if core >= best {
                result.bounded += legal;
                continue;
            }
            for state in states {
                state.apply(&mut strategy);
                let rules = StateRules::new(&strategy, &space.problem.workload, space.problem.engine);
                let prices = prices.of((state.shard, frame.numerics), &rules, || {
                    self.prices(shape, &rules, &self.anywhere(&strategy))
                });
                result.computed += 1;
                match floors.of(state.sync, &rules, &prices, best) {
                    // Where there is no plan to beat, ranks may take their time.
                    Floor::Seconds(floor)
                        if floor >= best
                            || best.is_finite() && !floors.may_spread(state.sync, &rules, &prices, best) =>
                    {
                        result.bounded += orders(state);
                    }
                    Floor::Seconds(floor) => {
                        let step = floors.least_step(&prices);
                        let order = strategy.order;
                        let place = result.computed;
                        let state = *state;
                        result.entries.push(Entry { floor, step, place, task: index, frame, state, order });
                    }
                    Floor::OutOfMemory(bytes) => {
                        result.out_of_memory += orders(state);
                        if result.leanest.as_ref().is_none_or(|(least, _)| bytes < *least) {
                            result.leanest = Some((bytes, strategy.clone()));
                        }
                    }
                }
            }
        }
        result
    }

    /// Lets go of all but the `most` of `entries` with the lowest bounds: the lowest bound of those that go, in seconds,
    /// and how many strategies these are in all mesh orders.
    pub fn thin_out(&self, entries: &mut Vec<Entry>, most: usize) -> (Option<f64>, u64) {
        if entries.len() <= most {
            return (None, 0);
        }
        entries.sort_by(|one, other| one.floor.total_cmp(&other.floor));
        let let_go = entries.split_off(most);
        // Frames of one shape stand together.
        entries.sort_by_key(|entry| (entry.task, entry.place));
        let orders = |entry: &Entry| self.space.orders(&self.space.tasks[entry.task], &entry.state);
        (let_go.first().map(|entry| entry.floor), let_go.iter().map(orders).sum())
    }

    /// The mesh orders of `entries`, which are of one task, that can be faster than `best` seconds, at what ops cost
    /// there; all of them, if there is no such time. Behind them, how many cannot.
    pub fn place(&self, entries: &[Entry], best: f64) -> (Vec<Entry>, u64) {
        let space = self.space;
        let (mut list, mut bounded) = (Vec::new(), 0);
        let mut placed: HashMap<u64, Vec<Placed<'_>>> = HashMap::new();
        // Of frames of one shape, by links; and of one frame, what its passes take.
        let mut shapes: (Option<FrameChoice>, HashMap<Links, Shaped>) = Default::default();
        let mut passes: (Option<FrameChoice>, HashMap<Links, f64>) = Default::default();
        for entry in entries {
            bounded += space.orders(&space.tasks[entry.task], &entry.state);
            if entry.floor >= best {
                continue;
            }
            if space.deadline.is_over() {
                // Its bound holds in every order.
                list.push(*entry);
                bounded -= 1;
                continue;
            }
            let strategy = space.strategy(entry);
            let rules = StateRules::new(&strategy, &space.problem.workload, space.problem.engine);
            let choice = shape_of(&entry.frame);
            if shapes.0 != Some(choice) {
                shapes = (Some(choice), HashMap::new());
            }
            if passes.0 != Some(entry.frame) {
                passes = (Some(entry.frame), HashMap::new());
            }
            let placed =
                placed.entry(strategy.shard).or_insert_with(|| self.placed(&strategy, best.is_finite()));
            for Placed { order, pricing, links, prices } in placed {
                let shape =
                    shapes.1.entry(*links).or_insert_with(|| self.shaped_at(&strategy, pricing, *links));
                let floors = self.frame_floor(&strategy, shape);
                let passes = *passes
                    .1
                    .entry(*links)
                    .or_insert_with(|| floors.pipeline.floor(&shape.load, More::default()));
                if passes >= best {
                    continue;
                }
                let prices = prices.of((strategy.shard, entry.frame.numerics), &rules, || {
                    self.prices(shape, &rules, pricing)
                });
                // That it may fit is known.
                if let Floor::Seconds(floor) = floors.of(strategy.sync, &rules, &prices, best)
                    && floor.max(entry.floor) < best
                    && floors.may_spread(strategy.sync, &rules, &prices, best)
                {
                    list.push(Entry { floor: floor.max(entry.floor), order: *order, ..*entry });
                    bounded -= 1;
                }
            }
        }
        (list, bounded)
    }

    /// Strategies of task `index` that are likely to be good: small micro-batches, the plainest and the most sharded
    /// state.
    pub fn likely(&self, index: usize) -> Vec<Entry> {
        let space = self.space;
        let task = &space.tasks[index];
        let mut list = Vec::new();
        let mut shaped: Option<(FrameChoice, Shaped)> = None;
        let mut prices = KnownPrices::default();
        for frame in space.frames(task) {
            if space.deadline.is_over() {
                break;
            }
            let mut strategy = space.outer(task, &frame);
            let is_usual = matches!(
                frame.schedule.0,
                Schedule::OneForwardOneBackward | Schedule::Interleaved | Schedule::ZeroBubbleV
            );
            if frame.micro.0 > 2 || !is_usual || !space.is_legal(&strategy) {
                continue;
            }
            let shape = self.shape(&mut shaped, &frame, &strategy);
            let floors = self.frame_floor(&strategy, shape);
            let core = floors.pipeline.floor(&shape.load, More::default());
            for state in space.states(task, &frame).0 {
                if state.shard != task.mesh.data || !matches!(state.zero, 1 | 3) {
                    continue;
                }
                state.apply(&mut strategy);
                let rules = StateRules::new(&strategy, &space.problem.workload, space.problem.engine);
                let prices = prices.of((state.shard, frame.numerics), &rules, || {
                    self.prices(shape, &rules, &self.anywhere(&strategy))
                });
                if let Floor::Seconds(floor) = floors.of(state.sync, &rules, &prices, 1.2 * core) {
                    let order = strategy.order;
                    let state = *state;
                    list.push(Entry { floor, step: 0.0, place: 0, task: index, frame, state, order });
                }
            }
        }
        // The best two of each way to shard and to schedule: which of them fits is not known yet.
        list.sort_by(|one, other| one.floor.total_cmp(&other.floor));
        let mut seen: Vec<(u8, bool, u64, Schedule)> = Vec::new();
        list.retain(|entry| {
            let Entry { frame, state, .. } = entry;
            let way = (state.zero, state.reshard, frame.micro.0, frame.schedule.0);
            let is_new = seen.iter().filter(|known| **known == way).count() < 2;
            seen.push(way);
            is_new
        });
        list
    }

    /// The load of a strategy's shape at the prices of `pricing`, and its pipeline.
    pub fn pipeline(&self, strategy: &Strategy, pricing: &DevicePricing<'_>) -> (Load, Pipeline) {
        let shape = self.shaped_at(strategy, pricing, self.former.links(pricing));
        let pipeline = self.frame_floor(strategy, &shape).pipeline;
        (shape.load, pipeline)
    }

    /// The orders of a strategy's mesh, or those that may win, each with what ops cost there.
    fn placed(&self, strategy: &Strategy, may_win: bool) -> Vec<Placed<'a>> {
        let problem = self.space.problem;
        let orders = match self.space.request.fix.order {
            Some(order) => vec![order.normalised(|axis| strategy.size(axis))],
            None if may_win => orders::undominated(problem.cluster, strategy),
            None => orders::all(strategy),
        };
        let priced = |order| {
            let pricing = problem.pricing(&Strategy { order, ..strategy.clone() });
            let links = self.former.links(&pricing);
            Placed { order, links, pricing, prices: KnownPrices::default() }
        };
        orders.into_iter().map(priced).collect()
    }

    fn anywhere(&self, strategy: &Strategy) -> DevicePricing<'a> {
        let problem = self.space.problem;
        DevicePricing::anywhere(problem.cluster, problem.engine, strategy, problem.workload.compute_type())
    }

    /// Seconds that `strategy`, of `frame`, takes at the least, in micro-batches of any size. Where ranks share the cores
    /// of a machine nothing is said, as small micro-batches may stay in its caches.
    fn ample(&self, task: &Task, frame: &FrameChoice, strategy: &Strategy) -> f64 {
        let Problem { workload, cluster, .. } = self.space.problem;
        if cluster.device.cores.is_some() {
            return 0.0;
        }
        let frame = FrameChoice { micro: (0, 0), ..shape_of(frame) };
        let key = (task.mesh.tensor, task.mesh.context, task.experts, frame);
        let ample = self.ample.of(key, || {
            let sequences = ample::sequences(workload, task.mesh.context);
            let shape = self.shaped(&Strategy { micro_batch: sequences, ..strategy.clone() });
            Ample::new(&shape.load, sequences)
        });
        ample.floor(strategy.micro_batch * strategy.accumulation, strategy.pipeline)
    }

    /// Forms and load of `strategy`, which is of `frame`: those that are `known`, if these are of a frame of the same
    /// shape.
    fn shape<'s>(
        &self,
        known: &'s mut Option<(FrameChoice, Shaped)>,
        frame: &FrameChoice,
        strategy: &Strategy,
    ) -> &'s Shaped {
        let choice = shape_of(frame);
        let of_frame = known.take().filter(|(known, _)| *known == choice);
        &known.insert(of_frame.unwrap_or_else(|| (choice, self.shaped(strategy)))).1
    }

    /// Forms and load at prices that no order undercuts.
    fn shaped(&self, strategy: &Strategy) -> Shaped {
        let pricing = self.anywhere(strategy);
        self.shaped_at(strategy, &pricing, self.former.links(&pricing))
    }

    /// Forms and load at the prices of `pricing`, whose links are `links`.
    fn shaped_at(&self, strategy: &Strategy, pricing: &DevicePricing<'_>, links: Links) -> Shaped {
        let forms = self.former.forms(strategy, pricing, links);
        let load = Load::new(self.former.units(), &forms, strategy.schedule.splits_weight());
        // Between neighbours, whatever the order.
        let send = if strategy.pipeline > 1 && load.is_plain {
            self.anywhere(strategy).send(Bytes(load.entering), 0, 1).seconds.0
        } else {
            0.0
        };
        Shaped { forms, load, send }
    }

    fn prices(&self, shape: &Shaped, rules: &StateRules, pricing: &DevicePricing<'_>) -> StatePrices {
        let problem = self.space.problem;
        let model = (&shape.load, &shape.forms, self.classes.as_slice());
        StatePrices::new(model, (&problem.workload, problem.engine), rules, pricing)
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
                send: shape.send,
                sends_within: strategy.pipeline > 1 && !problem.engine.timing.overlaps(Overlap::Sends),
            },
            engine: problem.engine,
            room: problem.room(strategy),
            bucket: strategy.bucket,
        }
    }
}

/// `frame` without what makes no difference to forms and loads.
fn shape_of(frame: &FrameChoice) -> FrameChoice {
    let splits = frame.schedule.0.splits_weight();
    let schedule = if splits { Schedule::ZeroBubbleH1 } else { Schedule::OneForwardOneBackward };
    FrameChoice { schedule: (schedule, 1), ..*frame }
}

#[cfg(test)]
mod tests;
