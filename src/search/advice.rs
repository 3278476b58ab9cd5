//! What to do where nothing fits.

use rayon::prelude::*;

use crate::cluster::Cluster;
use crate::profile::choices::{CheckpointMode, Compression};
use crate::search::axes::divisors;
use crate::search::bounding::Bounding;
use crate::search::closed_forms::{Closed, ClosedForms};
use crate::search::deadline::Deadline;
use crate::search::least_memory::{Leanest, Measure, leanest};
use crate::search::problem::{Candidate, Problem};
use crate::search::request::{Binding, Failure, Request};
use crate::search::solve::Solving;
use crate::search::space::Space;
use crate::simulate::memory::dominant;
use crate::strategy::draft::CheckpointEntry;
use crate::strategy::{Draft, Strategy, rules};
use crate::units::{Bytes, ElementType, several};

/// Most times the nodes are doubled in search of a count that fits.
const MOST_DOUBLINGS: u32 = 12;

/// Nothing fits: the least that any strategy takes, what dominates it, what binds, and what would fit; none if no
/// strategy is legal. `near` stands in where time is up before that is known.
pub fn nothing_fits(
    space: &Space<'_>,
    closed_forms: &ClosedForms<'_>,
    near: Option<Strategy>,
) -> Option<Failure> {
    let Space { problem, request, deadline, .. } = *space;
    let leanest = leanest_of_all(problem, request, deadline);
    let known = leanest.found.first().map(|one| one.strategy.clone());
    let strategy = known.or_else(|| near.map(|near| space.recomputing(&near)))?;
    let closed = closed_forms.close(&strategy);
    let candidate = problem.play(strategy);
    let fullest = candidate.playback.ranks.iter().max_by_key(|rank| rank.memory.total);
    let host = problem.cluster.host_memory_per_device();
    let binds = match leanest.beside_host {
        // With more on the host it would fit.
        Some(beside) if beside <= problem.memory_limit || closed.host > host => Binding::Host { room: host },
        _ => Binding::Device,
    };
    let is_least = !leanest.found.is_empty() && leanest.lower >= closed.memory.process;
    Some(Failure::NothingFits {
        smallest: closed.memory.process,
        known: if is_least { "of any strategy" } else { "found" },
        limit: problem.memory_limit,
        strategy: candidate.strategy.text(problem.facts.defaults),
        dominant: fullest.map_or("parameters", |rank| dominant(&rank.memory).name()),
        binds,
        advice: advice(closed_forms, request, &candidate.strategy, &closed),
    })
}

/// The strategies of `request` that take the least, on devices with room for anything.
fn leanest_of_all(problem: &Problem<'_>, request: &Request, deadline: Deadline) -> Leanest {
    let roomy = Problem { memory_limit: Bytes(u64::MAX >> 8), ..problem.clone() };
    let space = Space { deadline, ..Space::new(&roomy, request) };
    let bounding = Bounding::new(&space);
    let closed_forms = ClosedForms::new(&roomy);
    let solving = Solving::new(&bounding, &closed_forms);
    leanest(&solving, Measure::Process)
}

/// Which device count and which single change fit, both checked in closed form.
fn advice(closed_forms: &ClosedForms<'_>, request: &Request, near: &Strategy, closed: &Closed) -> String {
    let mut parts = Vec::new();
    if let Some(change) = single_change(closed_forms, near) {
        parts.push(format!("{change} would fit"));
    }
    if let Some((devices, text)) = more_devices(closed_forms.problem, request, closed_forms.deadline) {
        parts.push(format!("{} would fit, with {text}", several("such device", devices)));
    }
    if parts.is_empty() {
        parts.push(format!("devices of at least {} would fit", closed.memory.process));
    }
    parts.join("; ")
}

/// One change of `near` that changes numerics and fits.
fn single_change(closed_forms: &ClosedForms<'_>, near: &Strategy) -> Option<&'static str> {
    type Change = fn(&mut Strategy);
    let changes: [(&str, Change); 3] = [
        ("grad=bf16 (--free grad)", |strategy| strategy.gradient_type = ElementType::Bf16),
        ("compress=8bit (--free compress)", |strategy| strategy.compression = Compression::EightBit),
        ("compress=4bit (--free compress)", |strategy| strategy.compression = Compression::FourBit),
    ];
    changes.into_iter().find_map(|(name, change)| {
        let mut strategy = near.clone();
        change(&mut strategy);
        let fits = &strategy != near
            && rules::legal(&strategy, &closed_forms.problem.facts)
            && closed_forms.fits(&closed_forms.close(&strategy));
        fits.then_some(name)
    })
}

/// The fewest devices on which something fits, and the leanest strategy there: more of one node, then more nodes.
fn more_devices(problem: &Problem<'_>, request: &Request, deadline: Deadline) -> Option<(u64, String)> {
    let cluster = problem.cluster;
    let fits = |nodes: u32, devices_per_node: u32| {
        let larger = Cluster::uniform(
            cluster.name.clone(),
            nodes,
            devices_per_node,
            cluster.device.clone(),
            cluster.cost_model_hash.clone(),
        );
        let limit = Some(problem.memory_limit);
        let problem = Problem::new(problem.model, &larger, problem.workload, problem.engine, limit);
        let leanest = leanest_of_all(&problem, request, deadline).found.into_iter().next()?;
        let fits = leanest.closed.memory.process <= problem.memory_limit;
        fits.then(|| (problem.facts.devices, leanest.strategy.text(problem.facts.defaults)))
    };
    let is_over = || deadline.is_over();
    let mut node = cluster.devices_per_node;
    if cluster.nodes == 1 {
        node = node.max(cluster.device.devices_per_node.value);
        let more = (cluster.devices_per_node + 1..=node).take_while(|_| !is_over());
        if let Some(found) = more.filter_map(|devices| fits(1, devices)).next() {
            return Some(found);
        }
    }
    let mut most = None;
    let mut few = cluster.nodes;
    for doublings in 1..=MOST_DOUBLINGS {
        let nodes = cluster.nodes.checked_mul(1 << doublings)?;
        if is_over() {
            return None;
        }
        if let Some(found) = fits(nodes, node) {
            most = Some((nodes, found));
            break;
        }
        few = nodes;
    }
    let (mut many, mut found) = most?;
    while many - few > 1 && !is_over() {
        let middle = few + (many - few) / 2;
        match fits(middle, node) {
            Some(fewer) => (many, found) = (middle, fewer),
            None => few = middle,
        }
    }
    Some(found)
}

/// Sequences of a micro-batch that are tried where any plan will do.
const MICRO_BATCHES: [u64; 3] = [1, 4, 16];

/// The quickest to step of a few plain strategies that fit, have what is fixed and can be played in a part of the time
/// there is, played: what there is to show if time is up before anything else is found.
pub fn spare(space: &Space<'_>, closed_forms: &ClosedForms<'_>) -> Option<Candidate> {
    let fix = &space.request.fix;
    let close = |mut draft: Draft| {
        for key in fix.keys() {
            draft.take(key, fix);
        }
        let strategy = draft.resolve(&closed_forms.problem.facts).ok()?;
        if closed_forms.deadline.is_over() || !closed_forms.has_time_to_play(&strategy) {
            return None;
        }
        let closed = closed_forms.close(&strategy);
        closed_forms.fits(&closed).then_some((closed.bound.0, strategy))
    };
    let drafts = plain(closed_forms.problem)
        .into_iter()
        .flat_map(|draft| MICRO_BATCHES.map(|micro| Draft { micro_batch: Some(micro), ..draft.clone() }));
    let drafts: Vec<Draft> = drafts.collect();
    let fitting: Vec<(f64, Strategy)> = drafts.into_par_iter().filter_map(close).collect();
    let (_, quickest) = fitting.into_iter().min_by(|one, other| one.0.total_cmp(&other.0))?;
    closed_forms.play(quickest).filter(|candidate| closed_forms.problem.fits(candidate))
}

/// Strategies that shard and recompute all they can, by tensor- and pipeline-parallel size.
fn plain(problem: &Problem<'_>) -> Vec<Draft> {
    let node = u64::from(problem.cluster.devices_per_node);
    let zero = problem.engine.supports.zero.iter().copied().max();
    let mut list = Vec::new();
    for tensor in divisors(node) {
        for pipeline in [1, 2, 4, 8, 16, 32] {
            let zero = if pipeline > 1 {
                problem.engine.supports.zero_with_pipeline.iter().copied().max()
            } else {
                zero
            };
            list.push(Draft {
                tensor: Some(tensor),
                pipeline: Some(pipeline),
                zero,
                micro_batch: Some(1),
                checkpoint: Some(vec![CheckpointEntry::Whole(CheckpointMode::Full)]),
                ..Draft::default()
            });
        }
    }
    list
}
