//! Best first: inner choices are solved and programs played in waves of fixed sizes, so that the answer does not
//! depend on the number of threads, until no bound is below the best played time.

use std::time::Instant;

use rayon::prelude::*;

use crate::search::bounding::Entry;
use crate::search::problem::Candidate;
use crate::search::request::Account;
use crate::search::solve::{Solution, Solved, Solving};
use crate::units::Seconds;

/// Strategies whose inner choices are solved in one wave.
const SOLVED_A_WAVE: usize = 64;
/// Strategies that are played in one wave.
const PLAYED_A_WAVE: usize = 4;
/// Most strategies that are solved, and played, where no time limit was given; what is left keeps its bound.
const MOST_SOLVED: usize = 12_000;
const MOST_PLAYED: usize = 400;

/// How long to go on.
#[derive(Clone, Copy, Debug)]
pub enum Patience {
    /// A fixed amount of work.
    Work,
    /// Until a moment.
    Until(Instant),
    /// To the end, whatever the bounds say.
    Exhaustive,
}

impl Patience {
    fn is_over(self, solved: usize, played: usize) -> bool {
        match self {
            Self::Work => solved >= MOST_SOLVED || played >= MOST_PLAYED,
            Self::Until(end) => Instant::now() >= end,
            Self::Exhaustive => false,
        }
    }

    /// Seconds that a strategy must be below to be looked at, if the best so far takes `best`.
    const fn limit(self, best: f64) -> f64 {
        match self {
            Self::Exhaustive => f64::INFINITY,
            Self::Work | Self::Until(_) => best,
        }
    }
}

/// What the waves have found so far.
#[derive(Default)]
pub struct Found {
    /// That fit, in the order in which they were played.
    pub played: Vec<Candidate>,
    /// Seconds of the fastest.
    pub best: Option<f64>,
    /// The lowest bound of those that were played.
    pub lowest_played: Option<f64>,
}

impl Found {
    /// Seconds that a strategy must be below to win.
    pub fn limit(&self) -> f64 {
        self.best.unwrap_or(f64::INFINITY)
    }
}

/// Plays what may win of `entries`.
pub fn waves(
    solving: &Solving<'_>,
    mut entries: Vec<Entry>,
    found: &mut Found,
    account: &mut Account,
    patience: Patience,
) {
    entries.sort_by(|one, other| one.floor.total_cmp(&other.floor));
    let mut next = 0;
    let mut ready: Vec<Solved> = Vec::new();
    loop {
        let limit = patience.limit(found.limit());
        let is_over = patience.is_over(next, account.played as usize);
        let open = entries[next..].iter().take(SOLVED_A_WAVE);
        let wave = if is_over { 0 } else { open.take_while(|entry| entry.floor < limit).count() };
        let solutions: Vec<Solution> =
            entries[next..next + wave].par_iter().map(|entry| solving.solve(entry, limit)).collect();
        next += wave;
        for solution in solutions {
            match solution {
                Solution::Fits(solved) => {
                    account.priced += 1;
                    ready.push(*solved);
                }
                Solution::Beaten if limit.is_infinite() => account.out_of_memory += 1,
                Solution::Beaten => account.bounded += 1,
            }
        }
        // The likeliest last; what cannot win any more is not played.
        ready.sort_by(|one, other| other.closed.bound.0.total_cmp(&one.closed.bound.0));
        ready.retain(|solved| solved.floor < limit);
        // Others that are solved later may be likelier.
        let horizon = entries.get(next).filter(|_| wave > 0).map_or(f64::INFINITY, |entry| entry.floor);
        let mut chosen = Vec::new();
        while chosen.len() < PLAYED_A_WAVE && account.played as usize + chosen.len() < most_played(patience) {
            let likely = |solved: &Solved| found.best.is_none() || solved.closed.bound.0 <= horizon;
            match ready.pop_if(|solved| likely(solved)) {
                Some(solved) => chosen.push(solved),
                None => break,
            }
        }
        if chosen.is_empty() && wave == 0 {
            break;
        }
        play(solving, chosen, found, account);
    }
    account.bounded += (entries.len() - next) as u64;
    let limit = found.limit();
    let left = ready.iter().map(|solved| solved.floor).chain(entries[next..].iter().map(|entry| entry.floor));
    account.lowest_bound = left.filter(|floor| *floor < limit).reduce(f64::min).map(Seconds);
}

const fn most_played(patience: Patience) -> usize {
    match patience {
        Patience::Work => MOST_PLAYED,
        Patience::Until(_) | Patience::Exhaustive => usize::MAX,
    }
}

/// Plays `chosen` at once.
pub fn play(solving: &Solving<'_>, chosen: Vec<Solved>, found: &mut Found, account: &mut Account) {
    let problem = solving.closing.problem;
    let played: Vec<(Candidate, f64)> =
        chosen.into_par_iter().map(|solved| (problem.play(solved.strategy), solved.floor)).collect();
    for (candidate, floor) in played {
        account.played += 1;
        found.lowest_played = Some(found.lowest_played.map_or(floor, |lowest| lowest.min(floor)));
        if problem.fits(&candidate) {
            found.best = Some(found.limit().min(candidate.playback.step_time.0));
            found.played.push(candidate);
        }
    }
}
