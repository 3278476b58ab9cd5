//! Heads and losses: final norm, logits split by vocabulary over the tensor group, and the loss over them.

use super::graph::{Builder, Value, ValueId};
use super::kernel::{Into, Kernel, Matrix, Place};
use crate::lower::Category;
use crate::model::layer::Head;
use crate::ops::{CollectiveKind, CrossEntropy, ElementwiseKind, Group, Op};
use crate::profile::engine::SavedTensor;
use crate::units::{Bytes, ElementType};

/// The forward values that the backward reads.
pub struct Saved {
    source: ValueId,
    statistics: Option<ValueId>,
    normed: ValueId,
    whole: ValueId,
    loss: LossSaved,
}

enum LossSaved {
    Logits(Logits),
    /// Chunked: the gradient of the head's input is there already.
    InputGradient(ValueId),
}

/// Logits of some rows.
#[derive(Clone, Copy)]
struct Logits {
    chunk: u16,
    chunks: u16,
    rows: u64,
    columns: u64,
    logits: ValueId,
    /// Their 32-bit copy, where the engine makes one.
    single: Option<ValueId>,
    /// For each row its maximum, sum of exponentials and target's logit.
    statistics: ValueId,
}

impl Logits {
    const fn elements(&self) -> u64 {
        self.rows * self.columns
    }
}

/// Appends the forward of head and cross-entropy.
pub fn forward(b: &mut Builder<'_>, layer: &Head, source: ValueId, trains_matrix: bool) -> Saved {
    let shape = b.shape;
    let (tokens, stream, hidden) = passed(b, layer);
    let mut normed = source;
    let mut statistics = None;
    if layer.norm.is_some() {
        normed = b.activation("final norm", stream * hidden, Some(SavedTensor::LinearInput));
        statistics = b.statistics("final norm statistics", (stream, hidden));
        b.norm(Place::Input, hidden, source, normed, statistics);
    }
    let whole = b.gather_input("head input", normed);
    let width = layer.table_width.unwrap_or(hidden);
    let columns = shape.local_vocabulary(layer.vocabulary);
    if !shape.chunked_loss {
        let logits = loss_forward(b, layer, (0, 1), (tokens, columns), whole);
        return Saved { source, statistics, normed, whole, loss: LossSaved::Logits(logits) };
    }
    let gradient = b.activation("head input gradient", tokens * hidden, None);
    let chunks = shape.engine.logits.chunks.clamp(1, tokens.max(1));
    for chunk in 0..chunks {
        let part = (chunk as u16, chunks as u16);
        let matrix = Matrix::Vocabulary { chunk: part.0, chunks: part.1 };
        let rows = (chunk + 1) * tokens / chunks - chunk * tokens / chunks;
        let logits = loss_forward(b, layer, part, (rows, columns), whole);
        let of_logits = logits_gradient(b, layer, &logits);
        let product = Kernel::InputGradient(matrix, Into::Set);
        b.linear(product, (rows, columns, width), &[of_logits], &[gradient]);
        if trains_matrix {
            b.weight_gradient(matrix, (rows, width, columns), &[whole, of_logits]);
        }
    }
    Saved { source, statistics, normed, whole, loss: LossSaved::InputGradient(gradient) }
}

/// Rows of the head's matrices on this rank, of its norm, and its width; each token passes as often as it predicts.
fn passed(b: &Builder<'_>, layer: &Head) -> (u64, u64, u64) {
    (b.shape.tokens() * layer.passes, b.shape.stream_tokens() * layer.passes, layer.hidden)
}

/// Logits of `rows` tokens out of `input`, their statistics over the whole vocabulary, and their loss.
fn loss_forward(
    b: &mut Builder<'_>,
    layer: &Head,
    (chunk, chunks): (u16, u16),
    (rows, columns): (u64, u64),
    input: ValueId,
) -> Logits {
    let elements = rows * columns;
    let width = layer.table_width.unwrap_or(layer.hidden);
    let value = |name, bytes| Value {
        name,
        bytes: Bytes(bytes),
        category: Category::Logits,
        saved: None,
        elements: 0,
        part: None,
    };
    let logits = b.value(value("logits", elements * b.shape.compute.size()));
    let matrix = Matrix::Vocabulary { chunk, chunks };
    b.linear(Kernel::Linear(matrix), (rows, width, columns), &[input], &[logits]);
    soft_cap(b, layer, elements, logits);
    let single = copies(b).then(|| {
        let size = if b.shape.engine.logits.copy_in_their_type { b.shape.compute } else { ElementType::Fp32 };
        b.value(value("logits for the loss", elements * size.size()))
    });
    if let Some(single) = single {
        b.elementwise(Kernel::Copy, (ElementwiseKind::Cast, elements, 3), &[logits], &[single]);
    }
    let row_bytes = 3 * rows * b.shape.statistic().size();
    let statistics = b.value(value("row statistics", row_bytes));
    let read = single.unwrap_or(logits);
    let writes: Vec<_> =
        [statistics].into_iter().chain(scratch(b, single, b.shape.engine.logits.forward_copies)).collect();
    cross_entropy(b, Kernel::CrossEntropy { chunk, chunks }, (rows, columns, false), &[read], &writes);
    let mut shards = statistics;
    if b.shape.tensor > 1 {
        let bytes = row_bytes * b.shape.tensor;
        shards = b.value(value("row statistics of all shards", bytes));
        let all_gather = (CollectiveKind::AllGather, Group::Tensor);
        b.collective(Kernel::GatherStatistics, all_gather, Bytes(bytes), &[statistics], &[shards]);
    }
    let merge = (ElementwiseKind::Add, 3 * rows, 2);
    b.elementwise(Kernel::Loss, merge, &[shards], &[statistics]);
    Logits { chunk, chunks, rows, columns, logits, single, statistics }
}

/// `copies` more tensors as large as the 32-bit logits, where there are such.
fn scratch(b: &mut Builder<'_>, single: Option<ValueId>, copies: u64) -> Option<ValueId> {
    let value = b.values[usize::from(single.filter(|_| copies > 0)?)];
    Some(b.value(Value { name: "loss scratch", bytes: Bytes(value.bytes.0 * copies), ..value }))
}

/// A soft cap over logits, or over their gradient: a pass in place.
fn soft_cap(b: &mut Builder<'_>, layer: &Head, elements: u64, logits: ValueId) {
    if layer.soft_cap {
        b.elementwise(Kernel::Planned, (ElementwiseKind::Activation, elements, 2), &[logits], &[logits]);
    }
}

/// Whether the engine makes a copy of the logits for the loss.
fn copies(b: &Builder<'_>) -> bool {
    b.shape.engine.logits.single_precision_copy && b.shape.compute.size() < 4
}

fn cross_entropy(
    b: &mut Builder<'_>,
    kernel: Kernel,
    (rows, columns, backward): (u64, u64, bool),
    reads: &[ValueId],
    writes: &[ValueId],
) {
    let is_wide = copies(b) && !b.shape.engine.logits.copy_in_their_type;
    let element = if is_wide { ElementType::Fp32 } else { b.shape.compute };
    b.compute(kernel, Op::CrossEntropy(CrossEntropy { rows, columns, backward, element }), reads, writes);
}

/// The gradient of the logits: where they were, unless they are gone.
fn logits_gradient(b: &mut Builder<'_>, layer: &Head, of: &Logits) -> ValueId {
    let sizes = (of.rows, of.columns, true);
    let kernel = Kernel::CrossEntropyGradient { chunk: of.chunk, chunks: of.chunks };
    match of.single {
        None => {
            let is_in_place = b.shape.engine.logits.gradient_in_place || b.shape.compute.size() >= 4;
            let gradient = if is_in_place { of.logits } else { like(b, of.logits, "logits gradient") };
            cross_entropy(b, kernel, sizes, &[of.logits, of.statistics], &[gradient]);
            soft_cap(b, layer, of.elements(), gradient);
            gradient
        }
        Some(single) => {
            let target = if b.shape.engine.logits.gradient_in_place {
                single
            } else {
                like(b, single, "gradient of the loss")
            };
            let logits = &b.shape.engine.logits;
            let split = if b.shape.tensor > 1 { logits.split_backward_copies } else { 0 };
            let copies = scratch(b, Some(single), logits.backward_copies + split);
            let writes: Vec<_> = [target].into_iter().chain(copies).collect();
            cross_entropy(b, kernel, sizes, &[single, of.statistics], &writes);
            if logits.copy_in_their_type {
                soft_cap(b, layer, of.elements(), target);
                return target;
            }
            let cast = (ElementwiseKind::Cast, of.elements(), 3);
            let gradient = if logits_go(b) { like(b, of.logits, "logits gradient") } else { of.logits };
            b.elementwise(Kernel::Copy, cast, &[target], &[gradient]);
            soft_cap(b, layer, of.elements(), gradient);
            gradient
        }
    }
}

/// A value as large as `of`.
fn like(b: &mut Builder<'_>, of: ValueId, name: &'static str) -> ValueId {
    let value = b.values[usize::from(of)];
    b.value(Value { name, ..value })
}

/// Whether the logits are given back behind their 32-bit copy.
fn logits_go(b: &Builder<'_>) -> bool {
    copies(b) && b.shape.engine.logits.freed_behind_copy
}

/// Appends the backward of the loss; the gradient of the residual stream goes to a new value.
/// `trains_matrix`: the matrix's; `trains_norm`: the norm's weights have gradients.
pub fn backward(
    b: &mut Builder<'_>,
    layer: &Head,
    saved: &Saved,
    (trains_matrix, trains_norm): (bool, bool),
) -> ValueId {
    let shape = b.shape;
    let (tokens, _, hidden) = passed(b, layer);
    let width = layer.table_width.unwrap_or(hidden);
    let shard = match &saved.loss {
        LossSaved::InputGradient(gradient) => b.reduce_sequence("head input gradient shard", *gradient, None),
        LossSaved::Logits(of) => {
            let matrix = Matrix::Vocabulary { chunk: 0, chunks: 1 };
            let of_logits = logits_gradient(b, layer, of);
            let again =
                trains_matrix.then(|| b.gather_input_again("head input again", saved.normed, saved.whole));
            let input = b.activation("head input gradient", tokens * hidden, None);
            let product = Kernel::InputGradient(matrix, Into::Set);
            b.linear(product, (tokens, of.columns, width), &[of_logits], &[input]);
            let shard = b.reduce_sequence("head input gradient shard", input, None);
            if let Some(again) = again {
                let stays = shape.engine.buffers.input_gradient_stays.then_some(input);
                let reads: Vec<_> = [again, of_logits].into_iter().chain(stays).collect();
                b.weight_gradient(matrix, (tokens, width, of.columns), &reads);
                placeholder(b, width * of.columns);
            }
            shard
        }
    };
    let is_from_forward = matches!(saved.loss, LossSaved::InputGradient(gradient) if gradient == shard);
    if layer.norm.is_none() && !is_from_forward {
        return shard;
    }
    let stream = shape.stream_tokens();
    let target = b.activation("stream gradient", stream * hidden, None);
    if layer.norm.is_none() {
        // What the forward left is kept for this backward alone; what flows on is another value.
        b.elementwise(Kernel::Copy, (ElementwiseKind::Add, stream * hidden, 2), &[shard], &[target]);
        return target;
    }
    let input = (saved.source, saved.statistics);
    b.norm_gradient((Place::Input, Into::Set), (hidden, trains_norm), shard, input, target);
    target
}

/// The weight gradient just written makes a placeholder of `elements` elements too, where the engine makes such.
fn placeholder(b: &mut Builder<'_>, elements: u64) {
    if b.shape.engine.buffers.placeholder_gradients {
        let bytes = Bytes(elements * b.shape.compute.size());
        let category = Category::Gradients;
        let value = b.value(Value {
            name: "placeholder gradient",
            bytes,
            category,
            saved: None,
            elements: 0,
            part: None,
        });
        if let Some(product) = b.backward.last_mut() {
            product.writes.push(value);
        }
    }
}

/// Appends the forward of a mean squared error; its backward reads the input again.
pub fn squared_error(b: &mut Builder<'_>, elements: u64, source: ValueId) {
    let error = (ElementwiseKind::MeanSquaredError, elements, 2);
    b.elementwise(Kernel::SquaredError, error, &[source], &[]);
}

/// Appends the backward of a mean squared error.
pub fn squared_error_backward(b: &mut Builder<'_>, elements: u64, source: ValueId) -> ValueId {
    let target = b.activation("stream gradient", elements, None);
    let error = (ElementwiseKind::MeanSquaredError, elements, 3);
    b.elementwise(Kernel::SquaredErrorGradient, error, &[source], &[target]);
    target
}
