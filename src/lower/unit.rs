//! Units of a model: which layers they are, their graph of ops, and what a checkpoint mode makes of it.

use std::collections::HashMap;

use petgraph::graph::NodeIndex;

use super::graph::{Builder, Stream, UnitGraph, Value, ValueId, ValueIds};
use super::kernel::Kernel;
use super::parameters::trains_matrix;
use super::{Shape, attention, embedding, head, liveness, mlp, moe};
use crate::model::layer::{LayerKind, LossFunction};
use crate::model::{Model, Watch};
use crate::ops::{ElementwiseKind, Op};
use crate::profile::choices::CheckpointMode;
use crate::units::Bytes;

/// What a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnitKind {
    /// The block with this number.
    Block(u32),
    /// Before the blocks: rides with the first chunk.
    Front,
    /// Head and loss, behind or between the blocks: rides with the last chunk.
    Back,
}

/// The layers of one unit and what its backward must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitLayers {
    pub kind: UnitKind,
    pub layers: std::ops::Range<usize>,
    /// Something before it (or in it) is trained, so gradients flow through it.
    pub has_backward: bool,
    /// Something before it is trained, so its input needs a gradient.
    pub needs_input_gradient: bool,
    /// Index of the loss that this unit computes.
    pub loss: Option<usize>,
    /// Of each of its layers, whether it or something before it is trained.
    pub flows: Vec<bool>,
    /// Elements a token of all edges that enter it or pass it by, and that leave it or do.
    pub entering: u64,
    pub boundary: u64,
    /// Its head cannot make its gradient chunk by chunk in the forward: the weight of its loss is not known yet, or
    /// the gradient is looked at.
    pub is_never_chunked: bool,
    /// It looks up the step's token ids.
    pub reads_tokens: bool,
    /// Its loss compares with the step's target ids.
    pub reads_targets: bool,
    /// Units of one class have equal graphs under every shape.
    pub class: usize,
}

/// The units of `model` in model order.
pub fn units(model: &Model) -> Vec<UnitLayers> {
    let mut units: Vec<UnitLayers> = Vec::new();
    let count = model.graph.node_count();
    let flows = flowing(model);
    let crossings = crossings(model, &flows);
    let mut seen_block = false;
    for index in 0..count {
        let layer = model.layer(index);
        let loss = model.losses.iter().position(|loss| loss.layer == NodeIndex::new(index));
        seen_block |= layer.block.is_some();
        let reads_tokens = matches!(layer.kind, LayerKind::Embedding(_));
        let reads_targets = matches!(layer.kind, LayerKind::Loss(LossFunction::CrossEntropy));
        let kind = match layer.block {
            Some(block) => UnitKind::Block(block),
            None if !seen_block && matches!(layer.kind, LayerKind::Embedding(_)) => UnitKind::Front,
            None => UnitKind::Back,
        };
        let joins = units.last().is_some_and(|unit| {
            unit.loss.is_none()
                && unit.kind == kind
                && (matches!(kind, UnitKind::Block(_)) || matches!(layer.kind, LayerKind::Loss(_)))
        });
        if joins && let Some(unit) = units.last_mut() {
            unit.layers.end = index + 1;
            unit.flows.push(flows[index]);
            unit.has_backward |= flows[index];
            unit.loss = loss;
            unit.reads_targets |= reads_targets;
        } else {
            units.push(UnitLayers {
                kind,
                layers: index..index + 1,
                has_backward: flows[index],
                flows: vec![flows[index]],
                needs_input_gradient: crossings[index].has_gradient,
                loss,
                entering: 0,
                boundary: 0,
                is_never_chunked: false,
                reads_tokens,
                reads_targets,
                class: 0,
            });
        }
    }
    let watches = model.watches();
    let mut known: Vec<UnitLayers> = Vec::new();
    for unit in &mut units {
        unit.entering = crossings[unit.layers.start].width;
        unit.boundary = crossings[unit.layers.end].width;
        unit.is_never_chunked = unit.loss.is_some_and(|loss| {
            let looks_here = |watch: &Watch| watch.loss == loss && unit.layers.contains(&watch.layer);
            model.is_weighed_late(loss) || watches.iter().any(looks_here)
        });
        unit.class = known.iter().position(|other| alike(model, other, unit)).unwrap_or_else(|| {
            known.push(unit.clone());
            known.len() - 1
        });
    }
    units
}

/// For each layer, whether it or something that feeds it is trained, so that gradients flow into it.
fn flowing(model: &Model) -> Vec<bool> {
    let mut flows: Vec<bool> = Vec::with_capacity(model.graph.node_count());
    for index in 0..model.graph.node_count() {
        let layer = model.layer(index);
        let trains = !layer.frozen && crate::model::graph::layer_parameter_count(layer) > 0;
        let flow = trains || model.inputs(index).into_iter().any(|source| flows[source]);
        flows.push(flow);
    }
    flows
}

/// What crosses from before a layer to it or behind.
#[derive(Clone, Copy, Debug, Default)]
struct Crossing {
    /// Elements a token of the distinct tensors that do.
    width: u64,
    /// Some of them need a gradient.
    has_gradient: bool,
}

/// What crosses into each layer, and out of the last.
fn crossings(model: &Model, flows: &[bool]) -> Vec<Crossing> {
    let count = model.graph.node_count();
    let mut ending = vec![0; count + 1];
    let mut list = vec![Crossing::default()];
    let (mut width, mut last_gradient) = (0, 0);
    for index in 0..count {
        if let Some(&reader) = model.readers(index).last() {
            width += model.output_width(index);
            ending[reader] += model.output_width(index);
            if flows[index] {
                last_gradient = last_gradient.max(reader);
            }
        }
        width -= ending[index];
        list.push(Crossing { width, has_gradient: last_gradient > index });
    }
    list
}

/// Whether two units have the same layers, wired alike, and the same duties.
fn alike(model: &Model, one: &UnitLayers, other: &UnitLayers) -> bool {
    let duties = |unit: &UnitLayers| {
        (
            (unit.has_backward, unit.needs_input_gradient),
            (unit.loss.is_some(), unit.is_never_chunked),
            (unit.entering, unit.boundary, unit.layers.len()),
        )
    };
    let wiring = |unit: &UnitLayers, index: usize| -> Vec<Option<usize>> {
        model.inputs(index).into_iter().map(|source| source.checked_sub(unit.layers.start)).collect()
    };
    duties(one) == duties(other)
        && one.flows == other.flows
        && one.layers.clone().zip(other.layers.clone()).all(|(first, second)| {
            let (a, b) = (model.layer(first), model.layer(second));
            a.kind == b.kind && a.frozen == b.frozen && wiring(one, first) == wiring(other, second)
        })
}

/// The graph of ops of `unit`.
pub fn graph(model: &Model, unit: &UnitLayers, mut shape: Shape<'_>) -> UnitGraph {
    enum Saved {
        Embedding(embedding::Saved),
        Attention(attention::Saved),
        Mlp(mlp::Saved),
        Moe(moe::Saved),
        Head(head::Saved),
        SquaredError(ValueId, u64),
        Nothing,
    }

    shape.chunked_loss &= !unit.is_never_chunked;
    let mut b = Builder::new(shape);
    let stream = shape.stream_tokens();
    let first = unit.layers.start;
    let input = (unit.entering > 0).then(|| {
        b.activation(
            "unit input",
            stream * unit.entering,
            Some(crate::profile::engine::SavedTensor::BlockInput),
        )
    });
    let mut outputs: HashMap<usize, ValueId> = HashMap::new();
    let mut saved = Vec::new();
    for index in unit.layers.clone() {
        let layer = model.layer(index);
        b.layer = (index - first) as u16;
        let sources = model.inputs(index);
        let value = |position: usize| {
            let source = sources.get(position).or(sources.last());
            source.and_then(|source| outputs.get(source).copied()).or(input)
        };
        let (output, kept) = match (&layer.kind, value(0)) {
            (LayerKind::Embedding(layer), _) => {
                let (output, kept) = embedding::forward(&mut b, layer);
                (Some(output), Saved::Embedding(kept))
            }
            (LayerKind::Attention(layer), Some(source)) => {
                let (output, kept) = attention::forward(&mut b, layer, source);
                (Some(output), Saved::Attention(kept))
            }
            (LayerKind::Mlp(layer), Some(source)) => {
                let (output, kept) = mlp::forward(&mut b, layer, source, value(1).unwrap_or(source));
                (Some(output), Saved::Mlp(kept))
            }
            (LayerKind::Moe(layer), Some(source)) => {
                let (output, kept) = moe::forward(&mut b, layer, source, value(1).unwrap_or(source));
                (Some(output), Saved::Moe(kept))
            }
            (LayerKind::Head(head), Some(source)) => {
                let trains = trains_matrix(model, head, layer.frozen);
                (None, Saved::Head(head::forward(&mut b, head, source, trains)))
            }
            (LayerKind::Loss(LossFunction::MeanSquaredError), Some(source)) => {
                let elements = b.elements(source);
                head::squared_error(&mut b, elements, source);
                (None, Saved::SquaredError(source, elements))
            }
            _ => (None, Saved::Nothing),
        };
        if let Some(output) = output {
            outputs.insert(index, output);
        }
        saved.push((index, kept));
    }

    let output = leave(&mut b, unit, input, outputs.get(&(unit.layers.end - 1)).copied());
    b.start_backward();
    let starts_gradient = unit.loss.is_some();
    let arriving = (!starts_gradient && unit.boundary > 0)
        .then(|| b.activation("output gradient", stream * unit.boundary, None));
    let mut gradients: HashMap<Option<usize>, ValueId> = HashMap::new();
    if let Some(arriving) = arriving {
        gradients.insert(Some(unit.layers.end - 1), arriving);
    }
    let local = |source: usize| (source >= first).then_some(source);
    if unit.has_backward {
        for (index, kept) in saved.iter().rev().filter(|(index, _)| unit.flows[*index - first]) {
            let layer = model.layer(*index);
            b.layer = (*index - first) as u16;
            let trainable = !layer.frozen;
            let sources = model.inputs(*index);
            let source = sources.first().and_then(|&source| local(source));
            let residual = sources.last().and_then(|&source| local(source));
            match (&layer.kind, kept) {
                (LayerKind::Head(head), Saved::Head(kept)) => {
                    let trains = (trains_matrix(model, head, layer.frozen), trainable);
                    let gradient = head::backward(&mut b, head, kept, trains);
                    gradients.insert(source, gradient);
                    continue;
                }
                (_, Saved::SquaredError(value, elements)) => {
                    let gradient = head::squared_error_backward(&mut b, *elements, *value);
                    gradients.insert(source, gradient);
                    continue;
                }
                _ => {}
            }
            let Some(&(mut gradient)) = gradients.get(&Some(*index)) else { continue };
            let normed = match kept {
                Saved::Attention(kept) => kept.residual_norm,
                Saved::Mlp(kept) => kept.residual_norm,
                _ => None,
            };
            if let Some(normed) = normed {
                let norm = (model.output_width(*index), trainable);
                gradient = mlp::residual_norm_backward(&mut b, normed, gradient, norm);
            }
            let sums_bias = match &layer.kind {
                LayerKind::Attention(layer) => layer.output_bias,
                LayerKind::Mlp(layer) => layer.bias,
                _ => false,
            };
            // Under sequence parallelism weight gradients read what was gathered, but a bias the shard.
            let is_read_later = shape.splits_weight
                && !shape.dropout
                && (!shape.sequence_parallel || (sums_bias && trainable));
            let target = merge(&mut b, &mut gradients, (source, residual), gradient, is_read_later);
            match (&layer.kind, kept) {
                (LayerKind::Embedding(layer), Saved::Embedding(kept)) if trainable => {
                    embedding::backward(&mut b, layer, kept, gradient, trainable);
                }
                (LayerKind::Attention(layer), Saved::Attention(kept)) => {
                    attention::backward(&mut b, layer, kept, gradient, target, trainable);
                }
                (LayerKind::Mlp(layer), Saved::Mlp(kept)) => {
                    mlp::backward(&mut b, layer, kept, gradient, target, trainable);
                }
                (LayerKind::Moe(layer), Saved::Moe(kept)) => {
                    moe::backward(&mut b, layer, kept, gradient, target, trainable);
                }
                _ => {}
            }
        }
    }
    let leaving = gradients.get(&None).copied().filter(|_| unit.needs_input_gradient && input.is_some());
    UnitGraph {
        values: b.values,
        forward: b.forward,
        backward: b.backward,
        input,
        output,
        output_gradient: arriving,
        input_gradient: leaving,
    }
}

/// The value that leaves a unit: its last layer's output, a copy of the input behind a loss, wide enough for
/// edges that only pass.
fn leave(
    b: &mut Builder<'_>,
    unit: &UnitLayers,
    input: Option<ValueId>,
    output: Option<ValueId>,
) -> Option<ValueId> {
    if unit.boundary == 0 {
        return None;
    }
    let elements = b.shape.stream_tokens() * unit.boundary;
    match (output, input) {
        (Some(output), _) => {
            let value = &mut b.values[usize::from(output)];
            value.elements = elements;
            value.bytes = Bytes(elements * b.shape.stream().size());
            Some(output)
        }
        (None, Some(input)) => {
            let copy = b.activation("stream passed on", elements, None);
            b.elementwise(Kernel::Copy, (ElementwiseKind::Add, elements, 2), &[input], &[copy]);
            Some(copy)
        }
        (None, None) => None,
    }
}

/// Where a layer's norm adds the gradient of its source. The residual's gradient is the output's own; where norm
/// and residual read different layers, the norm's goes to a value of its own.
fn merge(
    b: &mut Builder<'_>,
    gradients: &mut HashMap<Option<usize>, ValueId>,
    (source, residual): (Option<usize>, Option<usize>),
    gradient: ValueId,
    is_read_later: bool,
) -> ValueId {
    let elements = b.elements(gradient);
    match gradients.get(&residual).copied() {
        None => {
            gradients.insert(residual, gradient);
        }
        Some(sum) => {
            b.elementwise(Kernel::Add, (ElementwiseKind::Add, elements, 3), &[gradient, sum], &[sum]);
        }
    }
    // A later weight pass reads the gradient as it arrived, so what goes on must be another value.
    if is_read_later && gradients.get(&source) == Some(&gradient) {
        let copy = b.activation("gradient passed on", elements, None);
        b.elementwise(Kernel::Copy, (ElementwiseKind::Add, elements, 2), &[gradient], &[copy]);
        gradients.insert(source, copy);
        return copy;
    }
    if let Some(&target) = gradients.get(&source) {
        return target;
    }
    let target = b.activation("source gradient", elements, None);
    b.elementwise(Kernel::Zero, (ElementwiseKind::Add, elements, 1), &[], &[target]);
    gradients.insert(source, target);
    target
}

/// One op of a lowered unit, with what it reads, writes, allocates and frees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub op: Op,
    /// What it computes, with the parameters of layer `layer`, counted from the unit's first.
    pub kernel: Kernel,
    pub layer: u16,
    pub stream: Stream,
    /// Makes again what the forward had made.
    pub recompute: bool,
    /// Works for a weight gradient only.
    pub weight: bool,
    /// Adds to the unit's weight gradient.
    pub adds_gradient: bool,
    pub reads: ValueIds,
    pub writes: ValueIds,
    pub allocates: ValueIds,
    pub frees: ValueIds,
}

/// A unit under a checkpoint mode: the steps of each pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoweredUnit {
    pub values: Vec<Value>,
    pub forward: Vec<Step>,
    /// Recomputation, then gradients; without weight gradients where those are split off.
    pub backward: Vec<Step>,
    /// Weight gradients, where they are split off.
    pub weight: Vec<Step>,
    /// Values that live from forward to backward.
    pub kept: Vec<ValueId>,
    /// Values that live from backward to the weight pass.
    pub carried: Vec<ValueId>,
    pub input: Option<ValueId>,
    pub output: Option<ValueId>,
    pub output_gradient: Option<ValueId>,
    pub input_gradient: Option<ValueId>,
}

impl LoweredUnit {
    /// Bytes of `values` together.
    pub fn bytes(&self, values: &[ValueId]) -> Bytes {
        values.iter().map(|&id| self.values[usize::from(id)].bytes).sum()
    }

    /// Bytes kept from forward to backward.
    pub fn kept_bytes(&self) -> Bytes {
        self.bytes(&self.kept)
    }
}

/// Lowers the unit that `graph` describes.
pub fn lower(graph: &UnitGraph, shape: Shape<'_>, mode: CheckpointMode, is_block: bool) -> LoweredUnit {
    liveness::lower(graph, shape, mode, is_block)
}
