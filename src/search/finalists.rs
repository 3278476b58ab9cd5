//! The strategies that may win: priced in waves, the best of them played, the front and the neighbours picked.

use rayon::prelude::*;

use crate::profile::choices::GradientSync;
use crate::search::closed::Closed;
use crate::search::inner::{self};
use crate::search::problem::Candidate;
use crate::search::request::{Account, Objective};
use crate::strategy::{Strategy, rules};
use crate::units::Seconds;

use crate::search::run::{Entry, Searching};

/// Strategies whose closed forms are computed in one wave.
const PRICED_A_WAVE: usize = 24;
/// Strategies that are played in one wave.
const PLAYED_A_WAVE: usize = 4;
/// Most strategies priced, and played; what is left keeps its bound, and the gap says what that means.
const MOST_PRICED: usize = 240;
const MOST_PLAYED: usize = 16;
/// Most events played in one search, and for one strategy, so that long steps do not make a search long.
const MOST_EVENTS: u64 = 2_500_000;
pub(super) const MOST_EVENTS_A_STRATEGY: u64 = 300_000;
/// Played plans that the Pareto front looks for leaner forms of.
const LEANER: usize = 6;
/// States of one frame that are priced where there are too many to price all; their time bounds hardly differ.
const STATES_A_FRAME: usize = 2;

impl Searching<'_> {
    /// Best first by bound: prices in waves, plays in waves, until no bound left is below the best played.
    pub(super) fn play_best(
        &self,
        mut entries: Vec<Entry>,
        incumbent: Option<Candidate>,
        too_long: Option<f64>,
        account: &mut Account,
    ) -> Vec<Candidate> {
        let by_memory = self.request.objective == Objective::Memory;
        let mut passed_over: Option<f64> = None;
        if entries.len() > MOST_PRICED {
            let left_out = entries.iter().filter(|entry| entry.place >= STATES_A_FRAME);
            passed_over = left_out.map(|entry| entry.time).reduce(f64::min);
            let all = entries.len();
            entries.retain(|entry| entry.place < STATES_A_FRAME);
            account.bounded += (all - entries.len()) as u64;
        }
        let objective = self.request.objective;
        entries.sort_by(|one, other| one.key(objective).total_cmp(&other.key(objective)));
        let mut played: Vec<Candidate> = Vec::new();
        let mut best = incumbent.as_ref().map_or(f64::INFINITY, |known| known.playback.step_time.0);
        if by_memory {
            best = f64::INFINITY;
        }
        let mut ready: Vec<(Strategy, Closed)> = Vec::new();
        let mut next = 0;
        let mut events = 0_u64;
        loop {
            let wave =
                entries[next..].iter().take(PRICED_A_WAVE).take_while(|entry| entry.time < best).count();
            let wave = if next >= MOST_PRICED { 0 } else { wave };
            let priced: Vec<Option<(Strategy, Closed)>> =
                entries[next..next + wave].par_iter().map(|entry| self.price(entry)).collect();
            next += wave;
            for outcome in priced {
                match outcome {
                    Some(closed) => {
                        account.priced += 1;
                        ready.push(closed);
                    }
                    None => account.out_of_memory += 1,
                }
            }
            let key = |closed: &Closed| if by_memory { closed.peak.0 as f64 } else { closed.bound.0 };
            ready.sort_by(|one, other| key(&other.1).total_cmp(&key(&one.1)));
            // Play what may win and cannot be beaten by the bounds still to be priced; or, at the end, what is left.
            let horizon = entries.get(next).map_or(f64::INFINITY, |entry| entry.time);
            let mut chosen = Vec::new();
            while chosen.len() < PLAYED_A_WAVE
                && played.len() + chosen.len() < MOST_PLAYED
                && events < MOST_EVENTS
                && ready.last().is_some_and(|(_, closed)| {
                    by_memory || (closed.bound.0 < best && (wave == 0 || closed.bound.0 <= horizon))
                })
            {
                chosen.extend(ready.pop());
            }
            if chosen.is_empty() && wave == 0 {
                break;
            }
            let wave_played: Vec<Candidate> =
                chosen.into_par_iter().map(|(strategy, _)| self.problem.play(strategy)).collect();
            for candidate in wave_played {
                events += play_events(&candidate.strategy);
                account.played += 1;
                if self.problem.fits(&candidate) {
                    if !by_memory {
                        best = best.min(candidate.playback.step_time.0);
                    }
                    played.push(candidate);
                }
            }
        }
        account.bounded += (entries.len() - next) as u64;
        let unplayed = ready.iter().map(|(_, closed)| closed.bound.0);
        let unpriced = entries[next..].iter().map(|entry| entry.time);
        account.lowest_bound =
            unplayed.chain(unpriced).chain(passed_over).chain(too_long).reduce(f64::min).map(Seconds);
        let is_new = |seed: &Candidate| played.iter().all(|known| known.strategy != seed.strategy);
        if let Some(seed) = incumbent.filter(|seed| !by_memory && is_new(seed)) {
            // The seed was priced and played though its entry was not reached.
            account.bounded = account.bounded.saturating_sub(1);
            account.priced += 1;
            account.played += 1;
            played.push(seed);
        }
        let order = |candidate: &Candidate| {
            let time = candidate.playback.step_time.0;
            if by_memory { (candidate.memory.process.0 as f64, time) } else { (time, 0.0) }
        };
        played.sort_by(|one, other| {
            let (one, other) = (order(one), order(other));
            one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1))
        });
        played
    }

    /// The played plans, and the best few of them with more recomputed: leaner and slower.
    pub(super) fn with_leaner(&self, played: &[Candidate]) -> Vec<Candidate> {
        let mut leaner: Vec<Strategy> = Vec::new();
        for candidate in played.iter().take(LEANER) {
            for inner in &self.inner {
                let mut strategy = candidate.strategy.clone();
                inner.apply(&mut strategy);
                if strategy != candidate.strategy
                    && rules::legal(&strategy, &self.problem.facts)
                    && play_events(&strategy) <= MOST_EVENTS_A_STRATEGY / 4
                {
                    leaner.push(strategy);
                }
            }
        }
        let leaner: Vec<Candidate> =
            leaner.into_par_iter().map(|strategy| self.problem.play(strategy)).collect();
        let fitting = leaner.into_iter().filter(|candidate| self.problem.fits(candidate));
        played.iter().cloned().chain(fitting).collect()
    }

    /// Both closed forms of `entry` at the fastest inner choice found that fits: a uniform one, or a mixture of
    /// checkpoint modes.
    pub(super) fn price(&self, entry: &Entry) -> Option<(Strategy, Closed)> {
        let mut strategy = self.strategy(&entry.task, &entry.frame);
        entry.state.apply(&mut strategy);
        let mut closed: Vec<(Strategy, Closed)> = Vec::new();
        for inner in &self.inner {
            inner.apply(&mut strategy);
            if !rules::legal(&strategy, &self.problem.facts) {
                continue;
            }
            let forms = self.closing.close(&strategy);
            closed.push((strategy.clone(), forms));
            let by_time = self.request.objective == Objective::Time;
            if by_time && closed.len() == 1 && self.closing.fits(&forms) {
                return closed.pop();
            }
        }
        let key = |forms: &Closed| match self.request.objective {
            Objective::Time => forms.bound.0,
            Objective::Memory => forms.memory.process.0 as f64,
        };
        let by_bound =
            |one: &(Strategy, Closed), other: &(Strategy, Closed)| key(&one.1).total_cmp(&key(&other.1));
        let uniform =
            closed.iter().filter(|(_, forms)| self.closing.fits(forms)).min_by(|a, b| by_bound(a, b));
        let mixed = if self.request.fix.checkpoint.is_some() || self.request.objective == Objective::Memory {
            None
        } else {
            inner::mixed(self.closing, &closed)
        };
        mixed.into_iter().chain(uniform.cloned()).min_by(by_bound)
    }
}

/// About how many events playing `strategy` takes: a few a pass where passes are quiet, else some for each op.
pub(super) fn play_events(strategy: &Strategy) -> u64 {
    let passes = 2 * strategy.accumulation * strategy.chunks();
    let reduces_each_pass =
        strategy.zero >= 2 && strategy.sync != GradientSync::Deferred && strategy.data > 1;
    let gathers_each_pass = strategy.zero >= 3 && strategy.reshard_after_forward;
    let is_quiet =
        strategy.context == 1 && strategy.offload.is_none() && !reduces_each_pass && !gathers_each_pass;
    let blocks: u64 = strategy.cuts.iter().map(|&blocks| u64::from(blocks) + 1).sum();
    if is_quiet { 8 * passes } else { 40 * strategy.accumulation * blocks }
}

/// Plans that no other beats in both time and memory, the fastest first.
pub(super) fn pareto(played: &[Candidate]) -> Vec<Candidate> {
    let mut by_time: Vec<&Candidate> = played.iter().collect();
    by_time.sort_by(|one, other| one.playback.step_time.0.total_cmp(&other.playback.step_time.0));
    let mut front: Vec<Candidate> = Vec::new();
    for candidate in by_time {
        if front.last().is_none_or(|last| candidate.memory.process < last.memory.process) {
            front.push(candidate.clone());
        }
    }
    front
}

/// The next best plans that differ from the winner and each other in more than state and synchronisation.
pub(super) fn different(played: &[Candidate], count: usize) -> Vec<Candidate> {
    let kind = |strategy: &Strategy| {
        (
            strategy.tensor,
            strategy.context,
            strategy.pipeline,
            strategy.schedule,
            strategy.zero,
            strategy.micro_batch,
        )
    };
    let mut seen: Vec<_> = played.first().map(|winner| kind(&winner.strategy)).into_iter().collect();
    let mut list = Vec::new();
    for candidate in played.iter().skip(1) {
        let this = kind(&candidate.strategy);
        if list.len() < count && !seen.contains(&this) {
            seen.push(this);
            list.push(candidate.clone());
        }
    }
    list
}
