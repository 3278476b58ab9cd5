//! Embedding layers: the table split by vocabulary rows over the tensor group.

use super::graph::{Builder, ValueId};
use crate::model::layer::Embedding;
use crate::ops::{CollectiveKind, ElementwiseKind, EmbeddingLookup, Group, Op};
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
    b.compute(Op::Embedding(lookup), &[], &[partial]);
    if layer.table_width.is_some() {
        b.linear(tokens, width, hidden, &[partial], &[partial]);
    }
    let mut output = b.reduce_sequence("embedded shard", partial, None);
    if layer.positions > 0 {
        b.elementwise(ElementwiseKind::Add, stream * hidden, 3, &[output], &[output]);
    }
    let summed = output;
    let mut statistics = None;
    if layer.norm.is_some() {
        b.values[usize::from(summed)].saved = Some(SavedTensor::NormInput);
        output = b.activation("embedding norm", stream * hidden, None);
        statistics = b.optional("embedding norm statistics", stream * 8, SavedTensor::NormStatistics);
        let writes: Vec<_> = [output].into_iter().chain(statistics).collect();
        b.row_norm(stream * hidden, hidden, false, &[summed], &writes);
    }
    let mask = shape
        .dropout
        .then(|| b.optional("dropout mask", stream * hidden, SavedTensor::DropoutMask))
        .flatten();
    if shape.dropout {
        let writes: Vec<_> = [output].into_iter().chain(mask).collect();
        b.elementwise(ElementwiseKind::Residual, stream * hidden, 2, &[output], &writes);
    }
    (output, Saved { summed, statistics, mask })
}

/// Appends the backward: the gradient is scattered into the table's.
pub fn backward(b: &mut Builder<'_>, layer: &Embedding, saved: &Saved, gradient: ValueId) {
    let shape = b.shape;
    let (tokens, stream, hidden) = (shape.tokens(), shape.stream_tokens(), layer.hidden);
    if shape.dropout {
        let reads: Vec<_> = [gradient].into_iter().chain(saved.mask).collect();
        b.elementwise(ElementwiseKind::DropoutBackward, stream * hidden, 2, &reads, &[gradient]);
    }
    if layer.norm.is_some() {
        let reads: Vec<_> = [gradient, saved.summed].into_iter().chain(saved.statistics).collect();
        b.row_norm(stream * hidden, hidden, true, &reads, &[gradient]);
    }
    let mut whole = gradient;
    if shape.sequence_parallel {
        whole = b.activation("embedding gradient", tokens * hidden, None);
        let bytes = b.values[usize::from(whole)].bytes;
        b.collective(CollectiveKind::AllGather, Group::Tensor, bytes, &[gradient], &[whole], true);
    }
    let width = layer.table_width.unwrap_or(hidden);
    let lookup = EmbeddingLookup { rows: tokens, width, backward: true, element: shape.compute };
    b.node(Op::Embedding(lookup), super::Stream::Compute, &[whole], &[], true);
}
