//! The templates of a chunk: its forward, backward and weight pass.

use std::collections::HashMap;

use crate::lower::Stream;
use crate::ops::Op;
use crate::profile::EngineProfile;
use crate::profile::choices::GradientSync;
use crate::profile::engine::Overlap;
use crate::program::frame::ChunkFrame;
use crate::program::instruction::{Cause, Few, Instruction, Payload, Task, Template};
use crate::program::layout::{Chunk, Layout};
use crate::program::schedule::Pass;
use crate::program::state::StateRules;
use crate::program::waits::Waits;
use crate::program::weighing::Holding;
use crate::program::writer::Writer;
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

impl Plan<'_> {
    /// The stream of copies and host work that may run on `stream` beside kernels: without overlap, that of the kernels.
    pub fn beside(&self, stream: Stream) -> Stream {
        if self.strategy.overlap { stream } else { Stream::Compute }
    }

    /// Whether gradients that are kept whole are summed beside later calls.
    fn sums_before(&self) -> bool {
        let sums = self.strategy.sync != GradientSync::Deferred && self.strategy.accumulation > 1;
        sums && self.rules.keeps_whole_gradients && self.engine.timing.overlaps(Overlap::Gradients)
    }
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
        gathering: HashMap::new(),
        waits: Waits::new(frame.frame.buffers.len()),
        sent: Vec::new(),
        reducing: Vec::new(),
        leaving: Vec::new(),
        holding: Holding::default(),
        earlier: Vec::new(),
        late: Vec::new(),
        sums_before: plan.sums_before(),
    };
    match variant.pass {
        Pass::Forward => writer.forward(variant),
        Pass::Backward => {
            writer.backward(variant);
            writer.finish_reductions();
            writer.hand_over_gradients();
        }
        Pass::Weight => writer.weight(variant),
    }
    writer.finish();
    Template {
        pass: Some(variant.pass),
        frame: frame_index,
        instructions: writer.instructions,
        sent: writer.sent,
    }
}

impl Writer<'_> {
    fn forward(&mut self, variant: Variant) {
        if variant.first && self.plan.rules.gathers_updates_ahead {
            self.gather_updated();
        }
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
                let steps = &writer.lowered(place).forward;
                writer.steps(place, steps, false, true);
                writer.reduce(place, steps, variant);
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

    /// What the unit at `place` keeps on the host between forward and backward, and its bytes.
    fn saved(&self, place: usize) -> Option<(Few, Bytes)> {
        let buffers = self.kept(place);
        let bytes = buffers.iter().map(|&buffer| self.bytes(buffer)).sum();
        let is_offloaded = self.chunk.units[place].offloads_activations && !buffers.is_empty();
        is_offloaded.then_some((buffers, bytes))
    }

    /// Saved activations of an offloaded unit on their way to the host.
    fn copy_out(&mut self, place: usize) {
        let Some((buffers, bytes)) = self.saved(place) else { return };
        let (op, stream) = (Op::CopyOut(bytes), self.plan.beside(Stream::CopyOut));
        self.push(Instruction {
            unit: Some(self.chunk.units[place].unit),
            reads: buffers.clone(),
            host: bytes.0 as i64,
            ..Instruction::plain(op, Task::StashActivations, stream, Cause::Copy)
        });
        self.leaving.push(buffers);
        self.wait_copies(usize::from(self.plan.strategy.overlap));
    }

    /// Saved activations of an offloaded unit on their way back.
    fn copy_in(&mut self, place: usize) {
        let Some((buffers, bytes)) = self.saved(place) else { return };
        let (op, stream) = (Op::CopyIn(bytes), self.plan.beside(Stream::CopyIn));
        self.push(Instruction {
            unit: Some(self.chunk.units[place].unit),
            writes: buffers.clone(),
            allocates: buffers,
            host: -(bytes.0 as i64),
            ..Instruction::plain(op, Task::UnstashActivations, stream, Cause::Copy)
        });
    }

    fn backward(&mut self, variant: Variant) {
        let losses = self.plan.layout.shaped().backward_order();
        let runs: Vec<(u8, Vec<usize>)> =
            losses.iter().map(|&loss| (loss, self.units_of_loss(loss))).collect();
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
            let shaped = self.plan.layout.shaped();
            let holds = |place: &usize| shaped.holds_gradient(*loss, self.chunk.units[*place].unit);
            self.holding.places = places.iter().copied().filter(holds).collect();
            if self.chunk.receives.contains(loss)
                && let Some(id) = self.lowered(first).output_gradient
            {
                self.receive(self.buffer(first, id), self.arriving(false, payload));
            }
            self.backward_run(&runs, turn, variant);
            self.earlier.extend(places);
            if self.chunk.sends_gradient
                && let Some(id) = self.lowered(0).input_gradient
            {
                self.send(self.buffer(0, id), self.message(false, payload));
            }
        }
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
        if overlap && let Some(&first) = places.first().filter(|&&first| comes(first)) {
            self.copy_in(first);
        }
        let mut position = 0;
        let stays = |place: usize| uses(&runs[turn + 1..], place);
        self.walk(places, variant, stays, |writer, place| {
            if !overlap && comes(place) {
                writer.copy_in(place);
            } else if overlap && let Some(&next) = places.get(position + 1).filter(|&&next| comes(next)) {
                writer.copy_in(next);
            }
            position += 1;
            let again = stays(place);
            let steps = &writer.lowered(place).backward;
            writer.steps(place, steps, again, true);
            if writer.holding.places.contains(&place) {
                writer.hold(place, again, variant);
            } else if !again || writer.unit_buffers(place).gradient.is_some() {
                writer.reduce(place, steps, variant);
            }
        });
    }

    /// Weight gradients read activations and gradients, no parameters.
    fn weight(&mut self, variant: Variant) {
        for place in (0..self.chunk.units.len()).rev() {
            if self.chunk.units[place].has_backward {
                let steps = &self.lowered(place).weight;
                self.steps(place, steps, false, false);
                self.reduce(place, steps, variant);
            }
        }
    }
}
