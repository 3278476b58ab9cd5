//! The outer strategies: meshes with their experts, the pass choices on each, and the states of each pass choice.

use crate::profile::capabilities::{CutGrain, OffloadOffer};
use crate::profile::choices::{ContextKind, LossMode, OffloadCategory, Schedule};
use crate::search::axes::{Axes, MeshSizes, NumericsChoice, StateChoice};
use crate::search::bounding::Entry;
use crate::search::choices::Hosted;
use crate::search::deadline::Deadline;
use crate::search::problem::Problem;
use crate::search::request::Request;
use crate::strategy::{
    Checkpoint, CheckpointEntry, CheckpointMode, Offload, Strategy, cuts, defaults, rules,
};

/// One mesh with its experts and the tensor ranks inside one: the unit of work that threads share.
#[derive(Clone, Debug)]
pub struct Task {
    pub mesh: MeshSizes,
    pub experts: (u64, u64),
    /// With one micro-batch, and with several.
    states: [States; 2],
}

/// The states of all pass choices on a mesh.
#[derive(Clone, Debug, Default)]
struct States {
    legal: Vec<StateChoice>,
    /// How many strategies these are in all mesh orders, and how many are illegal.
    count: u64,
    illegal: u64,
}

/// Everything of a strategy but its mesh, its state and the inner choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PassChoice {
    pub sequence_parallel: bool,
    pub context_kind: ContextKind,
    /// Sequences a micro-batch, and micro-batches.
    pub micro: (u64, u64),
    /// And chunks a rank.
    pub schedule: (Schedule, u64),
    pub loss: LossMode,
    pub numerics: NumericsChoice,
}

/// All outer strategies of a request on a problem.
pub struct Space<'a> {
    pub problem: &'a Problem<'a>,
    pub request: &'a Request,
    pub axes: Axes<'a>,
    pub tasks: Vec<Task>,
    pub deadline: Deadline,
}

impl<'a> Space<'a> {
    /// The space, its tasks in a fixed order: neighbours share shapes, whatever their pipelines.
    pub fn new(problem: &'a Problem<'a>, request: &'a Request) -> Self {
        let axes = Axes::new(problem, request);
        let mut tasks: Vec<Task> = axes
            .meshes
            .iter()
            .flat_map(|&mesh| axes.experts(mesh).into_iter().map(move |experts| (mesh, experts)))
            .map(|(mesh, experts)| Task { mesh, experts, states: Default::default() })
            .collect();
        tasks.sort_by_key(|Task { mesh, experts, .. }| (mesh.tensor, mesh.context, *experts, mesh.pipeline));
        let mut space = Self { problem, request, axes, tasks: Vec::new(), deadline: Deadline::default() };
        for task in &mut tasks {
            task.states = [1, 2].map(|accumulation| space.judged(task, accumulation));
        }
        space.tasks = tasks;
        space
    }

    /// Which states are legal with `accumulation` micro-batches.
    fn judged(&self, task: &Task, accumulation: u64) -> States {
        let mut all = self.axes.states(task.mesh, accumulation);
        let mut strategy = self.plain(task);
        if !strategy.sums_gradients(&self.problem.facts) && self.does_without_zero(&strategy) {
            all =
                vec![StateChoice { zero: 0, shard: task.mesh.data, reshard: true, sync: defaults::sync(0) }];
        }
        strategy.accumulation = accumulation;
        self.keep_on_host(&mut strategy);
        let is_legal = |state: &StateChoice| {
            let mut strategy = strategy.clone();
            state.apply(&mut strategy);
            rules::legal_state(&strategy, &self.problem.facts)
        };
        let (legal, illegal): (Vec<_>, Vec<_>) = all.into_iter().partition(is_legal);
        let count = |states: &[StateChoice]| states.iter().map(|state| self.orders(task, state)).sum();
        States { count: count(&legal), illegal: count(&illegal), legal }
    }

    /// Whether the engine does whatever it can do to the state of `strategy` without ZeRO as well.
    fn does_without_zero(&self, strategy: &Strategy) -> bool {
        let needs = |offer: &OffloadOffer| offer.from_zero > 0 || offer.split_from_zero > 0;
        let supports = &self.problem.engine.supports;
        strategy.can_do_without_zero(&self.problem.facts) && !supports.offload.iter().any(needs)
    }

    /// Whether no strategy is legal.
    pub fn is_empty(&self) -> bool {
        let has_legal = |task: &Task| {
            let mut pass_choices = self.pass_choices(task).into_iter();
            pass_choices.any(|pass_choice| {
                !self.states(task, &pass_choice).0.is_empty()
                    && self.is_legal(&self.outer(task, &pass_choice))
            })
        };
        !self.tasks.iter().any(has_legal)
    }

    /// The pass choices of `task`; those of one shape stand together.
    pub fn pass_choices(&self, task: &Task) -> Vec<PassChoice> {
        let mut list = Vec::new();
        for sequence_parallel in self.axes.sequence_parallel(task.mesh) {
            for context_kind in self.axes.context_kinds(task.mesh) {
                for micro in self.axes.micro_batches(task.mesh) {
                    for &loss in &self.axes.loss {
                        for &numerics in &self.axes.numerics {
                            let schedules = self.axes.schedules(task.mesh, micro.1);
                            list.extend(schedules.into_iter().map(|schedule| PassChoice {
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

    /// The legal states of `pass_choice`, if it is legal itself; how many strategies these are in all mesh orders, and
    /// how many more are illegal.
    pub fn states<'t>(&self, task: &'t Task, pass_choice: &PassChoice) -> (&'t [StateChoice], u64, u64) {
        let states = &task.states[usize::from(pass_choice.micro.1 > 1)];
        (&states.legal, states.count, states.illegal)
    }

    /// How many orders a mesh under `state` has.
    pub fn orders(&self, task: &Task, state: &StateChoice) -> u64 {
        if self.request.fix.order.is_some() {
            return 1;
        }
        let MeshSizes { tensor, context, pipeline, data } = task.mesh;
        let sizes = [tensor, context, pipeline, state.shard, data / state.shard.max(1)];
        (1..=sizes.into_iter().filter(|&size| size > 1).count() as u64).product()
    }

    /// The strategy of a pass choice under the plainest state, without its inner choice.
    pub fn outer(&self, task: &Task, pass_choice: &PassChoice) -> Strategy {
        let mut strategy = self.plain(task);
        strategy.sequence_parallel = pass_choice.sequence_parallel;
        strategy.context_kind = pass_choice.context_kind;
        (strategy.micro_batch, strategy.accumulation) = pass_choice.micro;
        (strategy.schedule, strategy.virtual_stages) = pass_choice.schedule;
        strategy.loss = pass_choice.loss;
        strategy.compression = pass_choice.numerics.compression;
        strategy.gradient_type = pass_choice.numerics.gradient;
        strategy.reduce_type = pass_choice.numerics.reduce;
        strategy.capacity = pass_choice.numerics.capacity;
        strategy
    }

    /// Whether `outer` is legal, whatever its state, with the inner choices that are fixed.
    pub fn is_legal(&self, outer: &Strategy) -> bool {
        let (fix, facts) = (&self.request.fix, &self.problem.facts);
        let fixes_inner = fix.cuts.is_some() || fix.checkpoint.is_some() || fix.offload.is_some();
        let fixes_inner = fixes_inner || *self.problem.engine.supports.cuts != CutGrain::Any;
        rules::legal_outside(outer, facts)
            && (!fixes_inner || rules::legal_inner(&self.plainest(outer), facts))
    }

    /// The blocks of each chunk of `outer` where the user fixed them or the engine leaves no choice.
    pub fn given_cuts(&self, outer: &Strategy) -> Option<Vec<u32>> {
        let of_engine = || cuts::of_engine(&self.problem.facts, outer.chunks() as usize);
        self.request.fix.cuts.clone().or_else(of_engine)
    }

    /// These, or the default ones.
    pub fn plainest_cuts(&self, outer: &Strategy) -> Vec<u32> {
        let left_out = || cuts::left_out(&self.problem.facts, outer.chunks() as usize);
        self.request.fix.cuts.clone().unwrap_or_else(left_out)
    }

    /// `outer` with the inner choices that are fixed, and of the others the plainest.
    pub fn plainest(&self, outer: &Strategy) -> Strategy {
        let fix = &self.request.fix;
        let cuts = self.plainest_cuts(outer);
        let mut strategy = Strategy { checkpoint: fix.checkpoints(&cuts), cuts, ..outer.clone() };
        self.keep_on_host(&mut strategy);
        strategy
    }

    /// `outer` under the plainest cuts, with all chunks recomputing as `checkpoint` says, where it does, and all ranks
    /// keeping as much as `hosted` on the host, where that is not fixed.
    pub fn alike(&self, outer: &Strategy, checkpoint: Option<&CheckpointEntry>, hosted: &Hosted) -> Strategy {
        let mut strategy = self.plainest(outer);
        if let Some(entry) = checkpoint {
            strategy.checkpoint = strategy.cuts.iter().map(|&blocks| entry.over(blocks)).collect();
        }
        if self.request.fix.offload.is_none() {
            for &category in OffloadCategory::ALL {
                let stages = strategy.pipeline as usize;
                *strategy.offload.fractions_mut(category) = vec![hosted[category as usize]; stages];
            }
        }
        strategy.normalise(&self.problem.facts);
        strategy
    }

    /// `outer` with the inner choices that are fixed, everything recomputed that may be, and default cuts.
    pub fn recomputing(&self, outer: &Strategy) -> Strategy {
        let mut strategy = self.plainest(outer);
        if self.request.fix.checkpoint.is_none() {
            let full = |&blocks: &u32| Checkpoint::uniform(CheckpointMode::Full, blocks);
            strategy.checkpoint = strategy.cuts.iter().map(full).collect();
        }
        strategy.normalise(&self.problem.facts);
        strategy
    }

    /// The strategy of `entry`, without its inner choice.
    pub fn strategy(&self, entry: &Entry) -> Strategy {
        let mut strategy = self.outer(&self.tasks[entry.task], &entry.pass_choice);
        entry.state.apply(&mut strategy);
        strategy.order = entry.order;
        self.keep_on_host(&mut strategy);
        strategy
    }

    /// Writes what the user fixed of the offload into `strategy`.
    fn keep_on_host(&self, strategy: &mut Strategy) {
        for (category, fractions) in self.request.fix.offload.iter().flatten() {
            let stages = strategy.pipeline as usize;
            *strategy.offload.fractions_mut(*category) = match fractions.as_slice() {
                [one] => vec![*one; stages],
                many => many.to_vec(),
            };
        }
    }

    fn plain(&self, Task { mesh, experts, .. }: &Task) -> Strategy {
        let fix = &self.request.fix;
        let defaults = self.problem.facts.defaults;
        Strategy {
            tensor: mesh.tensor,
            sequence_parallel: false,
            context: mesh.context,
            context_kind: ContextKind::Ring,
            expert: experts.0,
            expert_tensor: experts.1,
            capacity: fix.capacity.unwrap_or(defaults::CAPACITY),
            pipeline: mesh.pipeline,
            schedule: Schedule::OneForwardOneBackward,
            virtual_stages: 1,
            cuts: Vec::new(),
            data: mesh.data,
            zero: 0,
            shard: mesh.data,
            reshard_after_forward: true,
            micro_batch: 1,
            accumulation: 1,
            sync: defaults::sync(0),
            checkpoint: Vec::new(),
            offload: Offload::default(),
            overlap: fix.overlap.unwrap_or(true),
            compression: crate::profile::choices::Compression::None,
            loss: LossMode::Full,
            attention: fix.attention.unwrap_or(defaults.attention),
            bucket: fix.bucket.unwrap_or(defaults::BUCKET),
            gradient_type: defaults.gradient,
            reduce_type: defaults.reduce,
            order: fix.order.unwrap_or_default(),
        }
    }
}
