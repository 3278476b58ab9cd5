//! The optimizer step: what gradients still lack, clipping, AdamW on device and host, and gathering what was updated.

use smallvec::smallvec;

use crate::lower::{Category, Stream};
use crate::ops::{Collective, CollectiveKind, Elementwise, ElementwiseKind, Group, Op};
use crate::profile::choices::GradientSync;
use crate::program::access::{Access, Accesses, Standing, Touched};
use crate::program::instruction::{
    Buffer, BufferId, Cause, Frame, Instruction, Owned, Part, Streams, Task, Template,
};
use crate::program::layout::PlacedUnit;
use crate::program::passes::Plan;
use crate::program::reduction::reductions;
use crate::program::scalars::{SCALAR_SIZE, SQUARES, Scalars};
use crate::program::state::{StateRules, offloaded_elements};
use crate::program::writer::free_sent;
use crate::strategy::Workload;
use crate::units::{Bytes, ElementType};

/// Slices that an overlapped host step is cut in at most: one is copied out while one is updated and one copied back.
const HOST_SLICES: u64 = 8;

/// The name of the buffer of gradients in 32 bits for the update.
pub(super) const WIDE_COPY: &str = "32-bit gradient copy";

/// The fewest elements of a slice: a smaller one takes longer to start than to copy.
const SLICE_ELEMENTS: u64 = 1 << 20;

/// The kernel that makes a number of `sums` sums of squares.
pub(super) fn of_squares(task: Task, sums: u64, cause: Cause) -> Instruction {
    let (kind, element) = (ElementwiseKind::Scale, ElementType::Fp64);
    let op = Elementwise { kind, elements: sums * SQUARES, operands: 1, element };
    Instruction::plain(Op::Elementwise(op), task, Stream::Compute, cause)
}

/// Sizes of the step on one rank, in elements.
#[derive(Clone, Debug, Default)]
struct Sizes {
    dense: u64,
    dense_shard: u64,
    expert_shard: u64,
    expert: u64,
    owned: u64,
    on_host: u64,
    partial: u64,
    tied: u64,
    /// Among the owned elements, those whose parameters live on the host.
    stored_on_host: Vec<Owned>,
}

impl Sizes {
    /// Elements of `range` whose parameters live on the host.
    fn stored_within(&self, range: Owned) -> u64 {
        let overlap =
            |stored: &Owned| stored.end.min(range.end).saturating_sub(stored.start.max(range.start));
        self.stored_on_host.iter().map(overlap).sum()
    }
}

/// The template of the step for a rank that holds `units`, and its frame. `holds_tied` ranks sum a shared table.
pub fn template(
    plan: &Plan<'_>,
    workload: &Workload,
    units: &[&PlacedUnit],
    stage: usize,
    frame_index: u32,
    holds_tied: u64,
) -> (Template, Frame) {
    let rules = &plan.rules;
    let shard_of =
        |elements: u64| if rules.shards_optimizer { elements.div_ceil(rules.shards) } else { elements };
    let mut sizes = Sizes { tied: shard_of(holds_tied), ..Sizes::default() };
    for unit in units {
        let parameters = &unit.parameters;
        sizes.dense += parameters.dense_trained;
        sizes.expert += parameters.expert_trained;
        sizes.dense_shard += parameters.dense_trained.div_ceil(rules.shards);
        sizes.expert_shard += parameters.expert_trained.div_ceil(rules.expert_shards);
        sizes.partial += parameters.partial.min(shard_of(parameters.dense_trained));
        let start = sizes.owned;
        sizes.owned += rules.optimizer_elements(parameters);
        if unit.offloads_parameters {
            sizes.stored_on_host.push(Owned { start, end: sizes.owned });
        }
    }
    sizes.on_host = offloaded_elements(plan.strategy, stage, sizes.owned);
    let mut step = Step { plan, sizes: &sizes, list: Vec::with_capacity(32), touched: Default::default() };
    let mut first = Instruction::plain(Op::Release, Task::Nothing, Stream::Compute, Cause::Optimizer);
    first.behind = Streams::all_but(Stream::Compute);
    step.push(first);
    step.reduce(units);
    step.finish_gradients();
    step.clip(workload);
    let mut frame = Frame::default();
    step.update(&mut frame);
    step.gather();
    let mut instructions = step.list;
    hold_gradients(late_gradients(rules, units), &mut frame, &mut instructions);
    instructions.extend(free_sent(plan));
    (Template { pass: None, frame: frame_index, instructions, sent: Vec::new() }, frame)
}

/// Bytes of the gradients of `units` that came with their backwards.
fn late_gradients(rules: &StateRules, units: &[&PlacedUnit]) -> Bytes {
    let late = units.iter().filter(|unit| rules.comes_late(&unit.parameters));
    late.map(|unit| Bytes(rules.kept_gradient(&unit.parameters)).aligned()).sum()
}

/// Holds `late` bytes of gradients from the first of `instructions` to behind the last.
fn hold_gradients(late: Bytes, frame: &mut Frame, instructions: &mut Vec<Instruction>) {
    let Some(first) = instructions.first_mut().filter(|_| late.0 > 0) else { return };
    let id = frame.buffers.len() as BufferId;
    frame.buffers.push(Buffer { name: "gradients", bytes: late, category: Category::Gradients });
    first.allocates.push(id);
    first.writes.push(id);
    let last = Instruction::plain(Op::Release, Task::Nothing, Stream::Compute, Cause::Optimizer);
    instructions.push(Instruction { frees: smallvec![id], ..last });
}

/// The instructions of a step while they are written.
struct Step<'a> {
    plan: &'a Plan<'a>,
    sizes: &'a Sizes,
    list: Vec<Instruction>,
    /// What the instructions of each stream touch of what the rank keeps, with their places in the list.
    touched: [Vec<(u32, Touched, Accesses)>; Stream::ALL.len()],
}

impl Step<'_> {
    /// Appends `next`, which waits for each stream's last instruction that touches what it touches, and for the first
    /// of all, which waits for all passes.
    fn push(&mut self, mut next: Instruction) {
        let standing = Standing { units: &[], lenders: &[], gathers_once: false, pass: None };
        let accesses = standing.accesses(&next);
        let touched = Touched::of(&accesses);
        let conflicts = |(_, others_touched, others): &&(u32, Touched, Accesses)| {
            let conflicts = |one: &Access| others.iter().any(|other| one.conflicts(other));
            touched.may_conflict(*others_touched) && accesses.iter().any(conflicts)
        };
        let own = next.stream as usize;
        for (_, before) in self.touched.iter().enumerate().filter(|(stream, _)| *stream != own) {
            next.waits.extend(before.iter().rev().find(conflicts).map(|(index, ..)| *index));
        }
        if next.waits.is_empty() && self.touched[own].is_empty() && !self.list.is_empty() {
            next.waits.push(0);
        }
        next.waits.sort_unstable();
        self.touched[own].push((self.list.len() as u32, touched, accesses));
        self.list.push(next);
    }

    fn collective(&mut self, kind: CollectiveKind, group: Group, bytes: u64, task: Task) {
        let op = Op::Collective(Collective::new(kind, group, Bytes(bytes)));
        self.push(Instruction::plain(op, task, Stream::Data, Cause::Communication));
    }

    /// Gradients that no backward has reduced, a unit behind the other.
    fn reduce(&mut self, units: &[&PlacedUnit]) {
        let plan = self.plan;
        if !plan.rules.reduces_behind {
            return;
        }
        for unit in units {
            for (part, op) in reductions(&plan.rules, plan.engine, &unit.parameters, true) {
                let task = Task::ReduceGradient(part);
                let mut next = Instruction::plain(op, task, Stream::Data, Cause::Communication);
                next.unit = Some(unit.unit);
                self.push(next);
            }
        }
    }

    /// Sums that wait for the last micro-batch: across replicas under `scatter`, of a tied table, of gradients that
    /// tensor ranks hold parts of.
    fn finish_gradients(&mut self) {
        let (rules, strategy, sizes) = (&self.plan.rules, self.plan.strategy, self.sizes);
        if strategy.sync == GradientSync::Scatter && strategy.zero >= 2 && rules.replicas > 1 {
            let size = rules.reduce.size();
            let parts = [
                (Part::Dense, Group::Replica, sizes.dense_shard),
                (Part::Expert, Group::ExpertReplica, sizes.expert_shard),
            ];
            for (part, group, elements) in parts.into_iter().filter(|(_, _, elements)| *elements > 0) {
                let task = Task::SumReplicas(part);
                self.collective(CollectiveKind::AllReduce, group, elements * size, task);
            }
        }
        if sizes.partial > 0 {
            let bytes = sizes.partial * rules.gradient.size();
            self.collective(CollectiveKind::AllReduce, Group::Tensor, bytes, Task::SumPartial);
        }
        if sizes.tied > 0 {
            let bytes = sizes.tied * rules.gradient.size();
            self.collective(CollectiveKind::AllReduce, Group::Tied, bytes, Task::SumTied);
        }
    }

    /// The global gradient norm: a pass over the owned gradients and one number summed over all ranks.
    fn clip(&mut self, workload: &Workload) {
        if workload.clip <= 0.0 {
            return;
        }
        let op = Elementwise {
            kind: ElementwiseKind::GradientNorm,
            elements: self.sizes.owned,
            operands: 1,
            element: self.plan.rules.gradient,
        };
        let squares = Task::GradientSquares;
        self.push(Instruction::plain(Op::Elementwise(op), squares, Stream::Compute, Cause::Optimizer));
        if self.plan.strategy.devices() > 1 {
            let bytes = SQUARES * SCALAR_SIZE;
            self.collective(CollectiveKind::AllReduce, Group::World, bytes, Task::SumSquares);
        }
        let factor = of_squares(Task::ClipFactor, 1, Cause::Optimizer);
        self.push(factor);
    }

    /// AdamW: the device's share on the compute stream, the host's in slices through three streams.
    fn update(&mut self, frame: &mut Frame) {
        let (plan, rules, sizes) = (self.plan, &self.plan.rules, self.sizes);
        let most = if plan.strategy.overlap { HOST_SLICES } else { 1 };
        let slices = (sizes.on_host / SLICE_ELEMENTS).clamp(1, most);
        let on = |stream: Stream| plan.beside(stream);
        if sizes.on_host > 0 {
            let op = Op::CopyOut(Scalars::head_bytes());
            self.push(Instruction::plain(op, Task::CopyScalars, on(Stream::Host), Cause::Copy));
        }
        for slice in 0..if sizes.on_host > 0 { slices } else { 0 } {
            let part = |slice: u64| sizes.on_host * slice / slices;
            let owned = Owned { start: part(slice), end: part(slice + 1) };
            let elements = owned.end - owned.start;
            let op = Op::CopyOut(Bytes(elements * rules.gradient.size()));
            self.push(Instruction::plain(op, Task::HostGradients(owned), on(Stream::CopyOut), Cause::Copy));
            let op = rules.adamw(elements, true);
            self.push(Instruction::plain(op, Task::HostStep(owned), on(Stream::Host), Cause::Optimizer));
            // Parameters that live on the host stay there.
            let returned = elements - sizes.stored_within(owned);
            if returned > 0 {
                let op = Op::CopyIn(Bytes(returned * rules.parameter.size()));
                self.push(Instruction::plain(
                    op,
                    Task::HostParameters(owned),
                    on(Stream::CopyIn),
                    Cause::Copy,
                ));
            }
        }
        let owned = Owned { start: sizes.on_host, end: sizes.owned };
        let on_device = sizes.owned - sizes.on_host;
        // What a step takes whatever its size is there even if the host updates everything.
        if on_device == 0 && (sizes.owned == 0 || plan.engine.timing.step_time.value.0 <= 0.0) {
            return;
        }
        let mut buffer = |name, bytes, category| {
            frame.buffers.push(Buffer { name, bytes: Bytes(bytes), category });
            (frame.buffers.len() - 1) as BufferId
        };
        let task = Task::DeviceStep(owned);
        let mut step =
            Instruction::plain(rules.adamw(on_device, false), task, Stream::Compute, Cause::Optimizer);
        if plan.engine.state.single_precision_gradient_copy && rules.gradient.size() < 4 {
            let bytes = on_device * ElementType::Fp32.size();
            let copy = buffer(WIDE_COPY, bytes, Category::Gradients);
            step.allocates.push(copy);
            step.writes.push(copy);
            step.frees.push(copy);
        }
        let bytes = sizes.stored_within(owned) * rules.parameter.size();
        if bytes == 0 {
            return self.push(step);
        }
        let updated = buffer("updated parameters", bytes, Category::Buffers);
        step.writes.push(updated);
        if rules.has_separate_master {
            step.allocates.push(updated);
        } else {
            self.push(Instruction {
                allocates: smallvec![updated],
                writes: smallvec![updated],
                ..Instruction::plain(
                    Op::CopyIn(Bytes(bytes)),
                    Task::LoadParameters(owned),
                    on(Stream::CopyIn),
                    Cause::Copy,
                )
            });
        }
        self.push(step);
        self.push(Instruction {
            reads: smallvec![updated],
            frees: smallvec![updated],
            ..Instruction::plain(
                Op::CopyOut(Bytes(bytes)),
                Task::StoreParameters(owned),
                on(Stream::CopyOut),
                Cause::Copy,
            )
        });
    }

    /// Updated parameters back to the ranks that hold them whole.
    fn gather(&mut self) {
        let (rules, sizes) = (&self.plan.rules, self.sizes);
        if rules.shards_parameters || !rules.shards_optimizer || rules.gathers_updates_ahead {
            return;
        }
        let parts = [
            (Part::Dense, Group::State, sizes.dense, rules.shards),
            (Part::Expert, Group::ExpertState, sizes.expert, rules.expert_shards),
        ];
        for (part, group, elements, shards) in parts {
            if shards > 1 && elements > 0 {
                let bytes = elements * rules.parameter.size();
                self.collective(CollectiveKind::AllGather, group, bytes, Task::GatherUpdated(part));
            }
        }
    }
}
