//! What moving and updating the state of a model takes on a mesh, once for all pass choices there.

use std::collections::HashMap;

use crate::cost::digest::least;
use crate::cost::price::{LEVELS, Links};
use crate::cost::unit_cost::Hosts;
use crate::cost::{DevicePricing, Pricing as _};
use crate::lower::UnitParameters;
use crate::ops::{Collective, CollectiveKind, Elementwise, ElementwiseKind, Group, Op};
use crate::profile::EngineProfile;
use crate::profile::choices::OffloadCategory;
use crate::program::reduction::{accumulate, gathers, keep, reductions};
use crate::program::state::StateRules;
use crate::search::axes::NumericsChoice;
use crate::search::class_costs::ModelCosts;
use crate::search::load::Load;
use crate::strategy::Workload;
use crate::units::Bytes;

/// Seconds for the state of a whole model, collective by collective, and for a block of it.
#[derive(Clone, Copy, Debug)]
pub struct StatePrices {
    /// Reducing all gradients once, inside shard groups and across them.
    pub scatter: f64,
    pub reduce: f64,
    /// Gathering all parameters once.
    pub gather: f64,
    /// What each block adds to its rank's optimizer step: the update of the device and the host, and gathering what was
    /// updated. What is fixed (launches, hops) is left out.
    pub step: f64,
    /// What the update takes however little there is to update, if every unit has something.
    pub update: f64,
    /// The part of `step` that is the update, and the update with all of the state on the device or on the host.
    pub updates: Updates,
    /// Seconds that a copied byte takes on its way to the host.
    pub out: f64,
    /// What each block adds to it where gradients are summed over replicas in the end.
    pub replicas: f64,
    /// Adding what a micro-batch gave to the gradient of a block, where products do not.
    pub accumulate: f64,
    /// Gathering the parameters of a block, and of any unit, at the least.
    pub gather_block: f64,
    pub gather_unit: f64,
    /// Reducing the gradient of a block at the least: inside its shard group, and across all of them.
    pub scatter_block: f64,
    pub reduce_block: f64,
    /// What a host takes to issue that for a block.
    pub hosts: Hosts,
    /// The share of the multiprocessors that a collective takes, and those of links at the least.
    pub multiprocessors: f64,
    pub links: Links,
}

/// Seconds that a block adds to its rank's update.
#[derive(Clone, Copy, Debug, Default)]
pub struct Updates {
    /// At the least, wherever its state is.
    pub least: f64,
    pub device: f64,
    pub host: f64,
}

/// The prices that were looked up on one mesh, in one order.
#[derive(Default)]
pub struct KnownPrices(HashMap<(u8, u64, NumericsChoice, bool), StatePrices>);

impl KnownPrices {
    /// The prices under `rules` and `numerics`; those of a shard group of `shard` data ranks.
    pub fn of(
        &mut self,
        (shard, numerics): (u64, NumericsChoice),
        rules: &StateRules,
        make: impl FnOnce() -> StatePrices,
    ) -> StatePrices {
        *self.0.entry((rules.zero, shard, numerics, rules.keeps_whole_gradients)).or_insert_with(make)
    }
}

impl StatePrices {
    /// The prices of a model with `classes` of units, of which there are so many each, on a pipeline of `ranks` ranks.
    pub fn new(
        (load, costs, classes): (&Load, &ModelCosts, &[(usize, u64)]),
        (workload, engine): (&Workload, &EngineProfile),
        (rules, ranks): (&StateRules, u64),
        pricing: &DevicePricing<'_>,
    ) -> Self {
        let seconds = |op: &Op| pricing.price(op, 0).seconds.0;
        let host = |op: &Op| pricing.host_time(op).0;
        let block = |across, seconds: &dyn Fn(&Op) -> f64| -> f64 {
            let sums = reductions(rules, engine, &load.parameters, across);
            sums.iter().map(|(_, op)| seconds(op)).sum()
        };
        let mut prices = Self {
            scatter: 0.0,
            reduce: 0.0,
            gather: 0.0,
            step: step(load, rules, workload, pricing),
            update: 0.0,
            updates: Updates::default(),
            out: out(pricing),
            replicas: replicas(load, rules, pricing),
            accumulate: accumulate(&load.parameters, rules, engine).map_or(0.0, |op| seconds(&op)),
            gather_block: gathers(&load.parameters, rules).map(|op| seconds(&op)).sum(),
            gather_unit: f64::INFINITY,
            scatter_block: block(false, &seconds),
            reduce_block: block(true, &seconds),
            hosts: Hosts {
                gather: gathers(&load.parameters, rules).map(|op| host(&op)).sum(),
                scatter: block(false, &host),
                reduce: block(true, &host),
                accumulate: accumulate(&load.parameters, rules, engine).map_or(0.0, |op| host(&op)),
                copy: 0.0,
            },
            multiprocessors: pricing.beside(),
            links: [f64::INFINITY; LEVELS],
        };
        for &(class, count) in classes {
            let parameters = costs.classes[class].parameters;
            let links = &mut prices.links;
            let mut seconds = |op: &Op| {
                let price = pricing.price(op, 0);
                *links = least(*links, price.links());
                price.seconds.0
            };
            let mut sum = |across| -> f64 {
                reductions(rules, engine, &parameters, across).iter().map(|(_, op)| seconds(op)).sum()
            };
            let (reduce, scatter) = (sum(true), sum(false));
            let gather: f64 = gathers(&parameters, rules).map(|op| seconds(&op)).sum();
            let kept = keep(&parameters, rules).map_or(0.0, |op| pricing.price(&op, 0).seconds.0);
            prices.reduce += count as f64 * (reduce + kept);
            prices.scatter += count as f64 * (scatter + kept);
            prices.gather += count as f64 * gather;
            prices.gather_unit = gather.min(prices.gather_unit);
        }
        let trains = |(class, _): &(usize, u64)| costs.classes[*class].parameters.trained() > 0;
        if classes.iter().all(trains) {
            // The device updates what is not on the host, even if that is nothing.
            prices.update = seconds(&rules.adamw(0, false));
        }
        let blocks = load.blocks as f64 / ranks as f64;
        let on_host = engine.supports.offers(OffloadCategory::Optimizer, rules.zero).is_some();
        // Where a step takes no time of its own, a device whose state is all on the host updates nothing.
        let is_idle = on_host && engine.timing.step_time.value.0 <= 0.0;
        let fixed = if is_idle { 0.0 } else { prices.update };
        (prices.update, prices.updates) = update(&load.parameters, rules, pricing, (fixed, blocks, on_host));
        prices.step += prices.updates.least;
        prices.links = prices.links.map(|share| if share.is_finite() { share } else { 0.0 });
        prices
    }
}

/// Seconds that each block more takes: a slope over many, so that rounding and what is fixed fall out.
fn slope(pricing: &DevicePricing<'_>, op: &dyn Fn(u64) -> Op) -> f64 {
    let seconds = |blocks: u64| pricing.price(&op(blocks), 0).seconds.0;
    ((seconds(64) - seconds(32)) / 32.0).max(0.0)
}

/// What the update takes however little there is to update, and what each block adds to that. `fixed` is what the
/// device takes for nothing.
///
/// Where some of the state may be on the host, the host updates that beside the device. With `b` blocks, of which a
/// share `f` is on the host, it takes max(fixed + (1 − f) · device · b, f · host · b). The least of that over all
/// shares is `fixed`, or what a straight line in `b` says. Either holds for any `b`; the one that says more for a rank
/// of `blocks` blocks is taken.
fn update(
    parameters: &UnitParameters,
    rules: &StateRules,
    pricing: &DevicePricing<'_>,
    (fixed, blocks, on_host): (f64, f64, bool),
) -> (f64, Updates) {
    let owned = rules.at_least(rules.shards_optimizer, parameters.dense_trained, parameters.expert_trained);
    let each = |on_host: bool| slope(pricing, &|blocks| rules.adamw(owned * blocks, on_host));
    let (device, host) = (each(false), each(true));
    let updates = |least| Updates { least, device, host };
    if !on_host {
        return (fixed, updates(device));
    }
    if host * blocks <= fixed || device + host <= 0.0 {
        return (fixed, updates(0.0));
    }
    let share = host / (device + host);
    (fixed * share, updates(device * share))
}

/// Seconds that a byte more takes on its way to the host.
fn out(pricing: &DevicePricing<'_>) -> f64 {
    let seconds = |bytes| pricing.price(&Op::CopyOut(Bytes(bytes)), 0).seconds.0;
    ((seconds(2 << 30) - seconds(1 << 30)) / (1_u64 << 30) as f64).max(0.0)
}

fn step(load: &Load, rules: &StateRules, workload: &Workload, pricing: &DevicePricing<'_>) -> f64 {
    let p = &load.parameters;
    let owned = rules.at_least(rules.shards_optimizer, p.dense_trained, p.expert_trained);
    let slope = |op: &dyn Fn(u64) -> Op| slope(pricing, op);
    let norm = |blocks: u64| {
        Op::Elementwise(Elementwise {
            kind: ElementwiseKind::GradientNorm,
            elements: owned * blocks,
            operands: 1,
            element: rules.gradient,
        })
    };
    let norm = if workload.clip > 0.0 { slope(&norm) } else { 0.0 };
    let gathers = !rules.shards_parameters && rules.shards_optimizer && !rules.gathers_updates_ahead;
    let gather = |group, elements: u64, shards: u64| {
        if !gathers || shards <= 1 || elements == 0 {
            return 0.0;
        }
        let kind = CollectiveKind::AllGather;
        slope(&|blocks| {
            let bytes = Bytes(elements * blocks * rules.parameter.size());
            Op::Collective(Collective::new(kind, group, bytes))
        })
    };
    norm + gather(Group::State, p.dense_trained, rules.shards)
        + gather(Group::ExpertState, p.expert_trained, rules.expert_shards)
}

/// Seconds that a block adds to the sum over replicas behind the last micro-batch.
fn replicas(load: &Load, rules: &StateRules, pricing: &DevicePricing<'_>) -> f64 {
    if rules.replicas <= 1 || rules.zero < 2 {
        return 0.0;
    }
    let p = &load.parameters;
    let parts = [
        (Group::Replica, p.dense_trained / rules.shards),
        (Group::ExpertReplica, p.expert_trained / rules.expert_shards),
    ];
    let sum = |(group, elements): (Group, u64)| {
        slope(pricing, &|blocks| {
            let bytes = Bytes(elements * blocks * rules.reduce.size());
            Op::Collective(Collective::new(CollectiveKind::AllReduce, group, bytes))
        })
    };
    parts.into_iter().filter(|(_, elements)| *elements > 0).map(sum).sum()
}
