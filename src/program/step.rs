//! The optimizer step: what gradients still lack, clipping, AdamW on device and host, and gathering what was updated.

use crate::lower::{Category, Stream};
use crate::ops::{AdamW, Collective, CollectiveKind, Elementwise, ElementwiseKind, Group, Op};
use crate::profile::choices::GradientSync;
use crate::program::instruction::{Buffer, Cause, Frame, Instruction, Template};
use crate::program::layout::PlacedUnit;
use crate::program::passes::Plan;
use crate::program::state::offloaded_elements;
use crate::strategy::Workload;
use crate::units::{Bytes, ElementType};

/// Slices that an overlapped host step is cut in: one is copied out while one is updated and one copied back.
pub const HOST_SLICES: u64 = 8;

/// Sizes of the step on one rank, in elements.
#[derive(Clone, Copy, Debug, Default)]
struct Sizes {
    dense: u64,
    dense_shard: u64,
    expert_shard: u64,
    expert: u64,
    owned: u64,
    on_host: u64,
    replicated: u64,
    tied: u64,
    parameters_on_host: u64,
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
    let mut sizes = Sizes { tied: holds_tied, ..Sizes::default() };
    for unit in units {
        let parameters = &unit.parameters;
        sizes.dense += parameters.dense_trained;
        sizes.expert += parameters.expert_trained;
        sizes.dense_shard += parameters.dense_trained.div_ceil(rules.shards);
        sizes.expert_shard += parameters.expert_trained.div_ceil(rules.expert_shards);
        sizes.owned += rules.optimizer_elements(parameters);
        sizes.replicated += parameters.replicated_trained;
        if unit.offloads_parameters {
            sizes.parameters_on_host += rules.optimizer_elements(parameters);
        }
    }
    sizes.on_host = offloaded_elements(plan.strategy, stage, sizes.owned);
    let mut list = Vec::new();
    let mut first = Instruction::plain(Op::Release, Stream::Compute, Cause::Optimizer);
    first.joins = true;
    list.push(first);
    finish_gradients(plan, &sizes, &mut list);
    clip(plan, workload, &sizes, &mut list);
    let mut frame = Frame::default();
    update(plan, &sizes, &mut list, &mut frame);
    gather(plan, &sizes, &mut list);
    (Template { pass: None, frame: frame_index, instructions: list, sent: Vec::new() }, frame)
}

/// Appends an instruction that waits for the one before it.
fn then(list: &mut Vec<Instruction>, mut next: Instruction) {
    next.waits = list.len().checked_sub(1).map(|before| before as u32).into_iter().collect();
    list.push(next);
}

fn collective(kind: CollectiveKind, group: Group, bytes: u64) -> Instruction {
    let op = Op::Collective(Collective { kind, group, bytes: Bytes(bytes) });
    Instruction::plain(op, Stream::Data, Cause::Communication)
}

/// Sums that wait for the last micro-batch: across replicas under `scatter`, of a tied table, of parameters that
/// tensor ranks hold whole.
fn finish_gradients(plan: &Plan<'_>, sizes: &Sizes, list: &mut Vec<Instruction>) {
    let rules = &plan.rules;
    let strategy = plan.strategy;
    if strategy.sync == GradientSync::Scatter && strategy.zero >= 2 && rules.replicas > 1 {
        let size = rules.reduce.size();
        let parts = [(Group::Replica, sizes.dense_shard), (Group::ExpertReplica, sizes.expert_shard)];
        for (group, elements) in parts.into_iter().filter(|(_, elements)| *elements > 0) {
            then(list, collective(CollectiveKind::AllReduce, group, elements * size));
        }
    }
    if strategy.sequence_parallel && sizes.replicated > 0 {
        let bytes = sizes.replicated * rules.gradient.size();
        then(list, collective(CollectiveKind::AllReduce, Group::Tensor, bytes));
    }
    if sizes.tied > 0 {
        then(list, collective(CollectiveKind::AllReduce, Group::Tied, sizes.tied * rules.gradient.size()));
    }
}

/// The global gradient norm: a pass over the owned gradients and one number summed over all ranks.
fn clip(plan: &Plan<'_>, workload: &Workload, sizes: &Sizes, list: &mut Vec<Instruction>) {
    if workload.clip <= 0.0 || sizes.owned == 0 {
        return;
    }
    let op = Elementwise {
        kind: ElementwiseKind::GradientNorm,
        elements: sizes.owned,
        operands: 1,
        element: plan.rules.gradient,
    };
    then(list, Instruction::plain(Op::Elementwise(op), Stream::Compute, Cause::Optimizer));
    if plan.strategy.devices() > 1 {
        then(list, collective(CollectiveKind::AllReduce, Group::World, 4));
    }
}

/// AdamW: the device's share on the compute stream, the host's in slices through three streams.
fn update(plan: &Plan<'_>, sizes: &Sizes, list: &mut Vec<Instruction>, frame: &mut Frame) {
    let rules = &plan.rules;
    let start = list.len().saturating_sub(1) as u32;
    let adamw = |elements, on_host| AdamW {
        elements,
        gradient_size: rules.gradient.size(),
        state_size: rules.state_size,
        working_size: if rules.has_separate_master { rules.parameter.size() } else { 0 },
        on_host,
    };
    let slices = if plan.strategy.overlap { HOST_SLICES } else { 1 };
    let mut before: Option<u32> = None;
    for slice in 0..if sizes.on_host > 0 { slices } else { 0 } {
        let part = |total: u64| total * (slice + 1) / slices - total * slice / slices;
        let elements = part(sizes.on_host);
        let mut out = Instruction::plain(
            Op::CopyOut(Bytes(elements * rules.gradient.size())),
            Stream::CopyOut,
            Cause::Copy,
        );
        out.waits = [Some(start), before].into_iter().flatten().collect();
        list.push(out);
        then(list, Instruction::plain(Op::AdamW(adamw(elements, true)), Stream::Host, Cause::Optimizer));
        // Parameters that live on the host stay there.
        let returned = part(sizes.on_host.saturating_sub(sizes.parameters_on_host));
        if returned > 0 {
            let op = Op::CopyIn(Bytes(returned * rules.parameter.size()));
            then(list, Instruction::plain(op, Stream::CopyIn, Cause::Copy));
        }
        before = (!plan.strategy.overlap).then(|| list.len() as u32 - 1);
    }
    let on_device = sizes.owned - sizes.on_host;
    if on_device > 0 {
        let mut step =
            Instruction::plain(Op::AdamW(adamw(on_device, false)), Stream::Compute, Cause::Optimizer);
        step.waits.push(start);
        if plan.engine.state.single_precision_gradient_copy && rules.gradient.size() < 4 {
            frame.buffers.push(Buffer {
                name: "32-bit gradient copy",
                bytes: Bytes(on_device * ElementType::Fp32.size()),
                category: Category::Gradients,
            });
            step.allocates.push(0);
            step.writes.push(0);
            step.frees.push(0);
        }
        list.push(step);
    }
    let to_host = sizes.parameters_on_host.saturating_sub(sizes.on_host);
    if to_host > 0 {
        let op = Op::CopyOut(Bytes(to_host * rules.parameter.size()));
        then(list, Instruction::plain(op, Stream::CopyOut, Cause::Copy));
    }
}

/// Updated parameters back to the ranks that hold them whole.
fn gather(plan: &Plan<'_>, sizes: &Sizes, list: &mut Vec<Instruction>) {
    let rules = &plan.rules;
    if rules.shards_parameters || !rules.shards_optimizer {
        return;
    }
    let parts =
        [(Group::State, sizes.dense, rules.shards), (Group::ExpertState, sizes.expert, rules.expert_shards)];
    for (group, elements, shards) in parts {
        if shards > 1 && elements > 0 {
            let mut next = collective(CollectiveKind::AllGather, group, elements * rules.parameter.size());
            next.joins = true;
            list.push(next);
        }
    }
}
