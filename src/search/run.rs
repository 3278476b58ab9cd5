//! The search: every strategy bounded cheaply, those that may win priced in closed form, the best of them played.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rayon::prelude::*;

use crate::profile::choices::{ContextKind, GradientSync, LossMode, OffloadCategory, Schedule};
use crate::program::state::StateRules;
use crate::search::axes::{Axes, MeshSizes, NumericsChoice, StateChoice};
use crate::search::closed::{Closed, Closing};
use crate::search::frame::{Cheap, InnerBounds};
use crate::search::inner::{self, InnerChoice};
use crate::search::ladder;
use crate::search::problem::{Candidate, Problem};
use crate::search::request::{Account, Failure, Objective, Outcome, Progress, Request};
use crate::strategy::{Offload, Strategy, defaults, rules};
use crate::units::{Bytes, Seconds};

/// Strategies whose closed forms are computed in one wave.
const PRICED_A_WAVE: usize = 24;
/// Strategies that are played in one wave.
const PLAYED_A_WAVE: usize = 4;
/// Most strategies priced, and played; what is left keeps its bound, and the gap says what that means.
const MOST_PRICED: usize = 240;
const MOST_PLAYED: usize = 16;
/// Most events played in one search, and for one strategy, so that long steps do not make a search long.
const MOST_EVENTS: u64 = 2_500_000;
const MOST_EVENTS_A_STRATEGY: u64 = 300_000;
/// Played plans that the Pareto front looks for leaner forms of.
const LEANER: usize = 6;
/// States of one frame that are priced where there are too many to price all; their time bounds hardly differ.
const STATES_A_FRAME: usize = 2;

/// One mesh with its experts: the unit of work that threads share.
type Task = (MeshSizes, (u64, u64));

/// An outer strategy that may win: its bound and what it is made of.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Lower bound of its step time, the least over its inner choices.
    time: f64,
    task: Task,
    frame: FrameChoice,
    state: StateChoice,
    /// Lower bound of its process memory, the least over its inner choices.
    memory: Bytes,
    /// Place among the states of its frame, the best first.
    place: usize,
}

impl Entry {
    /// What the search wants least of.
    fn key(&self, objective: Objective) -> f64 {
        match objective {
            Objective::Time => self.time,
            Objective::Memory => self.memory.0 as f64,
        }
    }
}

/// What became of the strategies of one task.
#[derive(Default)]
struct TaskResult {
    entries: Vec<Entry>,
    /// The lowest bound of strategies whose programs are too long to play.
    too_long: Option<f64>,
    account: Account,
    /// Lowest memory bound seen, and whose it is.
    smallest: Option<(Bytes, Strategy)>,
    broken: Option<rules::RuleBreak>,
}

/// Searches `problem`; `progress` is told of each part that is done.
///
/// # Errors
/// [`Failure::Illegal`] where the fixed keys leave nothing legal, [`Failure::NothingFits`] where nothing fits.
pub fn search(
    problem: &Problem<'_>,
    request: &Request,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Outcome, Failure> {
    let start = Instant::now();
    let found = search_with(problem, request, progress, false);
    let can_offload = request.fix.offload.is_none()
        && problem.engine.supports.offload.contains(&OffloadCategory::Optimizer);
    let mut outcome = match found {
        Err(Failure::NothingFits { .. }) if can_offload => search_with(problem, request, progress, true),
        found => found,
    }?;
    outcome.account.wall_time = Seconds(start.elapsed().as_secs_f64());
    Ok(outcome)
}

/// Searches with or without the optimizer on the host.
fn search_with(
    problem: &Problem<'_>,
    request: &Request,
    progress: &(dyn Fn(Progress) + Sync),
    offloads: bool,
) -> Result<Outcome, Failure> {
    let axes = Axes::new(problem, request);
    let closing = Closing::new(problem);
    let searching = Searching {
        problem,
        request,
        closing: &closing,
        axes: &axes,
        inner: inner::choices(&request.fix, offloads),
    };
    let tasks: Vec<Task> = axes
        .meshes
        .iter()
        .flat_map(|&mesh| axes.experts(mesh).into_iter().map(move |experts| (mesh, experts)))
        .collect();
    let incumbent = searching.seed(&tasks);
    let limit = match request.objective {
        Objective::Time => incumbent.as_ref().map_or(f64::INFINITY, |known| known.playback.step_time.0),
        Objective::Memory => f64::INFINITY,
    };
    let (done, considered) = (AtomicU64::new(0), AtomicU64::new(0));
    let results: Vec<TaskResult> = tasks
        .par_iter()
        .map(|task| {
            let result = searching.bound_task(task, limit);
            let seen = considered.fetch_add(result.account.considered, Ordering::Relaxed);
            progress(Progress {
                done: done.fetch_add(1, Ordering::Relaxed) + 1,
                of: tasks.len() as u64,
                considered: seen + result.account.considered,
            });
            result
        })
        .collect();
    let mut account = Account::default();
    let mut entries = Vec::new();
    let (mut smallest, mut broken) = (None::<(Bytes, Strategy)>, None);
    let mut too_long: Option<f64> = None;
    for result in results {
        account.considered += result.account.considered;
        account.illegal += result.account.illegal;
        account.out_of_memory += result.account.out_of_memory;
        account.bounded += result.account.bounded;
        too_long = [too_long, result.too_long].into_iter().flatten().reduce(f64::min);
        entries.extend(result.entries);
        if let Some((bytes, strategy)) = result.smallest
            && smallest.as_ref().is_none_or(|(least, _)| bytes < *least)
        {
            smallest = Some((bytes, strategy));
        }
        broken = broken.or(result.broken);
    }
    let played = searching.play_best(entries, incumbent, too_long, &mut account);
    account.inner_choices_log10 =
        f64::from(problem.facts.blocks) * (searching.inner.len().min(3) as f64).log10();
    account.axes = axes.listed();
    let Some(best) = played.first() else {
        return Err(searching.failure(smallest, broken));
    };
    let winner = best.clone();
    let ladder = ladder::ladder(problem, &closing, &winner.strategy);
    let pareto = pareto(&searching.with_leaner(&played));
    let alternatives = different(&played, request.top);
    Ok(Outcome { winner, alternatives, ladder, pareto, account })
}

/// What a search looks things up in.
struct Searching<'a> {
    problem: &'a Problem<'a>,
    request: &'a Request,
    closing: &'a Closing<'a>,
    axes: &'a Axes<'a>,
    inner: Vec<InnerChoice>,
}

/// The choices that a frame is made of, beside its mesh.
#[derive(Clone, Copy, Debug)]
struct FrameChoice {
    sequence_parallel: bool,
    context_kind: ContextKind,
    micro: (u64, u64),
    schedule: (Schedule, u64),
    loss: LossMode,
    numerics: NumericsChoice,
}

impl Searching<'_> {
    /// The strategy of a frame under the plainest state.
    fn strategy(&self, (mesh, (expert, expert_tensor)): &Task, choice: &FrameChoice) -> Strategy {
        let fix = &self.request.fix;
        let (schedule, virtual_stages) = choice.schedule;
        let cuts = fix.cuts.clone().unwrap_or_else(|| {
            defaults::cuts(self.problem.facts.blocks, (mesh.pipeline * virtual_stages) as usize)
        });
        Strategy {
            tensor: mesh.tensor,
            sequence_parallel: choice.sequence_parallel,
            context: mesh.context,
            context_kind: choice.context_kind,
            expert: *expert,
            expert_tensor: *expert_tensor,
            capacity: fix.capacity.unwrap_or(defaults::CAPACITY),
            pipeline: mesh.pipeline,
            schedule,
            virtual_stages,
            cuts,
            data: mesh.data,
            zero: 0,
            shard: mesh.data,
            reshard_after_forward: true,
            micro_batch: choice.micro.0,
            accumulation: choice.micro.1,
            sync: defaults::sync(0),
            checkpoint: Vec::new(),
            offload: Offload::default(),
            overlap: fix.overlap.unwrap_or(true),
            compression: choice.numerics.compression,
            loss: choice.loss,
            attention: fix.attention.unwrap_or(self.problem.facts.defaults.attention),
            bucket: fix.bucket.unwrap_or(defaults::BUCKET),
            gradient_type: choice.numerics.gradient,
            reduce_type: choice.numerics.reduce,
            order: fix.order.unwrap_or_default(),
        }
    }

    fn frames(&self, mesh: MeshSizes) -> Vec<FrameChoice> {
        let mut list = Vec::new();
        for sequence_parallel in self.axes.sequence_parallel(mesh) {
            for &context_kind in &self.axes.context_kinds(mesh) {
                for micro in self.axes.micro_batches(mesh) {
                    for schedule in self.axes.schedules(mesh, micro.1) {
                        for &loss in &self.axes.loss {
                            list.extend(self.axes.numerics.iter().map(|&numerics| FrameChoice {
                                sequence_parallel,
                                context_kind,
                                micro,
                                schedule,
                                loss,
                                numerics,
                            }));
                        }
                    }
                }
            }
        }
        list
    }

    /// A few likely strategies, priced, and the best of them played: what the bounds of all others are held
    /// against from the start.
    fn seed(&self, tasks: &[Task]) -> Option<Candidate> {
        let node = u64::from(self.problem.cluster.devices_per_node);
        let likely: Vec<Strategy> = tasks
            .iter()
            .filter(|(mesh, _)| mesh.tensor <= node && mesh.context <= 2)
            .filter_map(|task| {
                let choice = self.frames(task.0).into_iter().find(|choice| {
                    (task.0.tensor == 1 || choice.sequence_parallel)
                        && choice.schedule.0 == Schedule::OneForwardOneBackward
                })?;
                Some(self.strategy(task, &choice))
            })
            .collect();
        let mut closed: Vec<(f64, Strategy)> = likely
            .par_iter()
            .flat_map_iter(|strategy| {
                self.inner.iter().flat_map(move |inner| {
                    [(1, strategy.data), (3, strategy.data)].into_iter().filter_map(move |(zero, shard)| {
                        let mut strategy =
                            Strategy { zero, shard, sync: defaults::sync(zero), ..strategy.clone() };
                        inner.apply(&mut strategy);
                        strategy.normalise(&self.problem.facts);
                        if !self.holds_fixed(&strategy) || !rules::legal(&strategy, &self.problem.facts) {
                            return None;
                        }
                        let closed = self.closing.close(&strategy);
                        let can_play = play_events(&strategy) <= MOST_EVENTS_A_STRATEGY;
                        (can_play && self.closing.fits(&closed)).then_some((closed.bound.0, strategy))
                    })
                })
            })
            .collect();
        closed.sort_by(|one, other| one.0.total_cmp(&other.0));
        closed.truncate(2);
        closed
            .into_par_iter()
            .map(|(_, strategy)| self.problem.play(strategy))
            .collect::<Vec<_>>()
            .into_iter()
            .reduce(
                |best, next| if next.playback.step_time.0 < best.playback.step_time.0 { next } else { best },
            )
    }

    /// Whether the fixed state keys stand in `strategy` as the user wrote them.
    fn holds_fixed(&self, strategy: &Strategy) -> bool {
        let fix = &self.request.fix;
        fix.zero.is_none_or(|zero| zero == strategy.zero)
            && fix.shard.is_none_or(|shard| shard == strategy.shard)
            && fix.sync.is_none_or(|sync| sync == strategy.sync)
            && fix.reshard_after_forward.is_none_or(|on| on == strategy.reshard_after_forward)
    }

    /// Bounds every strategy of one mesh; those whose time bound reaches `limit` cannot win.
    fn bound_task(&self, task: &Task, limit: f64) -> TaskResult {
        let mut result = TaskResult::default();
        for choice in self.frames(task.0) {
            let states = self.axes.states(task.0, choice.micro.1);
            result.account.considered += states.len() as u64;
            let mut strategy = self.strategy(task, &choice);
            self.inner[0].apply(&mut strategy);
            if first_break(&strategy, &self.problem.facts, &mut result.broken).is_err() {
                result.account.illegal += states.len() as u64;
                continue;
            }
            self.bound_frame(task, &choice, &states, strategy, limit, &mut result);
        }
        result
    }

    /// Bounds the states of one legal frame.
    fn bound_frame(
        &self,
        task: &Task,
        frame: &FrameChoice,
        states: &[StateChoice],
        mut strategy: Strategy,
        limit: f64,
        result: &mut TaskResult,
    ) {
        let problem = self.problem;
        let pricing = self.closing.pricing(&strategy);
        let mut inner = vec![InnerBounds::new(self.closing, &strategy, &pricing)];
        let is_slow = inner[0].core >= limit;
        let mut survivors: Vec<Entry> = Vec::new();
        for state in states {
            state.apply(&mut strategy);
            if first_break(&strategy, &problem.facts, &mut result.broken).is_err() {
                result.account.illegal += 1;
                continue;
            }
            if is_slow {
                result.account.bounded += 1;
                continue;
            }
            let rules = StateRules::new(&strategy, &problem.workload, problem.engine);
            let pricing = self.closing.pricing(&strategy);
            let mut cheap = vec![inner[0].under(self.closing, &strategy, state, &rules, &pricing)];
            let by_memory = self.request.objective == Objective::Memory;
            if by_memory || cheap[0].memory > problem.memory_limit {
                for place in 1..self.inner.len() {
                    if inner.len() == place {
                        self.inner[place].apply(&mut strategy);
                        inner.push(InnerBounds::new(self.closing, &strategy, &pricing));
                        self.inner[0].apply(&mut strategy);
                    }
                    cheap.push(inner[place].under(self.closing, &strategy, state, &rules, &pricing));
                }
            }
            let least = cheap.iter().map(|cheap| cheap.memory).min().unwrap_or_default();
            let Some(time) = relaxed(&cheap, problem.memory_limit) else {
                result.account.out_of_memory += 1;
                if result.smallest.as_ref().is_none_or(|(smallest, _)| least < *smallest) {
                    result.smallest = Some((least, strategy.clone()));
                }
                continue;
            };
            if time >= limit {
                result.account.bounded += 1;
                continue;
            }
            if play_events(&strategy) > MOST_EVENTS_A_STRATEGY {
                result.account.bounded += 1;
                result.too_long = Some(result.too_long.map_or(time, |lowest| lowest.min(time)));
                continue;
            }
            survivors.push(Entry {
                time,
                memory: least,
                task: *task,
                frame: *frame,
                state: *state,
                place: 0,
            });
        }
        let objective = self.request.objective;
        survivors.sort_by(|one, other| one.key(objective).total_cmp(&other.key(objective)));
        for (place, entry) in survivors.iter_mut().enumerate() {
            entry.place = place;
        }
        result.entries.extend(survivors);
    }

    /// Best first by bound: prices in waves, plays in waves, until no bound left is below the best played.
    fn play_best(
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
    fn with_leaner(&self, played: &[Candidate]) -> Vec<Candidate> {
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
    fn price(&self, entry: &Entry) -> Option<(Strategy, Closed)> {
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

    fn failure(&self, smallest: Option<(Bytes, Strategy)>, broken: Option<rules::RuleBreak>) -> Failure {
        let Some((_, strategy)) = smallest else {
            return match broken {
                Some(broken) => Failure::Illegal(broken),
                None => Failure::Illegal(crate::search::advice::empty(self.problem, &self.request.fix)),
            };
        };
        crate::search::advice::nothing_fits(self.closing, &self.inner, strategy)
    }
}

/// Remembers the first broken rule, explained, for the case that nothing is legal.
fn first_break(
    strategy: &Strategy,
    facts: &crate::strategy::Facts<'_>,
    known: &mut Option<rules::RuleBreak>,
) -> Result<(), ()> {
    if rules::legal(strategy, facts) {
        return Ok(());
    }
    if known.is_none() {
        *known = rules::check(strategy, facts).err();
    }
    Err(())
}

/// The least time of any mixture of inner choices that fits, were time and memory linear in the shares: the lower
/// hull of the choices, cut at the limit. None where no choice fits.
fn relaxed(cheap: &[Cheap], limit: Bytes) -> Option<f64> {
    let fits = |one: &&Cheap| one.memory <= limit;
    let whole = cheap.iter().filter(fits).map(|one| one.time).reduce(f64::min)?;
    let mixed = cheap.iter().filter(fits).flat_map(|low| {
        cheap.iter().filter(|high| high.memory > limit && high.time < low.time).map(|high| {
            let share = (limit.0 - low.memory.0) as f64 / (high.memory.0 - low.memory.0) as f64;
            low.time + share * (high.time - low.time)
        })
    });
    Some(mixed.fold(whole, f64::min))
}

/// About how many events playing `strategy` takes: a few a pass where passes are quiet, else some for each op.
fn play_events(strategy: &Strategy) -> u64 {
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
fn pareto(played: &[Candidate]) -> Vec<Candidate> {
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
fn different(played: &[Candidate], count: usize) -> Vec<Candidate> {
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
