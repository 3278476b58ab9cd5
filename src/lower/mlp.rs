//! MLP layers: up projections split by columns over the tensor group, the down projection by rows.

use super::graph::{Builder, ValueId};
use super::kernel::{Branch, Into, Kernel, Matrix, Place};
use crate::model::layer::{Mlp, Norm};
use crate::ops::ElementwiseKind;
use crate::profile::engine::SavedTensor;
use crate::profile::recomputed::Part;

/// The forward values that the backward reads.
pub struct Saved {
    source: ValueId,
    statistics: Option<ValueId>,
    normed: ValueId,
    whole: ValueId,
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

    b.part = Some(Part::Mlp);
    let mut statistics = None;
    let mut normed = source;
    if layer.norm.is_some() {
        normed = b.activation("mlp norm", stream * hidden, Some(SavedTensor::LinearInput));
        statistics = b.statistics("mlp norm statistics", (stream, hidden));
        b.norm(Place::Input, hidden, source, normed, statistics);
    }
    let whole = b.gather_input("mlp input", normed);

    let gate = layer.gated.then(|| b.activation("gate", tokens * width, Some(SavedTensor::Gate)));
    if let Some(gate) = gate {
        b.linear(Kernel::Linear(Matrix::Gate), (tokens, hidden, width), &[whole], &[gate]);
    }
    let up = b.activation("up", tokens * width, Some(SavedTensor::Up));
    b.linear(Kernel::Linear(Matrix::Up), (tokens, hidden, width), &[whole], &[up]);
    let activated = b.activation("activated", tokens * width, Some(SavedTensor::ActivationOutput));
    let gate_activation = (layer.gated && shape.stores(SavedTensor::GateActivation))
        .then(|| b.activation("activated gate", tokens * width, Some(SavedTensor::GateActivation)));
    let reads: Vec<_> = gate.into_iter().chain([up]).collect();
    let writes: Vec<_> = [activated].into_iter().chain(gate_activation).collect();
    let operands = (reads.len() + writes.len()) as u64;
    let activation = (ElementwiseKind::Activation, tokens * width, operands);
    b.elementwise(Kernel::Activation, activation, &reads, &writes);

    let output_saved = Some(SavedTensor::MlpOutput);
    let partial =
        b.activation("down projection", tokens * hidden, output_saved.filter(|_| !shape.sequence_parallel));
    b.linear(Kernel::Linear(Matrix::Down), (tokens, width, hidden), &[activated], &[partial]);
    let mut branch = b.reduce_sequence("down projection shard", partial, output_saved);
    let mut output_norm_input = None;
    if layer.output_norm.is_some() {
        output_norm_input = Some(branch);
        branch = output_norm(b, "mlp output norm", branch, hidden);
    }
    b.part = None;
    let (sum, mask) = residual_add(b, Branch::Mlp, branch, residual, stream * hidden);
    let (output, residual_norm) = residual_norm(b, layer.residual_norm, sum, hidden);
    let saved = Saved {
        source,
        statistics,
        normed,
        whole,
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

/// The norm of a branch on its way out, before the residual add.
pub fn output_norm(b: &mut Builder<'_>, name: &'static str, branch: ValueId, width: u64) -> ValueId {
    let normed = b.activation(name, b.elements(branch), None);
    b.norm(Place::Output, width, branch, normed, None);
    normed
}

/// The gradient of [`output_norm`]'s input.
pub fn output_norm_gradient(
    b: &mut Builder<'_>,
    name: &'static str,
    gradient: ValueId,
    input: ValueId,
    norm: (u64, bool),
) -> ValueId {
    let through = b.activation(name, b.elements(gradient), None);
    b.norm_gradient((Place::Output, Into::Set), norm, gradient, (input, None), through);
    through
}

/// `branch` (with dropout, where there is some) added to `residual`: the new residual stream and the mask.
pub fn residual_add(
    b: &mut Builder<'_>,
    place: Branch,
    branch: ValueId,
    residual: ValueId,
    elements: u64,
) -> (ValueId, Option<ValueId>) {
    let output = b.activation("residual stream", elements, Some(SavedTensor::NormInput));
    let mask =
        b.shape.dropout.then(|| b.optional("dropout mask", elements, SavedTensor::DropoutMask)).flatten();
    let writes: Vec<_> = [output].into_iter().chain(mask).collect();
    let add = (ElementwiseKind::Residual, elements, 3);
    b.elementwise(Kernel::Residual(place), add, &[branch, residual], &writes);
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
    let statistics = b.statistics("residual norm statistics", (elements / hidden, hidden));
    b.norm(Place::Residual, hidden, sum, output, statistics);
    (output, Some(ResidualNorm { sum, statistics }))
}

/// The gradient of a layer's output through its residual norm: in place, unless a later weight pass reads it.
pub fn residual_norm_backward(
    b: &mut Builder<'_>,
    saved: ResidualNorm,
    gradient: ValueId,
    norm: (u64, bool),
) -> ValueId {
    let target = if b.shape.splits_weight {
        b.activation("gradient before the norm", b.elements(gradient), None)
    } else {
        gradient
    };
    let input = (saved.sum, saved.statistics);
    b.norm_gradient((Place::Residual, Into::Set), norm, gradient, input, target);
    target
}

/// The gradient of a branch: through its dropout mask, or the residual's own gradient.
pub fn branch_gradient(
    b: &mut Builder<'_>,
    place: Branch,
    gradient: ValueId,
    mask: Option<ValueId>,
    elements: u64,
) -> ValueId {
    if !b.shape.dropout {
        return gradient;
    }
    let branch = b.activation("branch gradient", elements, None);
    let reads: Vec<_> = [gradient].into_iter().chain(mask).collect();
    let drop = (ElementwiseKind::DropoutBackward, elements, 2);
    b.elementwise(Kernel::BranchGradient(place), drop, &reads, &[branch]);
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

    let mut branch = branch_gradient(b, Branch::Mlp, gradient, saved.mask, stream * hidden);
    if let Some(input) = saved.output_norm_input {
        let name = "mlp output norm gradient";
        branch = output_norm_gradient(b, name, branch, input, (hidden, trainable));
    }
    let whole = b.gather_sequence("down projection gradient", branch);
    let activated = b.activation("activated gradient", tokens * width, None);
    let down = Kernel::InputGradient(Matrix::Down, Into::Set);
    b.linear(down, (tokens, hidden, width), &[whole], &[activated]);
    if trainable {
        let bias = layer.bias.then_some(branch);
        let reads: Vec<_> = [saved.activated, whole].into_iter().chain(bias).collect();
        b.weight_gradient(Matrix::Down, (tokens, width, hidden), &reads);
    }
    let gate = saved.gate.map(|_| b.activation("gate gradient", tokens * width, None));
    let up = b.activation("up gradient", tokens * width, None);
    let mut reads = vec![activated, saved.up];
    reads.extend(saved.gate);
    reads.extend(saved.gate_activation);
    let writes: Vec<_> = [up].into_iter().chain(gate).collect();
    let operands = (reads.len() + writes.len()) as u64;
    let backward = (ElementwiseKind::ActivationBackward, tokens * width, operands);
    b.elementwise(Kernel::ActivationGradient, backward, &reads, &writes);

    // Gathered again while the input gradient is computed; that is then reduced while the weight gradient is.
    let again = trainable.then(|| b.gather_input_again("mlp input again", saved.normed, saved.whole));
    let input = b.activation("mlp input gradient", tokens * hidden, None);
    let parts = || [Some((Matrix::Up, up)), gate.map(|gate| (Matrix::Gate, gate))].into_iter().flatten();
    for (matrix, from) in parts() {
        let into = if matrix == Matrix::Up { Into::Set } else { Into::Add };
        b.linear(Kernel::InputGradient(matrix, into), (tokens, width, hidden), &[from], &[input]);
    }
    let shard = b.reduce_sequence("mlp input gradient shard", input, None);
    if let Some(again) = again {
        for (matrix, from) in parts() {
            b.weight_gradient(matrix, (tokens, hidden, width), &[again, from]);
        }
    }
    if layer.norm.is_none() {
        b.elementwise(Kernel::Add, (ElementwiseKind::Add, stream * hidden, 3), &[shard, target], &[target]);
        return;
    }
    let input = (saved.source, saved.statistics);
    b.norm_gradient((Place::Input, Into::Add), (hidden, trainable), shard, input, target);
}
