//! Mixture-of-experts layers: routing, exchange with the expert group, expert products, and shared experts.

use super::graph::{Builder, ValueId};
use super::kernel::{Branch, Into, Kernel, Matrix, Place};
use super::mlp::{branch_gradient, output_norm, output_norm_gradient, residual_add};
use crate::model::layer::Moe;
use crate::ops::{Collective, CollectiveKind, ElementwiseKind, Group, Op, Routing};
use crate::profile::engine::SavedTensor;
use crate::profile::recomputed::Part;
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
    output_norm_input: Option<ValueId>,
    mask: Option<ValueId>,
}

struct SharedSaved {
    /// Their input, gathered.
    whole: ValueId,
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
///
/// A slot carries its token and, in one more column, the weight that the router gave it: an expert multiplies its
/// activations by it, so that the way back is a plain sum (as in Megatron-LM).
pub fn forward(b: &mut Builder<'_>, layer: &Moe, source: ValueId, residual: ValueId) -> (ValueId, Saved) {
    let shape = b.shape;
    let (stream, routed) = (shape.stream_tokens(), shape.routed_tokens());
    let hidden = layer.hidden;
    let s = sizes(b, layer);

    b.part = Some(Part::ExpertNorm);
    let mut statistics = None;
    let mut normed = source;
    if layer.norm.is_some() {
        normed = b.activation("moe norm", stream * hidden, Some(SavedTensor::LinearInput));
        statistics = b.statistics("moe norm statistics", (stream, hidden));
        b.norm(Place::Input, hidden, source, normed, statistics);
    }

    b.part = Some(Part::Experts);
    let logits = routed * layer.experts * shape.statistic().size();
    let routing = b.raw("routing", logits, Some(SavedTensor::Routing));
    b.linear(Kernel::Linear(Matrix::Router), (routed, hidden, layer.experts), &[normed], &[routing]);
    let sent = b.activation("slots to send", s.sent * (hidden + 1), None);
    permute(b, Kernel::Permute, (s.sent, routed, hidden + 1), &[normed, routing], &[sent]);
    let expert_input = to_experts(b, layer, "expert input", sent, Some(SavedTensor::ExpertInput));

    let rows = s.experts * s.rows;
    let gate =
        layer.gated.then(|| b.activation("expert gate", rows * s.width, Some(SavedTensor::ExpertGate)));
    let up = b.activation("expert up", rows * s.width, Some(SavedTensor::Up));
    let ups = [gate.map(|gate| (Matrix::ExpertGate, gate)), Some((Matrix::ExpertUp, up))];
    for (matrix, value) in ups.into_iter().flatten() {
        let op = b.product(s.experts, s.rows, hidden, s.width);
        b.compute(Kernel::Linear(matrix), op, &[expert_input], &[value]);
    }
    b.part = Some(Part::ExpertActivation);
    let activated = b.activation("expert activated", rows * s.width, Some(SavedTensor::ActivationOutput));
    b.part = Some(Part::Experts);
    let reads: Vec<_> = gate.into_iter().chain([up, expert_input]).collect();
    let activation = (ElementwiseKind::Activation, rows * s.width, reads.len() as u64);
    b.elementwise(Kernel::ExpertActivation, activation, &reads, &[activated]);
    let output = b.activation("expert output", rows * hidden, None);
    let op = b.product(s.experts, s.rows, s.width, hidden);
    b.compute(Kernel::Linear(Matrix::ExpertDown), op, &[activated], &[output]);
    let returned = from_experts(
        b,
        layer,
        ("slots returned", Some(SavedTensor::ReturnedOutput)),
        output,
        s.sent * hidden,
    );
    let mut branch = b.activation("combined", stream * hidden, None);
    permute(b, Kernel::Combine, (s.sent, routed, hidden), &[returned, routing], &[branch]);
    if !shape.sequence_parallel {
        // Tensor ranks combined partial sums (experts cut inside) or their own tokens: one sum makes both whole.
        b.sum_in_place(branch);
    }
    b.part = Some(Part::SharedExperts);
    let shared = (layer.shared_intermediate > 0).then(|| shared_forward(b, layer, normed, branch));
    let output_norm_input = layer.output_norm.is_some().then_some(branch);
    if output_norm_input.is_some() {
        branch = output_norm(b, "moe output norm", branch, hidden);
    }
    b.part = None;
    let (output, mask) = residual_add(b, Branch::Moe, branch, residual, stream * hidden);
    let saved = Saved {
        source,
        statistics,
        normed,
        routing,
        expert_input,
        gate,
        up,
        activated,
        shared,
        output_norm_input,
        mask,
    };
    (output, saved)
}

fn permute(
    b: &mut Builder<'_>,
    kernel: Kernel,
    (slots, rows, width): (u64, u64, u64),
    reads: &[ValueId],
    writes: &[ValueId],
) {
    b.compute(kernel, Op::Routing(Routing { slots, rows, width, element: b.shape.compute }), reads, writes);
}

/// The exchange of `bytes` of slots, each token's in as many as it has experts.
fn tokens(b: &Builder<'_>, layer: &Moe, bytes: Bytes) -> Collective {
    let copies = if b.shape.engine.timing.sends_tokens_once { layer.top_k } else { 1 };
    Collective { copies, ..Collective::new(CollectiveKind::AllToAll, Group::Expert, bytes) }
}

/// Slots to the ranks of their experts, then gathered inside an expert's tensor group.
fn to_experts(
    b: &mut Builder<'_>,
    layer: &Moe,
    name: &'static str,
    sent: ValueId,
    saved: Option<SavedTensor>,
) -> ValueId {
    let shape = b.shape;
    let elements = b.elements(sent);
    let saved = saved.map(|input| if shape.expert > 1 { SavedTensor::ReceivedInput } else { input });
    let gathers = shape.expert_tensor > 1 && shape.sequence_parallel;
    let mut value = sent;
    if shape.expert > 1 {
        value = b.activation(name, elements, saved.filter(|_| !gathers));
        let bytes = Bytes(elements * shape.compute.size());
        b.exchange(Kernel::Collective, tokens(b, layer, bytes), &[sent], &[value]);
    } else if !gathers {
        b.values[usize::from(value)].saved = saved;
    }
    if gathers {
        let whole = b.activation(name, elements * shape.expert_tensor, saved);
        let bytes = Bytes(elements * shape.expert_tensor * shape.compute.size());
        let all_gather = (CollectiveKind::AllGather, Group::ExpertTensor);
        b.collective(Kernel::Collective, all_gather, bytes, &[value], &[whole]);
        value = whole;
    }
    value
}

/// The way back: reduced inside an expert's tensor group, then to the ranks of the tokens.
fn from_experts(
    b: &mut Builder<'_>,
    layer: &Moe,
    (name, saved): (&'static str, Option<SavedTensor>),
    output: ValueId,
    elements: u64,
) -> ValueId {
    let shape = b.shape;
    let mut value = output;
    if shape.expert_tensor > 1 && shape.sequence_parallel {
        let bytes = Bytes(b.elements(output) * shape.compute.size());
        let shard = b.activation(name, elements, None);
        let reduce_scatter = (CollectiveKind::ReduceScatter, Group::ExpertTensor);
        b.collective(Kernel::Collective, reduce_scatter, bytes, &[value], &[shard]);
        value = shard;
    }
    if shape.expert > 1 {
        let back = b.activation(name, elements, saved);
        let bytes = Bytes(elements * shape.compute.size());
        b.exchange(Kernel::Collective, tokens(b, layer, bytes), &[value], &[back]);
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
    let whole = b.gather_input("shared expert input", normed);
    let up = b.activation("shared up", tokens * width * ups, Some(SavedTensor::Up));
    b.linear(Kernel::Linear(Matrix::SharedUp), (tokens, hidden, width * ups), &[whole], &[up]);
    let activated = b.activation("shared activated", tokens * width, Some(SavedTensor::ActivationOutput));
    let activation = (ElementwiseKind::Activation, tokens * width, ups + 1);
    b.elementwise(Kernel::Activation, activation, &[up], &[activated]);
    let partial = b.activation("shared output", tokens * hidden, None);
    b.linear(Kernel::Linear(Matrix::SharedDown), (tokens, width, hidden), &[activated], &[partial]);
    let shard = b.reduce_sequence("shared output shard", partial, None);
    let elements = b.elements(branch);
    let stream = shape.stream_tokens();
    let gate = layer.shared_gate.then(|| b.activation("shared gate", stream, Some(SavedTensor::Routing)));
    if let Some(gate) = gate {
        b.linear(Kernel::Planned, (stream, hidden, 1), &[normed], &[gate]);
    }
    let reads: Vec<_> = [shard, branch].into_iter().chain(gate).collect();
    b.elementwise(gated(layer, Kernel::Add), (ElementwiseKind::Add, elements, 3), &reads, &[branch]);
    SharedSaved { whole, up, activated, gate }
}

/// The gate of shared experts has no kernel.
fn gated(layer: &Moe, kernel: Kernel) -> Kernel {
    if layer.shared_gate { Kernel::Planned } else { kernel }
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

    let mut branch = branch_gradient(b, Branch::Moe, gradient, saved.mask, stream * hidden);
    if let Some(input) = saved.output_norm_input {
        let name = "moe output norm gradient";
        branch = output_norm_gradient(b, name, branch, input, (hidden, trainable));
    }
    let sent = b.activation("slot gradients", s.sent * hidden, None);
    permute(b, Kernel::CombineGradient, (s.sent, routed, hidden), &[branch, saved.routing], &[sent]);
    let output = to_experts(b, layer, "expert output gradient", sent, None);
    let activated = b.activation("expert activated gradient", rows * s.width, None);
    let op = b.product(s.experts, s.rows, hidden, s.width);
    b.compute(Kernel::InputGradient(Matrix::ExpertDown, Into::Set), op, &[output], &[activated]);
    if trainable {
        let op = b.product(s.experts, hidden, s.rows, s.width);
        b.gradient(Kernel::WeightGradient(Matrix::ExpertDown), op, &[saved.activated, output]);
    }
    let gate = saved.gate.map(|_| b.activation("expert gate gradient", rows * s.width, None));
    let up = b.activation("expert up gradient", rows * s.width, None);
    let input = b.activation("expert input gradient", rows * (hidden + 1), None);
    let mut reads = vec![activated, saved.up, saved.expert_input];
    reads.extend(saved.gate);
    let writes: Vec<_> = [up].into_iter().chain(gate).chain([input]).collect();
    let backward = (ElementwiseKind::ActivationBackward, rows * s.width, 5);
    b.elementwise(Kernel::ExpertActivationGradient, backward, &reads, &writes);
    let ups = || {
        let gate = gate.map(|gate| (Matrix::ExpertGate, gate));
        [Some((Matrix::ExpertUp, up)), gate].into_iter().flatten()
    };
    for (matrix, from) in ups() {
        let into = if matrix == Matrix::ExpertUp { Into::Set } else { Into::Add };
        let op = b.product(s.experts, s.rows, s.width, hidden);
        b.compute(Kernel::InputGradient(matrix, into), op, &[from], &[input]);
    }
    let returned = from_experts(b, layer, ("slot gradients returned", None), input, s.sent * (hidden + 1));
    if trainable {
        for (matrix, from) in ups() {
            let op = b.product(s.experts, hidden, s.rows, s.width);
            b.gradient(Kernel::WeightGradient(matrix), op, &[saved.expert_input, from]);
        }
    }
    let normed = b.activation("moe input gradient", stream * hidden, None);
    let logits = routed * layer.experts * shape.statistic().size();
    let routing = b.raw("routing gradient", logits, None);
    let sizes = (s.sent, routed, hidden + 1);
    permute(b, Kernel::PermuteGradient, sizes, &[returned, saved.routing], &[normed, routing]);
    let router = Kernel::InputGradient(Matrix::Router, Into::Add);
    b.linear(router, (routed, layer.experts, hidden), &[routing], &[normed]);
    if trainable {
        b.weight_gradient(Matrix::Router, (routed, hidden, layer.experts), &[saved.normed, routing]);
    }
    if !shape.sequence_parallel {
        b.sum_in_place(normed);
    }
    if let Some(shared) = &saved.shared {
        shared_backward(b, layer, shared, saved.normed, branch, normed, trainable);
    }
    if layer.norm.is_none() {
        b.elementwise(Kernel::Add, (ElementwiseKind::Add, stream * hidden, 3), &[normed, target], &[target]);
        return;
    }
    let input = (saved.source, saved.statistics);
    b.norm_gradient((Place::Input, Into::Add), (hidden, trainable), normed, input, target);
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
    let whole = b.gather_sequence("shared output gradient", branch);
    let activated = b.activation("shared activated gradient", tokens * width, None);
    let down = Kernel::InputGradient(Matrix::SharedDown, Into::Set);
    b.linear(down, (tokens, hidden, width), &[whole], &[activated]);
    if trainable {
        let reads = [saved.activated, whole];
        b.weight_gradient(Matrix::SharedDown, (tokens, width, hidden), &reads);
    }
    let up = b.activation("shared up gradient", tokens * width * ups, None);
    let elements = tokens * width;
    if let Some(gate) = saved.gate {
        // The gate's gradient is the product of what it scaled with the gradient before the down projection.
        let stream = shape.stream_tokens();
        let gradient = b.activation("shared gate gradient", stream, None);
        b.elementwise(
            Kernel::Planned,
            (ElementwiseKind::ActivationBackward, elements, 3),
            &[activated, saved.activated, gate],
            &[activated, gradient],
        );
        b.linear(Kernel::Planned, (stream, 1, hidden), &[gradient], &[sum]);
        if trainable {
            let op = b.product(1, 1, stream, hidden);
            b.gradient(Kernel::Planned, op, &[normed, gradient]);
        }
    }
    let backward = (ElementwiseKind::ActivationBackward, elements, 2 * ups + 1);
    b.elementwise(Kernel::ActivationGradient, backward, &[activated, saved.up], &[up]);
    let again = trainable.then(|| b.gather_input_again("shared expert input again", normed, saved.whole));
    let input = b.activation("shared input gradient", tokens * hidden, None);
    let kernel = Kernel::InputGradient(Matrix::SharedUp, Into::Set);
    b.linear(kernel, (tokens, width * ups, hidden), &[up], &[input]);
    let shard = b.reduce_sequence("shared input gradient shard", input, None);
    if let Some(again) = again {
        b.weight_gradient(Matrix::SharedUp, (tokens, hidden, width * ups), &[again, up]);
    }
    let elements = b.elements(sum);
    b.elementwise(Kernel::Add, (ElementwiseKind::Add, elements, 3), &[shard, sum], &[sum]);
}
