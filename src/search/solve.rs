//! One outer strategy at its best inner choice, with what no inner choice can undercut.

use crate::profile::choices::Compression;
use crate::search::bounding::{Bounding, Entry, Shaped};
use crate::search::choices::{Hosted, Options};
use crate::search::closed_forms::{Closed, ClosedForms, OuterCosts};
use crate::search::exhaustive::every_choice;
use crate::search::inner::{Chosen, InnerProblem};
use crate::search::local_search::neighbours;
use crate::search::other_cuts::{MOST_CUTS_PROVEN, OtherCuts};
use crate::search::passes::{KnownWays, Way, Ways};
use crate::search::pipeline_bound::Pipeline;
use crate::search::proof::{Aim, Proof, prove};
use crate::search::state_prices::StatePrices;
use crate::strategy::{CheckpointEntry, Strategy, rules};

/// Events that could be played in the time in which one of many cuts is bounded, about.
const EFFORT_OF_A_CUT: u64 = 20;

/// An outer strategy at its best inner choice, by closed form.
#[derive(Clone, Debug)]
pub struct Solved {
    pub entry: Entry,
    pub strategy: Strategy,
    pub closed: Closed,
    /// No inner choice is faster, in seconds.
    pub lower_bound: f64,
}

/// What all inner choices of an outer strategy share.
pub(super) struct Shared<'a> {
    pub(super) entry: Entry,
    pub(super) outer: Strategy,
    pub(super) costs: OuterCosts<'a>,
    shape: Shaped,
    pipeline: Pipeline,
    prices: StatePrices,
    /// The blocks of each chunk, if there is no choice.
    cuts: Option<Vec<u32>>,
}

/// Solves inner choices.
pub struct Solving<'a> {
    pub bounding: &'a Bounding<'a>,
    pub closed_forms: &'a ClosedForms<'a>,
    pub options: Options,
    /// The same without copies beside the passes.
    quiet: Options,
    /// Each rank chooses for itself; otherwise all ranks choose alike.
    pub(super) is_free: bool,
    /// When the passes of pass choices end whose chunks do not adjoin.
    ways: KnownWays,
}

impl<'a> Solving<'a> {
    /// Solves what the request of `bounding`'s space leaves free.
    pub fn new(bounding: &'a Bounding<'a>, closed_forms: &'a ClosedForms<'a>) -> Self {
        let fix = &bounding.space.request.fix;
        let supports = &bounding.space.problem.engine.supports;
        let options = Options::new(fix.checkpoint.is_some(), fix.offload.as_ref(), supports);
        let quiet = options.without_copies();
        let is_free = supports.is_free_inside();
        Self { bounding, closed_forms, options, quiet, is_free, ways: KnownWays::default() }
    }

    /// The bound of `entry` with what is known of its pass choice: chunks that do not adjoin wait for each other.
    pub fn tightened(&self, entry: &Entry) -> f64 {
        self.with_ways(entry, |ways| entry.lower_bound.max(ways.least + entry.step))
    }

    /// The best inner choice of `entry` by its bound that is below `limit` seconds, or the best without copies beside
    /// the passes, where that is likelier; none if nothing that fits is.
    pub fn solve(&self, entry: &Entry, limit: f64) -> Option<Solved> {
        self.with_ways(entry, |ways| {
            let cut = |inner: &InnerProblem<'_, '_>, outer: &Strategy, limit: f64| {
                inner.solve(outer, (ways, entry.step), limit)
            };
            if !self.is_free {
                return self.best_alike(entry, limit, &cut);
            }
            let solve = |options: &Options, limit: f64| {
                self.chosen(entry, options, |inner, outer| cut(inner, outer, limit))
            };
            let solved = solve(&self.options, limit).map(|solved| {
                let closed = solved.closed;
                let quiet =
                    (closed.likely > closed.bound).then(|| solve(&self.quiet, closed.likely.0)).flatten();
                match quiet.filter(|quiet| quiet.closed.likely < closed.likely) {
                    Some(quiet) => {
                        Solved { lower_bound: solved.lower_bound.min(quiet.closed.bound.0), ..quiet }
                    }
                    None => solved,
                }
            });
            let limit = solved.as_ref().map_or(limit, |solved| solved.closed.likely.0);
            let firsts = self.chunks_alike(entry).then(|| self.best_alike(entry, limit, &cut)).flatten();
            likelier(solved, firsts)
        })
    }

    /// Whether ranks that choose for themselves also recompute the first blocks of each of their chunks: where these are
    /// several, that may take less memory than as many of a rank's first blocks.
    fn chunks_alike(&self, entry: &Entry) -> bool {
        self.is_free && self.options.recomputes && entry.pass_choice.schedule.1 > 1
    }

    /// Every inner choice of `entry` that fits; none if they are too many to list.
    pub fn every_choice(&self, entry: &Entry) -> Option<Vec<Solved>> {
        let shared = self.shared(entry);
        let inner = self.inner(&shared, &self.options, None);
        let choices = self.with_ways(entry, |ways| every_choice(&inner, &shared.outer, ways))?;
        let closed =
            choices.into_iter().map(|strategy| self.solved(&shared, Chosen { strategy, seconds: 0.0 }));
        let facts = &self.bounding.space.problem.facts;
        let is_legal = |solved: &Solved| self.is_free || rules::legal(&solved.strategy, facts);
        Some(closed.filter(|solved| is_legal(solved) && self.closed_forms.fits(&solved.closed)).collect())
    }

    /// A good inner choice of `entry`, quickly: that of the default cuts.
    pub fn even(&self, entry: &Entry, limit: f64) -> Option<Solved> {
        if !self.is_free {
            return self.best_alike(entry, limit, &|inner, outer, limit| inner.even(outer, limit));
        }
        self.chosen(entry, &self.options, |inner, outer| inner.even(outer, limit))
    }

    /// Whether a proof may look at each inner choice of `solved` by itself.
    pub fn can_prove(&self, solved: &Solved) -> bool {
        solved.strategy.compression == Compression::None && self.closed_forms.has_like_blocks()
    }

    /// What no inner choice of `solved` can undercut as played.
    pub fn prove(&self, solved: &Solved, aim: Aim) -> Proof {
        let Solved { entry, strategy, lower_bound, .. } = solved;
        let mut proof = if self.is_free {
            self.with_inner(entry, &self.options, None, |inner, outer| {
                self.prove_choices(entry, (inner, outer), strategy, aim)
            })
        } else {
            self.prove_alike(entry, aim)
        };
        if self.chunks_alike(entry) {
            proof = proof.and(self.prove_alike(entry, aim));
        }
        proof.lower = proof.lower.max(*lower_bound);
        proof
    }

    /// What none of the choices of `inner` can undercut, of which `strategy` is one.
    pub(super) fn prove_choices(
        &self,
        entry: &Entry,
        (inner, outer): (&InnerProblem<'_, '_>, &Strategy),
        strategy: &Strategy,
        aim: Aim,
    ) -> Proof {
        let mut proof = prove(inner, strategy, aim);
        match self.other_cuts(entry, (inner, outer), (strategy, aim.best)) {
            OtherCuts::From(lower) => {
                proof.lower = proof.lower.min(lower);
                proof.effort += MOST_CUTS_PROVEN as u64 * EFFORT_OF_A_CUT;
            }
            OtherCuts::Few(ways) => {
                proof.effort += ways.len() as u64 * EFFORT_OF_A_CUT;
                for Way { cuts, seconds } in ways {
                    if seconds >= proof.lower {
                        break;
                    }
                    proof = prove_cuts(inner, inner.with_cuts(outer, cuts), (proof, seconds), aim);
                }
            }
        }
        proof
    }

    /// The cuts but those of `strategy` under which a step may end before `limit` seconds.
    fn other_cuts(
        &self,
        entry: &Entry,
        (inner, outer): (&InnerProblem<'_, '_>, &Strategy),
        (strategy, limit): (&Strategy, f64),
    ) -> OtherCuts {
        let others = |ways: Vec<Way>| {
            let is_other = |way: &Way| way.seconds < limit && way.cuts != strategy.cuts;
            OtherCuts::Few(ways.into_iter().filter(is_other).collect())
        };
        if inner.cuts.is_some() || outer.chunks() == 1 {
            return OtherCuts::Few(Vec::new());
        }
        if strategy.virtual_stages > 1 {
            let ended = |way: &Way| Way { seconds: way.seconds + entry.step, ..way.clone() };
            return self.with_ways(entry, |ways| others(ways.list.iter().map(ended).collect()));
        }
        match inner.other_cuts(outer, &strategy.cuts, limit) {
            OtherCuts::Few(ways) => others(ways),
            from => from,
        }
    }

    /// Small changes of the inner choice of `solved` that may end before `limit` seconds, the likeliest first.
    pub fn neighbours(&self, solved: &Solved, limit: f64) -> Vec<Solved> {
        let found = self.with_inner(&solved.entry, &self.options, None, |inner, outer| {
            neighbours(inner, outer, &solved.strategy, limit)
        });
        let facts = &self.bounding.space.problem.facts;
        let legal = found.into_iter().filter(|(strategy, _)| self.is_free || rules::legal(strategy, facts));
        legal.map(|(strategy, closed)| Solved { strategy, closed, ..solved.clone() }).collect()
    }

    pub(super) fn with_ways<T>(&self, entry: &Entry, look: impl FnOnce(&Ways) -> T) -> T {
        let known = (entry.pass_choice.schedule.1 > 1)
            .then(|| self.ways.of(entry, (self.bounding, self.closed_forms)));
        look(&known.unwrap_or_default())
    }

    /// What all inner choices of `entry` share.
    pub(super) fn shared(&self, entry: &Entry) -> Shared<'a> {
        let outer = self.bounding.space.strategy(entry);
        let costs = self.closed_forms.outer(&outer);
        let (shape, pipeline, prices) = self.bounding.priced(&outer, &costs.rules, &costs.pricing);
        let cuts = self.bounding.space.given_cuts(&outer);
        Shared { entry: *entry, outer, costs, shape, pipeline, prices, cuts }
    }

    /// Whether a choice of `shared` in which all ranks have `hosted` on their hosts may end before `limit` seconds.
    pub(super) fn may_have(&self, shared: &Shared<'a>, hosted: &Hosted, limit: f64) -> bool {
        let Shared { outer, costs, shape, prices, .. } = shared;
        self.bounding.may_have(outer, &costs.rules, (shape, prices), (hosted, limit))
    }

    /// The inner problem of `shared`, of which `options` and `checkpoint` say what is free.
    pub(super) fn inner<'s>(
        &'s self,
        shared: &'s Shared<'a>,
        options: &'s Options,
        checkpoint: Option<&'s [CheckpointEntry]>,
    ) -> InnerProblem<'s, 'a> {
        InnerProblem {
            closed_forms: self.closed_forms,
            costs: &shared.costs,
            options,
            load: &shared.shape.load,
            pipeline: shared.pipeline,
            first_step: shared.entry.step,
            cuts: shared.cuts.as_deref(),
            checkpoint: checkpoint.or(self.bounding.space.request.fix.checkpoint.as_deref()),
        }
    }

    pub(super) fn with_inner<T>(
        &self,
        entry: &Entry,
        options: &Options,
        checkpoint: Option<&[CheckpointEntry]>,
        look: impl FnOnce(&InnerProblem<'_, '_>, &Strategy) -> T,
    ) -> T {
        let shared = self.shared(entry);
        look(&self.inner(&shared, options, checkpoint), &shared.outer)
    }

    /// `chosen` as it is written. A rank that is alone has no use for ZeRO unless something is on the host: it is written
    /// without, keeps gradients in another way, and may end before what the bound of `entry` knows of. All such choices
    /// are those of another entry.
    pub(super) fn solved(&self, shared: &Shared<'a>, Chosen { mut strategy, seconds }: Chosen) -> Solved {
        strategy.normalise(&self.bounding.space.problem.facts);
        let closed = self.close(shared, &strategy);
        let entry = shared.entry;
        let lower_bound = entry.lower_bound.max(seconds).min(closed.bound.0);
        Solved { entry, lower_bound, strategy, closed }
    }

    /// The closed forms of `strategy`, which is one of `shared` unless it was written in another way.
    pub(super) fn close(&self, shared: &Shared<'a>, strategy: &Strategy) -> Closed {
        let Strategy { cuts, checkpoint, offload, .. } = strategy;
        let (cuts, checkpoint, offload) = (cuts.clone(), checkpoint.clone(), offload.clone());
        if *strategy == (Strategy { cuts, checkpoint, offload, ..shared.outer.clone() }) {
            self.closed_forms.close_under(&shared.costs, strategy)
        } else {
            self.closed_forms.close(strategy)
        }
    }

    fn chosen(
        &self,
        entry: &Entry,
        options: &Options,
        choose: impl FnOnce(&InnerProblem<'_, '_>, &Strategy) -> Option<Chosen>,
    ) -> Option<Solved> {
        let shared = self.shared(entry);
        let chosen = choose(&self.inner(&shared, options, None), &shared.outer)?;
        Some(self.solved(&shared, chosen))
    }
}

/// The likelier of both, with a bound that none of the choices of either undercuts.
fn likelier(one: Option<Solved>, other: Option<Solved>) -> Option<Solved> {
    let (Some(one), Some(other)) = (&one, &other) else { return one.or(other) };
    let lower_bound = one.lower_bound.min(other.lower_bound);
    let likelier = if other.closed.likely < one.closed.likely { other } else { one };
    Some(Solved { lower_bound, ..likelier.clone() })
}

/// `proof` with all inner choices under the cuts of `other`, which end in `seconds` at the earliest.
fn prove_cuts(
    inner: &InnerProblem<'_, '_>,
    other: Strategy,
    (mut proof, seconds): (Proof, f64),
    aim: Aim,
) -> Proof {
    let best = aim.best;
    let Some(chosen) = inner.ranks(other, best) else { return proof };
    let lower = chosen.seconds.max(seconds);
    if lower >= aim.enough || proof.effort >= aim.effort {
        proof.lower = proof.lower.min(lower);
        return proof;
    }
    let aim = Aim { effort: aim.effort - proof.effort, ..aim };
    let own = prove(inner, &chosen.strategy, aim);
    proof.and(Proof { lower: own.lower.max(lower), ..own })
}
