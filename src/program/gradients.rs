//! Where gradients live in a step program: the buffers that hold them, when each is first written and last used, and
//! the sums over ranks on the way. All of it is read off the instructions.

use std::collections::{HashMap, HashSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ops::{Collective, Op};
use crate::program::instruction::{Buffer, Holds, Instruction, RankProgram, Task};
use crate::program::step::WIDE_COPY;
use crate::units::Bytes;

/// What holds gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GradientBuffer {
    /// A unit's whole gradient, kept over the step.
    Whole,
    /// This rank's shard of a unit's gradient, kept over the step.
    Shard,
    /// A unit's whole gradient while its backward runs, until it is reduced.
    Unit,
    /// This rank's shard of a unit's gradient in the memory of its parameters.
    InParameters,
    /// Staging of gradients on their way through a reduction.
    Bucket,
    /// A loss's gradient at the weight where an adaptive loss weight takes its norm.
    Watched,
    /// On the host, for the optimizer there.
    HostCopy,
    /// A copy in 32 bits, for the optimizer.
    WideCopy,
}

/// A buffer of gradients in the step of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GradientLife {
    pub buffer: GradientBuffer,
    /// The unit (in model order) whose gradient it holds; none for what several share.
    pub unit: Option<u32>,
    /// On one rank; of the host for a copy there.
    pub bytes: Bytes,
    pub during: During,
    /// The collectives that sum what it holds, in order of their first.
    pub sums: Vec<GradientSum>,
}

/// From the call in which something begins to the call in which it ends, by their numbers, and how often in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct During {
    pub first: u32,
    pub last: u32,
    pub times: u32,
}

/// A collective over gradients; its bytes are those of one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GradientSum {
    pub op: Collective,
    pub task: Task,
    pub during: During,
}

impl During {
    const fn with(self, other: Self) -> Self {
        Self {
            first: if other.first < self.first { other.first } else { self.first },
            last: if other.last > self.last { other.last } else { self.last },
            times: self.times + other.times,
        }
    }
}

/// The lives of all gradient buffers of `program`. `lenders` names units whose gradient is that of another unit's
/// table, and which ([`crate::program::Layout::lenders`]).
pub fn lives(program: &RankProgram, lenders: &[(u32, u32)]) -> Vec<GradientLife> {
    let uses = Uses::new(program);
    let step = during(uses.all(|task| matches!(task, Task::DeviceStep(_) | Task::HostGradients(_))));
    let optimizer = |life: Option<During>| {
        life.map(|life| During { last: step.map_or(life.last, |step| life.last.max(step.last)), ..life })
    };
    // Of the unit and of those that borrow its table.
    let own = |unit: u32, wanted: fn(Task) -> bool| {
        let borrowers = lenders.iter().filter(|&&(_, of)| of == unit).map(|&(borrower, _)| borrower);
        let units = std::iter::once(unit).chain(borrowers.filter(|&borrower| borrower != unit));
        during(units.flat_map(|unit| uses.of(unit, wanted)))
    };
    let kept = [Holds::Gradients, Holds::GradientShards];
    let kept = program.persistent.iter().filter(|state| kept.contains(&state.holds));
    let late = || program.frames.iter().flat_map(|frame| frame.units.iter().map(move |unit| (frame, unit)));
    let late =
        || late().filter_map(|(frame, unit)| Some((unit.unit, frame.buffers[unit.late? as usize].bytes)));
    let kept: HashSet<u32> =
        kept.filter_map(|state| state.unit).chain(late().map(|(unit, _)| unit)).collect();
    let adds = |task| matches!(task, Task::Kernel { adds_gradient: true, .. });
    let keeps = |task| matches!(task, Task::KeepGradient { .. });
    let reduces = |task| matches!(task, Task::ReduceGradient(_));
    let mut list = Vec::new();
    let mut push = |buffer, unit, bytes, during: Option<During>, sums| {
        // A buffer that nothing is written to (a frozen model's) holds no gradient.
        list.extend(during.map(|during| GradientLife { buffer, unit, bytes, during, sums }));
    };
    for state in &program.persistent {
        let Some(unit) = state.unit else { continue };
        match state.holds {
            Holds::Gradients => {
                let during = optimizer(own(unit, adds));
                let sums = sums(uses.of(unit, reduces));
                push(GradientBuffer::Whole, Some(unit), state.device, once(during), sums);
            }
            Holds::GradientShards => {
                let during = optimizer(own(unit, keeps));
                push(GradientBuffer::Shard, Some(unit), state.device, once(during), Vec::new());
            }
            Holds::Parameters if !kept.contains(&unit) => {
                let during = optimizer(during(uses.of(unit, keeps)));
                push(GradientBuffer::InParameters, Some(unit), Bytes::ZERO, once(during), Vec::new());
            }
            _ => {}
        }
    }
    for (unit, bytes) in late() {
        if uses.of(unit, keeps).next().is_some() {
            push(GradientBuffer::Shard, Some(unit), bytes, once(optimizer(own(unit, keeps))), Vec::new());
        } else {
            let sums = sums(uses.of(unit, reduces));
            push(GradientBuffer::Whole, Some(unit), bytes, once(optimizer(own(unit, adds))), sums);
        }
    }
    for (index, frame) in program.frames.iter().enumerate() {
        for unit in &frame.units {
            let Some(id) = unit.own_gradient() else { continue };
            let takes =
                |one: &&Use<'_>| one.frame as usize == index && one.instruction.allocates.contains(&id);
            let during = during(uses.of(unit.unit, |_| true).filter(takes));
            let sums = sums(uses.of(unit.unit, reduces));
            push(GradientBuffer::Unit, Some(unit.unit), frame.buffers[id as usize].bytes, during, sums);
        }
    }
    let shared = |wanted: fn(Task) -> bool| during(uses.all(wanted));
    let staging = program.persistent.iter().find(|state| state.holds == Holds::ReductionBuckets);
    if let Some(staging) = staging {
        let during = shared(|task| matches!(task, Task::ReduceGradient(_)));
        push(GradientBuffer::Bucket, None, staging.device, during, Vec::new());
    }
    push(
        GradientBuffer::Watched,
        None,
        uses.bytes(|task| matches!(task, Task::SumWatched { .. })),
        shared(|task| matches!(task, Task::SumWatched { .. })),
        sums(uses.all(|task| matches!(task, Task::SumWatched { .. }))),
    );
    push(
        GradientBuffer::HostCopy,
        None,
        uses.bytes(|task| matches!(task, Task::HostGradients(_))),
        once(shared(|task| matches!(task, Task::HostGradients(_)))),
        Vec::new(),
    );
    let is_copy = |buffer: &&Buffer| buffer.name == WIDE_COPY;
    if let Some(copy) = program.frames.last().and_then(|step| step.buffers.iter().find(is_copy)) {
        let during = shared(|task| matches!(task, Task::DeviceStep(_)));
        push(GradientBuffer::WideCopy, None, copy.bytes, during, Vec::new());
    }
    list
}

/// The sums of the optimizer step, over the gradients of all units together.
pub fn step_sums(program: &RankProgram) -> Vec<GradientSum> {
    let is_sum = |task| matches!(task, Task::SumReplicas(_) | Task::SumPartial | Task::SumTied);
    sums(Uses::new(program).all(is_sum))
}

fn once(during: Option<During>) -> Option<During> {
    during.map(|during| During { times: 1, ..during })
}

/// An instruction, the frame of its buffers and when it is called.
struct Use<'a> {
    during: During,
    frame: u32,
    instruction: &'a Instruction,
}

/// The instructions of a program that are called, and which of them are of each unit.
struct Uses<'a> {
    list: Vec<Use<'a>>,
    of_unit: HashMap<u32, Vec<usize>>,
}

impl<'a> Uses<'a> {
    fn new(program: &'a RankProgram) -> Self {
        let mut calls: HashMap<u32, During> = HashMap::new();
        for (number, call) in (0..).zip(&program.calls) {
            let now = During { first: number, last: number, times: 1 };
            calls.entry(call.template).and_modify(|during| *during = during.with(now)).or_insert(now);
        }
        let mut uses = Self { list: Vec::new(), of_unit: HashMap::new() };
        for (index, template) in (0..).zip(&program.templates) {
            let Some(&during) = calls.get(&index) else { continue };
            for instruction in &template.instructions {
                if let Some(unit) = instruction.unit {
                    uses.of_unit.entry(unit).or_default().push(uses.list.len());
                }
                uses.list.push(Use { during, frame: template.frame, instruction });
            }
        }
        uses
    }

    /// Those whose task is `wanted`.
    fn all(&self, wanted: fn(Task) -> bool) -> impl Iterator<Item = &Use<'a>> {
        self.list.iter().filter(move |one| wanted(one.instruction.task))
    }

    /// Those of `unit`.
    fn of(&self, unit: u32, wanted: fn(Task) -> bool) -> impl Iterator<Item = &Use<'a>> {
        let places = self.of_unit.get(&unit).into_iter().flatten();
        places.map(|&place| &self.list[place]).filter(move |one| wanted(one.instruction.task))
    }

    /// Bytes that the instructions of one call move whose task is `wanted`.
    fn bytes(&self, wanted: fn(Task) -> bool) -> Bytes {
        let moved = self.all(wanted).map(|one| match one.instruction.op {
            Op::CopyOut(bytes) => bytes,
            Op::Collective(op) => op.bytes,
            _ => Bytes::ZERO,
        });
        moved.sum()
    }
}

/// From the first of `uses` to the last.
fn during<'u, 'a: 'u>(uses: impl Iterator<Item = &'u Use<'a>>) -> Option<During> {
    uses.map(|one| one.during).reduce(During::with)
}

/// The collectives among `uses`, those of one kind and group together.
fn sums<'u, 'a: 'u>(uses: impl Iterator<Item = &'u Use<'a>>) -> Vec<GradientSum> {
    let mut sums: Vec<GradientSum> = Vec::new();
    for &Use { during, instruction, .. } in uses {
        let Op::Collective(op) = instruction.op else { continue };
        let task = instruction.task;
        match sums.iter_mut().find(|sum| (sum.op, sum.task) == (op, task)) {
            Some(sum) => sum.during = sum.during.with(during),
            None => sums.push(GradientSum { op, task, during }),
        }
    }
    sums.sort_by_key(|sum| sum.during.first);
    sums
}
