//! Where gradients live in a step program: the buffers that hold them, when each is first written and last used, and
//! the sums over ranks on the way. All of it is read off the instructions.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ops::{Collective, Op};
use crate::program::instruction::{Holds, Instruction, RankProgram, Task, Template};
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
    let optimizer = |life: Option<During>| {
        let step =
            uses.when(|instruction| matches!(instruction.task, Task::DeviceStep(_) | Task::HostGradients(_)));
        life.map(|life| During { last: step.map_or(life.last, |step| life.last.max(step.last)), ..life })
    };
    let of_unit = |unit: u32| {
        move |instruction: &Instruction| {
            let lends =
                lenders.iter().any(|&(borrower, of)| of == unit && instruction.unit == Some(borrower));
            instruction.unit == Some(unit) || lends
        }
    };
    let adds =
        |instruction: &Instruction| matches!(instruction.task, Task::Kernel { adds_gradient: true, .. });
    let keeps = |instruction: &Instruction| matches!(instruction.task, Task::KeepGradient { .. });
    let reduces = |instruction: &Instruction| matches!(instruction.task, Task::ReduceGradient(_));
    let mut list = Vec::new();
    let mut push = |buffer, unit, bytes, during: Option<During>, sums| {
        // A buffer that nothing is written to (a frozen model's) holds no gradient.
        list.extend(during.map(|during| GradientLife { buffer, unit, bytes, during, sums }));
    };
    for state in &program.persistent {
        let Some(unit) = state.unit else { continue };
        let own = of_unit(unit);
        match state.holds {
            Holds::Gradients => {
                let during = optimizer(uses.when(|instruction| adds(instruction) && own(instruction)));
                let sums = uses.sums(|instruction| reduces(instruction) && instruction.unit == Some(unit));
                push(GradientBuffer::Whole, Some(unit), state.device, once(during), sums);
            }
            Holds::GradientShards => {
                let during = optimizer(uses.when(|instruction| keeps(instruction) && own(instruction)));
                push(GradientBuffer::Shard, Some(unit), state.device, once(during), Vec::new());
            }
            Holds::Parameters if !program.keeps_gradient_of(unit) => {
                let own = |instruction: &Instruction| keeps(instruction) && instruction.unit == Some(unit);
                let during = optimizer(uses.when(own));
                push(GradientBuffer::InParameters, Some(unit), Bytes::ZERO, once(during), Vec::new());
            }
            _ => {}
        }
    }
    for (index, frame) in program.frames.iter().enumerate() {
        for unit in &frame.units {
            let Some(id) = unit.own_gradient() else { continue };
            let here = |template: &Template| template.frame as usize == index;
            let during = uses.when_in(here, |instruction| instruction.allocates.contains(&id));
            let sums = uses.sums(|instruction| reduces(instruction) && instruction.unit == Some(unit.unit));
            push(GradientBuffer::Unit, Some(unit.unit), frame.buffers[id as usize].bytes, during, sums);
        }
    }
    let shared = |task: fn(Task) -> bool| uses.when(move |instruction| task(instruction.task));
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
        uses.sums(|instruction| matches!(instruction.task, Task::SumWatched { .. })),
    );
    push(
        GradientBuffer::HostCopy,
        None,
        uses.bytes(|task| matches!(task, Task::HostGradients(_))),
        once(shared(|task| matches!(task, Task::HostGradients(_)))),
        Vec::new(),
    );
    if let Some(copy) = program.frames.last().and_then(|step| step.buffers.first()) {
        let during = shared(|task| matches!(task, Task::DeviceStep(_)));
        push(GradientBuffer::WideCopy, None, copy.bytes, during, Vec::new());
    }
    list
}

/// The sums of the optimizer step, over the gradients of all units together.
pub fn step_sums(program: &RankProgram) -> Vec<GradientSum> {
    let is_sum = |instruction: &Instruction| {
        matches!(instruction.task, Task::SumReplicas(_) | Task::SumPartial | Task::SumTied)
    };
    Uses::new(program).sums(is_sum)
}

fn once(during: Option<During>) -> Option<During> {
    during.map(|during| During { times: 1, ..during })
}

impl RankProgram {
    /// Whether a buffer of its own keeps the gradient of `unit` over the step.
    fn keeps_gradient_of(&self, unit: u32) -> bool {
        let holds = [Holds::Gradients, Holds::GradientShards];
        self.persistent.iter().any(|state| state.unit == Some(unit) && holds.contains(&state.holds))
    }
}

/// When each template of a program is called.
struct Uses<'a> {
    program: &'a RankProgram,
    calls: HashMap<u32, During>,
}

impl<'a> Uses<'a> {
    fn new(program: &'a RankProgram) -> Self {
        let mut calls: HashMap<u32, During> = HashMap::new();
        for (number, call) in (0..).zip(&program.calls) {
            let now = During { first: number, last: number, times: 1 };
            calls.entry(call.template).and_modify(|during| *during = during.with(now)).or_insert(now);
        }
        Self { program, calls }
    }

    /// When instructions run that are `wanted`.
    fn when(&self, wanted: impl Fn(&Instruction) -> bool) -> Option<During> {
        self.when_in(|_| true, wanted)
    }

    fn when_in(
        &self,
        here: impl Fn(&Template) -> bool,
        wanted: impl Fn(&Instruction) -> bool,
    ) -> Option<During> {
        let found = self.found(here, wanted);
        found.map(|(during, _)| during).reduce(During::with)
    }

    fn found(
        &self,
        here: impl Fn(&Template) -> bool,
        wanted: impl Fn(&Instruction) -> bool,
    ) -> impl Iterator<Item = (During, &'a Instruction)> {
        let templates = (0..).zip(&self.program.templates).filter(move |(_, template)| here(template));
        let called = templates.filter_map(|(index, template)| Some((*self.calls.get(&index)?, template)));
        called
            .flat_map(|(during, template)| template.instructions.iter().map(move |one| (during, one)))
            .filter(move |(_, instruction)| wanted(instruction))
    }

    /// The collectives that are `wanted`, those of one kind and group together.
    fn sums(&self, wanted: impl Fn(&Instruction) -> bool) -> Vec<GradientSum> {
        let mut sums: Vec<GradientSum> = Vec::new();
        for (during, instruction) in self.found(|_| true, wanted) {
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

    /// Bytes that the instructions of one call move whose task is `wanted`.
    fn bytes(&self, wanted: fn(Task) -> bool) -> Bytes {
        let found = self.found(|_| true, move |instruction| wanted(instruction.task));
        let moved = found.map(|(_, instruction)| match instruction.op {
            Op::CopyOut(bytes) => bytes,
            Op::Collective(op) => op.bytes,
            _ => Bytes::ZERO,
        });
        moved.sum()
    }
}
