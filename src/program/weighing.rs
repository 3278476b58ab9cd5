//! Adaptive loss weights: gradients that are held by themselves, looked at, weighed and only then added to the others.

use smallvec::smallvec;

use crate::lower::Stream;
use crate::ops::{Collective, CollectiveKind, Elementwise, ElementwiseKind, Group, Op};
use crate::program::instruction::{BufferId, Cause, Few, Instruction, Part, Task};
use crate::program::layout::PlacedWatch;
use crate::program::passes::Variant;
use crate::program::scalars::{SCALAR_SIZE, SQUARES};
use crate::program::step::of_squares;
use crate::program::writer::Writer;
use crate::units::Bytes;

/// Units whose gradients under the present loss are held by themselves.
#[derive(Clone, Debug, Default)]
pub(super) struct Holding {
    /// Places of all such units, in the order of the backward.
    pub(super) places: Vec<usize>,
    /// Those that have been passed: their place, and whether another loss's backward comes through again.
    pub(super) passed: Vec<(usize, bool)>,
    /// The last sum over ranks that a weight waits for.
    pub(super) squared: Option<u32>,
}

impl Writer<'_> {
    /// The buffer that the gradient of the unit at `place` goes to, if not to what is kept over the step.
    pub(super) fn own_gradient(&self, place: usize) -> Option<BufferId> {
        let held = || self.unit_buffers(place).held.filter(|_| self.holding.places.contains(&place));
        self.unit_buffers(place).gradient.or_else(held)
    }

    /// Looks at the gradient of the unit at `place`, which has just been made, and weighs what is known by then.
    pub(super) fn hold(&mut self, place: usize, again: bool, variant: Variant) {
        self.holding.passed.push((place, again));
        let shaped = self.plan.layout.shaped();
        let watches: Vec<(u8, PlacedWatch)> = shaped
            .watches_at(self.loss, self.chunk.units[place].unit)
            .map(|(number, watch)| (number, *watch))
            .collect();
        for (number, watch) in watches {
            self.watch(number, &watch, place);
        }
        let is_late = shaped.is_weighed_late(self.loss);
        if is_late && self.holding.places.last() != Some(&place) {
            return;
        }
        if is_late {
            let waits = self.holding.squared.into_iter().collect();
            let weight = of_squares(Task::LossWeight { loss: self.loss }, 2, Cause::Compute);
            self.push(Instruction { waits, ..weight });
        }
        for (place, again) in std::mem::take(&mut self.holding.passed) {
            self.weigh(place, is_late);
            if !again || self.unit_buffers(place).gradient.is_some() {
                let steps = &self.lowered(place).backward;
                self.reduce(place, steps, variant);
            }
        }
        if is_late && let Some(flow) = self.lowered(place).input_gradient {
            let buffer = self.buffer(place, flow);
            let element = self.plan.rules.compute;
            let elements = self.bytes(buffer).0 / element.size();
            let op = Elementwise { kind: ElementwiseKind::Scale, elements, operands: 2, element };
            let task = Task::WeighFlow { loss: self.loss };
            self.push(Instruction {
                reads: smallvec![buffer],
                writes: smallvec![buffer],
                ..Instruction::plain(Op::Elementwise(op), task, Stream::Compute, Cause::Compute)
            });
        }
    }

    /// The squares of a watched gradient: of a copy, summed over the ranks that hold parts of it, where there are
    /// such; then their sum over the ranks that share the layer.
    fn watch(&mut self, watch: u8, placed: &PlacedWatch, place: usize) {
        let Some(gradient) = self.own_gradient(place) else { return };
        let unit = Some(self.chunk.units[place].unit);
        let (rules, strategy) = (self.plan.rules, self.plan.strategy);
        let parameters = &placed.parameters;
        let (elements, element) = (parameters.trained(), rules.gradient);
        let copy = self.frame.watched[usize::from(watch)];
        if let Some(copy) = copy {
            let op = Elementwise { kind: ElementwiseKind::Cast, elements, operands: 2, element };
            self.push(Instruction {
                unit,
                reads: smallvec![gradient],
                writes: smallvec![copy],
                allocates: smallvec![copy],
                ..Instruction::plain(
                    Op::Elementwise(op),
                    Task::CopyWatched { watch },
                    Stream::Compute,
                    Cause::Compute,
                )
            });
            let dense = Task::SumWatched { watch, part: Part::Dense };
            let expert = Task::SumWatched { watch, part: Part::Expert };
            let sums = [
                (dense, Group::Gradient, parameters.dense_trained, rules.gradient_ranks),
                (expert, Group::ExpertGradient, parameters.expert_trained, rules.expert_ranks),
                (Task::SumWatchedPartial { watch }, Group::Tensor, parameters.partial, strategy.tensor),
            ];
            for (task, group, elements, ranks) in sums {
                if ranks > 1 && elements > 0 {
                    self.watched_sum(task, group, elements * element.size(), smallvec![copy]);
                }
            }
        }
        let op = Elementwise { kind: ElementwiseKind::GradientNorm, elements, operands: 1, element };
        let squares = self.push(Instruction {
            unit,
            reads: smallvec![copy.unwrap_or(gradient)],
            frees: copy.into_iter().collect(),
            ..Instruction::plain(
                Op::Elementwise(op),
                Task::WatchedSquares { watch },
                Stream::Compute,
                Cause::Compute,
            )
        });
        let group = match parameters.expert_trained {
            0 if strategy.tensor > 1 => Some(Group::Tensor),
            1.. if strategy.devices() > 1 => Some(Group::World),
            _ => None,
        };
        if let Some(group) = group {
            let (task, bytes) = (Task::SumWatchedSquares { watch }, SQUARES * SCALAR_SIZE);
            let sum = self.watched_sum(task, group, bytes, Few::new());
            self.instructions[sum as usize].waits = smallvec![squares];
            self.holding.squared = Some(sum);
        }
    }

    fn watched_sum(&mut self, task: Task, group: Group, bytes: u64, writes: Few) -> u32 {
        let op = Collective::new(CollectiveKind::AllReduce, group, Bytes(bytes));
        self.push(Instruction {
            writes,
            ..Instruction::plain(Op::Collective(op), task, Stream::Data, Cause::Communication)
        })
    }

    /// Weighs the gradient of the unit at `place`; one that is held beside a kept one is added to it.
    fn weigh(&mut self, place: usize, is_late: bool) {
        if !self.lowered(place).backward.iter().any(|step| step.adds_gradient) {
            return;
        }
        let starts = self.starts_at(place);
        let (loss, element) = (self.loss, self.plan.rules.gradient);
        let (gradient, kind, operands, task) =
            match (self.unit_buffers(place).gradient, self.unit_buffers(place).held) {
                (Some(own), _) if is_late => (own, ElementwiseKind::Scale, 2, Task::WeighGradient { loss }),
                (None, Some(held)) => (held, ElementwiseKind::Add, 3, Task::AddGradient { loss, starts }),
                _ => return,
            };
        let elements = self.bytes(gradient).0 / element.size();
        let op = Elementwise { kind, elements, operands, element };
        let is_own = self.unit_buffers(place).gradient.is_some();
        self.push(Instruction {
            unit: Some(self.chunk.units[place].unit),
            reads: smallvec![gradient],
            writes: is_own.then_some(gradient).into_iter().collect(),
            frees: (!is_own).then_some(gradient).into_iter().collect(),
            ..Instruction::plain(Op::Elementwise(op), task, Stream::Compute, Cause::Compute)
        });
    }
}
