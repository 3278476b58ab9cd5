//! What to do where nothing fits.

use rayon::prelude::*;

use crate::cluster::Cluster;
use crate::profile::choices::{CheckpointMode, Compression};
use crate::search::axes::divisors;
use crate::search::closed_forms::{Closed, ClosedForms};
use crate::search::deadline::Deadline;
use crate::search::problem::{Candidate, Problem};
use crate::search::request::Failure;
use crate::search::space::Space;
use crate::simulate::memory::dominant;
use crate::strategy::draft::CheckpointEntry;
use crate::strategy::{Draft, Strategy, rules};
use crate::units::{ElementType, grouped};

/// Most times the devices are doubled in search of a count that fits.
const MOST_DOUBLINGS: u32 = 12;

/// Nothing fits: the smallest peak found, what dominates it, and what would fit.
pub fn nothing_fits(space: &Space<'_>, closed_forms: &ClosedForms<'_>, near: &Strategy) -> Failure {
    let problem = closed_forms.problem;
    let strategy = leanest(space, closed_forms, near);
    let closed = closed_forms.close(&strategy);
    let candidate = problem.play(strategy);
    let fullest = candidate.playback.ranks.iter().max_by_key(|rank| rank.memory.total);
    Failure::NothingFits {
        smallest: closed.memory.process,
        limit: problem.memory_limit,
        strategy: candidate.strategy.text(problem.facts.defaults),
        dominant: fullest.map_or("parameters", |rank| dominant(&rank.memory).name()),
        advice: advice(closed_forms, &candidate.strategy, &closed),
    }
}

/// `near` with everything recomputed, the loss in chunks if that takes less, and on the host what the engine can keep
/// there and the host has room for, but for what is fixed.
fn leanest(space: &Space<'_>, closed_forms: &ClosedForms<'_>, near: &Strategy) -> Strategy {
    let problem = closed_forms.problem;
    let mut strategy = space.recomputing(near);
    let mut least = closed_forms.close(&strategy).memory.process;
    let mut try_with = |change: &dyn Fn(&mut Strategy)| {
        let mut leaner = strategy.clone();
        change(&mut leaner);
        leaner.normalise(&problem.facts);
        if !rules::legal(&leaner, &problem.facts) {
            return;
        }
        let closed = closed_forms.close(&leaner);
        let has_room = closed.host <= problem.cluster.host_memory_per_device();
        if has_room && closed.memory.process < least {
            (strategy, least) = (leaner, closed.memory.process);
        }
    };
    for &loss in &space.axes.loss {
        try_with(&|strategy| strategy.loss = loss);
    }
    if space.request.fix.offload.is_none() {
        let supports = &problem.engine.supports;
        let host = |strategy: &mut Strategy, category| {
            *strategy.offload.fractions_mut(category) = vec![1.0; strategy.pipeline as usize];
        };
        if *supports.offload_together {
            try_with(&|strategy| supports.offloads().for_each(|category| host(strategy, category)));
        }
        for category in supports.offloads() {
            try_with(&|strategy| host(strategy, category));
        }
    }
    strategy
}

/// Which device count and which single change fit, both checked in closed form.
fn advice(closed_forms: &ClosedForms<'_>, near: &Strategy, closed: &Closed) -> String {
    let mut parts = Vec::new();
    if let Some(change) = single_change(closed_forms, near) {
        parts.push(format!("{change} would fit"));
    }
    if let Some((devices, text)) = more_devices(closed_forms.problem, closed_forms.deadline) {
        parts.push(format!("{} such devices would fit, with {text}", grouped(devices)));
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

/// The least doubling of the nodes on which a plain strategy fits, and that strategy.
fn more_devices(problem: &Problem<'_>, deadline: Deadline) -> Option<(u64, String)> {
    let cluster = problem.cluster;
    (1..=MOST_DOUBLINGS).take_while(|_| !deadline.is_over()).find_map(|doublings| {
        let nodes = cluster.nodes.checked_mul(1 << doublings)?;
        let larger = Cluster::uniform(
            cluster.name.clone(),
            nodes,
            cluster.devices_per_node,
            cluster.device.clone(),
            cluster.cost_model_hash.clone(),
        );
        let limit = Some(problem.memory_limit);
        let problem = Problem::new(problem.model, &larger, problem.workload, problem.engine, limit);
        let closed_forms = ClosedForms::new(&problem);
        plain(&problem).into_iter().find_map(|draft| {
            let strategy = draft.resolve(&problem.facts).ok()?;
            let text = strategy.text(problem.facts.defaults);
            closed_forms.fits(&closed_forms.close(&strategy)).then_some((problem.facts.devices, text))
        })
    })
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
