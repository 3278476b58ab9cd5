//! The templates of a chunk: its forward, backward and weight pass, with gathering, reduction, offload and transfers.

use std::collections::HashMap;

use crate::lower::{Category, LoweredUnit, Step, Stream, ValueId};
use crate::ops::{Collective, CollectiveKind, Elementwise, ElementwiseKind, Group, Op};
use crate::profile::EngineProfile;
use crate::profile::choices::GradientSync;
use crate::program::instruction::{Buffer, BufferId, Cause, Frame, Instruction, Message, Payload, Template};
use crate::program::layout::{Chunk, Layout, PlacedUnit};
use crate::program::schedule::Pass;
use crate::program::state::{Gathering, StateRules};
use crate::strategy::Strategy;
use crate::units::Bytes;

/// What is special about one use of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Variant {
    pub pass: Pass,
    /// The first forward of the step through this chunk.
    pub first: bool,
    /// Gradients are reduced in this pass.
    pub reduces: bool,
    /// The reduction goes on across replicas.
    pub across_replicas: bool,
}

/// What every template of a program is built from.
#[derive(Clone, Copy)]
pub struct Plan<'a> {
    pub layout: &'a Layout,
    pub strategy: &'a Strategy,
    pub engine: &'a EngineProfile,
    pub rules: StateRules,
    /// Bytes of the residual stream that crosses into each chunk, by chunk.
    pub entering: &'a [Bytes],
}

/// The buffers of one chunk and where each unit's values are among them.
pub struct ChunkFrame {
    pub frame: Frame,
    /// For each unit of the chunk, the buffer of each of its values.
    values: Vec<Vec<BufferId>>,
    gathered: Vec<Option<BufferId>>,
    fetched: Vec<Option<BufferId>>,
    gradient: Vec<Option<BufferId>>,
    /// Input of a chunk without units.
    passed: BufferId,
    /// By loss, the gradient that leaves the chunk: each is still being sent while the next is computed.
    leaving: Vec<BufferId>,
    /// By loss, the gradient at a watched weight on its way to its norm.
    watched: Vec<Option<BufferId>>,
}

impl ChunkFrame {
    /// Lays out the frame of `chunk`: a unit's input is the output of the one before, and its output's gradient
    /// the input gradient of the one behind.
    pub fn new(plan: &Plan<'_>, chunk: &Chunk) -> Self {
        let rules = &plan.rules;
        let mut frame = Frame::default();
        let mut add = |name, bytes, category| {
            frame.buffers.push(Buffer { name, bytes, category });
            (frame.buffers.len() - 1) as BufferId
        };
        let mut values: Vec<Vec<BufferId>> = Vec::new();
        let (mut gathered, mut fetched, mut gradient) = (Vec::new(), Vec::new(), Vec::new());
        let mut output: Option<BufferId> = None;
        for unit in &chunk.units {
            let lowered = plan.layout.lowered(unit);
            let ids: Vec<_> = (0..lowered.values.len() as ValueId)
                .map(|id| {
                    let value = &lowered.values[usize::from(id)];
                    match output {
                        Some(before) if lowered.input == Some(id) => before,
                        _ => add(value.name, value.bytes, value.category),
                    }
                })
                .collect();
            output = lowered.output.map(|id| ids[usize::from(id)]);
            values.push(ids);
            let parameters = &unit.parameters;
            let whole = Bytes(parameters.total() * rules.compute.size());
            let stored = Bytes(rules.parameter_elements(parameters) * rules.parameter.size());
            let per_frame = matches!(rules.gathering, Gathering::EachPass | Gathering::ForwardToBackward);
            gathered.push(
                (per_frame && whole.0 > 0).then(|| add("gathered parameters", whole, Category::Buffers)),
            );
            fetched.push(
                (unit.offloads_parameters && stored.0 > 0)
                    .then(|| add("fetched parameters", stored, Category::Buffers)),
            );
            let trained = Bytes(parameters.trained() * rules.gradient.size());
            gradient.push(
                (!rules.keeps_whole_gradients && trained.0 > 0)
                    .then(|| add("unit gradient", trained, Category::Gradients)),
            );
        }
        for index in (1..chunk.units.len()).rev() {
            let later = plan.layout.lowered(&chunk.units[index]);
            // Other losses' units stand between a loss and what its gradient flows to.
            let Some(before) = (0..index).rev().find(|&place| chunk.units[place].loss.is_none()) else {
                continue;
            };
            let earlier = plan.layout.lowered(&chunk.units[before]);
            if let (Some(arrives), Some(leaves)) = (earlier.output_gradient, later.input_gradient) {
                let buffer = values[index][usize::from(leaves)];
                // A gradient that flows through in place is one buffer from the last unit to the first.
                let replaced = values[before][usize::from(arrives)];
                for id in values.iter_mut().flatten().filter(|id| **id == replaced) {
                    *id = buffer;
                }
            }
        }
        let passing = plan.entering[chunk.index as usize];
        let passed = add("passed input", passing, Category::Activations);
        let leaves = match chunk.units.first() {
            Some(unit) => plan.layout.lowered(unit).input_gradient.map(|id| values[0][usize::from(id)]),
            None => Some(add("passed gradient", passing, Category::Activations)),
        };
        let mut leaving = Vec::new();
        if let Some(first) = leaves.filter(|_| chunk.sends_gradient) {
            leaving.push(first);
            for _ in 1..plan.layout.losses {
                leaving.push(add("input gradient", passing, Category::Activations));
            }
        }
        let watched = plan
            .layout
            .shaped()
            .watched()
            .iter()
            .map(|&elements| {
                let bytes = Bytes(elements * rules.gradient.size());
                let is_summed = elements > 0 && rules.gradient_ranks > 1;
                is_summed.then(|| add("watched gradient", bytes, Category::Gradients))
            })
            .collect();
        Self { frame, watched, values, gathered, fetched, gradient, passed, leaving }
    }
}

/// Writes one template.
struct Writer<'a> {
    plan: &'a Plan<'a>,
    chunk: &'a Chunk,
    frame: &'a ChunkFrame,
    /// The loss whose backward is being written.
    loss: u8,
    instructions: Vec<Instruction>,
    last_writer: HashMap<BufferId, u32>,
    touched: HashMap<BufferId, Vec<(Stream, u32)>>,
    sent: Vec<BufferId>,
    /// Reductions under way: the unit gradient that each reads.
    reducing: Vec<BufferId>,
    /// Saved activations on their way out.
    leaving: Vec<Vec<BufferId>>,
}

/// The template of `variant` for `chunk`, whose frame has the number `frame_index` on its rank.
pub fn template(
    plan: &Plan<'_>,
    chunk: &Chunk,
    frame: &ChunkFrame,
    frame_index: u32,
    variant: Variant,
) -> Template {
    let mut writer = Writer {
        plan,
        chunk,
        frame,
        loss: 0,
        instructions: Vec::new(),
        last_writer: HashMap::new(),
        touched: HashMap::new(),
        sent: Vec::new(),
        reducing: Vec::new(),
        leaving: Vec::new(),
    };
    match variant.pass {
        Pass::Forward => writer.forward(variant),
        Pass::Backward => writer.backward(variant),
        Pass::Weight => writer.weight(variant),
    }
    writer.finish_reductions();
    Template {
        pass: Some(variant.pass),
        frame: frame_index,
        instructions: writer.instructions,
        sent: writer.sent,
    }
}

fn plain(op: Op, stream: Stream, cause: Cause) -> Instruction {
    Instruction {
        op,
        stream,
        cause,
        unit: None,
        waits: Vec::new(),
        joins: false,
        reads: Vec::new(),
        writes: Vec::new(),
        allocates: Vec::new(),
        frees: Vec::new(),
        message: None,
        host: 0,
    }
}

impl Writer<'_> {
    /// Appends `instruction`, with waits for the last uses on other streams of what it touches. Returns its index.
    fn push(&mut self, mut instruction: Instruction) -> u32 {
        let index = self.instructions.len() as u32;
        let mut latest: HashMap<Stream, u32> = HashMap::new();
        let mut wait = |before: u32, instructions: &[Instruction]| {
            let stream = instructions[before as usize].stream;
            if stream != instruction.stream {
                let slot = latest.entry(stream).or_insert(before);
                *slot = (*slot).max(before);
            }
        };
        for buffer in &instruction.reads {
            if let Some(&writer) = self.last_writer.get(buffer) {
                wait(writer, &self.instructions);
            }
        }
        for buffer in instruction.writes.iter().chain(&instruction.frees) {
            for &(_, user) in self.touched.get(buffer).into_iter().flatten() {
                wait(user, &self.instructions);
            }
        }
        for &before in &instruction.waits {
            wait(before, &self.instructions);
        }
        let mut waits: Vec<_> = latest.into_values().collect();
        waits.sort_unstable();
        instruction.waits = waits;
        for &buffer in &instruction.writes {
            self.last_writer.insert(buffer, index);
        }
        for &buffer in instruction.reads.iter().chain(&instruction.writes) {
            let stream = instruction.stream;
            let users = self.touched.entry(buffer).or_default();
            users.retain(|&(other, _)| other != stream);
            users.push((stream, index));
        }
        self.instructions.push(instruction);
        index
    }

    fn release(&mut self, frees: Vec<BufferId>, unit: Option<u32>, host: i64) -> u32 {
        self.push(Instruction { frees, unit, host, ..plain(Op::Release, Stream::Compute, Cause::Compute) })
    }

    fn receive(&mut self, buffer: BufferId, message: Message) {
        let bytes = self.bytes(buffer);
        self.push(Instruction {
            writes: vec![buffer],
            allocates: vec![buffer],
            message: Some(message),
            ..plain(Op::Receive(bytes), Stream::Receive, Cause::Communication)
        });
    }

    fn send(&mut self, buffer: BufferId, message: Message) {
        let bytes = self.bytes(buffer);
        self.push(Instruction {
            reads: vec![buffer],
            message: Some(message),
            ..plain(Op::Send(bytes), Stream::Send, Cause::Communication)
        });
        self.sent.push(buffer);
    }

    fn bytes(&self, buffer: BufferId) -> Bytes {
        self.frame.frame.buffers[buffer as usize].bytes
    }

    /// The buffer of value `id` of the unit at `place`, under the present loss.
    fn buffer(&self, place: usize, id: ValueId) -> BufferId {
        let buffer = self.frame.values[place][usize::from(id)];
        match self.frame.leaving.first() {
            Some(first) if *first == buffer => self.frame.leaving[usize::from(self.loss)],
            _ => buffer,
        }
    }

    fn lowered(&self, place: usize) -> &LoweredUnit {
        self.plan.layout.lowered(&self.chunk.units[place])
    }

    fn message(&self, forward: bool, payload: Payload) -> Message {
        let index = self.chunk.index;
        Message { from: index, to: if forward { index + 1 } else { index.saturating_sub(1) }, payload }
    }

    fn arriving(&self, from_before: bool, payload: Payload) -> Message {
        let index = self.chunk.index;
        Message { from: if from_before { index.saturating_sub(1) } else { index + 1 }, to: index, payload }
    }

    /// Steps of one pass of the unit at `place`; `again` keeps what later backwards still read.
    fn steps(&mut self, place: usize, steps: &[Step], again: bool, uses_parameters: bool) {
        let unit = self.chunk.units[place];
        let parameters: Vec<_> = [self.frame.gathered[place], self.frame.fetched[place]]
            .into_iter()
            .flatten()
            .filter(|_| uses_parameters)
            .collect();
        let map =
            |ids: &[ValueId]| -> Vec<BufferId> { ids.iter().map(|&id| self.buffer(place, id)).collect() };
        let kept = self.lowered(place).kept.clone();
        let mut pending = Vec::with_capacity(steps.len());
        for step in steps {
            let frees: Vec<_> =
                step.frees.iter().copied().filter(|id| !(again && kept.contains(id))).collect();
            let cause = match step.op {
                Op::Collective(_) => Cause::Communication,
                _ if step.recompute => Cause::Recompute,
                _ => Cause::Compute,
            };
            pending.push(Instruction {
                unit: Some(unit.unit),
                reads: map(&step.reads),
                writes: map(&step.writes),
                allocates: map(&step.allocates),
                frees: map(&frees),
                ..plain(step.op, step.stream, cause)
            });
        }
        let gradient = self.frame.gradient[place];
        let mut allocated = false;
        for (mut instruction, step) in pending.into_iter().zip(steps) {
            if instruction.stream == Stream::Compute {
                instruction.reads.extend(&parameters);
            }
            if step.weight
                && step.stream == Stream::Compute
                && let Some(gradient) = gradient
            {
                if !std::mem::replace(&mut allocated, true) {
                    self.make_room(1);
                    instruction.allocates.push(gradient);
                }
                instruction.writes.push(gradient);
            }
            self.push(instruction);
        }
    }

    /// Waits until at most `most` unit gradients are being reduced, freeing the others.
    fn make_room(&mut self, most: usize) {
        while self.reducing.len() > most {
            let gradient = self.reducing.remove(0);
            self.release(vec![gradient], None, 0);
        }
    }

    fn finish_reductions(&mut self) {
        self.make_room(0);
    }

    /// Makes the parameters of the unit at `place` usable: fetched from the host, gathered from the shards.
    fn acquire(&mut self, place: usize, variant: Variant, after: Option<u32>) {
        let Some(&unit) = self.chunk.units.get(place) else { return };
        let waits: Vec<_> = after.into_iter().collect();
        if let Some(buffer) = self.frame.fetched[place] {
            self.push(Instruction {
                unit: Some(unit.unit),
                waits: waits.clone(),
                writes: vec![buffer],
                allocates: vec![buffer],
                ..plain(Op::CopyIn(self.bytes(buffer)), Stream::CopyIn, Cause::Copy)
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
        let parts = [
            (Group::State, unit.parameters.dense, self.plan.rules.shards),
            (Group::ExpertState, unit.parameters.expert, self.plan.rules.expert_shards),
        ];
        let buffer = self.frame.gathered[place];
        let mut allocates: Vec<_> = buffer.into_iter().collect();
        for (group, elements, shards) in parts {
            if elements == 0 {
                continue;
            }
            let op = Collective { kind: CollectiveKind::AllGather, group, bytes: Bytes(elements * size) };
            let op = if shards > 1 { Op::Collective(op) } else { Op::Release };
            self.push(Instruction {
                unit: Some(unit.unit),
                waits: waits.clone(),
                reads: self.frame.fetched[place].into_iter().collect(),
                writes: buffer.into_iter().collect(),
                allocates: std::mem::take(&mut allocates),
                ..plain(op, Stream::Data, Cause::Communication)
            });
        }
    }

    /// Gives back what [`Self::acquire`] took; returns the instruction that did. What `stays` for another loss's
    /// backward was gathered for it too.
    fn give_back(&mut self, place: usize, variant: Variant, stays: bool) -> Option<u32> {
        let mut frees: Vec<_> = self.frame.fetched[place].into_iter().collect();
        let gives = match self.plan.rules.gathering {
            Gathering::EachPass => true,
            Gathering::ForwardToBackward => {
                !stays && (variant.pass == Pass::Backward || !self.chunk.units[place].has_backward)
            }
            Gathering::Never | Gathering::OnceAStep => false,
        };
        if gives {
            frees.extend(self.frame.gathered[place]);
        }
        (!frees.is_empty()).then(|| self.release(frees, Some(self.chunk.units[place].unit), 0))
    }

    /// Units in the order of a pass, with parameters acquired ahead of their use.
    fn walk(
        &mut self,
        places: &[usize],
        variant: Variant,
        stays: impl Fn(usize) -> bool,
        mut visit: impl FnMut(&mut Self, usize),
    ) {
        let depth = self.plan.engine.buffers.gathered_units.max(1) as usize;
        let mut given: Vec<Option<u32>> = Vec::with_capacity(places.len());
        for &place in places.iter().take(depth - 1) {
            self.acquire(place, variant, None);
        }
        for (turn, &place) in places.iter().enumerate() {
            if let Some(&ahead) = places.get(turn + depth - 1) {
                let after = turn.checked_sub(1).and_then(|before| given[before]);
                self.acquire(ahead, variant, after);
            }
            visit(self, place);
            given.push(self.give_back(place, variant, stays(place)));
        }
    }

    fn forward(&mut self, variant: Variant) {
        let units = self.chunk.units.len();
        let sends = (self.chunk.index as usize) + 1 < self.plan.layout.chunks.len();
        let input = match self.chunk.units.first() {
            Some(_) => self.lowered(0).input.map(|id| self.buffer(0, id)),
            None => Some(self.frame.passed),
        };
        if self.chunk.index > 0
            && let Some(input) = input
        {
            self.receive(input, self.arriving(true, Payload::Activation));
        }
        let places: Vec<_> = (0..units).collect();
        self.walk(
            &places,
            variant,
            |_| false,
            |writer, place| {
                let steps = writer.lowered(place).forward.clone();
                writer.steps(place, &steps, false, true);
                writer.reduce(place, &steps, variant);
                writer.copy_out(place);
            },
        );
        self.wait_copies(0);
        if sends {
            let output = match units.checked_sub(1) {
                Some(last) => self.lowered(last).output.map(|id| self.buffer(last, id)),
                None => input,
            };
            if let Some(output) = output {
                self.send(output, self.message(true, Payload::Activation));
            }
        }
    }

    /// Saved activations of an offloaded unit on their way to the host.
    fn copy_out(&mut self, place: usize) {
        let unit = self.chunk.units[place];
        if !unit.offloads_activations {
            return;
        }
        let buffers = self.kept(place);
        if buffers.is_empty() {
            return;
        }
        let bytes: Bytes = buffers.iter().map(|&buffer| self.bytes(buffer)).sum();
        self.push(Instruction {
            unit: Some(unit.unit),
            reads: buffers.clone(),
            host: bytes.0 as i64,
            ..plain(Op::CopyOut(bytes), Stream::CopyOut, Cause::Copy)
        });
        self.leaving.push(buffers);
        self.wait_copies(usize::from(self.plan.strategy.overlap));
    }

    fn wait_copies(&mut self, most: usize) {
        while self.leaving.len() > most {
            let buffers = self.leaving.remove(0);
            self.release(buffers, None, 0);
        }
    }

    /// What the unit at `place` keeps from forward to backward.
    fn kept(&self, place: usize) -> Vec<BufferId> {
        self.lowered(place).kept.iter().map(|&id| self.buffer(place, id)).collect()
    }

    /// Saved activations of an offloaded unit on their way back.
    fn copy_in(&mut self, place: usize, after: Option<u32>) {
        let unit = self.chunk.units[place];
        let buffers = self.kept(place);
        if !unit.offloads_activations || buffers.is_empty() {
            return;
        }
        let bytes: Bytes = buffers.iter().map(|&buffer| self.bytes(buffer)).sum();
        self.push(Instruction {
            unit: Some(unit.unit),
            waits: after.into_iter().collect(),
            writes: buffers.clone(),
            allocates: buffers,
            host: -(bytes.0 as i64),
            ..plain(Op::CopyIn(bytes), Stream::CopyIn, Cause::Copy)
        });
    }

    fn backward(&mut self, variant: Variant) {
        let losses: Vec<u8> = (0..self.plan.layout.losses).collect();
        let runs: Vec<(u8, Vec<usize>)> =
            losses.into_iter().map(|loss| (loss, self.units_of_loss(loss))).collect();
        for (turn, (loss, places)) in runs.iter().enumerate() {
            let payload = Payload::Gradient(*loss);
            self.loss = *loss;
            // A unit has one gradient, which another loss's backward may still be reducing.
            self.finish_reductions();
            if self.chunk.units.is_empty() {
                if self.chunk.receives.contains(loss)
                    && let Some(&gradient) = self.frame.leaving.get(usize::from(*loss))
                {
                    self.receive(gradient, self.arriving(false, payload));
                    self.send(gradient, self.message(false, payload));
                }
                continue;
            }
            let Some(&first) = places.first() else { continue };
            if self.chunk.receives.contains(loss)
                && let Some(id) = self.lowered(first).output_gradient
            {
                self.receive(self.buffer(first, id), self.arriving(false, payload));
            }
            self.backward_run(&runs, turn, variant);
            self.watch(*loss);
            if self.chunk.sends_gradient
                && let Some(id) = self.lowered(0).input_gradient
            {
                self.send(self.buffer(0, id), self.message(false, payload));
            }
        }
    }

    /// The norm of a loss's gradient at the weights that adaptive losses look at, summed over the data and context
    /// ranks first.
    fn watch(&mut self, loss: u8) {
        let elements = self.plan.layout.shaped().watched()[usize::from(loss)];
        if elements == 0 {
            return;
        }
        let element = self.plan.rules.gradient;
        let buffer: Vec<_> = self.frame.watched[usize::from(loss)].into_iter().collect();
        if !buffer.is_empty() {
            let (kind, group) = (CollectiveKind::AllReduce, Group::Gradient);
            let op = Op::Collective(Collective { kind, group, bytes: Bytes(elements * element.size()) });
            let compute = |instruction: &Instruction| instruction.stream == Stream::Compute;
            let after = self.instructions.iter().rposition(compute).map(|index| index as u32);
            self.push(Instruction {
                waits: after.into_iter().collect(),
                writes: buffer.clone(),
                allocates: buffer.clone(),
                ..plain(op, Stream::Data, Cause::Communication)
            });
        }
        let op = Elementwise { kind: ElementwiseKind::GradientNorm, elements, operands: 1, element };
        self.push(Instruction {
            reads: buffer.clone(),
            frees: buffer,
            ..plain(Op::Elementwise(op), Stream::Compute, Cause::Compute)
        });
    }

    /// Units whose backward the loss `loss` runs through, last first.
    fn units_of_loss(&self, loss: u8) -> Vec<usize> {
        let own = self.chunk.units.iter().position(|unit| unit.loss == Some(loss));
        let end = match own {
            Some(place) => place + 1,
            None if self.chunk.receives.contains(&loss) => self.chunk.units.len(),
            None => 0,
        };
        (0..end)
            .rev()
            .filter(|&place| {
                let unit = &self.chunk.units[place];
                unit.has_backward && (unit.loss.is_none() || unit.loss == Some(loss))
            })
            .collect()
    }

    /// The backward of one loss, the `turn`th of `runs`. What is kept comes with the first run that needs it and
    /// goes with the last; unit gradients are reduced behind each.
    fn backward_run(&mut self, runs: &[(u8, Vec<usize>)], turn: usize, variant: Variant) {
        let overlap = self.plan.strategy.overlap;
        let places = &runs[turn].1;
        let uses = |runs: &[(u8, Vec<usize>)], place| runs.iter().any(|(_, places)| places.contains(&place));
        let comes = |place: usize| !uses(&runs[..turn], place);
        let mut done: Vec<Option<u32>> = Vec::new();
        if overlap && let Some(&first) = places.first().filter(|&&first| comes(first)) {
            self.copy_in(first, None);
        }
        let mut position = 0;
        let stays = |place: usize| uses(&runs[turn + 1..], place);
        self.walk(places, variant, stays, |writer, place| {
            if !overlap && comes(place) {
                writer.copy_in(place, None);
            } else if overlap && let Some(&next) = places.get(position + 1).filter(|&&next| comes(next)) {
                let after = position.checked_sub(1).and_then(|before| done.get(before).copied().flatten());
                writer.copy_in(next, after);
            }
            position += 1;
            let again = stays(place);
            let steps = writer.lowered(place).backward.clone();
            writer.steps(place, &steps, again, true);
            done.push(writer.instructions.len().checked_sub(1).map(|last| last as u32));
            if !again || writer.frame.gradient[place].is_some() {
                writer.reduce(place, &steps, variant);
            }
        });
    }

    /// Weight gradients read activations and gradients, no parameters.
    fn weight(&mut self, variant: Variant) {
        for place in (0..self.chunk.units.len()).rev() {
            if self.chunk.units[place].has_backward {
                let steps = self.lowered(place).weight.clone();
                self.steps(place, &steps, false, false);
                self.reduce(place, &steps, variant);
            }
        }
    }

    /// Starts the reduction of what `steps` added to the gradient of the unit at `place`.
    fn reduce(&mut self, place: usize, steps: &[Step], variant: Variant) {
        let unit = self.chunk.units[place];
        let has_weight = steps.iter().any(|step| step.weight && step.stream == Stream::Compute);
        // Parameters without a matrix product of their own (a lone norm) still need their reduction.
        let last_pass = match variant.pass {
            Pass::Forward => false,
            Pass::Backward => self.lowered(place).weight.is_empty(),
            Pass::Weight => true,
        };
        let gradient = self.frame.gradient[place];
        if let Some(gradient) = gradient {
            if !has_weight {
                return;
            }
            self.collectives(&unit, variant.across_replicas, Some(gradient));
            self.reducing.push(gradient);
        } else if variant.reduces && last_pass {
            self.collectives(&unit, variant.across_replicas, None);
        }
    }

    /// The collectives that sum the gradient of `unit`.
    fn collectives(&mut self, unit: &PlacedUnit, across_replicas: bool, gradient: Option<BufferId>) {
        let computes = |instruction: &Instruction| instruction.stream == Stream::Compute;
        let after = self.instructions.iter().rposition(computes).map(|index| index as u32);
        for op in reductions(&self.plan.rules, self.plan.engine, unit, across_replicas) {
            self.push(Instruction {
                unit: Some(unit.unit),
                waits: after.into_iter().collect(),
                // Where this pass has computed nothing yet, the gradient is an earlier pass's.
                joins: after.is_none(),
                reads: gradient.into_iter().collect(),
                ..plain(op, Stream::Data, Cause::Communication)
            });
        }
    }
}

/// The collectives that sum one unit's gradient over its ranks, in order.
pub fn reductions(
    rules: &StateRules,
    engine: &EngineProfile,
    unit: &PlacedUnit,
    across_replicas: bool,
) -> Vec<Op> {
    use crate::profile::engine::StageOneCollective;
    let size = rules.reduce.size();
    let parts = [
        (
            unit.parameters.dense_trained,
            rules.shards,
            rules.gradient_ranks,
            (Group::State, Group::Replica, Group::Gradient),
        ),
        (
            unit.parameters.expert_trained,
            rules.expert_shards,
            rules.expert_ranks,
            (Group::ExpertState, Group::ExpertReplica, Group::ExpertGradient),
        ),
    ];
    let mut list = Vec::new();
    let mut push = |kind, group, elements: u64| {
        list.push(Op::Collective(Collective { kind, group, bytes: Bytes(elements * size) }));
    };
    for (elements, shards, ranks, (state, replica, gradient)) in parts {
        if elements == 0 || ranks <= 1 {
            continue;
        }
        if rules.zero == 0 {
            push(CollectiveKind::AllReduce, gradient, elements);
            continue;
        }
        let whole = rules.zero == 1 && engine.state.stage_one_collective == StageOneCollective::AllReduce;
        if shards > 1 {
            let kind = if whole { CollectiveKind::AllReduce } else { CollectiveKind::ReduceScatter };
            push(kind, state, elements);
        }
        if across_replicas && rules.replicas > 1 {
            let left = if whole { elements } else { elements.div_ceil(shards) };
            push(CollectiveKind::AllReduce, replica, left);
        }
    }
    list
}

/// Whether a pass for micro-batch `micro` of `count` reduces gradients, and across replicas.
pub fn reduces(strategy: &Strategy, micro: u64, count: u64) -> (bool, bool) {
    let last = micro + 1 == count;
    match strategy.sync {
        GradientSync::Immediate => (true, true),
        GradientSync::Scatter => (true, last && strategy.zero <= 1),
        GradientSync::Deferred => (last, last),
    }
}
