//! The buffers of a chunk: one frame holds all that a micro-batch may have alive in it.

use std::collections::HashMap;

use crate::program::passes::Plan;

use crate::lower::{Category, ValueId};
use crate::program::instruction::{Buffer, BufferId, Frame, UnitBuffers};
use crate::program::layout::Chunk;
use crate::units::Bytes;

/// The buffers of one chunk and where each unit's values are among them.
pub struct ChunkFrame {
    pub frame: Frame,
    /// For each unit of the chunk, the buffer of each of its values.
    pub(super) values: Vec<Vec<BufferId>>,
    /// Input of a chunk without units.
    pub(super) passed: BufferId,
    /// By loss, the gradient that leaves the chunk: each is still being sent while the next is computed.
    pub(super) leaving: Vec<BufferId>,
    /// By watch, a copy of the gradient on its way to its norm.
    pub(super) watched: Vec<Option<BufferId>>,
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
        let mut units = Vec::with_capacity(chunk.units.len());
        let shaped = plan.layout.shaped();
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
            let whole = Bytes(rules.gathered_elements(parameters) * rules.compute.size());
            let stored = Bytes(rules.parameter_elements(parameters) * rules.parameter.size());
            let gathered = (whole.0 > 0).then(|| add("gathered parameters", whole, Category::Buffers));
            let fetched = (unit.offloads_parameters && stored.0 > 0)
                .then(|| add("fetched parameters", stored, Category::Buffers));
            let trained = Bytes(rules.unit_gradient_elements(parameters) * rules.gradient.size());
            let gradient = (trained.0 > 0).then(|| add("unit gradient", trained, Category::Gradients));
            let whole = Bytes((parameters.trained() + parameters.borrowed_trained()) * rules.gradient.size());
            let holds = (0..plan.layout.losses).any(|loss| shaped.holds_gradient(loss, unit.unit));
            let is_held = holds && rules.keeps_whole_gradients && whole.0 > 0;
            let held = is_held.then(|| add("held gradient", whole, Category::Gradients));
            let late = Bytes(if rules.comes_late(parameters) { rules.kept_gradient(parameters) } else { 0 });
            let late = (late.0 > 0).then(|| add("gradient", late, Category::Gradients));
            units.push(UnitBuffers { unit: unit.unit, gathered, fetched, gradient, held, late });
        }
        // A gradient that flows through in place is one buffer from the last unit to the first.
        let mut same: HashMap<BufferId, BufferId> = HashMap::new();
        let found = |same: &HashMap<BufferId, BufferId>, mut id: BufferId| {
            while let Some(&other) = same.get(&id) {
                id = other;
            }
            id
        };
        for index in (1..chunk.units.len()).rev() {
            let later = plan.layout.lowered(&chunk.units[index]);
            // Other losses' units stand between a loss and what its gradient flows to.
            let Some(before) = (0..index).rev().find(|&place| chunk.units[place].loss.is_none()) else {
                continue;
            };
            let earlier = plan.layout.lowered(&chunk.units[before]);
            if let (Some(arrives), Some(leaves)) = (earlier.output_gradient, later.input_gradient) {
                let buffer = found(&same, values[index][usize::from(leaves)]);
                let replaced = found(&same, values[before][usize::from(arrives)]);
                if buffer != replaced {
                    same.insert(replaced, buffer);
                }
            }
        }
        values.iter_mut().flatten().for_each(|id| *id = found(&same, *id));
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
        let watched = shaped
            .watches()
            .iter()
            .map(|watch| {
                let bytes = Bytes(watch.parameters.trained() * rules.gradient.size());
                watch.is_summed(rules).then(|| add("watched gradient", bytes, Category::Gradients))
            })
            .collect();
        frame.units = units;
        Self { frame, watched, values, passed, leaving }
    }
}
