//! The answer if nothing fits: the least that any strategy takes, what binds, and what would fit.

use crate::cluster::Cluster;
use crate::profile::choices::Compression;
use crate::search::bounding::Bounding;
use crate::search::closed_forms::ClosedForms;
use crate::search::deadline::Deadline;
use crate::search::least_memory::{Leanest, Measure, fitting, leanest};
use crate::search::problem::{Candidate, Problem};
use crate::search::request::{Binding, Failure, Request};
use crate::search::solve::Solving;
use crate::search::space::Space;
use crate::simulate::memory::dominant;
use crate::strategy::{Strategy, rules};
use crate::units::{Bytes, ElementType, several};

/// Most times the nodes are doubled in search of a count that fits.
const MOST_DOUBLINGS: u32 = 12;
/// Memory that has room for anything.
const ANYTHING: Bytes = Bytes(u64::MAX >> 8);

/// Nothing fits: the least that any strategy takes, what dominates it, what binds, and what would fit; none if no
/// strategy is legal. `near` stands in where time is up before that is known.
pub fn nothing_fits(
    space: &Space<'_>,
    closed_forms: &ClosedForms<'_>,
    near: Option<Strategy>,
) -> Option<Failure> {
    let Space { problem, request, deadline, .. } = *space;
    let roomy = Problem { memory_limit: ANYTHING, ..problem.clone() };
    let leanest = leanest_of_all(&roomy, request, deadline);
    let known = leanest.found.first().map(|one| one.strategy.clone());
    let strategy = known.or_else(|| near.map(|near| space.recomputing(&near)))?;
    let candidate = problem.play(strategy);
    let fullest = candidate.playback.ranks.iter().max_by_key(|rank| rank.memory.total);
    let is_least = !leanest.found.is_empty() && leanest.lower >= candidate.memory.process;
    Some(Failure::NothingFits {
        smallest: candidate.memory.process,
        known: if is_least { "of any strategy" } else { "found" },
        limit: problem.memory_limit,
        strategy: candidate.strategy.text(problem.facts.defaults),
        dominant: fullest.map_or("parameters", |rank| dominant(&rank.memory).name()),
        binds: binding(&roomy, problem.memory_limit, request, deadline),
        advice: advice(closed_forms, request, &candidate),
    })
}

/// Whether something would fit `limit` if hosts had room for anything. `roomy` is the problem on devices that have.
fn binding(roomy: &Problem<'_>, limit: Bytes, request: &Request, deadline: Deadline) -> Binding {
    let room = roomy.host_limit;
    if roomy.engine.supports.offload.is_empty() {
        return Binding::Device;
    }
    let beside = leanest_of_all(&Problem { host_limit: ANYTHING, ..roomy.clone() }, request, deadline);
    let would_fit = beside.found.first().is_some_and(|one| one.closed.memory.process <= limit);
    if would_fit { Binding::Host { room } } else { Binding::Device }
}

/// The strategies of `request` that take the least.
fn leanest_of_all(problem: &Problem<'_>, request: &Request, deadline: Deadline) -> Leanest {
    with_leanest(problem, request, deadline, |_, leanest| leanest)
}

/// The leanest plan that fits `problem`.
fn leanest_that_fits(problem: &Problem<'_>, request: &Request, deadline: Deadline) -> Option<Candidate> {
    let fitting =
        with_leanest(problem, request, deadline, |solving, leanest| fitting(solving, leanest.found));
    fitting.into_iter().min_by_key(|candidate| candidate.memory.process)
}

fn with_leanest<T>(
    problem: &Problem<'_>,
    request: &Request,
    deadline: Deadline,
    look: impl FnOnce(&Solving<'_>, Leanest) -> T,
) -> T {
    let space = Space { deadline, ..Space::new(problem, request) };
    let bounding = Bounding::new(&space);
    let closed_forms = ClosedForms::until(problem, deadline);
    let solving = Solving::new(&bounding, &closed_forms);
    look(&solving, leanest(&solving, Measure::Process))
}

/// Which single change and which device count fit, as they are played.
fn advice(closed_forms: &ClosedForms<'_>, request: &Request, near: &Candidate) -> String {
    let mut parts = Vec::new();
    if let Some(change) = single_change(closed_forms, &near.strategy) {
        parts.push(format!("{change} would fit"));
    }
    if let Some((devices, text)) = more_devices(closed_forms.problem, request, closed_forms.deadline) {
        parts.push(format!("{} would fit, with {text}", several("such device", devices)));
    }
    if parts.is_empty() {
        parts.push(format!("devices of at least {} would fit", near.memory.process));
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
            && closed_forms.fits(&closed_forms.close(&strategy))
            && closed_forms.problem.fits(&closed_forms.problem.play(strategy));
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
        let lean = leanest_that_fits(&problem, request, deadline)?;
        Some((problem.facts.devices, lean.strategy.text(problem.facts.defaults)))
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
