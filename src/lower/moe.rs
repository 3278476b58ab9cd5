//! Mixture-of-experts layers: routing, exchange with the expert group, expert products, and shared experts.

use super::graph::{Builder, ValueId};
use super::mlp::{branch_gradient, residual_add};
use crate::model::layer::Moe;
use crate::ops::{CollectiveKind, ElementwiseKind, Group, Op, Routing};
use crate::profile::engine::SavedTensor;
use crate::units::Bytes;

/// The forward values that the backward reads.
pub struct Saved {
    source: ValueId,
    statistics: Option<ValueId>,
    normed: ValueId,
    routing: ValueId,
    expert_input: ValueId,
    gate: Option<ValueId>,
    up: ValueId,
    activated: ValueId,
    shared: Option<SharedSaved>,
    mask: Option<ValueId>,
}

struct SharedSaved {
    up: ValueId,
    activated: ValueId,
    /// One number a token that scales their output.
    gate: Option<ValueId>,
}

/// Sizes of the routed part on one rank.
struct Sizes {
    /// Rows of all slots that this rank's tokens may fill.
    sent: u64,
    /// Experts on this rank.
    experts: u64,
    /// Rows of one local expert.
    rows: u64,
    /// Width inside one local expert.
    width: u64,
}

fn sizes(b: &Builder<'_>, layer: &Moe) -> Sizes {
    let shape = b.shape;
    let slots = shape.slots(layer.experts, layer.top_k);
    let gathered = if shape.sequence_parallel { shape.expert_tensor } else { 1 };
    Sizes {
        sent: layer.experts * slots,
        experts: layer.experts / shape.expert,
        rows: slots * shape.expert * gathered,
        width: layer.intermediate / shape.expert_tensor,
    }
}

/// Appends the forward: `source` feeds the norm, `residual` is added to. Returns the output.
pub fn forward(b: &mut Builder<'_>, layer: &Moe, source: ValueId, residual: ValueId) -> (ValueId, Saved) {
    let shape = b.shape;
    let (stream, routed) = (shape.stream_tokens(), shape.routed_tokens());
    let hidden = layer.hidden;
    let s = sizes(b, layer);

    let normed = b.activation("moe norm", stream * hidden, Some(SavedTensor::LinearInput));
    let statistics = b.optional("moe norm statistics", stream * 8, SavedTensor::NormStatistics);
    let writes: Vec<_> = [normed].into_iter().chain(statistics).collect();
    b.row_norm(stream * hidden, hidden, false, &[source], &writes);

    let routing = b.raw("routing", routed * layer.experts * 4, Some(SavedTensor::Routing));
    b.linear(routed, hidden, layer.experts, &[normed], &[routing]);
    let sent = b.activation("slots to send", s.sent * hidden, None);
    permute(b, s.sent, routed, hidden, &[normed, routing], &[sent]);
    let expert_input = to_experts(b, "expert input", sent, Some(SavedTensor::ExpertInput));

    let rows = s.experts * s.rows;
    let gate = layer.gated.then(|| b.activation("expert gate", rows * s.width, Some(SavedTensor::Gate)));
    let up = b.activation("expert up", rows * s.width, Some(SavedTensor::Up));
    for value in [gate, Some(up)].into_iter().flatten() {
        b.compute(b.product(s.experts, s.rows, hidden, s.width), &[expert_input], &[value]);
    }
    let activated = b.activation("expert activated", rows * s.width, Some(SavedTensor::ActivationOutput));
    let reads: Vec<_> = gate.into_iter().chain([up, routing]).collect();
    b.elementwise(ElementwiseKind::Activation, rows * s.width, reads.len() as u64, &reads, &[activated]);
    let output = b.activation("expert output", rows * hidden, None);
    b.compute(b.product(s.experts, s.rows, s.width, hidden), &[activated], &[output]);
    let returned = from_experts(b, "slots returned", output, s.sent * hidden);
    let branch = b.activation("combined", stream * hidden, None);
    permute(b, s.sent, routed, hidden, &[returned, routing], &[branch]);
    if !shape.sequence_parallel && shape.tensor > 1 {
        // Tensor ranks combined partial sums (experts cut inside) or their own tokens: one sum makes both whole.
        let bytes = Bytes(stream * hidden * shape.compute.size());
        b.collective(CollectiveKind::AllReduce, Group::Tensor, bytes, &[branch], &[branch], false);
    }
    let shared = (layer.shared_intermediate > 0).then(|| shared_forward(b, layer, normed, branch));
    let (output, mask) = residual_add(b, branch, residual, stream * hidden);
    let saved =
        Saved { source, statistics, normed, routing, expert_input, gate, up, activated, shared, mask };
    (output, saved)
}

fn permute(b: &mut Builder<'_>, slots: u64, rows: u64, width: u64, reads: &[ValueId], writes: &[ValueId]) {
    b.compute(Op::Routing(Routing { slots, rows, width, element: b.shape.compute }), reads, writes);
}

/// Slots to the ranks of their experts, then gathered inside an expert's tensor group.
fn to_experts(b: &mut Builder<'_>, name: &'static str, sent: ValueId, saved: Option<SavedTensor>) -> ValueId {
    let shape = b.shape;
    let elements = b.elements(sent);
    let gathers = shape.expert_tensor > 1 && shape.sequence_parallel;
    let mut value = sent;
    if shape.expert > 1 {
        value = b.activation(name, elements, saved.filter(|_| !gathers));
        let bytes = Bytes(elements * shape.compute.size());
        b.collective(CollectiveKind::AllToAll, Group::Expert, bytes, &[sent], &[value], false);
    } else if !gathers {
        b.values[usize::from(value)].saved = saved;
    }
    if gathers {
        let whole = b.activation(name, elements * shape.expert_tensor, saved);
        let bytes = Bytes(elements * shape.expert_tensor * shape.compute.size());
        b.collective(CollectiveKind::AllGather, Group::ExpertTensor, bytes, &[value], &[whole], false);
        value = whole;
    }
    value
}

/// The way back: reduced inside an expert's tensor group, then to the ranks of the tokens.
fn from_experts(b: &mut Builder<'_>, name: &'static str, output: ValueId, elements: u64) -> ValueId {
    let shape = b.shape;
    let mut value = output;
    if shape.expert_tensor > 1 && shape.sequence_parallel {
        let bytes = Bytes(b.elements(output) * shape.compute.size());
        let shard = b.activation(name, elements, None);
        b.collective(CollectiveKind::ReduceScatter, Group::ExpertTensor, bytes, &[value], &[shard], false);
        value = shard;
    }
    if shape.expert > 1 {
        let back = b.activation(name, elements, None);
        let bytes = Bytes(elements * shape.compute.size());
        b.collective(CollectiveKind::AllToAll, Group::Expert, bytes, &[value], &[back], false);
        value = back;
    }
    value
}

/// Shared experts: an MLP beside the routed ones, summed into `branch`.
fn shared_forward(b: &mut Builder<'_>, layer: &Moe, normed: ValueId, branch: ValueId) -> SharedSaved {
    let shape = b.shape;
    let (tokens, hidden) = (shape.tokens(), layer.hidden);
    let width = layer.shared_intermediate / shape.tensor;
    let ups = if layer.gated { 2 } else { 1 };
    let whole = b.gather_sequence("shared expert input", normed, false);
    let up = b.activation("shared up", tokens * width * ups, Some(SavedTensor::Up));
    b.linear(tokens, hidden, width * ups, &[whole], &[up]);
    let activated = b.activation("shared activated", tokens * width, Some(SavedTensor::ActivationOutput));
    b.elementwise(ElementwiseKind::Activation, tokens * width, ups + 1, &[up], &[activated]);
    let partial = b.activation("shared output", tokens * hidden, None);
    b.linear(tokens, width, hidden, &[activated], &[partial]);
    let shard = b.reduce_sequence("shared output shard", partial, None);
    let elements = b.elements(branch);
    let stream = shape.stream_tokens();
    let gate = layer.shared_gate.then(|| b.activation("shared gate", stream, Some(SavedTensor::Routing)));
    if let Some(gate) = gate {
        b.linear(stream, hidden, 1, &[normed], &[gate]);
    }
    let reads: Vec<_> = [shard, branch].into_iter().chain(gate).collect();
    b.elementwise(ElementwiseKind::Add, elements, 3, &reads, &[branch]);
    SharedSaved { up, activated, gate }
}

/// Appends the backward of the output's `gradient`; what the norm passes on is added to `target`.
pub fn backward(
    b: &mut Builder<'_>,
    layer: &Moe,
    saved: &Saved,
    gradient: ValueId,
    target: ValueId,
    trainable: bool,
) {
    let shape = b.shape;
    let (stream, routed) = (shape.stream_tokens(), shape.routed_tokens());
    let hidden = layer.hidden;
    let s = sizes(b, layer);
    let rows = s.experts * s.rows;

    let branch = branch_gradient(b, gradient, saved.mask, stream * hidden);
    let sent = b.activation("slot gradients", s.sent * hidden, None);
    permute(b, s.sent, routed, hidden, &[branch, saved.routing], &[sent]);
    let output = to_experts(b, "expert output gradient", sent, None);
    let activated = b.activation("expert activated gradient", rows * s.width, None);
    b.compute(b.product(s.experts, s.rows, hidden, s.width), &[output], &[activated]);
    if trainable {
        let op = b.product(s.experts, hidden, s.rows, s.width);
        b.node(op, super::Stream::Compute, &[saved.activated, output], &[], true);
    }
    let gate = saved.gate.map(|_| b.activation("expert gate gradient", rows * s.width, None));
    let up = b.activation("expert up gradient", rows * s.width, None);
    let routing = b.raw("routing gradient", routed * layer.experts * 4, None);
    let mut reads = vec![activated, saved.up, saved.routing];
    reads.extend(saved.gate);
    let writes: Vec<_> = [up].into_iter().chain(gate).chain([routing]).collect();
    b.elementwise(ElementwiseKind::ActivationBackward, rows * s.width, 5, &reads, &writes);
    let input = b.activation("expert input gradient", rows * hidden, None);
    for from in [Some(up), gate].into_iter().flatten() {
        b.compute(b.product(s.experts, s.rows, s.width, hidden), &[from], &[input]);
    }
    let returned = from_experts(b, "slot gradients returned", input, s.sent * hidden);
    if trainable {
        for from in [Some(up), gate].into_iter().flatten() {
            let op = b.product(s.experts, hidden, s.rows, s.width);
            b.node(op, super::Stream::Compute, &[saved.expert_input, from], &[], true);
        }
    }
    let normed = b.activation("moe input gradient", stream * hidden, None);
    permute(b, s.sent, routed, hidden, &[returned, saved.routing], &[normed]);
    b.linear(routed, layer.experts, hidden, &[routing], &[normed]);
    if trainable {
        b.weight_gradient(routed, hidden, layer.experts, &[saved.normed, routing]);
    }
    if !shape.sequence_parallel && shape.tensor > 1 {
        let bytes = Bytes(stream * hidden * shape.compute.size());
        b.collective(CollectiveKind::AllReduce, Group::Tensor, bytes, &[normed], &[normed], false);
    }
    if let Some(shared) = &saved.shared {
        shared_backward(b, layer, shared, saved.normed, branch, normed, trainable);
    }
    let reads: Vec<_> = [normed, saved.source, target].into_iter().chain(saved.statistics).collect();
    b.row_norm(stream * hidden, hidden, true, &reads, &[target]);
}

fn shared_backward(
    b: &mut Builder<'_>,
    layer: &Moe,
    saved: &SharedSaved,
    normed: ValueId,
    branch: ValueId,
    sum: ValueId,
    trainable: bool,
) {
    let shape = b.shape;
    let (tokens, hidden) = (shape.tokens(), layer.hidden);
    let width = layer.shared_intermediate / shape.tensor;
    let ups = if layer.gated { 2 } else { 1 };
    let whole = b.gather_sequence("shared output gradient", branch, false);
    let activated = b.activation("shared activated gradient", tokens * width, None);
    b.linear(tokens, hidden, width, &[whole], &[activated]);
    if trainable {
        b.weight_gradient(tokens, width, hidden, &[saved.activated, whole]);
    }
    let up = b.activation("shared up gradient", tokens * width * ups, None);
    let elements = tokens * width;
    if let Some(gate) = saved.gate {
        // The gate's gradient is the product of what it scaled with the gradient before the down projection.
        let stream = shape.stream_tokens();
        let gradient = b.activation("shared gate gradient", stream, None);
        b.elementwise(
            ElementwiseKind::ActivationBackward,
            elements,
            3,
            &[activated, saved.activated, gate],
            &[activated, gradient],
        );
        b.linear(stream, 1, hidden, &[gradient], &[sum]);
        if trainable {
            b.weight_gradient(stream, hidden, 1, &[normed, gradient]);
        }
    }
    b.elementwise(ElementwiseKind::ActivationBackward, elements, 2 * ups + 1, &[activated, saved.up], &[up]);
    let again = trainable.then(|| b.gather_sequence("shared expert input again", normed, true));
    let input = b.activation("shared input gradient", tokens * hidden, None);
    b.linear(tokens, width * ups, hidden, &[up], &[input]);
    let shard = b.reduce_sequence("shared input gradient shard", input, None);
    if let Some(again) = again {
        b.weight_gradient(tokens, hidden, width * ups, &[again, up]);
    }
    let elements = b.elements(sum);
    b.elementwise(ElementwiseKind::Add, elements, 3, &[shard, sum], &[sum]);
}
