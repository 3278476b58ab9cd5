//! Writes the instructions of a template: waits, transfers, parameters that come and go, reductions.

use std::collections::HashMap;

use smallvec::smallvec;

use crate::lower::{LoweredUnit, Step, Stream, ValueId, ValueIds};
use crate::ops::{Collective, CollectiveKind, Group, Op};
use crate::profile::engine::Overlap;
use crate::program::frame::ChunkFrame;
use crate::program::instruction::{
    BufferId, Cause, Few, Instruction, Message, Part, Payload, Streams, Task, UnitBuffers,
};
use crate::program::layout::{Chunk, PlacedUnit};
use crate::program::passes::{Plan, Variant};
use crate::program::reduction::{accumulate, keep, reductions, updates};
use crate::program::schedule::Pass;
use crate::program::state::Gathering;
use crate::program::waits::Waits;
use crate::program::weighing::Holding;
use crate::units::Bytes;

/// Writes one template.
pub(super) struct Writer<'a> {
    pub(super) plan: &'a Plan<'a>,
    pub(super) chunk: &'a Chunk,
    pub(super) frame: &'a ChunkFrame,
    /// The loss whose backward is being written.
    pub(super) loss: u8,
    pub(super) instructions: Vec<Instruction>,
    /// The last gather of each unit, by place, whose parameters stay outside the frame and were not used yet.
    pub(super) gathering: HashMap<usize, u32>,
    pub(super) waits: Waits,
    pub(super) sent: Vec<BufferId>,
    /// Reductions under way: the unit gradient that each reads.
    pub(super) reducing: Vec<BufferId>,
    /// Saved activations on their way out.
    pub(super) leaving: Vec<Few>,
    pub(super) holding: Holding,
    /// Places that backwards of other losses have been at.
    pub(super) earlier: Vec<usize>,
    /// Kept gradients that have come with this pass.
    pub(super) late: Vec<BufferId>,
    /// Earlier calls may still sum the gradients that are kept whole, and nothing here has waited for them.
    pub(super) sums_before: bool,
}

impl<'a> Writer<'a> {
    /// Appends `instruction` with its waits. Returns its index.
    pub(super) fn push(&mut self, mut instruction: Instruction) -> u32 {
        let index = self.instructions.len() as u32;
        self.waits.order(&mut instruction, &self.instructions);
        self.waits.used(&instruction, index);
        self.instructions.push(instruction);
        index
    }

    pub(super) fn release(&mut self, frees: Few, unit: Option<u32>) {
        self.push(Instruction {
            frees,
            unit,
            ..Instruction::plain(Op::Release, Task::Nothing, Stream::Compute, Cause::Compute)
        });
    }

    pub(super) fn receive(&mut self, buffer: BufferId, message: Message) {
        let bytes = self.bytes(buffer);
        self.push(Instruction {
            writes: smallvec![buffer],
            allocates: smallvec![buffer],
            message: Some(message),
            ..Instruction::plain(Op::Receive(bytes), Task::Receive, Stream::Receive, Cause::Communication)
        });
        if !self.plan.engine.timing.overlaps(Overlap::Sends) {
            // Receives that stand in the queue of the kernels hold back all of the pass, recomputation too.
            self.push(Instruction {
                reads: smallvec![buffer],
                ..Instruction::plain(Op::Release, Task::Nothing, Stream::Compute, Cause::Compute)
            });
        }
    }

    pub(super) fn send(&mut self, buffer: BufferId, message: Message) {
        let bytes = self.bytes(buffer);
        let overlaps = self.plan.engine.timing.overlaps(Overlap::Sends);
        let stream = if overlaps { Stream::Send } else { Stream::Compute };
        self.push(Instruction {
            reads: smallvec![buffer],
            message: Some(message),
            ..Instruction::plain(Op::Send(bytes), Task::Send, stream, Cause::Communication)
        });
        self.sent.push(buffer);
    }

    pub(super) fn bytes(&self, buffer: BufferId) -> Bytes {
        self.frame.frame.buffers[buffer as usize].bytes
    }

    /// The buffer of value `id` of the unit at `place`, under the present loss.
    pub(super) fn buffer(&self, place: usize, id: ValueId) -> BufferId {
        let buffer = self.frame.values[place][usize::from(id)];
        match self.frame.leaving.first() {
            Some(first) if *first == buffer => self.frame.leaving[usize::from(self.loss)],
            _ => buffer,
        }
    }

    /// The buffers of the unit at `place` beside its values.
    pub(super) fn unit_buffers(&self, place: usize) -> UnitBuffers {
        self.frame.frame.units[place]
    }

    fn buffers(&self, place: usize, ids: &[ValueId]) -> Few {
        ids.iter().map(|&id| self.buffer(place, id)).collect()
    }

    pub(super) fn lowered(&self, place: usize) -> &'a LoweredUnit {
        self.plan.layout.lowered(&self.chunk.units[place])
    }

    pub(super) fn message(&self, forward: bool, payload: Payload) -> Message {
        let index = self.chunk.index;
        Message { from: index, to: if forward { index + 1 } else { index.saturating_sub(1) }, payload }
    }

    pub(super) fn arriving(&self, from_before: bool, payload: Payload) -> Message {
        let index = self.chunk.index;
        Message { from: if from_before { index.saturating_sub(1) } else { index + 1 }, to: index, payload }
    }

    /// Steps of one pass of the unit at `place`; `again` keeps what later backwards still read.
    pub(super) fn steps(&mut self, place: usize, steps: &[Step], again: bool, uses_parameters: bool) {
        let unit = self.chunk.units[place];
        let parameters: Few = [self.unit_buffers(place).gathered, self.unit_buffers(place).fetched]
            .into_iter()
            .flatten()
            .filter(|_| uses_parameters)
            .collect();
        let kept = &self.lowered(place).kept;
        let (gradient, starts) = (self.own_gradient(place), self.starts_at(place));
        let mut allocated = false;
        let mut late = self.coming(place, steps).filter(|_| self.plan.rules.keeps_whole_gradients);
        for step in steps {
            let frees: ValueIds =
                step.frees.iter().copied().filter(|id| !(again && kept.contains(id))).collect();
            let cause = match step.op {
                Op::Collective(_) => Cause::Communication,
                _ if step.recompute => Cause::Recompute,
                _ => Cause::Compute,
            };
            let task = match step.op {
                Op::Release => Task::Nothing,
                _ => {
                    let Step { kernel, layer, adds_gradient, .. } = *step;
                    let starts = adds_gradient && starts && !kernel.continues();
                    Task::Kernel { kernel, layer, adds_gradient, starts }
                }
            };
            let mut instruction = Instruction {
                unit: Some(unit.unit),
                reads: self.buffers(place, &step.reads),
                writes: self.buffers(place, &step.writes),
                allocates: self.buffers(place, &step.allocates),
                frees: self.buffers(place, &frees),
                ..Instruction::plain(step.op, task, step.stream, cause)
            };
            if instruction.stream == Stream::Compute && uses_parameters {
                instruction.reads.extend_from_slice(&parameters);
                instruction.waits.extend(self.gathering.remove(&place));
            }
            match gradient.filter(|_| step.adds_gradient) {
                Some(gradient) => {
                    if !std::mem::replace(&mut allocated, true) {
                        self.make_room(1);
                        instruction.allocates.push(gradient);
                    }
                    instruction.writes.push(gradient);
                }
                None if step.adds_gradient => instruction.behind = self.behind_sums(),
                None => {}
            }
            if let Some(late) = late.take_if(|_| step.adds_gradient) {
                self.take_late(&mut instruction, late);
            }
            self.push(instruction);
        }
    }

    /// The kept gradient of the unit at `place`, where it comes with these `steps`: the first that add to it.
    fn coming(&self, place: usize, steps: &[Step]) -> Option<BufferId> {
        let adds = |steps: &[Step]| steps.iter().any(|step| step.adds_gradient);
        let forward = &self.lowered(place).forward;
        let is_first = std::ptr::eq(steps, forward.as_slice()) || !adds(forward);
        self.unit_buffers(place).late.filter(|_| is_first && adds(steps))
    }

    fn take_late(&mut self, instruction: &mut Instruction, late: BufferId) {
        instruction.allocates.push(late);
        instruction.writes.push(late);
        self.late.push(late);
    }

    /// Hands the gradients that came with the passes to the step, which holds them in its own frame.
    pub(super) fn hand_over_gradients(&mut self) {
        let units = self.frame.frame.units.iter();
        let late: Few = units.filter_map(|unit| unit.late).filter(|late| self.comes_by_now(*late)).collect();
        if !late.is_empty() {
            self.release(late, None);
        }
    }

    /// Whether `late` has come: with this pass or with the forward before it.
    fn comes_by_now(&self, late: BufferId) -> bool {
        let place = self.frame.frame.units.iter().position(|unit| unit.late == Some(late));
        let before = |place: usize| self.lowered(place).forward.iter().any(|step| step.adds_gradient);
        self.late.contains(&late) || place.is_some_and(before)
    }

    /// Whether nothing of this template has added to the gradient of the unit at `place` yet.
    pub(super) fn starts_at(&self, place: usize) -> bool {
        !self.earlier.contains(&place)
    }

    /// What the first instruction waits for that writes to gradients which earlier calls sum.
    pub(super) fn behind_sums(&mut self) -> Streams {
        if std::mem::take(&mut self.sums_before) { Streams::of(Stream::Data) } else { Streams::NONE }
    }

    /// Ends the template: what came or was made beside the computing is there when that is done, and what the call before
    /// has sent is free.
    pub(super) fn finish(&mut self) {
        self.finish_reductions();
        let waits: Few = self.waits.unawaited(&self.instructions, &self.sent).collect();
        // A chunk without units only passes on what comes, whatever its rank computes.
        if !waits.is_empty() && !self.chunk.units.is_empty() {
            let end = Instruction::plain(Op::Release, Task::Nothing, Stream::Compute, Cause::Compute);
            self.push(Instruction { waits, ..end });
        }
        self.instructions.extend(free_sent(self.plan));
    }

    /// Waits until at most `most` unit gradients are being reduced, freeing the others.
    pub(super) fn make_room(&mut self, most: usize) {
        while self.reducing.len() > most {
            let gradient = self.reducing.remove(0);
            self.release(smallvec![gradient], None);
        }
    }

    pub(super) fn finish_reductions(&mut self) {
        self.make_room(0);
    }

    /// Makes the parameters of the unit at `place` usable: fetched from the host, gathered from the shards.
    pub(super) fn acquire(&mut self, place: usize, variant: Variant) {
        let Some(&unit) = self.chunk.units.get(place) else { return };
        if let Some(buffer) = self.unit_buffers(place).fetched {
            let op = Op::CopyIn(self.bytes(buffer));
            self.push(Instruction {
                unit: Some(unit.unit),
                writes: smallvec![buffer],
                allocates: smallvec![buffer],
                ..Instruction::plain(op, Task::FetchParameters, self.plan.beside(Stream::CopyIn), Cause::Copy)
            });
        }
        let gathers = match self.plan.rules.gathering {
            Gathering::Never => false,
            Gathering::EachPass => true,
            Gathering::ForwardToBackward => variant.pass == Pass::Forward,
            Gathering::OnceAStep => variant.pass == Pass::Forward && variant.first,
        };
        if !gathers {
            return;
        }
        let size = self.plan.rules.compute.size();
        let buffer = self.unit_buffers(place).gathered;
        if buffer.is_none() && self.plan.rules.casts_parameters {
            return;
        }
        let borrowed = buffer.map_or(0, |_| unit.parameters.borrowed);
        let parts = [
            (Part::Dense, Group::State, unit.parameters.dense + borrowed, self.plan.rules.shards),
            (Part::Expert, Group::ExpertState, unit.parameters.expert, self.plan.rules.expert_shards),
        ];
        let mut allocates: Few = buffer.into_iter().collect();
        let overlaps = self.plan.engine.timing.overlaps(Overlap::Gathers);
        let stream = if overlaps { Stream::Data } else { Stream::Compute };
        for (part, group, elements, shards) in parts {
            if elements == 0 {
                continue;
            }
            let op = Collective::new(CollectiveKind::AllGather, group, Bytes(elements * size));
            let is_apart = shards > 1 && self.plan.rules.shards_parameters;
            let op = if is_apart { Op::Collective(op) } else { Op::Release };
            let gather = self.push(Instruction {
                unit: Some(unit.unit),
                reads: self.unit_buffers(place).fetched.into_iter().collect(),
                writes: buffer.into_iter().collect(),
                allocates: std::mem::take(&mut allocates),
                ..Instruction::plain(op, Task::GatherParameters(part), stream, Cause::Communication)
            });
            if buffer.is_none() {
                self.gathering.insert(place, gather);
            }
        }
    }

    /// Parameters that the step before updated, gathered while this forward computes.
    pub(super) fn gather_updated(&mut self) {
        let rules = self.plan.rules;
        for (place, unit) in self.chunk.units.iter().enumerate() {
            for (part, op) in updates(&rules, &unit.parameters) {
                let gather = self.push(Instruction {
                    unit: Some(unit.unit),
                    ..Instruction::plain(op, Task::GatherUpdated(part), Stream::Data, Cause::Communication)
                });
                self.gathering.insert(place, gather);
            }
        }
    }

    /// Gives back what [`Self::acquire`] took. What `stays` for another loss's backward was gathered for it too.
    pub(super) fn give_back(&mut self, place: usize, variant: Variant, stays: bool) {
        let mut frees: Few = self.unit_buffers(place).fetched.into_iter().collect();
        let gives = match self.plan.rules.gathering {
            Gathering::EachPass => true,
            Gathering::ForwardToBackward => {
                !stays && (variant.pass == Pass::Backward || !self.chunk.units[place].has_backward)
            }
            Gathering::Never | Gathering::OnceAStep => false,
        };
        if gives {
            frees.extend(self.unit_buffers(place).gathered);
        }
        if !frees.is_empty() {
            self.release(frees, Some(self.chunk.units[place].unit));
        }
    }

    /// Units in the order of a pass, with parameters acquired ahead of their use.
    pub(super) fn walk(
        &mut self,
        places: &[usize],
        variant: Variant,
        stays: impl Fn(usize) -> bool,
        mut visit: impl FnMut(&mut Self, usize),
    ) {
        let depth = self.plan.engine.buffers.gathered_units.max(1) as usize;
        for &place in places.iter().take(depth - 1) {
            self.acquire(place, variant);
        }
        for (turn, &place) in places.iter().enumerate() {
            if let Some(&ahead) = places.get(turn + depth - 1) {
                self.acquire(ahead, variant);
            }
            visit(self, place);
            self.give_back(place, variant, stays(place));
        }
    }

    pub(super) fn wait_copies(&mut self, most: usize) {
        while self.leaving.len() > most {
            let buffers = self.leaving.remove(0);
            self.release(buffers, None);
        }
    }

    /// What the unit at `place` keeps from forward to backward.
    pub(super) fn kept(&self, place: usize) -> Few {
        self.lowered(place).kept.iter().map(|&id| self.buffer(place, id)).collect()
    }

    /// Starts the reduction of what `steps` added to the gradient of the unit at `place`.
    pub(super) fn reduce(&mut self, place: usize, steps: &[Step], variant: Variant) {
        let unit = self.chunk.units[place];
        let has_weight = steps.iter().any(|step| step.adds_gradient);
        // Parameters without a matrix product of their own (a lone norm) still need their reduction.
        let last_pass = match variant.pass {
            Pass::Forward => false,
            Pass::Backward => self.lowered(place).weight.is_empty(),
            Pass::Weight => true,
        };
        let gradient = self.unit_buffers(place).gradient;
        if let Some(gradient) = gradient {
            if !has_weight {
                return;
            }
            let lowered = self.lowered(place);
            let adds = |steps: &[Step]| steps.iter().any(|step| step.adds_gradient);
            let added = match variant.pass {
                Pass::Forward => false,
                Pass::Backward => adds(&lowered.forward),
                Pass::Weight => adds(&lowered.forward) || adds(&lowered.backward),
            };
            let starts = self.starts_at(place) && !added;
            let late = self.coming(place, steps);
            self.collectives((&unit, late), variant.across_replicas, Some((gradient, starts)));
            self.reducing.push(gradient);
            return;
        }
        if has_weight {
            self.accumulate(&unit);
        }
        if variant.reduces && last_pass && !self.plan.rules.reduces_behind {
            self.collectives((&unit, None), variant.across_replicas, None);
        }
    }

    /// The kernel that adds what a micro-batch gave to the kept gradient of `unit`, where products do not.
    fn accumulate(&mut self, unit: &PlacedUnit) {
        if self.plan.strategy.accumulation < 2 {
            return;
        }
        let Some(sum) = accumulate(&unit.parameters, &self.plan.rules, self.plan.engine) else { return };
        self.push(Instruction {
            unit: Some(unit.unit),
            ..Instruction::plain(sum, Task::Nothing, Stream::Compute, Cause::Compute)
        });
    }

    /// The collectives that sum the gradient of `unit`; one in a buffer of its own is then added to what is kept, or
    /// starts it, in `late` where that comes with the pass.
    pub(super) fn collectives(
        &mut self,
        (unit, late): (&PlacedUnit, Option<BufferId>),
        across_replicas: bool,
        own: Option<(BufferId, bool)>,
    ) {
        let after = self.waits.last(Stream::Compute);
        let (rules, engine) = (self.plan.rules, self.plan.engine);
        let sums = reductions(&rules, engine, &unit.parameters, across_replicas);
        let sums = sums.into_iter().map(|(part, op)| (op, Task::ReduceGradient(part)));
        let keeps = |task| matches!(task, Task::KeepGradient { .. });
        let gradient = own.map(|(gradient, _)| gradient);
        let kept = own.and_then(|(_, starts)| {
            keep(&unit.parameters, &rules).map(|add| (add, Task::KeepGradient { starts }))
        });
        // What does not overlap stands in the queue of the kernels.
        let stream = if engine.timing.overlaps(Overlap::Gradients) { Stream::Data } else { Stream::Compute };
        for (op, task) in sums.chain(kept) {
            let late = late.filter(|_| keeps(task));
            self.late.extend(late);
            let written = gradient.filter(|_| !keeps(task));
            self.push(Instruction {
                unit: Some(unit.unit),
                waits: after.into_iter().collect(),
                allocates: late.into_iter().collect(),
                // Where this pass has computed nothing yet, the gradient is an earlier pass's.
                behind: if after.is_none() { Streams::of(Stream::Compute) } else { Streams::NONE },
                reads: gradient.filter(|_| keeps(task)).into_iter().collect(),
                writes: written.into_iter().chain(late).collect(),
                ..Instruction::plain(op, task, stream, Cause::Communication)
            });
        }
    }
}

/// What gives back at the end of a call what the call before has sent, where the program sends anything.
pub(super) fn free_sent(plan: &Plan<'_>) -> Option<Instruction> {
    let sends = plan.layout.chunks.len() > 1;
    let behind =
        if plan.engine.timing.overlaps(Overlap::Sends) { Streams::of(Stream::Send) } else { Streams::NONE };
    let plain = Instruction::plain(Op::Release, Task::FreeSent, Stream::Compute, Cause::Communication);
    sends.then_some(Instruction { behind, ..plain })
}
