//! Best first: inner choices are solved and programs played in rounds of fixed sizes, so that the answer does not
//! depend on the number of threads, until no bound is below the best played time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rayon::prelude::*;

use crate::search::bounding::Entry;
use crate::search::exhaustive::play_all;
use crate::search::finish::{Open, finish};
use crate::search::incumbent::{Found, PLAYED_A_ROUND, events, play};
use crate::search::patience::Patience;
use crate::search::request::Account;
use crate::search::solve::{Solved, Solving};
use crate::units::Seconds;

/// Strategies whose inner choices are solved in one round.
const SOLVED_A_ROUND: usize = 64;

/// Strategies that wait to be solved, the lowest bound first; of equals, the first.
struct Waiting {
    entries: Vec<Entry>,
    queue: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Waiting {
    fn new(mut entries: Vec<Entry>) -> Self {
        entries.sort_by(|one, other| one.lower_bound.total_cmp(&other.lower_bound));
        let mut waiting = Self { queue: BinaryHeap::with_capacity(entries.len()), entries };
        (0..waiting.entries.len()).for_each(|place| waiting.put(place));
        waiting
    }

    /// Bounds are not negative, so their bits are in order as they are.
    fn put(&mut self, place: usize) {
        self.queue.push(Reverse((self.entries[place].lower_bound.max(0.0).to_bits(), place)));
    }

    /// The lowest bound.
    fn lowest(&self) -> Option<f64> {
        self.queue.peek().map(|Reverse((bits, _))| f64::from_bits(*bits))
    }

    /// Up to `most` of them whose bounds are below `limit` seconds.
    fn take(&mut self, most: usize, limit: f64) -> Vec<usize> {
        let mut round = Vec::new();
        while round.len() < most && self.lowest().is_some_and(|lowest| lowest < limit) {
            round.extend(self.queue.pop().map(|Reverse((_, place))| place));
        }
        round
    }
}

/// What became of a strategy in a round.
enum Looked {
    /// Its bound rose to so many seconds: others may be likelier now.
    Tightened(f64),
    /// Its best inner choice; none if nothing both fits and is faster than what is known.
    Solved(Option<Box<Solved>>),
}

/// Plays what may win of `entries`.
pub fn best_first(
    solving: &Solving<'_>,
    entries: Vec<Entry>,
    found: &mut Found,
    account: &mut Account,
    patience: Patience,
) {
    // With what is known of all their inner choices.
    let mut open: Vec<Open> = Vec::new();
    let mut waiting = Waiting::new(match patience {
        Patience::Exhaustive { .. } => {
            let left = play_all(solving, &entries, found, account).into_iter();
            open.extend(left.map(|solved| Open { solved, is_played: true }));
            Vec::new()
        }
        _ => entries,
    });
    let mut solved = 0;
    let mut ready: Vec<Solved> = Vec::new();
    loop {
        let limit = found.limit();
        let bounds = ready.iter().map(|solved| solved.lower_bound);
        let lowest = bounds.chain(waiting.lowest()).fold(f64::INFINITY, f64::min);
        let most = if patience.may_solve(solved, found, lowest) { SOLVED_A_ROUND } else { 0 };
        let round = waiting.take(most, limit);
        let look = |place: &usize| {
            let entry = &waiting.entries[*place];
            let tightened = solving.tightened(entry);
            if tightened > entry.lower_bound {
                Looked::Tightened(tightened)
            } else {
                let solved = solving.solve(entry, limit).map(Box::new);
                // What was cut short says nothing.
                if patience.is_over() { Looked::Tightened(entry.lower_bound) } else { Looked::Solved(solved) }
            }
        };
        let looked: Vec<Looked> = round.par_iter().map(look).collect();
        for (&place, looked) in round.iter().zip(looked) {
            match looked {
                Looked::Tightened(lower_bound) => {
                    waiting.entries[place].lower_bound = lower_bound;
                    waiting.put(place);
                    continue;
                }
                Looked::Solved(Some(fits)) => {
                    account.priced += 1;
                    ready.push(*fits);
                }
                Looked::Solved(None) if limit.is_infinite() => account.out_of_memory += 1,
                Looked::Solved(None) => account.bounded += 1,
            }
            solved += 1;
        }
        // The likeliest last; what cannot win any more is not played.
        ready.sort_by(|one, other| other.closed.likely.0.total_cmp(&one.closed.likely.0));
        ready.retain(|solved| solved.lower_bound < limit);
        // Others that are solved later may be likelier.
        let horizon = waiting.lowest().filter(|_| !round.is_empty()).unwrap_or(f64::INFINITY);
        let mut chosen = Vec::new();
        let mut passed_over = Vec::new();
        while chosen.len() < PLAYED_A_ROUND && patience.may_play(found, lowest) {
            let likely = |solved: &Solved| found.best.is_none() || solved.closed.likely.0 <= horizon;
            match ready.pop_if(|solved| likely(solved)) {
                // A proof plays less, and finds what is better after all.
                Some(solved) if solving.can_prove(&solved) && !found.may_win(&solved) => {
                    let about = Seconds(solved.closed.likely.0.max(limit));
                    found.stopped.push(solved.clone().stopped(about));
                    open.push(Open { solved, is_played: false });
                }
                Some(solved) if patience.plays(&solved.strategy) => chosen.push(solved),
                Some(solved) => passed_over.push(solved),
                None => break,
            }
        }
        ready.append(&mut passed_over);
        if chosen.is_empty() && round.is_empty() {
            // A step that is too long to be played beside others is played if there is nothing else.
            let shortest = (0..ready.len()).min_by_key(|&place| events(&ready[place].strategy));
            match shortest.filter(|_| found.best.is_none() && !patience.is_over()) {
                Some(place) => chosen.push(ready.swap_remove(place)),
                None => break,
            }
        }
        open.extend(chosen.iter().cloned().map(|solved| Open { solved, is_played: true }));
        play(solving, chosen, limit, found, account);
    }
    account.bounded += waiting.queue.len() as u64;
    open.extend(ready.into_iter().map(|solved| Open { solved, is_played: false }));
    let lowest = finish(solving, open, found, account, patience);
    let limit = found.limit();
    let left = lowest.into_iter().chain(waiting.lowest());
    // Beside what was left before it began.
    let left = left.chain(account.lowest_bound.map(|bound| bound.0));
    account.lowest_bound = left.filter(|bound| *bound < limit).reduce(f64::min).map(Seconds);
}
