//! What a checkpoint mode keeps and recomputes, and when each value is allocated and freed.

use smallvec::smallvec;

use super::graph::{Node, Stream, UnitGraph, Value, ValueId, ValueIds};
use super::kernel::Kernel;
use super::unit::{LoweredUnit, Step};
use super::{Category, Shape};
use crate::ops::{Elementwise, ElementwiseKind, Op};
use crate::profile::choices::{CheckpointMode, Compression};
use crate::profile::engine::SavedTensor;
use crate::units::{Bytes, ceil_div};

/// Lowers `graph`: outside blocks everything that the backward reads is kept, whatever the mode.
pub fn lower(graph: &UnitGraph, shape: Shape<'_>, mode: CheckpointMode, is_block: bool) -> LoweredUnit {
    let mode = if is_block { mode } else { CheckpointMode::None };
    let mut values = graph.values.clone();
    let choice = Choice::new(graph, shape, mode, is_block);
    let mut forward = graph.forward.clone();
    let mut backward: Vec<(Node, bool)> = Vec::new();
    for (node, _) in graph.forward.iter().zip(&choice.recomputed).filter(|(_, again)| **again) {
        // Nobody reads the output again; a node may still make something else beside it, like a mask.
        let mut node = node.clone();
        let made = node.writes.len();
        node.writes.retain(|id| graph.output != Some(*id));
        if made == 0 || !node.writes.is_empty() {
            backward.push((node, true));
        }
    }
    backward.extend(graph.backward.iter().map(|node| (node.clone(), false)));
    let mut kept: Vec<ValueId> = choice.kept();
    if is_block && shape.compression != Compression::None {
        compress(shape.compression, &mut values, &mut forward, &mut backward, &mut kept);
    }

    let (weight, backward): (Vec<_>, Vec<_>) =
        backward.into_iter().partition(|(node, _)| shape.splits_weight && node.weight);
    let forward: Vec<_> = forward.into_iter().map(|node| (node, false)).collect();

    let stays = |id: ValueId| kept.contains(&id) || graph.output == Some(id);
    let forward =
        Pass { entering: graph.input.into_iter().collect(), nodes: &forward }.steps(values.len(), &stays);

    let entering: Vec<_> = kept.iter().copied().chain(graph.output_gradient).collect();
    let mut there = vec![false; values.len()];
    for id in entering.iter().chain(backward.iter().flat_map(|(node, _)| &node.writes)) {
        there[usize::from(*id)] = true;
    }
    let mut is_carried = vec![false; values.len()];
    for id in weight.iter().flat_map(|(node, _)| node.reads.iter().chain(&node.writes)) {
        is_carried[usize::from(*id)] = there[usize::from(*id)];
    }
    let carried: Vec<ValueId> =
        (0..values.len() as ValueId).filter(|&id| is_carried[usize::from(id)]).collect();
    let leaves = |id: ValueId| graph.input_gradient == Some(id);
    let stays = |id: ValueId| is_carried[usize::from(id)] || leaves(id);
    let backward = Pass { entering: entering.clone(), nodes: &backward }.steps(values.len(), &stays);
    let entering: Vec<_> = carried.iter().copied().filter(|&id| !leaves(id)).collect();
    let weight = Pass { entering, nodes: &weight }.steps(values.len(), &leaves);
    LoweredUnit {
        values,
        forward,
        backward,
        weight,
        kept,
        carried,
        input: graph.input,
        output: graph.output,
        output_gradient: graph.output_gradient,
        input_gradient: graph.input_gradient,
    }
}

/// Which forward values are kept and which forward ops run again.
struct Choice {
    needed_and_kept: Vec<bool>,
    recomputed: Vec<bool>,
}

impl Choice {
    fn new(graph: &UnitGraph, shape: Shape<'_>, mode: CheckpointMode, is_block: bool) -> Self {
        let activations = &shape.engine.activations;
        let kept = activations.kept(mode);
        let is_again = |value: &Value| activations.recomputes(mode, value.part);
        let keeps = |value: &Value| {
            !is_block || (value.saved.is_some_and(|saved| shape.keeps(kept, saved)) && !is_again(value))
        };
        let mut choice = Self {
            needed_and_kept: vec![false; graph.values.len()],
            recomputed: vec![false; graph.forward.len()],
        };
        let mut seen = vec![false; graph.values.len()];
        let mut writers: Vec<Vec<usize>> = vec![Vec::new(); graph.values.len()];
        for (place, node) in graph.forward.iter().enumerate() {
            for &id in &node.writes {
                writers[usize::from(id)].push(place);
            }
        }
        let mut wanted: Vec<ValueId> = graph.backward.iter().flat_map(|node| node.reads.clone()).collect();
        if activations.runs_forward_again(mode) && !graph.backward.is_empty() {
            choice.recomputed.fill(true);
            wanted.extend(graph.input);
        }
        while let Some(id) = wanted.pop() {
            let index = usize::from(id);
            let is_made = graph.input == Some(id) || !writers[index].is_empty();
            if std::mem::replace(&mut seen[index], true) || !is_made {
                continue;
            }
            if keeps(&graph.values[index]) || graph.input == Some(id) {
                choice.needed_and_kept[index] = true;
                continue;
            }
            for &place in &writers[index] {
                choice.recomputed[place] = true;
                wanted.extend(&graph.forward[place].reads);
            }
        }
        choice.keep_listed_outputs(graph, shape, mode, is_block);
        choice
    }

    /// Outputs of costly ops that an engine keeps under the mode although only recomputation would read them.
    fn keep_listed_outputs(
        &mut self,
        graph: &UnitGraph,
        shape: Shape<'_>,
        mode: CheckpointMode,
        is_block: bool,
    ) {
        if !is_block || !CheckpointMode::RECOMPUTING.contains(&mode) || graph.backward.is_empty() {
            return;
        }
        let kept = shape.engine.activations.kept(mode);
        let is_listed = |saved: &SavedTensor| {
            matches!(saved, SavedTensor::MlpOutput | SavedTensor::ReturnedOutput) && kept.contains(saved)
        };
        for (index, value) in graph.values.iter().enumerate() {
            if value.saved.as_ref().is_some_and(is_listed) {
                self.needed_and_kept[index] = true;
            }
        }
    }

    fn kept(&self) -> Vec<ValueId> {
        (0..self.needed_and_kept.len() as ValueId)
            .filter(|&id| self.needed_and_kept[usize::from(id)])
            .collect()
    }
}

/// Elements that share one fp32 scale.
const SCALE_GROUP: u64 = 256;

/// Bytes of `elements` elements stored as integers with their scales.
pub fn compressed_bytes(compression: Compression, elements: u64) -> Option<Bytes> {
    let bits = match compression {
        Compression::None => return None,
        Compression::EightBit => 8,
        Compression::FourBit => 4,
    };
    Some(Bytes(ceil_div(elements * bits, 8) + 4 * ceil_div(elements, SCALE_GROUP)))
}

/// Stores kept floating-point values as integers: quantised behind their last forward use, restored before their
/// first backward use.
fn compress(
    compression: Compression,
    values: &mut Vec<Value>,
    forward: &mut Vec<Node>,
    backward: &mut Vec<(Node, bool)>,
    kept: &mut [ValueId],
) {
    for slot in kept.iter_mut() {
        let id = *slot;
        let value = values[usize::from(id)];
        let Some(bytes) = compressed_bytes(compression, value.elements).filter(|_| value.elements > 0) else {
            continue;
        };
        let stored = values.len() as ValueId;
        values.push(Value {
            name: value.name,
            bytes,
            category: Category::Activations,
            saved: None,
            elements: 0,
            part: None,
        });
        let op = |kind| {
            Op::Elementwise(Elementwise {
                kind,
                elements: value.elements,
                operands: 2,
                element: crate::units::ElementType::Bf16,
            })
        };
        let accesses = |node: &Node| node.reads.contains(&id) || node.writes.contains(&id);
        let node = |kernel, kind, from, to| Node {
            op: op(kind),
            kernel,
            layer: 0,
            stream: Stream::Compute,
            reads: smallvec![from],
            writes: smallvec![to],
            weight: false,
            adds_gradient: false,
        };
        let after = forward.iter().rposition(accesses).map_or(forward.len(), |last| last + 1);
        forward.insert(after, node(Kernel::Quantise, ElementwiseKind::Quantise, id, stored));
        let before = backward.iter().position(|(node, _)| accesses(node)).unwrap_or(0);
        let node = node(Kernel::Dequantise, ElementwiseKind::Dequantise, stored, id);
        backward.insert(before, (node, false));
        *slot = stored;
    }
}

/// The nodes of one pass in issue order and the values that live when it starts.
struct Pass<'a> {
    entering: Vec<ValueId>,
    nodes: &'a [(Node, bool)],
}

impl Pass<'_> {
    /// Steps with their waits, allocations at the first write and frees behind the last use, of `values` values; those
    /// that `stays` names are not freed.
    fn steps(&self, values: usize, stays: &dyn Fn(ValueId) -> bool) -> Vec<Step> {
        let mut last_use: Vec<Option<usize>> = vec![None; values];
        for (place, (node, _)) in self.nodes.iter().enumerate() {
            for &id in node.reads.iter().chain(&node.writes) {
                last_use[usize::from(id)] = Some(place);
            }
        }
        let mut steps: Vec<Step> = Vec::with_capacity(self.nodes.len() + 1);
        let is_unused = |id: &ValueId| !stays(*id) && last_use[usize::from(*id)].is_none();
        let unused: ValueIds = self.entering.iter().copied().filter(is_unused).collect();
        if !unused.is_empty() {
            steps.push(Step {
                op: Op::Release,
                kernel: Kernel::Planned,
                layer: 0,
                stream: Stream::Compute,
                recompute: false,
                weight: false,
                adds_gradient: false,
                reads: ValueIds::new(),
                writes: ValueIds::new(),
                allocates: ValueIds::new(),
                frees: unused,
            });
        }
        let mut live = vec![false; values];
        self.entering.iter().for_each(|&id| live[usize::from(id)] = true);
        let mut set = |id: ValueId, is_live| std::mem::replace(&mut live[usize::from(id)], is_live);
        for (place, (node, recompute)) in self.nodes.iter().enumerate() {
            let allocates: ValueIds = node.writes.iter().copied().filter(|&id| !set(id, true)).collect();
            let touched = node.reads.iter().chain(&node.writes).copied();
            let ends = |id: ValueId| last_use[usize::from(id)] == Some(place) && !stays(id);
            let mut frees: ValueIds = touched.filter(|&id| ends(id) && set(id, false)).collect();
            frees.sort_unstable();
            steps.push(Step {
                op: node.op,
                kernel: node.kernel,
                layer: node.layer,
                stream: node.stream,
                recompute: *recompute,
                weight: node.weight,
                adds_gradient: node.adds_gradient,
                reads: node.reads.clone(),
                writes: node.writes.clone(),
                allocates,
                frees,
            });
        }
        free_behind_kernels(&mut steps);
        steps
    }
}

/// Lets what a collective frees stay until the kernel that waits for the collective, where others take memory before:
/// these would wait for it too, as memory is handed out in issue order.
fn free_behind_kernels(steps: &mut [Step]) {
    for place in 0..steps.len() {
        if steps[place].stream != Stream::Model || steps[place].frees.is_empty() {
            continue;
        }
        let made = &steps[place].writes;
        let touches = |step: &Step| step.reads.iter().chain(&step.writes).any(|id| made.contains(id));
        let mut behind = (place + 1..steps.len()).filter(|&other| steps[other].stream == Stream::Compute);
        let Some(waiting) = behind.clone().find(|&other| touches(&steps[other])) else { continue };
        if behind.any(|other| other < waiting && !steps[other].allocates.is_empty()) {
            let frees = std::mem::take(&mut steps[place].frees);
            steps[waiting].frees.extend(frees);
        }
    }
}
