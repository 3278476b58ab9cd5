//! The search: every strategy bounded cheaply, those that may win handed on to be priced and played.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rayon::prelude::*;

use crate::profile::choices::{ContextKind, LossMode, OffloadCategory, Schedule};
use crate::program::state::StateRules;
use crate::search::axes::{Axes, MeshSizes, NumericsChoice, StateChoice};
use crate::search::closed::Closing;
use crate::search::frame::{Cheap, InnerBounds};
use crate::search::inner::{self, InnerChoice};
use crate::search::ladder;
use crate::search::problem::{Candidate, Problem};
use crate::search::request::{Account, Failure, Objective, Outcome, Progress, Request};
use crate::strategy::{Offload, Strategy, defaults, rules};
use crate::units::{Bytes, Seconds};

use crate::search::finalists::{MOST_EVENTS_A_STRATEGY, different, pareto, play_events};

/// One mesh with its experts: the unit of work that threads share.
pub(super) type Task = (MeshSizes, (u64, u64));

/// An outer strategy that may win: its bound and what it is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Lower bound of its step time, the least over its inner choices.
    pub(super) time: f64,
    pub(super) task: Task,
    pub(super) frame: FrameChoice,
    pub(super) state: StateChoice,
    /// Lower bound of its process memory, the least over its inner choices.
    pub(super) memory: Bytes,
    /// Place among the states of its frame, the best first.
    pub(super) place: usize,
}

impl Entry {
    /// What the search wants least of.
    pub(super) fn key(&self, objective: Objective) -> f64 {
        match objective {
            Objective::Time => self.time,
            Objective::Memory => self.memory.0 as f64,
        }
    }
}

/// Most strategies of one mesh that are handed on; many more than are priced in all.
const MOST_ENTRIES_A_TASK: usize = 256;

/// What became of the strategies of one task.
#[derive(Default)]
struct TaskResult {
    entries: Vec<Entry>,
    /// The lowest bound of strategies that are not handed on: too long to play, or too many.
    too_long: Option<f64>,
    account: Account,
    /// Lowest memory bound seen, and whose it is.
    smallest: Option<(Bytes, Strategy)>,
    broken: Option<rules::RuleBreak>,
}

impl TaskResult {
    /// Keeps the best entries; the others keep their bounds.
    fn keep_best(&mut self, objective: Objective) {
        if self.entries.len() <= MOST_ENTRIES_A_TASK {
            return;
        }
        self.entries.sort_by(|one, other| one.key(objective).total_cmp(&other.key(objective)));
        for entry in self.entries.drain(MOST_ENTRIES_A_TASK..) {
            self.account.bounded += 1;
            self.too_long = Some(self.too_long.map_or(entry.time, |lowest| lowest.min(entry.time)));
        }
    }
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
    let mut tasks: Vec<Task> = axes
        .meshes
        .iter()
        .flat_map(|&mesh| axes.experts(mesh).into_iter().map(move |experts| (mesh, experts)))
        .collect();
    // Neighbours share shapes, whatever their pipelines.
    tasks.sort_by_key(|(mesh, experts)| (mesh.tensor, mesh.context, *experts, mesh.pipeline));
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
    let ladder = ladder::ladder(problem, &winner.strategy);
    let pareto = pareto(&searching.with_leaner(&played));
    let alternatives = different(&played, request.top);
    Ok(Outcome { winner, alternatives, ladder, pareto, account })
}

/// What a search looks things up in.
pub(super) struct Searching<'a> {
    pub(super) problem: &'a Problem<'a>,
    pub(super) request: &'a Request,
    pub(super) closing: &'a Closing<'a>,
    pub(super) axes: &'a Axes<'a>,
    pub(super) inner: Vec<InnerChoice>,
}

/// The choices that a frame is made of, beside its mesh.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameChoice {
    pub(super) sequence_parallel: bool,
    pub(super) context_kind: ContextKind,
    pub(super) micro: (u64, u64),
    pub(super) schedule: (Schedule, u64),
    pub(super) loss: LossMode,
    pub(super) numerics: NumericsChoice,
}

impl Searching<'_> {
    /// The strategy of a frame under the plainest state.
    pub(super) fn strategy(&self, (mesh, (expert, expert_tensor)): &Task, choice: &FrameChoice) -> Strategy {
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
            if result.entries.len() > 2 * MOST_ENTRIES_A_TASK {
                result.keep_best(self.request.objective);
            }
        }
        result.keep_best(self.request.objective);
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
