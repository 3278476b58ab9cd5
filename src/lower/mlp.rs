//! MLP layers: up projections split by columns over the tensor group, the down projection by rows.

use super::graph::{Builder, ValueId};
use crate::model::layer::{Mlp, Norm};
use crate::ops::ElementwiseKind;
use crate::profile::engine::SavedTensor;

/// The forward values that the backward reads.
pub struct Saved {
    source: ValueId,
    statistics: Option<ValueId>,
    normed: ValueId,
    gate: Option<ValueId>,
    gate_activation: Option<ValueId>,
    up: ValueId,
    activated: ValueId,
    mask: Option<ValueId>,
    output_norm_input: Option<ValueId>,
    pub residual_norm: Option<ResidualNorm>,
}

/// What the backward of a norm behind the residual add reads: the sum, and its statistics.
#[derive(Clone, Copy)]
pub struct ResidualNorm {
    sum: ValueId,
    statistics: Option<ValueId>,
}

/// Appends the forward: `source` feeds the norm, `residual` is added to. Returns the output.
pub fn forward(b: &mut Builder<'_>, layer: &Mlp, source: ValueId, residual: ValueId) -> (ValueId, Saved) {
    let shape = b.shape;
    let (tokens, stream) = (shape.tokens(), shape.stream_tokens());
    let hidden = layer.hidden;
    let width = layer.intermediate / shape.tensor;

    let mut statistics = None;
    let mut normed = source;
    if layer.norm.is_some() {
        normed = b.activation("mlp norm", stream * hidden, Some(SavedTensor::LinearInput));
        statistics = b.optional("mlp norm statistics", stream * 8, SavedTensor::NormStatistics);
        let writes: Vec<_> = [Some(normed), statistics].into_iter().flatten().collect();
        b.row_norm(stream * hidden, hidden, false, &[source], &writes);
    }
    let whole = b.gather_sequence("mlp input", normed, false);

    let gate = layer.gated.then(|| b.activation("gate", tokens * width, Some(SavedTensor::Gate)));
    if let Some(gate) = gate {
        b.linear(tokens, hidden, width, &[whole], &[gate]);
    }
    let up = b.activation("up", tokens * width, Some(SavedTensor::Up));
    b.linear(tokens, hidden, width, &[whole], &[up]);
    let activated = b.activation("activated", tokens * width, Some(SavedTensor::ActivationOutput));
    let gate_activation = (layer.gated && shape.stores(SavedTensor::GateActivation))
        .then(|| b.activation("activated gate", tokens * width, Some(SavedTensor::GateActivation)));
    let reads: Vec<_> = gate.into_iter().chain([up]).collect();
    let writes: Vec<_> = [activated].into_iter().chain(gate_activation).collect();
    let operands = (reads.len() + writes.len()) as u64;
    b.elementwise(ElementwiseKind::Activation, tokens * width, operands, &reads, &writes);

    let output_saved = Some(SavedTensor::MlpOutput);
    let partial =
        b.activation("down projection", tokens * hidden, output_saved.filter(|_| !shape.sequence_parallel));
    b.linear(tokens, width, hidden, &[activated], &[partial]);
    let mut branch = b.reduce_sequence("down projection shard", partial, output_saved);
    let mut output_norm_input = None;
    if layer.output_norm.is_some() {
        let normed = b.activation("mlp output norm", stream * hidden, None);
        b.row_norm(stream * hidden, hidden, false, &[branch], &[normed]);
        output_norm_input = Some(branch);
        branch = normed;
    }
    let (sum, mask) = residual_add(b, branch, residual, stream * hidden);
    let (output, residual_norm) = residual_norm(b, layer.residual_norm, sum, hidden);
    let saved = Saved {
        source,
        statistics,
        normed,
        gate,
        gate_activation,
        up,
        activated,
        mask,
        output_norm_input,
        residual_norm,
    };
    (output, saved)
}

/// `branch` (with dropout, where there is some) added to `residual`: the new residual stream and the mask.
pub fn residual_add(
    b: &mut Builder<'_>,
    branch: ValueId,
    residual: ValueId,
    elements: u64,
) -> (ValueId, Option<ValueId>) {
    let output = b.activation("residual stream", elements, Some(SavedTensor::NormInput));
    let mask =
        b.shape.dropout.then(|| b.optional("dropout mask", elements, SavedTensor::DropoutMask)).flatten();
    let writes: Vec<_> = [output].into_iter().chain(mask).collect();
    b.elementwise(ElementwiseKind::Residual, elements, 3, &[branch, residual], &writes);
    (output, mask)
}

/// The norm of the residual stream behind its add, where a layer has one (post-norm); else the stream itself.
pub fn residual_norm(
    b: &mut Builder<'_>,
    norm: Option<Norm>,
    sum: ValueId,
    hidden: u64,
) -> (ValueId, Option<ResidualNorm>) {
    if norm.is_none() {
        return (sum, None);
    }
    let elements = b.elements(sum);
    let output = b.activation("normed stream", elements, Some(SavedTensor::LinearInput));
    let bytes = elements / hidden * 8;
    let statistics = b.optional("residual norm statistics", bytes, SavedTensor::NormStatistics);
    let writes: Vec<_> = [output].into_iter().chain(statistics).collect();
    b.row_norm(elements, hidden, false, &[sum], &writes);
    (output, Some(ResidualNorm { sum, statistics }))
}

/// The gradient of a layer's output through its residual norm, in place.
pub fn residual_norm_backward(b: &mut Builder<'_>, saved: ResidualNorm, gradient: ValueId, hidden: u64) {
    let elements = b.elements(saved.sum);
    let reads: Vec<_> = [gradient, saved.sum].into_iter().chain(saved.statistics).collect();
    b.row_norm(elements, hidden, true, &reads, &[gradient]);
}

/// The gradient of a branch: through its dropout mask, or the residual's own gradient.
pub fn branch_gradient(
    b: &mut Builder<'_>,
    gradient: ValueId,
    mask: Option<ValueId>,
    elements: u64,
) -> ValueId {
    if !b.shape.dropout {
        return gradient;
    }
    let branch = b.activation("branch gradient", elements, None);
    let reads: Vec<_> = [gradient].into_iter().chain(mask).collect();
    b.elementwise(ElementwiseKind::DropoutBackward, elements, 2, &reads, &[branch]);
    branch
}

/// Appends the backward of the output's `gradient`; what the norm passes on is added to `target`.
pub fn backward(
    b: &mut Builder<'_>,
    layer: &Mlp,
    saved: &Saved,
    gradient: ValueId,
    target: ValueId,
    trainable: bool,
) {
    let shape = b.shape;
    let (tokens, stream) = (shape.tokens(), shape.stream_tokens());
    let hidden = layer.hidden;
    let width = layer.intermediate / shape.tensor;

    let mut branch = branch_gradient(b, gradient, saved.mask, stream * hidden);
    if let Some(input) = saved.output_norm_input {
        let through = b.activation("mlp output norm gradient", stream * hidden, None);
        b.row_norm(stream * hidden, hidden, true, &[branch, input], &[through]);
        branch = through;
    }
    let whole = b.gather_sequence("down projection gradient", branch, false);
    let activated = b.activation("activated gradient", tokens * width, None);
    b.linear(tokens, hidden, width, &[whole], &[activated]);
    if trainable {
        b.weight_gradient(tokens, width, hidden, &[saved.activated, whole]);
    }
    let gate = saved.gate.map(|_| b.activation("gate gradient", tokens * width, None));
    let up = b.activation("up gradient", tokens * width, None);
    let mut reads = vec![activated, saved.up];
    reads.extend(saved.gate);
    reads.extend(saved.gate_activation);
    let writes: Vec<_> = [up].into_iter().chain(gate).collect();
    let operands = (reads.len() + writes.len()) as u64;
    b.elementwise(ElementwiseKind::ActivationBackward, tokens * width, operands, &reads, &writes);

    // Gathered again while the input gradient is computed; that is then reduced while the weight gradient is.
    let again = trainable.then(|| b.gather_sequence("mlp input again", saved.normed, true));
    let input = b.activation("mlp input gradient", tokens * hidden, None);
    for from in [Some(up), gate].into_iter().flatten() {
        b.linear(tokens, width, hidden, &[from], &[input]);
    }
    let shard = b.reduce_sequence("mlp input gradient shard", input, None);
    if let Some(again) = again {
        for from in [Some(up), gate].into_iter().flatten() {
            b.weight_gradient(tokens, hidden, width, &[again, from]);
        }
    }
    if layer.norm.is_none() {
        b.elementwise(ElementwiseKind::Add, stream * hidden, 3, &[shard, target], &[target]);
        return;
    }
    let reads: Vec<_> = [shard, saved.source, target].into_iter().chain(saved.statistics).collect();
    b.row_norm(stream * hidden, hidden, true, &reads, &[target]);
}
