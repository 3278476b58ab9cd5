//! Heads and losses: final norm, logits split by vocabulary over the tensor group, and the loss over them.

use super::graph::{Builder, Value, ValueId};
use crate::lower::Category;
use crate::model::layer::Head;
use crate::ops::{Collective, CollectiveKind, CrossEntropy, Elementwise, ElementwiseKind, Group, Op};
use crate::profile::engine::SavedTensor;
use crate::units::{Bytes, ElementType};

/// The forward values that the backward reads.
pub struct Saved {
    source: ValueId,
    statistics: Option<ValueId>,
    normed: ValueId,
    loss: LossSaved,
}

enum LossSaved {
    /// Logits, and their 32-bit copy.
    Logits { logits: ValueId, single: Option<ValueId> },
    /// Chunked: the gradient of the head's input is there already.
    InputGradient(ValueId),
}

/// Appends the forward of head and cross-entropy.
pub fn forward(b: &mut Builder<'_>, layer: &Head, source: ValueId, trainable: bool) -> Saved {
    let shape = b.shape;
    let (tokens, stream, hidden) = (shape.tokens(), shape.stream_tokens(), layer.hidden);
    let mut normed = source;
    let mut statistics = None;
    if layer.norm.is_some() {
        normed = b.activation("final norm", stream * hidden, Some(SavedTensor::LinearInput));
        statistics = b.optional("final norm statistics", stream * 8, SavedTensor::NormStatistics);
        let writes: Vec<_> = [normed].into_iter().chain(statistics).collect();
        b.row_norm(stream * hidden, hidden, false, &[source], &writes);
    }
    let whole = b.gather_sequence("head input", normed, false);
    let width = layer.table_width.unwrap_or(hidden);
    let columns = shape.local_vocabulary(layer.vocabulary);
    if !shape.chunked_loss {
        let (logits, single) = logits(b, tokens, columns);
        b.linear(tokens, width, columns, &[whole], &[logits]);
        soft_cap(b, layer, tokens * columns, logits);
        if let Some(single) = single {
            cast(b, tokens * columns, logits, single);
        }
        cross_entropy(b, tokens, columns, false, &[single.unwrap_or(logits)], &[]);
        reduce_rows(b, tokens);
        return Saved { source, statistics, normed, loss: LossSaved::Logits { logits, single } };
    }
    let gradient = b.activation("head input gradient", tokens * hidden, None);
    let chunks = shape.engine.logits.chunks.clamp(1, tokens.max(1));
    for chunk in 0..chunks {
        let rows = (chunk + 1) * tokens / chunks - chunk * tokens / chunks;
        let (logits, single) = logits(b, rows, columns);
        b.linear(rows, width, columns, &[whole], &[logits]);
        soft_cap(b, layer, rows * columns, logits);
        if let Some(single) = single {
            cast(b, rows * columns, logits, single);
        }
        cross_entropy(b, rows, columns, false, &[single.unwrap_or(logits)], &[]);
        reduce_rows(b, rows);
        logits_gradient(b, rows, columns, logits, single);
        soft_cap(b, layer, rows * columns, logits);
        b.linear(rows, columns, width, &[logits], &[gradient]);
        if trainable {
            b.weight_gradient(rows, width, columns, &[whole, logits]);
        }
    }
    Saved { source, statistics, normed, loss: LossSaved::InputGradient(gradient) }
}

/// Logits of `rows` tokens and, where the engine makes one, their 32-bit copy.
fn logits(b: &mut Builder<'_>, rows: u64, columns: u64) -> (ValueId, Option<ValueId>) {
    let elements = rows * columns;
    let logits_value = |name, size| Value {
        name,
        bytes: Bytes(elements * size),
        category: Category::Logits,
        saved: None,
        elements: 0,
    };
    let logits = b.value(logits_value("logits", b.shape.compute.size()));
    let copies = b.shape.engine.logits.single_precision_copy && b.shape.compute.size() < 4;
    (logits, copies.then(|| b.value(logits_value("32-bit logits", 4))))
}

/// A soft cap over logits, or over their gradient: a pass in place.
fn soft_cap(b: &mut Builder<'_>, layer: &Head, elements: u64, logits: ValueId) {
    if layer.soft_cap {
        b.elementwise(ElementwiseKind::Activation, elements, 2, &[logits], &[logits]);
    }
}

fn cast(b: &mut Builder<'_>, elements: u64, from: ValueId, to: ValueId) {
    b.elementwise(ElementwiseKind::Cast, elements, 3, &[from], &[to]);
}

fn cross_entropy(
    b: &mut Builder<'_>,
    rows: u64,
    columns: u64,
    backward: bool,
    reads: &[ValueId],
    writes: &[ValueId],
) {
    let copies = b.shape.engine.logits.single_precision_copy && b.shape.compute.size() < 4;
    let element = if copies { ElementType::Fp32 } else { b.shape.compute };
    b.compute(Op::CrossEntropy(CrossEntropy { rows, columns, backward, element }), reads, writes);
}

/// Maximum, sum of exponentials and the target's logit, summed over the vocabulary shards.
fn reduce_rows(b: &mut Builder<'_>, rows: u64) {
    if b.shape.tensor > 1 {
        let op =
            Collective { kind: CollectiveKind::AllReduce, group: Group::Tensor, bytes: Bytes(3 * rows * 4) };
        b.node(Op::Collective(op), super::Stream::Model, &[], &[], false);
    }
}

/// The gradient of the logits, which ends in `logits`.
fn logits_gradient(b: &mut Builder<'_>, rows: u64, columns: u64, logits: ValueId, single: Option<ValueId>) {
    let Some(single) = single else {
        cross_entropy(b, rows, columns, true, &[logits], &[logits]);
        return;
    };
    let target = if b.shape.engine.logits.gradient_in_place {
        single
    } else {
        let value = b.values[usize::from(single)];
        b.value(Value { name: "32-bit logits gradient", ..value })
    };
    cross_entropy(b, rows, columns, true, &[single], &[target]);
    cast(b, rows * columns, target, logits);
}

/// Appends the backward of the loss; the gradient of the residual stream goes to a new value.
pub fn backward(b: &mut Builder<'_>, layer: &Head, saved: &Saved, trainable: bool) -> ValueId {
    let shape = b.shape;
    let (tokens, stream, hidden) = (shape.tokens(), shape.stream_tokens(), layer.hidden);
    let width = layer.table_width.unwrap_or(hidden);
    let columns = shape.local_vocabulary(layer.vocabulary);
    let shard = match saved.loss {
        LossSaved::InputGradient(gradient) => b.reduce_sequence("head input gradient shard", gradient, None),
        LossSaved::Logits { logits, single } => {
            logits_gradient(b, tokens, columns, logits, single);
            soft_cap(b, layer, tokens * columns, logits);
            let again = trainable.then(|| b.gather_sequence("head input again", saved.normed, true));
            let input = b.activation("head input gradient", tokens * hidden, None);
            b.linear(tokens, columns, width, &[logits], &[input]);
            let shard = b.reduce_sequence("head input gradient shard", input, None);
            if let Some(again) = again {
                b.weight_gradient(tokens, width, columns, &[again, logits]);
            }
            shard
        }
    };
    let is_from_forward = matches!(saved.loss, LossSaved::InputGradient(gradient) if gradient == shard);
    if layer.norm.is_none() && !is_from_forward {
        return shard;
    }
    let target = b.activation("stream gradient", stream * hidden, None);
    if layer.norm.is_none() {
        // What the forward left is kept for this backward alone; what flows on is another value.
        b.elementwise(ElementwiseKind::Add, stream * hidden, 2, &[shard], &[target]);
        return target;
    }
    let reads: Vec<_> = [shard, saved.source].into_iter().chain(saved.statistics).collect();
    b.row_norm(stream * hidden, hidden, true, &reads, &[target]);
    target
}

/// Appends the forward of a mean squared error; its backward reads the input again.
pub fn squared_error(b: &mut Builder<'_>, elements: u64, source: ValueId) {
    let op = Elementwise {
        kind: ElementwiseKind::MeanSquaredError,
        elements,
        operands: 2,
        element: b.shape.compute,
    };
    b.compute(Op::Elementwise(op), &[source], &[]);
}

/// Appends the backward of a mean squared error.
pub fn squared_error_backward(b: &mut Builder<'_>, elements: u64, source: ValueId) -> ValueId {
    let target = b.activation("stream gradient", elements, None);
    b.elementwise(ElementwiseKind::MeanSquaredError, elements, 3, &[source], &[target]);
    target
}
