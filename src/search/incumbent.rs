//! The incumbent: the fastest strategy that was played and fits, and what became of the others that were played.

use rayon::prelude::*;

use crate::profile::choices::GradientSync;
use crate::program::Program;
use crate::search::patience::NEAR;
use crate::search::problem::{Candidate, ProcessMemory};
use crate::search::request::Account;
use crate::search::solve::{Solved, Solving};
use crate::simulate::{Below, Playback};
use crate::strategy::Strategy;
use crate::units::Seconds;

/// The highest ratio of played time to bound that is expected of a strategy before it is played: it may come nearer to
/// its bound than the played ones did.
const MOST_NEAREST: f64 = 1.01;

/// Strategies that are played in one round.
pub const PLAYED_A_ROUND: usize = 4;

/// A strategy that others are faster than; most were not played to their end. It fits by what it holds at once.
#[derive(Clone, Debug)]
pub struct Stopped {
    pub strategy: Strategy,
    pub memory: ProcessMemory,
    /// What its step would take about.
    pub about: Seconds,
}

impl Solved {
    /// It was stopped when its step would take `about` so long.
    pub fn stopped(self, about: Seconds) -> Stopped {
        Stopped { strategy: self.strategy, memory: self.closed.memory, about }
    }
}

/// What playing has found so far.
#[derive(Default)]
pub struct Found {
    /// That fit and were the fastest so far, in the order in which they were played.
    pub played: Vec<Candidate>,
    /// That turned out slower than another.
    pub stopped: Vec<Stopped>,
    /// Seconds of the fastest, and what it is.
    pub best: Option<f64>,
    pub fastest: Option<Solved>,
    /// The lowest ratio of played time to bound so far.
    nearest: Option<f64>,
    /// How many were played, whether they fit or not, and the instructions and events that took.
    pub tried: usize,
    pub effort: u64,
}

impl Found {
    /// Nothing, where only what is below `limit` seconds is looked for; infinity is no limit.
    pub fn below(limit: f64) -> Self {
        Self { best: limit.is_finite().then_some(limit), ..Self::default() }
    }

    /// Seconds that a strategy must be below to win.
    pub fn limit(&self) -> f64 {
        self.best.unwrap_or(f64::INFINITY)
    }

    /// Whether `solved` would win if it came as near to its bound as anything that was played.
    pub fn may_win(&self, solved: &Solved) -> bool {
        let times = self.nearest.unwrap_or(1.0).min(MOST_NEAREST);
        solved.closed.likely.0.max(solved.closed.bound.0 * times) < self.limit()
    }

    /// Whether what is known is within [`NEAR`] of anything above `lowest` seconds.
    pub fn is_near(&self, lowest: f64) -> bool {
        self.best.is_some_and(|best| best <= lowest * (1.0 + NEAR))
    }
}

/// About how many events playing `strategy` takes: a few a pass where passes are quiet, else some for each op.
pub fn events(strategy: &Strategy) -> u64 {
    let passes = 2 * strategy.accumulation * strategy.chunks();
    let reduces_each_pass =
        strategy.zero >= 2 && strategy.sync != GradientSync::Deferred && strategy.data > 1;
    let gathers_each_pass = strategy.zero >= 3 && strategy.reshard_after_forward;
    let is_quiet =
        strategy.context == 1 && strategy.offload.is_none() && !reduces_each_pass && !gathers_each_pass;
    let blocks: u64 = strategy.cuts.iter().map(|&blocks| u64::from(blocks) + 1).sum();
    if is_quiet { 8 * passes } else { 40 * strategy.accumulation * blocks }
}

/// A program, how it was played, and what that took.
type Played = (Program, Below, u64);

/// Plays `chosen` at once, each as long as it may be faster than `limit` seconds. Buffers are placed of what wins
/// alone.
pub fn play(
    solving: &Solving<'_>,
    chosen: Vec<Solved>,
    limit: f64,
    found: &mut Found,
    account: &mut Account,
) {
    let closed_forms = solving.closed_forms;
    let mut ended: Vec<(Solved, Program, Playback)> = Vec::new();
    let played: Vec<(Solved, Option<Played>)> = chosen
        .into_par_iter()
        .map(|solved| {
            // What its closed form alone rules out is stopped before it starts.
            let may_win = solved.closed.bound.0 < limit
                && !closed_forms.deadline.is_over()
                && closed_forms.has_time_to_play(&solved.strategy);
            let played = may_win.then(|| closed_forms.play_below(&solved.strategy, Seconds(limit)));
            (solved, played)
        })
        .collect();
    for (solved, played) in played {
        account.played += 1;
        if let Some((_, _, effort)) = &played {
            found.tried += 1;
            found.effort += effort;
        }
        let about = match played {
            Some((program, Below::Played(playback), _)) => {
                ended.push((solved, program, playback));
                continue;
            }
            Some((_, Below::Slower(slower), _)) => slower.about,
            None => solved.closed.likely,
        };
        found.stopped.push(solved.stopped(about));
    }
    ended.sort_by(|one, other| one.2.step_time.0.total_cmp(&other.2.step_time.0));
    for (solved, program, playback) in ended {
        let about = playback.step_time;
        let times = about.0 / solved.closed.bound.0;
        found.nearest = Some(found.nearest.map_or(times, |nearest| nearest.min(times)));
        if about.0 >= found.limit() {
            found.stopped.push(solved.stopped(about));
            continue;
        }
        let candidate = closed_forms.candidate(solved.strategy.clone(), &program, playback);
        if closed_forms.problem.fits(&candidate) {
            found.best = Some(about.0);
            found.fastest = Some(solved);
            found.played.push(candidate);
        }
    }
}
