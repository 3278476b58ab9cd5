//! Best first: inner choices are solved and programs played in waves of fixed sizes, so that the answer does not
//! depend on the number of threads, until no bound is below the best played time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rayon::prelude::*;

use crate::profile::choices::GradientSync;
use crate::program::Program;
use crate::search::bounding::Entry;
use crate::search::deadline::Deadline;
use crate::search::exhaustive::play_all;
use crate::search::problem::{Candidate, ProcessMemory};
use crate::search::proof::{Aim, Proof};
use crate::search::request::Account;
use crate::search::solve::{Solved, Solving};
use crate::simulate::{Below, Playback};
use crate::strategy::Strategy;
use crate::units::Seconds;

/// Strategies whose inner choices are solved in one wave.
const SOLVED_A_WAVE: usize = 64;
/// Strategies that are played in one wave.
const PLAYED_A_WAVE: usize = 4;
/// Most strategies that are solved, and played; what is left keeps its bound.
const MOST_SOLVED: usize = 30_000;
/// The same where blocks differ: a rank's place then matters to its choice.
const MOST_SOLVED_UNEVEN: usize = 500;
const MOST_PLAYED: usize = 600;
/// Instructions that are built and events that are played then at the most, together, so that long steps do not make a
/// search long; and of one strategy.
const MOST_EFFORT: u64 = 8_000_000;
const MOST_EFFORT_A_STRATEGY: u64 = 8_000_000;

/// A search that has proven its plan to be within this share of the best goes on for less.
const NEAR: f64 = 0.005;
/// The same to raise the bounds of those that were solved: of all, and of one.
const MOST_PROVEN: u64 = 4_000_000;
const MOST_PROVEN_OF_ONE: u64 = 400_000;
/// And to change the best strategy a little; how many changes of one are played.
const MOST_POLISHED: u64 = 2_000_000;
const MOST_NEIGHBOURS: usize = 32;
/// What it may take to play in the end what is unlikely to win, but may; of how many strategies small changes are looked
/// at, and how many of each, unless their steps are long.
const MOST_DOUBTED: u64 = 500_000;
const CHANGED: usize = 4;
const CHANGES: usize = 12;
const MOST_EVENTS_CHANGED: u64 = 50_000;
/// The most that is solved and played then.
const MOST_NEAR: [usize; 2] = [3_000, 200];

/// How long to go on.
#[derive(Clone, Copy, Debug)]
pub enum Patience {
    /// A fixed amount of work, as far as there is time: so many are solved at the most.
    Work { solved: usize, deadline: Deadline },
    /// To the end, whatever the bounds say.
    Exhaustive,
}

impl Patience {
    /// The work that a search does for a model whose blocks are all alike, or not.
    pub const fn work(is_even: bool, deadline: Deadline) -> Self {
        Self::Work { solved: if is_even { MOST_SOLVED } else { MOST_SOLVED_UNEVEN }, deadline }
    }

    /// Whether more may be solved than `solved`, if nothing left is below `lowest` seconds; until there is a plan in
    /// any case. Nothing once time is up.
    fn may_solve(self, solved: usize, found: &Found, lowest: f64) -> bool {
        let most = match self {
            Self::Work { solved, .. } if found.is_near(lowest) => solved.min(MOST_NEAR[0]),
            Self::Work { solved, .. } => solved,
            Self::Exhaustive => usize::MAX,
        };
        self.may_play(found, lowest) && (found.best.is_none() || solved < most)
    }

    /// Whether more may be played, likewise.
    fn may_play(self, found: &Found, lowest: f64) -> bool {
        let most = if found.is_near(lowest) { MOST_NEAR[1] } else { MOST_PLAYED };
        let has_work = match self {
            Self::Work { .. } => found.tried < most && found.effort < MOST_EFFORT,
            Self::Exhaustive => true,
        };
        !self.is_over() && (found.best.is_none() || has_work)
    }

    /// Whether the time is up.
    fn is_over(self) -> bool {
        matches!(self, Self::Work { deadline, .. } if deadline.is_over())
    }

    /// Whether so long a step is played.
    fn plays(self, strategy: &Strategy) -> bool {
        !matches!(self, Self::Work { .. }) || events(strategy) <= MOST_EFFORT_A_STRATEGY
    }
}

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
    fn stopped(self, about: Seconds) -> Stopped {
        Stopped { strategy: self.strategy, memory: self.closed.memory, about }
    }
}

/// What the waves have found so far.
#[derive(Default)]
pub struct Found {
    /// That fit and were the fastest so far, in the order in which they were played.
    pub played: Vec<Candidate>,
    /// That turned out slower than another.
    pub stopped: Vec<Stopped>,
    /// Seconds of the fastest, and what it is.
    pub best: Option<f64>,
    fastest: Option<Solved>,
    /// How many times its bound the step took of that which came nearest to its own.
    nearest: Option<f64>,
    /// How many were played, whether they fit or not, and the instructions and events that took.
    tried: usize,
    effort: u64,
}

impl Found {
    /// Seconds that a strategy must be below to win.
    pub fn limit(&self) -> f64 {
        self.best.unwrap_or(f64::INFINITY)
    }

    /// Whether `solved` would win if it came as near to its bound as anything that was played.
    fn may_win(&self, solved: &Solved) -> bool {
        solved.closed.likely.0.max(solved.closed.bound.0 * self.nearest.unwrap_or(1.0)) < self.limit()
    }

    /// Whether what is known is within [`NEAR`] of anything above `lowest` seconds.
    fn is_near(&self, lowest: f64) -> bool {
        self.best.is_some_and(|best| best <= lowest * (1.0 + NEAR))
    }
}

/// Strategies that wait to be solved, the lowest bound first; of equals, the first.
struct Waiting {
    entries: Vec<Entry>,
    queue: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Waiting {
    fn new(mut entries: Vec<Entry>) -> Self {
        entries.sort_by(|one, other| one.floor.total_cmp(&other.floor));
        let mut waiting = Self { queue: BinaryHeap::with_capacity(entries.len()), entries };
        (0..waiting.entries.len()).for_each(|place| waiting.put(place));
        waiting
    }

    /// Bounds are not negative, so their bits are in order as they are.
    fn put(&mut self, place: usize) {
        self.queue.push(Reverse((self.entries[place].floor.max(0.0).to_bits(), place)));
    }

    /// The lowest bound.
    fn lowest(&self) -> Option<f64> {
        self.queue.peek().map(|Reverse((bits, _))| f64::from_bits(*bits))
    }

    /// Up to `most` of them whose bounds are below `limit` seconds.
    fn take(&mut self, most: usize, limit: f64) -> Vec<usize> {
        let mut wave = Vec::new();
        while wave.len() < most && self.lowest().is_some_and(|lowest| lowest < limit) {
            wave.extend(self.queue.pop().map(|Reverse((_, place))| place));
        }
        wave
    }
}

/// A strategy that was solved and is not settled: other inner choices of it may be faster.
struct Open {
    solved: Solved,
    is_played: bool,
}

/// What became of a strategy in a wave.
enum Looked {
    /// Its bound rose to so many seconds: others may be likelier now.
    Tightened(f64),
    /// Its best inner choice; none if nothing both fits and is faster than what is known.
    Solved(Option<Box<Solved>>),
}

/// Plays what may win of `entries`.
pub fn waves(
    solving: &Solving<'_>,
    entries: Vec<Entry>,
    found: &mut Found,
    account: &mut Account,
    patience: Patience,
) {
    // With what is known of all their inner choices.
    let mut open: Vec<Open> = Vec::new();
    let mut waiting = Waiting::new(match patience {
        Patience::Exhaustive => {
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
        let floors = ready.iter().map(|solved| solved.floor);
        let lowest = floors.chain(waiting.lowest()).fold(f64::INFINITY, f64::min);
        let most = if patience.may_solve(solved, found, lowest) { SOLVED_A_WAVE } else { 0 };
        let wave = waiting.take(most, limit);
        let look = |place: &usize| {
            let entry = &waiting.entries[*place];
            let tightened = solving.tightened(entry);
            if tightened > entry.floor {
                Looked::Tightened(tightened)
            } else {
                let solved = solving.solve(entry, limit).map(Box::new);
                // What was cut short says nothing.
                if patience.is_over() { Looked::Tightened(entry.floor) } else { Looked::Solved(solved) }
            }
        };
        let looked: Vec<Looked> = wave.par_iter().map(look).collect();
        for (&place, looked) in wave.iter().zip(looked) {
            match looked {
                Looked::Tightened(floor) => {
                    waiting.entries[place].floor = floor;
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
        ready.retain(|solved| solved.floor < limit);
        // Others that are solved later may be likelier.
        let horizon = waiting.lowest().filter(|_| !wave.is_empty()).unwrap_or(f64::INFINITY);
        let mut chosen = Vec::new();
        let mut passed_over = Vec::new();
        while chosen.len() < PLAYED_A_WAVE && patience.may_play(found, lowest) {
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
        if chosen.is_empty() && wave.is_empty() {
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
    polish(solving, found, patience);
    let before = found.limit();
    let mut left = close(solving, open, found, account, patience);
    let lowest = left.first().map(|open| open.solved.floor);
    second_look(solving, &mut left, found, account, patience);
    if found.limit() < before {
        polish(solving, found, patience);
    }
    let limit = found.limit();
    let left = lowest.into_iter().chain(waiting.lowest());
    account.lowest_bound = left.filter(|floor| *floor < limit).reduce(f64::min).map(Seconds);
}

/// Plays what of `left`, the lowest bounds first, is unlikely to win, but may: a few that were not played, and small changes
/// of the first.
fn second_look(
    solving: &Solving<'_>,
    left: &mut Vec<Open>,
    found: &mut Found,
    account: &mut Account,
    patience: Patience,
) {
    let best = found.limit();
    left.retain(|open| open.solved.floor < best && patience.plays(&open.solved.strategy));
    let unplayed = left.iter().filter(|open| !open.is_played).map(|open| open.solved.clone());
    let mut unplayed: Vec<Solved> = unplayed.collect();
    unplayed.sort_by(|one, other| one.closed.likely.0.total_cmp(&other.closed.likely.0));
    left.retain(|open| events(&open.solved.strategy) <= MOST_EVENTS_CHANGED);
    let changed = left.par_iter().take(CHANGED).map(|open| {
        let mut changed = solving.neighbours(&open.solved, best);
        changed.truncate(CHANGES);
        changed
    });
    let changed: Vec<Vec<Solved>> = changed.collect();
    let most = found.effort + MOST_DOUBTED;
    for few in unplayed.chunks(PLAYED_A_WAVE) {
        if found.effort < most && !patience.is_over() {
            play(solving, few.to_vec(), found.limit(), found, account);
        }
    }
    for few in changed.concat().chunks(PLAYED_A_WAVE) {
        if found.effort < most && !patience.is_over() {
            play(solving, few.to_vec(), found.limit(), found, &mut Account::default());
        }
    }
}

/// Changes the inner choice of the fastest a little, as long as that makes it faster.
fn polish(solving: &Solving<'_>, found: &mut Found, patience: Patience) {
    let most = found.effort + MOST_POLISHED;
    let Some(mut fastest) = found.fastest.clone() else { return };
    'changed: loop {
        if patience.is_over() || !patience.plays(&fastest.strategy) {
            return;
        }
        let before = found.limit();
        let mut changed = solving.neighbours(&fastest, before);
        changed.truncate(MOST_NEIGHBOURS);
        for wave in changed.chunks(PLAYED_A_WAVE) {
            if found.effort >= most || patience.is_over() {
                return;
            }
            play(solving, wave.to_vec(), found.limit(), found, &mut Account::default());
            if let Some(faster) = found.fastest.clone().filter(|_| found.limit() < before) {
                fastest = faster;
                continue 'changed;
            }
        }
        return;
    }
}

/// Raises the bounds of `open` by playing what their inner choices have in common, and plays the better choices that this
/// finds. Returns all of them with their bounds, the lowest first.
fn close(
    solving: &Solving<'_>,
    mut open: Vec<Open>,
    found: &mut Found,
    account: &mut Account,
    patience: Patience,
) -> Vec<Open> {
    // An exhaustive search takes its time for what has too many inner choices to play each.
    let is_exhaustive = matches!(patience, Patience::Exhaustive);
    let mut effort = if is_exhaustive { 10 * MOST_PROVEN } else { MOST_PROVEN };
    let near = if is_exhaustive { 0.0 } else { NEAR };
    open.sort_by(|one, other| one.solved.floor.total_cmp(&other.solved.floor));
    // What could not be raised so far is not looked at again.
    let mut settled: Vec<Open> = Vec::new();
    loop {
        let best = found.limit();
        let enough = best / (1.0 + near);
        let is_open = |open: &Open| open.solved.floor < enough && patience.plays(&open.solved.strategy);
        let is_over = effort == 0 || best.is_infinite() || patience.is_over();
        let mut wave: Vec<Open> = Vec::new();
        while let Some(place) =
            open.iter().position(is_open).filter(|_| !is_over && wave.len() < PLAYED_A_WAVE)
        {
            wave.push(open.remove(place));
        }
        if wave.is_empty() {
            settled.append(&mut open);
            settled.sort_by(|one, other| one.solved.floor.total_cmp(&other.solved.floor));
            return settled;
        }
        let aim = Aim { best, enough, effort: MOST_PROVEN_OF_ONE.min(effort) };
        let proofs: Vec<Proof> = wave.par_iter().map(|open| solving.prove(&open.solved, aim)).collect();
        let is_cut = patience.is_over();
        for (Open { mut solved, is_played }, proof) in wave.into_iter().zip(proofs) {
            effort = effort.saturating_sub(proof.effort);
            account.played += u64::from(!is_played && proof.effort > 0);
            let better = proof.better.into_iter().map(|strategy| {
                let closed = solving.closing.close(&strategy);
                Solved { strategy, closed, ..solved.clone() }
            });
            play(solving, better.collect(), found.limit(), found, &mut Account::default());
            solved.floor = if is_cut { solved.floor } else { proof.lower.max(solved.floor) };
            settled.push(Open { solved, is_played: is_played || proof.effort > 0 });
        }
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

/// Plays the likeliest of `chosen`, as long as one may be faster than what is known; the very first, which nothing
/// can stop, by itself.
pub fn play_likeliest(solving: &Solving<'_>, mut chosen: Vec<Solved>, found: &mut Found) {
    chosen.sort_by(|one, other| one.closed.bound.0.total_cmp(&other.closed.bound.0));
    let mut chosen = chosen.into_iter().peekable();
    loop {
        let limit = found.limit();
        let wave = std::iter::from_fn(|| chosen.next_if(|solved| solved.closed.bound.0 < limit));
        let most = if found.best.is_none() { 1 } else { PLAYED_A_WAVE };
        let wave: Vec<Solved> = wave.take(most).collect();
        if wave.is_empty() || solving.closing.deadline.is_over() {
            break;
        }
        play(solving, wave, limit, found, &mut Account::default());
    }
    // The others may be shown beside the best.
    found.stopped.extend(chosen.map(|solved| {
        let about = solved.closed.likely;
        solved.stopped(about)
    }));
}

/// A program, how it was played, and what that took.
type Played = (Program, Below, u64);

/// Plays `chosen` at once, each as long as it may be faster than `limit` seconds. Buffers are placed of what wins alone.
pub fn play(
    solving: &Solving<'_>,
    chosen: Vec<Solved>,
    limit: f64,
    found: &mut Found,
    account: &mut Account,
) {
    let closing = solving.closing;
    let mut ended: Vec<(Solved, Program, Playback)> = Vec::new();
    let played: Vec<(Solved, Option<Played>)> = chosen
        .into_par_iter()
        .map(|solved| {
            // What its closed form alone rules out is stopped before it starts.
            let may_win = solved.closed.bound.0 < limit
                && !closing.deadline.is_over()
                && closing.has_time_to_play(&solved.strategy);
            let played = may_win.then(|| closing.play_below(&solved.strategy, Seconds(limit)));
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
        let candidate = closing.candidate(solved.strategy.clone(), &program, playback);
        if closing.problem.fits(&candidate) {
            found.best = Some(about.0);
            found.fastest = Some(solved);
            found.played.push(candidate);
        }
    }
}
