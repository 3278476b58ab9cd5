//! Bounds every strategy of one mesh over all its inner choices, and hands on those that may win.

use std::collections::HashMap;

use crate::cost::{DevicePricing, Pricing as _};
use crate::profile::choices::{OffloadCategory, Schedule};
use crate::profile::engine::Overlap;
use crate::program::state::{DistinctRules, StateRules};
use crate::search::axes::StateChoice;
use crate::search::cache::Cache;
use crate::search::choices::{Hosted, NOTHING, is_offered, splits};
use crate::search::class_costs::{ClassCostCache, ModelCosts};
use crate::search::large_batch_bound::{self, LargeBatchBound};
use crate::search::links::Links;
use crate::search::load::{Hops, Load};
use crate::search::mesh_orders;
use crate::search::pipeline_bound::{More, Pipeline};
use crate::search::problem::Problem;
use crate::search::space::{PassChoice, Space, Task};
use crate::search::state_prices::{KnownPrices, StatePrices};
use crate::search::strategy_bound::{Room, StrategyBound, StrategyBounds};
use crate::strategy::{MeshOrder, Strategy};
use crate::units::Bytes;

/// An outer strategy that may win.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// No inner choice is faster, in seconds.
    pub lower_bound: f64,
    /// The least that its optimizer step takes, in seconds.
    pub step: f64,
    /// In the order in which its task's strategies were bounded.
    pub place: u64,
    /// Index into the space's tasks.
    pub task: usize,
    pub pass_choice: PassChoice,
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

impl Bounded {
    /// `strategy` needs at least `bytes` and does not fit; it counts once for each of its `orders` mesh orders.
    fn no_room(&mut self, orders: u64, bytes: Bytes, strategy: &Strategy) {
        self.out_of_memory += orders;
        if self.leanest.as_ref().is_none_or(|(least, _)| bytes < *least) {
            self.leanest = Some((bytes, strategy.clone()));
        }
    }
}

/// Shapes whose least time for each sequence is remembered at once.
const MOST_LARGE_BATCH: usize = 1 << 20;

/// Bounds strategies of a space.
pub struct Bounding<'a> {
    pub space: &'a Space<'a>,
    class_costs: ClassCostCache<'a>,
    large_batch: Cache<large_batch_bound::Key, LargeBatchBound>,
    /// Classes of units, and how many of each there are.
    classes: Vec<(usize, u64)>,
    /// What of its state a rank may have on the host.
    splits: Vec<Hosted>,
}

/// An order of a mesh, and what ops cost there.
struct Placed<'a> {
    order: MeshOrder,
    pricing: DevicePricing<'a>,
    links: Links,
    prices: KnownPrices,
}

/// Costs of a shape with the loads read off them; `send` is a message from rank to rank, in seconds.
pub(super) struct Shaped {
    costs: ModelCosts,
    pub(super) load: Load,
    send: f64,
}

impl<'a> Bounding<'a> {
    /// Nothing is bounded yet.
    pub fn new(space: &'a Space<'a>) -> Self {
        let class_costs = ClassCostCache::new(space.problem);
        let mut classes: Vec<(usize, u64)> = Vec::new();
        for unit in class_costs.units() {
            match classes.iter_mut().find(|(class, _)| *class == unit.class) {
                Some((_, count)) => *count += 1,
                None => classes.push((unit.class, 1)),
            }
        }
        let mut splits = splits(space.request.fix.offload.as_deref(), &space.problem.engine.supports);
        // Of those that differ in activations alone, the most on the host is the leanest.
        let activations = |hosted: &Hosted| hosted[OffloadCategory::Activations as usize];
        let most = splits.iter().map(activations).fold(0.0, f64::max);
        splits.retain(|hosted| activations(hosted) == most);
        Self { space, class_costs, large_batch: Cache::new(MOST_LARGE_BATCH), classes, splits }
    }

    /// Bounds the strategies of task `index`; those that cannot be faster than `best` seconds cannot win.
    pub fn bound(&self, index: usize, best: f64) -> Bounded {
        let space = self.space;
        let task = &space.tasks[index];
        let mut result = Bounded::default();
        let mut shaped: Option<(PassChoice, Shaped)> = None;
        let mut prices = KnownPrices::default();
        for pass_choice in space.pass_choices(task) {
            if space.deadline.is_over() {
                result.is_cut = true;
                break;
            }
            let (states, legal, illegal) = space.states(task, &pass_choice);
            let orders = |state: &StateChoice| space.orders(task, state);
            let all = legal + illegal;
            result.considered += all;
            let mut strategy = space.outer(task, &pass_choice);
            if !space.is_legal(&strategy) {
                result.illegal += all;
                continue;
            }
            result.illegal += illegal;
            if best.is_finite() && self.large_batch(task, &pass_choice, &strategy) >= best {
                result.bounded += legal;
                continue;
            }
            let shape = self.shape(&mut shaped, &pass_choice, &strategy);
            let bounds = self.strategy_bounds(&strategy, shape);
            let core = bounds.pipeline.lower_bound(&shape.load, More::default());
            if core >= best {
                result.bounded += legal;
                continue;
            }
            let mut seen: Vec<(DistinctRules, usize)> = Vec::new();
            for state in states {
                state.apply(&mut strategy);
                let rules = StateRules::new(&strategy, &space.problem.workload, space.problem.engine);
                if self.is_known(&mut seen, &rules, state) {
                    result.bounded += orders(state);
                    continue;
                }
                let prices = prices.of((state.shard, pass_choice.numerics), &rules, || {
                    self.prices(shape, (&rules, strategy.pipeline), &self.anywhere(&strategy))
                });
                result.computed += 1;
                match bounds.of(state.sync, &rules, &prices, best) {
                    StrategyBound::Seconds(lower_bound) if lower_bound >= best => {
                        result.bounded += orders(state);
                    }
                    StrategyBound::Seconds(_) if !bounds.may_spread(state.sync, &rules, &prices, best) => {
                        if best.is_finite() {
                            result.bounded += orders(state);
                        } else {
                            // The ranks together have no room; no rank alone is known to be over.
                            result.no_room(orders(state), Bytes(bounds.room.device as u64), &strategy);
                        }
                    }
                    StrategyBound::Seconds(lower_bound) => {
                        let step = bounds.least_step(&prices);
                        let order = strategy.order;
                        let place = result.computed;
                        let state = *state;
                        result.entries.push(Entry {
                            lower_bound,
                            step,
                            place,
                            task: index,
                            pass_choice,
                            state,
                            order,
                        });
                    }
                    StrategyBound::OutOfMemory(bytes) => {
                        result.no_room(orders(state), bytes, &strategy);
                    }
                }
            }
        }
        result
    }

    /// Lets go of all but the `most` of `entries` with the lowest bounds: the lowest bound of those that go, in
    /// seconds, and how many strategies these are in all mesh orders.
    pub fn thin_out(&self, entries: &mut Vec<Entry>, most: usize) -> (Option<f64>, u64) {
        if entries.len() <= most {
            return (None, 0);
        }
        entries.sort_by(|one, other| one.lower_bound.total_cmp(&other.lower_bound));
        let let_go = entries.split_off(most);
        // Frames of one shape stand together.
        entries.sort_by_key(|entry| (entry.task, entry.place));
        let orders = |entry: &Entry| self.space.orders(&self.space.tasks[entry.task], &entry.state);
        (let_go.first().map(|entry| entry.lower_bound), let_go.iter().map(orders).sum())
    }

    /// The mesh orders of `entries`, which are of one task, that can be faster than `best` seconds, at what ops cost
    /// there; all of them, if there is no such time. Behind them, how many cannot.
    pub fn place(&self, entries: &[Entry], best: f64) -> (Vec<Entry>, u64) {
        let space = self.space;
        let (mut list, mut bounded) = (Vec::new(), 0);
        let mut placed: HashMap<u64, Vec<Placed<'_>>> = HashMap::new();
        // Of pass choices of one shape, by links; and of one pass choice, what its passes take.
        let mut shapes: (Option<PassChoice>, HashMap<Links, Shaped>) = Default::default();
        let mut passes: (Option<PassChoice>, HashMap<Links, f64>) = Default::default();
        for entry in entries {
            bounded += space.orders(&space.tasks[entry.task], &entry.state);
            if entry.lower_bound >= best {
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
            let choice = shape_of(&entry.pass_choice);
            if shapes.0 != Some(choice) {
                shapes = (Some(choice), HashMap::new());
            }
            if passes.0 != Some(entry.pass_choice) {
                passes = (Some(entry.pass_choice), HashMap::new());
            }
            let placed =
                placed.entry(strategy.shard).or_insert_with(|| self.placed(&strategy, best.is_finite()));
            for Placed { order, pricing, links, prices } in placed {
                let shape =
                    shapes.1.entry(*links).or_insert_with(|| self.shaped_at(&strategy, pricing, *links));
                let bounds = self.strategy_bounds(&strategy, shape);
                let passes = *passes
                    .1
                    .entry(*links)
                    .or_insert_with(|| bounds.pipeline.lower_bound(&shape.load, More::default()));
                if passes >= best {
                    continue;
                }
                let prices = prices.of((strategy.shard, entry.pass_choice.numerics), &rules, || {
                    self.prices(shape, (&rules, strategy.pipeline), pricing)
                });
                // That it may fit is known.
                if let StrategyBound::Seconds(lower_bound) = bounds.of(strategy.sync, &rules, &prices, best)
                    && lower_bound.max(entry.lower_bound) < best
                    && bounds.may_spread(strategy.sync, &rules, &prices, best)
                {
                    list.push(Entry {
                        lower_bound: lower_bound.max(entry.lower_bound),
                        order: *order,
                        ..*entry
                    });
                    bounded -= 1;
                }
            }
        }
        (list, bounded)
    }

    /// Whether a state gives the same program as one in `seen`, which then stands for it. Otherwise it is added to `seen`.
    fn is_known(
        &self,
        seen: &mut Vec<(DistinctRules, usize)>,
        rules: &StateRules,
        state: &StateChoice,
    ) -> bool {
        let supports = &self.space.problem.engine.supports;
        let is_there = |hosted: &&Hosted| **hosted != NOTHING && is_offered(hosted, state.zero, supports);
        let offloads = self.splits.iter().filter(is_there).count();
        let distinct = rules.distinct(state.sync);
        let is_known = seen.iter().any(|(known, more)| *more >= offloads && *known == distinct);
        if !is_known {
            seen.push((distinct, offloads));
        }
        is_known
    }

    /// Costs and load of a strategy's shape at the prices of `pricing`, its pipeline, and what its state takes there under
    /// `rules`.
    pub(super) fn priced(
        &self,
        strategy: &Strategy,
        rules: &StateRules,
        pricing: &DevicePricing<'_>,
    ) -> (Shaped, Pipeline, StatePrices) {
        let shape = self.shaped_at(strategy, pricing, self.class_costs.links(pricing));
        let pipeline = self.strategy_bounds(strategy, &shape).pipeline;
        let prices = self.prices(&shape, (rules, strategy.pipeline), pricing);
        (shape, pipeline, prices)
    }

    /// Whether `strategy`, priced so, may end before `best` seconds with `hosted` on the hosts of all its ranks.
    pub(super) fn may_have(
        &self,
        strategy: &Strategy,
        rules: &StateRules,
        (shape, prices): (&Shaped, &StatePrices),
        (hosted, best): (&Hosted, f64),
    ) -> bool {
        let bounds = self.strategy_bounds(strategy, shape);
        let bounds = StrategyBounds { splits: std::slice::from_ref(hosted), ..bounds };
        bounds.may_spread(strategy.sync, rules, prices, best)
    }

    /// The orders of a strategy's mesh, or those that may win, each with what ops cost there.
    fn placed(&self, strategy: &Strategy, may_win: bool) -> Vec<Placed<'a>> {
        let problem = self.space.problem;
        let orders = match self.space.request.fix.order {
            Some(order) => vec![order.normalised(|axis| strategy.size(axis))],
            None if may_win => mesh_orders::undominated(problem.cluster, strategy),
            None => mesh_orders::all(strategy),
        };
        let priced = |order| {
            let pricing = problem.pricing(&Strategy { order, ..strategy.clone() });
            let links = self.class_costs.links(&pricing);
            Placed { order, links, pricing, prices: KnownPrices::default() }
        };
        orders.into_iter().map(priced).collect()
    }

    fn anywhere(&self, strategy: &Strategy) -> DevicePricing<'a> {
        let problem = self.space.problem;
        DevicePricing::anywhere(problem.cluster, problem.engine, strategy, problem.workload.compute_type())
    }

    /// Seconds that `strategy`, of `pass_choice`, takes at the least, in micro-batches of any size. Where ranks share
    /// the cores of a machine nothing is said, as small micro-batches may stay in its caches.
    fn large_batch(&self, task: &Task, pass_choice: &PassChoice, strategy: &Strategy) -> f64 {
        let Problem { workload, cluster, .. } = self.space.problem;
        if cluster.device.cores.is_some() {
            return 0.0;
        }
        let pass_choice = PassChoice { micro: (0, 0), ..shape_of(pass_choice) };
        let key = (task.mesh.tensor, task.mesh.context, task.experts, pass_choice);
        let large_batch = self.large_batch.of(key, || {
            let sequences = large_batch_bound::sequences(workload, task.mesh.context);
            let shape = self.shaped(&Strategy { micro_batch: sequences, ..strategy.clone() });
            LargeBatchBound::new(&shape.load, sequences)
        });
        large_batch.lower_bound(strategy.micro_batch * strategy.accumulation, strategy.pipeline)
    }

    /// Costs and load of `strategy`, which is of `pass_choice`: those that are `known`, if these are of a pass choice
    /// of the same shape.
    fn shape<'s>(
        &self,
        known: &'s mut Option<(PassChoice, Shaped)>,
        pass_choice: &PassChoice,
        strategy: &Strategy,
    ) -> &'s Shaped {
        let choice = shape_of(pass_choice);
        let of_frame = known.take().filter(|(known, _)| *known == choice);
        &known.insert(of_frame.unwrap_or_else(|| (choice, self.shaped(strategy)))).1
    }

    /// Costs and load at prices that no order undercuts.
    fn shaped(&self, strategy: &Strategy) -> Shaped {
        let pricing = self.anywhere(strategy);
        self.shaped_at(strategy, &pricing, self.class_costs.links(&pricing))
    }

    /// Costs and load at the prices of `pricing`, whose links are `links`.
    fn shaped_at(&self, strategy: &Strategy, pricing: &DevicePricing<'_>, links: Links) -> Shaped {
        let costs = self.class_costs.costs(strategy, pricing, links);
        let engine = self.space.problem.engine;
        let hops = Hops {
            splits_weight: strategy.schedule.splits_weight(),
            sends_beside: engine.timing.overlaps(Overlap::Sends),
        };
        let load = Load::new(self.class_costs.units(), &costs, hops);
        // Between neighbours, whatever the order.
        let send = if strategy.pipeline > 1 && load.is_plain {
            self.anywhere(strategy).send(Bytes(load.entering), 0, 1).seconds.0
        } else {
            0.0
        };
        Shaped { costs, load, send }
    }

    /// Prices on a pipeline of so many ranks.
    fn prices(
        &self,
        shape: &Shaped,
        (rules, ranks): (&StateRules, u64),
        pricing: &DevicePricing<'_>,
    ) -> StatePrices {
        let problem = self.space.problem;
        let model = (&shape.load, &shape.costs, self.classes.as_slice());
        StatePrices::new(model, (&problem.workload, problem.engine), (rules, ranks), pricing)
    }

    fn strategy_bounds<'s>(&'s self, strategy: &Strategy, shape: &'s Shaped) -> StrategyBounds<'s> {
        let problem = self.space.problem;
        StrategyBounds {
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
            room: Room { device: problem.room(strategy), host: problem.host_limit.0 as f64 },
            splits: &self.splits,
            bucket: strategy.bucket,
        }
    }
}

/// `pass_choice` without what makes no difference to costs and loads.
fn shape_of(pass_choice: &PassChoice) -> PassChoice {
    let splits = pass_choice.schedule.0.splits_weight();
    let schedule = if splits { Schedule::ZeroBubbleH1 } else { Schedule::OneForwardOneBackward };
    PassChoice { schedule: (schedule, 1), ..*pass_choice }
}

pub mod lean;
mod likely;
#[cfg(test)]
mod tests;
