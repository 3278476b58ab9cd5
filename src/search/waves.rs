//! Best first: inner choices are solved and programs played in waves of fixed sizes, so that the answer does not
//! depend on the number of threads, until no bound is below the best played time.

use rayon::prelude::*;

use crate::search::bounding::Entry;
use crate::search::problem::Candidate;
use crate::search::request::Account;
use crate::search::solve::{Solution, Solved, Solving};
use crate::units::Seconds;

/// Strategies whose inner choices are solved in one wave.
const SOLVED_A_WAVE: usize = 32;
/// Strategies that are played in one wave.
const PLAYED_A_WAVE: usize = 4;

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

/// Plays what may win of `entries`. `is_late` says that time is up: what is left keeps its bound.
pub fn waves(
    solving: &Solving<'_>,
    mut entries: Vec<Entry>,
    found: &mut Found,
    account: &mut Account,
    is_late: &dyn Fn() -> bool,
) {
    entries.sort_by(|one, other| one.floor.total_cmp(&other.floor));
    let mut next = 0;
    let mut ready: Vec<Solved> = Vec::new();
    loop {
        if is_late() {
            break;
        }
        let limit = found.limit();
        let wave = entries[next..].iter().take(SOLVED_A_WAVE).take_while(|entry| entry.floor < limit).count();
        let solutions: Vec<Solution> =
            entries[next..next + wave].par_iter().map(|entry| solving.solve(entry, limit)).collect();
        next += wave;
        for solution in solutions {
            match solution {
                Solution::Fits(solved) => {
                    account.priced += 1;
                    ready.push(*solved);
                }
                Solution::Beaten => account.bounded += 1,
            }
        }
        // The likeliest last; what cannot win any more is not played.
        ready.sort_by(|one, other| other.closed.bound.0.total_cmp(&one.closed.bound.0));
        let mut chosen = Vec::new();
        while chosen.len() < PLAYED_A_WAVE {
            let Some(solved) = ready.pop() else { break };
            if solved.floor >= limit {
                continue;
            }
            // Others that are solved later may be likelier.
            let horizon = entries.get(next).map_or(f64::INFINITY, |entry| entry.floor);
            if wave > 0 && solved.closed.bound.0 > horizon.max(entries[next - 1].floor) && found.best.is_some() {
                ready.push(solved);
                break;
            }
            chosen.push(solved);
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

/// Plays `chosen` at once.
pub fn play(solving: &Solving<'_>, chosen: Vec<Solved>, found: &mut Found, account: &mut Account) {
    let problem = solving.closing.problem;
    let floors: Vec<f64> = chosen.iter().map(|solved| solved.floor).collect();
    let bounds: Vec<f64> = chosen.iter().map(|solved| solved.closed.bound.0).collect();
    let played: Vec<Candidate> =
        chosen.into_par_iter().map(|solved| problem.play(solved.strategy)).collect();
    for ((candidate, floor), bound) in played.into_iter().zip(floors).zip(bounds) {
        account.played += 1;
        let _ = bound;
        if std::env::var("MW_PLAYS").is_ok() {
            eprintln!("play {floor:.4} {:.4} {:.4} {}", bound, candidate.playback.step_time.0, candidate.strategy.text(problem.facts.defaults));
        }
        found.lowest_played = Some(found.lowest_played.map_or(floor, |lowest| lowest.min(floor)));
        if problem.fits(&candidate) {
            found.best = Some(found.limit().min(candidate.playback.step_time.0));
            found.played.push(candidate);
        }
    }
}
