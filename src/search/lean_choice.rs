//! The inner choice of an outer strategy that takes the least memory, and what no inner choice of it undercuts.
//!
//! Recomputation is left open first: each then holds at every moment what it holds at the least under any mode.
//! The leanest cuts of such blocks bound all choices from below. Choices that are real are compared with that.

use crate::profile::choices::CheckpointMode;
use crate::search::bounding::Entry;
use crate::search::choices::{Hosted, Options};
use crate::search::inner::InnerProblem;
use crate::search::lean_cuts::{Counted, LeanCuts};
use crate::search::solve::Solving;
use crate::strategy::{CheckpointEntry, Strategy, rules};

/// Of the numbers of first blocks that may recompute, the largest that are looked at one by one: the last block's
/// backward comes first, and is leaner without.
const FIRSTS: usize = 4;

/// The least that an outer strategy takes.
#[derive(Clone, Debug)]
pub struct LeanChoice {
    /// No inner choice peaks below so many bytes.
    pub lower: u64,
    /// One that peaks at no more than was asked for, and what it peaks at.
    pub found: Option<(u64, Strategy)>,
}

impl LeanChoice {
    fn or_leaner(&mut self, other: Option<(u64, Strategy)>) {
        let least = self.found.as_ref().map_or(u64::MAX, |(least, _)| *least);
        self.found = other.filter(|(bytes, _)| *bytes < least).or(self.found.take());
    }

    /// The most that another choice may take to be of use, of no more than `most`.
    fn most(&self, most: u64) -> Option<u64> {
        self.found.as_ref().map_or(Some(most), |(least, _)| least.checked_sub(1))
    }
}

impl Solving<'_> {
    /// The leanest inner choice of `entry` that peaks at `most` bytes or less; none if there is none.
    pub fn leanest_choice(&self, entry: &Entry, most: u64) -> Option<LeanChoice> {
        self.with_inner(entry, &self.options, None, |inner, outer| {
            if self.is_free {
                leanest_free(inner, outer, most)
            } else {
                self.leanest_alike(entry, (inner, outer), most)
            }
        })
    }

    /// The same where all ranks choose alike: each split between device and host by itself.
    fn leanest_alike(
        &self,
        entry: &Entry,
        (inner, outer): (&InnerProblem<'_, '_>, &Strategy),
        most: u64,
    ) -> Option<LeanChoice> {
        let facts = &self.bounding.space.problem.facts;
        let every = self.every_checkpoint(entry);
        let is_legal = |checkpoint: &Option<CheckpointEntry>, hosted: &Hosted| {
            rules::legal(&self.bounding.space.alike(outer, checkpoint.as_ref(), hosted), facts)
        };
        let is_first =
            |checkpoint: &&Option<CheckpointEntry>| matches!(checkpoint, Some(CheckpointEntry::First(_)));
        let mut choice = LeanChoice { lower: u64::MAX, found: None };
        let mut open = Vec::new();
        for hosted in self.splits(entry) {
            let whole = every.iter().filter(|checkpoint| !is_first(checkpoint));
            let mut legal: Vec<_> =
                whole.filter(|checkpoint| is_legal(checkpoint, &hosted)).cloned().collect();
            // Where some of the first blocks may recompute, any number of them may.
            if every.iter().find(is_first).is_some_and(|first| is_legal(first, &hosted)) {
                legal.extend(every.iter().rev().take_while(is_first).take(FIRSTS).cloned());
            }
            if let Some(lower) = lower(&legal, hosted, (inner, outer), most) {
                choice.lower = choice.lower.min(lower);
                open.push((lower, hosted, legal));
            }
        }
        open.sort_by_key(|(lower, ..)| *lower);
        for (lower, hosted, legal) in open {
            for checkpoint in &legal {
                let Some(most) = choice.most(most).filter(|most| *most >= lower) else { break };
                let options = Options::one(hosted);
                let entries = checkpoint.clone().map(|entry| vec![entry]);
                let checkpoint = entries.as_deref().or(inner.checkpoint);
                let alike = InnerProblem { options: &options, checkpoint, ..*inner };
                choice.or_leaner(found(&alike, outer, most));
            }
        }
        (choice.lower <= most).then_some(choice)
    }
}

/// Where each rank chooses for itself.
fn leanest_free(inner: &InnerProblem<'_, '_>, outer: &Strategy, most: u64) -> Option<LeanChoice> {
    let bounded = |inner: &InnerProblem<'_, '_>| {
        LeanCuts::new(inner, outer, Counted::AtLeast).leanest(most).map(|(lower, _)| lower)
    };
    let lower = if inner.options.recomputes {
        let costs = inner.costs.leanest(CheckpointMode::ALL);
        let options = inner.options.with_given_modes();
        bounded(&InnerProblem { costs: &costs, options: &options, ..*inner })?
    } else {
        bounded(inner)?
    };
    Some(LeanChoice { lower, found: found(inner, outer, most) })
}

/// A bound that no choice with `hosted` on the host and one of `checkpoints` undercuts; none if all take more than `most`.
fn lower(
    checkpoints: &[Option<CheckpointEntry>],
    hosted: Hosted,
    (inner, outer): (&InnerProblem<'_, '_>, &Strategy),
    most: u64,
) -> Option<u64> {
    let mut modes: Vec<CheckpointMode> = Vec::new();
    for entry in checkpoints.iter().flatten() {
        match entry {
            CheckpointEntry::Whole(mode) => modes.push(*mode),
            _ => modes.extend([CheckpointMode::Full, CheckpointMode::None]),
        }
    }
    modes.sort_unstable();
    modes.dedup();
    if checkpoints.is_empty() {
        return None;
    }
    let options = Options::one(hosted);
    let least = |inner: &InnerProblem<'_, '_>| LeanCuts::new(inner, outer, Counted::AtLeast).leanest(most);
    let found = if modes.is_empty() {
        least(&InnerProblem { options: &options, ..*inner })
    } else {
        let costs = inner.costs.leanest(&modes);
        least(&InnerProblem { costs: &costs, options: &options, ..*inner })
    };
    found.map(|(lower, _)| lower)
}

/// The leanest of the choices that are looked at one by one, if it takes no more than `most`.
fn found(inner: &InnerProblem<'_, '_>, outer: &Strategy, most: u64) -> Option<(u64, Strategy)> {
    let mut lean = LeanCuts::new(inner, outer, Counted::Exactly);
    let (bytes, cuts) = lean.leanest(most)?;
    let mut strategy = lean.strategy(&cuts, bytes)?;
    let facts = &inner.closed_forms.problem.facts;
    strategy.normalise(facts);
    rules::legal(&strategy, facts).then_some((bytes, strategy))
}
