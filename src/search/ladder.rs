//! The ladder: from plain data parallelism to the chosen plan, one change at a time.

use rayon::prelude::*;

use crate::profile::choices::Schedule;
use crate::search::closed_forms::ClosedForms;
use crate::search::problem::Candidate;
use crate::strategy::{Draft, Key, Strategy};

/// The steps, each legal, the first the simplest strategy that the engine runs, the last the chosen one: what changed,
/// and the strategy played.
pub fn ladder(closed_forms: &ClosedForms<'_>, winner: &Candidate) -> Vec<(String, Candidate)> {
    let chosen = &winner.strategy;
    let steps = steps(closed_forms, chosen);
    // The steps for which there is time.
    let played = |strategy: Strategy| {
        if strategy == *chosen { Some(winner.clone()) } else { closed_forms.play(strategy) }
    };
    steps.into_par_iter().filter_map(|(what, strategy)| Some((what, played(strategy)?))).collect()
}

fn steps(closed_forms: &ClosedForms<'_>, chosen: &Strategy) -> Vec<(String, Strategy)> {
    let facts = &closed_forms.problem.facts;
    let target = chosen.draft(facts.defaults);
    let mut draft = plain(&target);
    let mut steps: Vec<(String, Strategy)> = Vec::new();
    // What the simplest legal strategy has to have.
    let mut needed: Vec<String> = Vec::new();
    if let Ok(strategy) = draft.resolve(facts) {
        steps.push(("plain data parallelism".to_owned(), strategy));
    }
    for change in &CHANGES {
        let mut next = draft.clone();
        change.keys(chosen).iter().for_each(|&key| next.take(key, &target));
        if next == draft || !change.says(chosen) {
            continue;
        }
        let resolved = next.resolve(facts).ok();
        let words = change.words(chosen, resolved.as_ref());
        match (resolved, steps.last()) {
            (Some(strategy), Some((_, last))) if strategy == *last => {}
            (Some(strategy), Some(_)) => {
                steps.push((words, strategy));
                draft = next;
            }
            (Some(strategy), None) => {
                needed.push(words);
                steps.push((format!("the simplest that is legal: {}", needed.join(", ")), strategy));
                draft = next;
            }
            // Until something is legal, one change rests on the one before.
            (None, None) => {
                needed.push(words);
                draft = next;
            }
            (None, Some(_)) => {}
        }
    }
    if steps.last().is_none_or(|(_, last)| last != chosen) {
        steps.push(("the rest of the plan".to_owned(), chosen.clone()));
    }
    steps
}

/// Data parallelism over all devices, nothing sharded, nothing recomputed; numerics and kernels as in `target`.
fn plain(target: &Draft) -> Draft {
    let mut draft = target.clone();
    for key in [
        Key::Tensor,
        Key::SequenceParallel,
        Key::Context,
        Key::ContextKind,
        Key::Expert,
        Key::ExpertTensor,
        Key::Pipeline,
        Key::Schedule,
        Key::VirtualStages,
        Key::Cuts,
        Key::Data,
        Key::Zero,
        Key::Shard,
        Key::Reshard,
        Key::Sync,
        Key::MicroBatch,
        Key::Accumulation,
        Key::Checkpoint,
        Key::Offload,
        Key::Overlap,
        Key::Loss,
    ] {
        draft.take(key, &Draft::default());
    }
    draft
}

/// One change towards the chosen strategy.
#[derive(Clone, Copy)]
enum Change {
    Shard,
    Tensor,
    Context,
    Expert,
    Pipeline,
    Schedule,
    ShardGroup,
    MicroBatch,
    Loss,
    Recompute,
}

const CHANGES: [Change; 10] = [
    Change::Shard,
    Change::Tensor,
    Change::Context,
    Change::Expert,
    Change::Pipeline,
    Change::Schedule,
    Change::ShardGroup,
    Change::MicroBatch,
    Change::Loss,
    Change::Recompute,
];

impl Change {
    /// The keys that go to their values in `chosen`; cuts with what makes as many chunks.
    fn keys(self, chosen: &Strategy) -> &'static [Key] {
        match self {
            Self::Shard => &[Key::Zero],
            Self::Tensor => &[Key::Tensor, Key::SequenceParallel],
            Self::Context => &[Key::Context, Key::ContextKind],
            Self::Expert => &[Key::Expert, Key::ExpertTensor],
            Self::Pipeline if chosen.virtual_stages == 1 => &[Key::Pipeline, Key::Cuts],
            Self::Pipeline => &[Key::Pipeline],
            Self::Schedule => &[Key::Schedule, Key::VirtualStages, Key::Cuts],
            Self::ShardGroup => &[Key::Shard],
            Self::MicroBatch => &[Key::MicroBatch],
            Self::Loss => &[Key::Loss],
            Self::Recompute => &[Key::Checkpoint],
        }
    }

    /// Whether `chosen` has it.
    fn says(self, chosen: &Strategy) -> bool {
        match self {
            Self::Shard => chosen.zero > 0,
            Self::Tensor => chosen.tensor > 1,
            Self::Context => chosen.context > 1,
            Self::Expert => chosen.expert > 1,
            Self::Pipeline => chosen.pipeline > 1,
            Self::MicroBatch => chosen.micro_batch > 1,
            Self::Schedule | Self::ShardGroup | Self::Loss | Self::Recompute => true,
        }
    }

    /// The change to what `chosen` has, and `now`, the strategy with it, where that is legal.
    fn words(self, chosen: &Strategy, now: Option<&Strategy>) -> String {
        match self {
            Self::Shard => format!("shard state: ZeRO {}", chosen.zero),
            Self::Tensor => format!("tensor parallel {}", chosen.tensor),
            Self::Context => format!("context parallel {}", chosen.context),
            Self::Expert => format!("expert parallel {}", chosen.expert),
            Self::Pipeline => {
                let is_plain = now.is_some_and(|now| now.schedule == Schedule::OneForwardOneBackward);
                format!("pipeline {}{}", chosen.pipeline, if is_plain { " (1F1B)" } else { "" })
            }
            Self::Schedule => format!("schedule {}", chosen.schedule),
            Self::ShardGroup => format!("shard groups of {}", chosen.shard),
            Self::MicroBatch => format!("micro-batches of {}", chosen.micro_batch),
            Self::Loss => format!("{} loss", chosen.loss),
            Self::Recompute => "recompute activations as planned".to_owned(),
        }
    }
}
