//! The plan that takes the least memory, and what no plan undercuts: outer strategies by a lower bound of their memory,
//! of each its leanest inner choice and what none of its inner choices undercuts, until no bound is below what is known.

use rayon::prelude::*;

use crate::search::bounding::Entry;
use crate::search::bounding::lean::{Lean, Limit};
use crate::search::closed_forms::Closed;
use crate::search::lean_choice::LeanChoice;
use crate::search::problem::{Candidate, Problem};
use crate::search::request::Account;
use crate::search::solve::{Solved, Solving};
use crate::strategy::Strategy;
use crate::units::Bytes;

/// Strategies that are played in the end, the leanest by closed form.
const PLAYED: usize = 8;
/// Strategies whose inner choices are looked at together.
const TOGETHER: usize = 64;
/// Most strategies whose inner choices are looked at.
const MOST_CLOSED: usize = 4_096;

/// What of a strategy's memory is to be small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// What its program peaks at, as reports print it.
    Peak,
    /// What its process takes, which has to fit.
    Process,
}

impl Measure {
    fn of(self, closed: &Closed) -> Bytes {
        match self {
            Self::Peak => closed.peak,
            Self::Process => closed.memory.process,
        }
    }

    /// The same of `strategy`, whose program peaks at `peak`.
    fn at(self, problem: &Problem<'_>, strategy: &Strategy, peak: Bytes) -> Bytes {
        match self {
            Self::Peak => peak,
            Self::Process => problem.process_memory(strategy, peak).process,
        }
    }

    /// What takes no more than `best`, and stays within `own`.
    fn limit(self, best: Bytes, own: Limit) -> Limit {
        match self {
            Self::Peak => Limit { peak: own.peak.min(best), ..own },
            Self::Process => Limit { process: own.process.min(best), ..own },
        }
    }
}

/// The leanest strategies.
#[derive(Clone, Debug, Default)]
pub struct Leanest {
    /// Each at its leanest inner choice, the leanest first.
    pub found: Vec<Solved>,
    /// No strategy takes less.
    pub lower: Bytes,
    pub account: Account,
}

/// Plays the leanest strategies of the space, and says what no strategy's program peaks below.
pub fn play(solving: &Solving<'_>) -> (Vec<Candidate>, Account) {
    let Leanest { found, lower, mut account } = leanest(solving, Measure::Peak);
    account.played = found.len().min(PLAYED) as u64;
    account.least_memory = Some(lower);
    (fitting(solving, found), account)
}

/// The first of `found` that fit as they are played: buffers may take more than what they hold.
pub fn fitting(solving: &Solving<'_>, found: Vec<Solved>) -> Vec<Candidate> {
    let closed_forms = solving.closed_forms;
    let play = |few: &[Solved]| -> Vec<Candidate> {
        let played = few.par_iter().filter_map(|solved| closed_forms.play(solved.strategy.clone()));
        played.filter(|candidate| closed_forms.problem.fits(candidate)).collect()
    };
    found.chunks(PLAYED).map(play).find(|fitting| !fitting.is_empty()).unwrap_or_default()
}

/// The leanest strategies of the space that fit.
pub fn leanest(solving: &Solving<'_>, measure: Measure) -> Leanest {
    let space = solving.bounding.space;
    let all = |limit: Limit, is_first: bool| -> Vec<Lean> {
        (0..space.tasks.len())
            .into_par_iter()
            .map(|task| solving.bounding.lean(task, limit, is_first))
            .collect()
    };
    let own = Limit { peak: Bytes(u64::MAX >> 8), process: space.problem.memory_limit };
    // What a few of the likeliest take rules out most of the others.
    let mut known = Look { measure, own, best: None, leanest: Leanest::default() };
    known.look(solving, bounds(solving, &all(own, true), measure), TOGETHER);
    let limit = known.best.map_or(own, |best| measure.limit(best, own));
    let lean = all(limit, false);
    let mut look = Look { leanest: Leanest::default(), ..known };
    look.look(solving, bounds(solving, &lean, measure), MOST_CLOSED);
    let mut leanest = look.leanest;
    leanest.found.extend(known.leanest.found);
    leanest.found.sort_by_key(|solved| (measure.of(&solved.closed), solved.closed.bound.0.to_bits()));
    leanest.found.dedup_by(|one, other| one.strategy == other.strategy);
    let best = leanest.found.first().map_or(Bytes(u64::MAX), |best| measure.of(&best.closed));
    leanest.lower = if lean.iter().any(|lean| lean.is_cut) { Bytes::ZERO } else { leanest.lower.min(best) };
    let sum = |count: fn(&Lean) -> u64| lean.iter().map(count).sum::<u64>();
    let looked_at = leanest.account.priced + leanest.account.out_of_memory;
    let considered = sum(|lean| lean.considered);
    let illegal = sum(|lean| lean.illegal);
    let bounded = considered - illegal - looked_at;
    leanest.account = Account { considered, illegal, bounded, ..leanest.account };
    leanest
}

/// Bounds of what the strategies in `lean` take, the least first.
fn bounds(solving: &Solving<'_>, lean: &[Lean], measure: Measure) -> Vec<(Bytes, Entry)> {
    let space = solving.bounding.space;
    let bound = |(peak, entry): &(Bytes, Entry)| match measure {
        Measure::Peak => (*peak, *entry),
        Measure::Process => (measure.at(space.problem, &space.strategy(entry), *peak), *entry),
    };
    let mut bounds: Vec<(Bytes, Entry)> =
        lean.par_iter().flat_map_iter(|lean| &lean.entries).map(bound).collect();
    bounds.sort_by_key(|(bytes, entry)| (*bytes, entry.task, entry.place));
    bounds
}

/// A look at inner choices.
struct Look {
    measure: Measure,
    own: Limit,
    /// The bytes of the leanest that is known.
    best: Option<Bytes>,
    leanest: Leanest,
}

impl Look {
    /// Looks at the inner choices of the first of `bounds`, `most` at the most, until no bound is below what is known.
    fn look(&mut self, solving: &Solving<'_>, bounds: Vec<(Bytes, Entry)>, most: usize) {
        let problem = solving.bounding.space.problem;
        let is_over = || solving.closed_forms.deadline.is_over();
        self.leanest.lower = Bytes(u64::MAX);
        for (place, entries) in bounds.chunks(TOGETHER).enumerate() {
            let is_enough = place * TOGETHER >= most || is_over();
            if self.best.is_some_and(|best| entries[0].0 >= best) || is_enough {
                self.leanest.lower = self.leanest.lower.min(entries[0].0);
                break;
            }
            let choices: Vec<_> = entries.par_iter().map(|(_, entry)| self.choice(solving, entry)).collect();
            // What was cut short says nothing.
            if is_over() {
                self.leanest.lower = self.leanest.lower.min(entries[0].0);
            }
            for ((bound, entry), choice) in entries.iter().zip(choices) {
                let Some(LeanChoice { lower, found }) = choice else {
                    // It takes more than what is known, or has no room.
                    self.leanest.account.out_of_memory += u64::from(self.best.is_none());
                    continue;
                };
                self.leanest.account.priced += 1;
                let strategy = solving.bounding.space.strategy(entry);
                let lower = self.measure.at(problem, &strategy, Bytes(lower)).max(*bound);
                self.leanest.lower = self.leanest.lower.min(lower);
                let Some((_, strategy)) = found else { continue };
                let closed = solving.closed_forms.close(&strategy);
                if solving.closed_forms.fits(&closed) {
                    let taken = self.measure.of(&closed);
                    self.best = Some(self.best.map_or(taken, |best| best.min(taken)));
                    let lower_bound = entry.lower_bound;
                    self.leanest.found.push(Solved { entry: *entry, lower_bound, strategy, closed });
                }
            }
        }
    }

    /// The leanest inner choice of `entry`, if it may be leaner than what is known, and fits.
    fn choice(&self, solving: &Solving<'_>, entry: &Entry) -> Option<LeanChoice> {
        let space = solving.bounding.space;
        let strategy = space.strategy(entry);
        let limit = self.best.map_or(self.own, |best| self.measure.limit(best, self.own));
        let room = limit.room(space.problem, &strategy);
        (room >= 0.0).then(|| solving.leanest_choice(entry, room as u64)).flatten()
    }
}
