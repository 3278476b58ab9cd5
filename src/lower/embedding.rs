//! Embedding layers: the table split by vocabulary rows over the tensor group.

use super::graph::{Builder, ValueId};
use super::kernel::{Into, Kernel, Place};
use crate::model::layer::Embedding;
use crate::ops::{ElementwiseKind, EmbeddingLookup, Op};
use crate::profile::engine::SavedTensor;

/// The forward values that the backward reads.
pub struct Saved {
    summed: ValueId,
    statistics: Option<ValueId>,
    mask: Option<ValueId>,
}

/// Appends the forward. Returns the output.
pub fn forward(b: &mut Builder<'_>, layer: &Embedding) -> (ValueId, Saved) {
    let shape = b.shape;
    let (tokens, stream, hidden) = (shape.tokens(), shape.stream_tokens(), layer.hidden);
    let width = layer.table_width.unwrap_or(hidden);
    let element = shape.compute;
    let partial = b.activation("embedded tokens", tokens * hidden, None);
    let lookup = EmbeddingLookup { rows: tokens, width, backward: false, element };
    b.compute(Kernel::Embed, Op::Embedding(lookup), &[], &[partial]);
    if layer.table_width.is_some() {
        b.linear(Kernel::Planned, (tokens, width, hidden), &[partial], &[partial]);
    }
    let mut output = b.reduce_sequence("embedded shard", partial, None);
    if layer.positions > 0 {
        let add = (ElementwiseKind::Add, stream * hidden, 3);
        b.elementwise(Kernel::AddPositions, add, &[output], &[output]);
    }
    let summed = output;
    let mut statistics = None;
    if layer.norm.is_some() {
        b.values[usize::from(summed)].saved = Some(SavedTensor::NormInput);
        output = b.activation("embedding norm", stream * hidden, None);
        statistics = b.statistics("embedding norm statistics", (stream, hidden));
        b.norm(Place::Input, hidden, summed, output, statistics);
    }
    let mask = shape
        .dropout
        .then(|| b.optional("dropout mask", stream * hidden, SavedTensor::DropoutMask))
        .flatten();
    if shape.dropout {
        let writes: Vec<_> = [output].into_iter().chain(mask).collect();
        let drop = (ElementwiseKind::Residual, stream * hidden, 2);
        b.elementwise(Kernel::Dropout, drop, &[output], &writes);
    }
    (output, Saved { summed, statistics, mask })
}

/// Appends the backward: the gradient is scattered into the tables'.
pub fn backward(
    b: &mut Builder<'_>,
    layer: &Embedding,
    saved: &Saved,
    mut gradient: ValueId,
    trainable: bool,
) {
    let shape = b.shape;
    let (tokens, stream, hidden) = (shape.tokens(), shape.stream_tokens(), layer.hidden);
    if shape.dropout {
        let reads: Vec<_> = [gradient].into_iter().chain(saved.mask).collect();
        let drop = (ElementwiseKind::DropoutBackward, stream * hidden, 2);
        b.elementwise(Kernel::DropoutGradient, drop, &reads, &[gradient]);
    }
    if layer.norm.is_some() {
        let target = if shape.splits_weight {
            b.activation("gradient before the norm", stream * hidden, None)
        } else {
            gradient
        };
        let input = (saved.summed, saved.statistics);
        b.norm_gradient((Place::Input, Into::Set), (hidden, trainable), gradient, input, target);
        gradient = target;
    }
    let whole = b.gather_sequence_again("embedding gradient", gradient);
    let width = layer.table_width.unwrap_or(hidden);
    let lookup = EmbeddingLookup { rows: tokens, width, backward: true, element: shape.compute };
    b.gradient(Kernel::EmbedGradient, Op::Embedding(lookup), &[whole, gradient]);
}
