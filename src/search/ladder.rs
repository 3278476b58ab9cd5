//! The ladder: from plain data parallelism to the chosen plan, one change at a time.

use rayon::prelude::*;

use crate::profile::choices::{CheckpointMode, Schedule};
use crate::search::closed_forms::ClosedForms;
use crate::search::problem::{Candidate, Problem};
use crate::strategy::{Checkpoint, Offload, Strategy, cuts, defaults, rules};

/// The steps, the first the simplest legal strategy, the last the chosen one: what changed, and the strategy played.
pub fn ladder(closed_forms: &ClosedForms<'_>, winner: &Candidate) -> Vec<(String, Candidate)> {
    let (problem, chosen) = (closed_forms.problem, &winner.strategy);
    let mut steps: Vec<(String, Strategy)> = Vec::new();
    let mut current = plain(problem, chosen);
    steps.push(("plain data parallelism".to_owned(), current.clone()));
    for change in CHANGES {
        let mut next = current.clone();
        let Some(what) = change(&mut next, chosen) else { continue };
        refit(problem, &mut next, chosen);
        if next == current || !rules::legal(&next, &problem.facts) {
            continue;
        }
        steps.push((what, next.clone()));
        current = next;
    }
    if current != *chosen {
        steps.push(("the rest of the plan".to_owned(), chosen.clone()));
    }
    // The steps for which there is time.
    let played = |strategy: Strategy| {
        if strategy == *chosen { Some(winner.clone()) } else { closed_forms.play(strategy) }
    };
    steps.into_par_iter().filter_map(|(what, strategy)| Some((what, played(strategy)?))).collect()
}

/// One change from the current strategy towards the chosen one; none where they agree.
type Change = fn(&mut Strategy, &Strategy) -> Option<String>;

const CHANGES: [Change; 10] = [
    |s, c| {
        (s.zero != c.zero).then(|| {
            (s.zero, s.sync) = (c.zero, defaults::sync(c.zero));
            format!("shard state: ZeRO {}", c.zero)
        })
    },
    |s, c| {
        (c.tensor > 1).then(|| {
            s.tensor = c.tensor;
            s.sequence_parallel = c.sequence_parallel;
            format!("tensor parallel {}", c.tensor)
        })
    },
    |s, c| {
        (c.context > 1).then(|| {
            (s.context, s.context_kind) = (c.context, c.context_kind);
            format!("context parallel {}", c.context)
        })
    },
    |s, c| {
        (c.expert > 1).then(|| {
            s.expert = c.expert;
            format!("expert parallel {}", c.expert)
        })
    },
    |s, c| {
        (c.pipeline > 1).then(|| {
            s.pipeline = c.pipeline;
            format!("pipeline {} (1F1B)", c.pipeline)
        })
    },
    |s, c| {
        (s.schedule != c.schedule || s.virtual_stages != c.virtual_stages).then(|| {
            (s.schedule, s.virtual_stages) = (c.schedule, c.virtual_stages);
            format!("schedule {}", c.schedule)
        })
    },
    |s, c| {
        (c.data > 1 && c.zero > 0 && c.shard != c.data).then(|| {
            s.shard = c.shard;
            format!("shard groups of {}", c.shard)
        })
    },
    |s, c| {
        (s.micro_batch != c.micro_batch).then(|| {
            s.micro_batch = c.micro_batch;
            format!("micro-batches of {}", c.micro_batch)
        })
    },
    |s, c| {
        (s.loss != c.loss).then(|| {
            s.loss = c.loss;
            format!("{} loss", c.loss)
        })
    },
    |s, c| {
        let recomputes =
            c.checkpoint.iter().any(|chunk| chunk.runs.iter().any(|run| run.0 != CheckpointMode::None));
        recomputes.then(|| {
            s.checkpoint = c.checkpoint.clone();
            "recompute activations as planned".to_owned()
        })
    },
];

/// Data parallelism over all devices, nothing sharded, nothing recomputed.
fn plain(problem: &Problem<'_>, chosen: &Strategy) -> Strategy {
    let mut strategy = Strategy {
        tensor: 1,
        sequence_parallel: false,
        context: 1,
        expert: 1,
        expert_tensor: 1,
        pipeline: 1,
        schedule: Schedule::OneForwardOneBackward,
        virtual_stages: 1,
        zero: 0,
        micro_batch: 1,
        reshard_after_forward: true,
        sync: defaults::sync(0),
        checkpoint: Vec::new(),
        offload: Offload::default(),
        loss: crate::profile::choices::LossMode::Full,
        ..chosen.clone()
    };
    refit(problem, &mut strategy, chosen);
    strategy
}

/// Brings what follows from a change into line: data parallelism over the devices left, accumulation, cuts.
fn refit(problem: &Problem<'_>, strategy: &mut Strategy, chosen: &Strategy) {
    let devices = problem.facts.devices;
    let used = strategy.tensor * strategy.context * strategy.pipeline;
    if used == 0 || !devices.is_multiple_of(used) {
        return;
    }
    let whole = strategy.shard == strategy.data || strategy.data == 0;
    strategy.data = devices / used;
    let batch = problem.workload.global_batch;
    if !whole || strategy.shard > strategy.data || !strategy.data.is_multiple_of(strategy.shard.max(1)) {
        strategy.shard = strategy.shard.min(strategy.data);
    }
    let wants_groups = strategy.data == chosen.data && strategy.shard == chosen.shard;
    if !wants_groups {
        strategy.shard = strategy.data;
    }
    strategy.accumulation = (batch / (strategy.data * strategy.micro_batch).max(1)).max(1);
    strategy.expert_tensor =
        defaults::expert_tensor(strategy.tensor, strategy.context, strategy.data, strategy.expert);
    if strategy.expert == chosen.expert && strategy.tensor == chosen.tensor {
        strategy.expert_tensor = chosen.expert_tensor;
    }
    let chunks = strategy.chunks() as usize;
    if strategy.cuts.len() != chunks {
        strategy.cuts = if chosen.cuts.len() == chunks {
            chosen.cuts.clone()
        } else {
            cuts::left_out(&problem.facts, chunks)
        };
    }
    let covers = strategy.checkpoint.len() == chunks
        && strategy
            .checkpoint
            .iter()
            .zip(&strategy.cuts)
            .all(|(entry, &blocks)| entry.runs.iter().map(|run| run.1).sum::<u32>() == blocks);
    if !covers {
        strategy.checkpoint =
            strategy.cuts.iter().map(|&blocks| Checkpoint::uniform(CheckpointMode::None, blocks)).collect();
    }
    strategy.normalise(&problem.facts);
}
