//! Attention layers: projections split by heads over the tensor group, the core split over the context group.

use super::graph::{Builder, ValueId};
use super::kernel::{Branch, Into, Kernel, Matrix, Place};
use super::mlp::{
    ResidualNorm, branch_gradient, output_norm, output_norm_gradient, residual_add, residual_norm,
};
use crate::model::layer::{Attention, Position, Projection};
use crate::ops::{AttentionCore, CollectiveKind, CorePass, ElementwiseKind, Group, Op};
use crate::profile::choices::ContextKind;
use crate::profile::engine::SavedTensor;
use crate::profile::recomputed::Part;
use crate::units::Bytes;

/// The forward values that the backward reads.
pub struct Saved {
    source: ValueId,
    statistics: Option<ValueId>,
    /// Norm output, a shard under sequence parallelism, and what was gathered of it.
    normed: ValueId,
    whole: ValueId,
    latent: Option<Latents>,
    heads: ValueId,
    /// What the core read: `heads`, or their exchange under Ulysses.
    core_input: ValueId,
    core_output: ValueId,
    log_sum_exp: Option<ValueId>,
    probabilities: Vec<ValueId>,
    context: ValueId,
    mask: Option<ValueId>,
    output_norm_input: Option<ValueId>,
    pub residual_norm: Option<ResidualNorm>,
}

/// Latents before and behind their norms; one value where these work in place.
#[derive(Clone, Copy)]
struct Latents {
    plain: ValueId,
    normed: ValueId,
}

/// Elements a token of queries, keys and values on one tensor rank.
struct Widths {
    query: u64,
    key_value: u64,
    output: u64,
    /// All elements behind the exchange of Ulysses: key-value heads that are fewer than its ranks go to several.
    exchanged: u64,
}

fn widths(b: &Builder<'_>, layer: &Attention) -> Widths {
    let heads = b.shape.local_heads(layer.heads);
    let kv_heads = b.shape.local_kv_heads(layer.kv_heads());
    let (key_value_dim, context) = (layer.query_dim() + layer.value_dim(), b.shape.context);
    let spread = heads * layer.query_dim() + (kv_heads / context).max(1) * context * key_value_dim;
    Widths {
        query: heads * layer.query_dim(),
        key_value: kv_heads * key_value_dim,
        output: heads * layer.value_dim(),
        exchanged: b.shape.tokens() * spread,
    }
}

/// Appends the forward; `source` feeds norm and residual alike. Returns the output.
pub fn forward(b: &mut Builder<'_>, layer: &Attention, source: ValueId) -> (ValueId, Saved) {
    let shape = b.shape;
    let (tokens, stream) = (shape.tokens(), shape.stream_tokens());
    let hidden = layer.hidden;
    let w = widths(b, layer);

    let is_latent = matches!(layer.projection, Projection::Latent { .. });
    b.part = is_latent.then_some(Part::LatentNorm);
    let mut statistics = None;
    let mut normed = source;
    if layer.norm.is_some() {
        normed = b.activation("attention norm", stream * hidden, Some(SavedTensor::LinearInput));
        statistics = b.statistics("attention norm statistics", (stream, hidden));
        b.norm(Place::Input, hidden, source, normed, statistics);
    }
    let whole = b.gather_input("attention input", normed);

    b.part = is_latent.then_some(Part::LatentProjection);
    let heads = b.activation(
        "queries, keys, values",
        tokens * (w.query + w.key_value),
        Some(SavedTensor::QueryKeyValue),
    );
    b.part = None;
    let latent = project(b, layer, &w, whole, heads);
    if rotates(layer) {
        b.elementwise(rotary(layer, Kernel::Rotary), rotated(tokens, &w), &[heads], &[heads]);
    }

    let saved = Some(SavedTensor::QueryKeyValue);
    let core_input =
        exchange(b, "exchanged heads", Kernel::ToHeads { packed: true }, heads, w.exchanged, saved);
    let core_output = b.activation("attention output", tokens * w.output, Some(SavedTensor::AttentionOutput));
    let local_heads = shape.local_heads(layer.heads);
    let log_sum_exp = shape
        .fused_attention
        .then(|| {
            let bytes = tokens * local_heads * shape.statistic().size();
            b.optional("log-sum-exp", bytes, SavedTensor::LogSumExp)
        })
        .flatten();
    let probabilities = probabilities(b, layer);
    let mut writes = vec![core_output];
    writes.extend(log_sum_exp);
    writes.extend(&probabilities);
    core_forward(b, layer, core_input, &writes);
    let saved = Some(SavedTensor::AttentionOutput);
    let context = exchange(
        b,
        "gathered output",
        Kernel::ToTokens { packed: false },
        core_output,
        tokens * w.output,
        saved,
    );

    let context = projection_input(b, context);
    let partial = b.activation("attention projection", tokens * hidden, None);
    let output = Kernel::Linear(Matrix::AttentionOutput);
    b.linear(output, (tokens, w.output, hidden), &[context], &[partial]);
    let mut branch = b.reduce_sequence("attention projection shard", partial, None);
    let mut output_norm_input = None;
    if layer.output_norm.is_some() {
        output_norm_input = Some(branch);
        branch = output_norm(b, "attention output norm", branch, hidden);
    }
    let (sum, mask) = residual_add(b, Branch::Attention, branch, source, stream * hidden);
    let (output, residual_norm) = residual_norm(b, layer.residual_norm, sum, hidden);

    let saved = Saved {
        source,
        statistics,
        normed,
        whole,
        latent,
        heads,
        core_input,
        core_output,
        log_sum_exp,
        probabilities,
        context,
        mask,
        output_norm_input,
        residual_norm,
    };
    (output, saved)
}

/// The attention output as its projection reads it: a copy where the engine makes one.
fn projection_input(b: &mut Builder<'_>, context: ValueId) -> ValueId {
    if !b.shape.stores(SavedTensor::ProjectionInput) {
        return context;
    }
    let elements = b.elements(context);
    let copy = b.activation("projection input", elements, Some(SavedTensor::ProjectionInput));
    b.elementwise(Kernel::Copy, (ElementwiseKind::Add, elements, 2), &[context], &[copy]);
    copy
}

fn rotates(layer: &Attention) -> bool {
    layer.position == Position::Rotary || layer.query_key_norm.is_some()
}

/// Norms of queries and keys share the op that turns them, and have no kernel.
fn rotary(layer: &Attention, kernel: Kernel) -> Kernel {
    if layer.query_key_norm.is_some() { Kernel::Planned } else { kernel }
}

fn rotated(tokens: u64, w: &Widths) -> (ElementwiseKind, u64, u64) {
    (ElementwiseKind::Rotary, tokens * (w.query + w.key_value / 2), 2)
}

/// The projections to queries, keys and values; latent attention goes through its low-rank latents.
fn project(
    b: &mut Builder<'_>,
    layer: &Attention,
    w: &Widths,
    input: ValueId,
    heads: ValueId,
) -> Option<Latents> {
    let tokens = b.shape.tokens();
    match layer.projection {
        Projection::Grouped { .. } => {
            let kernel = Kernel::Linear(Matrix::QueryKeyValue);
            b.linear(kernel, (tokens, layer.hidden, w.query + w.key_value), &[input], &[heads]);
            None
        }
        Projection::Latent { query_rank, key_value_rank, rotary_dim, plain_dim, value_dim } => {
            let down = query_rank.unwrap_or(0) + key_value_rank + rotary_dim;
            let latent = b.activation("latents", tokens * down, Some(SavedTensor::Latent));
            b.linear(Kernel::Planned, (tokens, layer.hidden, down), &[input], &[latent]);
            let mut normed = latent;
            if b.shape.stores(SavedTensor::NormedLatent) {
                let width = tokens * (query_rank.unwrap_or(0) + key_value_rank);
                normed = b.activation("normed latents", width, Some(SavedTensor::NormedLatent));
            }
            b.compute(Kernel::Planned, b.row_norm(latent, down, false), &[latent], &[normed]);
            match query_rank {
                Some(rank) => b.linear(Kernel::Planned, (tokens, rank, w.query), &[normed], &[heads]),
                None => b.linear(Kernel::Planned, (tokens, layer.hidden, w.query), &[input], &[heads]),
            }
            let up = b.shape.local_heads(layer.heads) * (plain_dim + value_dim);
            b.linear(Kernel::Planned, (tokens, key_value_rank, up), &[normed], &[heads]);
            Some(Latents { plain: latent, normed })
        }
    }
}

/// The all-to-all of Ulysses between sequence shards and head shards; the value itself otherwise.
fn exchange(
    b: &mut Builder<'_>,
    name: &'static str,
    kernel: Kernel,
    value: ValueId,
    elements: u64,
    saved: Option<SavedTensor>,
) -> ValueId {
    if b.shape.context == 1 || b.shape.context_kind != ContextKind::Ulysses {
        return value;
    }
    let exchanged = b.activation(name, elements, saved);
    let bytes = Bytes(elements.max(b.elements(value)) * b.shape.compute.size());
    b.collective(kernel, (CollectiveKind::AllToAll, Group::Context), bytes, &[value], &[exchanged]);
    exchanged
}

/// Probabilities (and, with dropout, what is left of them and the mask) where scores are materialised.
fn probabilities(b: &mut Builder<'_>, layer: &Attention) -> Vec<ValueId> {
    let shape = b.shape;
    if shape.fused_attention {
        return Vec::new();
    }
    let pairs = shape.local_heads(layer.heads) * shape.tokens() * shape.seq_len;
    let saved = Some(SavedTensor::AttentionProbabilities);
    let mut values = vec![b.activation("probabilities", pairs, saved)];
    if shape.engine.activations.single_precision_softmax && shape.compute.size() < shape.statistic().size() {
        values.push(b.raw("32-bit probabilities", pairs * shape.statistic().size(), saved));
    }
    if shape.dropout {
        values.push(b.activation("dropped probabilities", pairs, saved));
        if shape.stores(SavedTensor::DropoutMask) {
            values.push(b.raw("probability mask", pairs, saved));
        }
    }
    values
}

/// One pass of the core over the keys that are there at once.
fn core(b: &Builder<'_>, layer: &Attention, pass: CorePass) -> Op {
    let shape = b.shape;
    let ring = is_ring(b);
    let spread = if shape.context > 1 && !ring { shape.context } else { 1 };
    let local = shape.seq_len / if ring { shape.context } else { 1 };
    let visible = layer.window.map_or(shape.seq_len, |window| window.min(shape.seq_len));
    Op::Attention(AttentionCore {
        pass,
        fused: shape.fused_attention,
        batch: shape.micro_batch,
        heads: (shape.local_heads(layer.heads) / spread).max(1),
        kv_heads: (shape.local_kv_heads(layer.kv_heads()) / spread).max(1),
        queries: local,
        keys: visible.min(local),
        query_dim: layer.query_dim(),
        value_dim: layer.value_dim(),
        causal: layer.causal && visible == shape.seq_len,
        dropout: shape.dropout,
        element: shape.compute,
    })
}

fn is_ring(b: &Builder<'_>) -> bool {
    b.shape.context > 1 && b.shape.context_kind == ContextKind::Ring
}

/// Sends `from` to the next context rank and returns what arrives from the one before.
fn shift(b: &mut Builder<'_>, name: &'static str, from: ValueId) -> ValueId {
    let elements = b.elements(from);
    let arrived = b.activation(name, elements, None);
    let bytes = Bytes(elements * b.shape.compute.size());
    let ring_shift = (CollectiveKind::RingShift, Group::Context);
    b.collective(Kernel::Collective, ring_shift, bytes, &[from], &[arrived]);
    arrived
}

/// Keys and values beside the queries of `heads`, packed to travel.
fn pack(b: &mut Builder<'_>, layer: &Attention, heads: ValueId) -> ValueId {
    let elements = widths(b, layer).key_value * b.shape.tokens();
    let packed = b.activation("travelling keys and values", elements, None);
    b.elementwise(Kernel::PackKeysValues, (ElementwiseKind::Add, elements, 2), &[heads], &[packed]);
    packed
}

/// The forward of the core; over a ring, one step for each context rank, keys and values moving meanwhile.
fn core_forward(b: &mut Builder<'_>, layer: &Attention, input: ValueId, writes: &[ValueId]) {
    let op = core(b, layer, CorePass::Forward);
    if !is_ring(b) {
        b.compute(Kernel::Attention { ring: 0 }, op, &[input], writes);
        return;
    }
    let mut held = pack(b, layer, input);
    let steps = b.shape.context as u16;
    for ring in 0..steps {
        let arrived = (ring + 1 < steps).then(|| shift(b, "travelling keys and values", held));
        b.compute(Kernel::Attention { ring }, op, &[input, held], writes);
        held = arrived.unwrap_or(held);
    }
}

/// The backward of the core from `reads` (output, its gradient, what the forward left) into `writes` (gradient of
/// the heads, of scores). Over a ring, keys and values move on as in the forward; behind them travel their
/// gradients, to which each rank adds, and which take one more step to be home.
fn core_backward(
    b: &mut Builder<'_>,
    layer: &Attention,
    input: ValueId,
    reads: &[ValueId],
    writes: &[ValueId],
) {
    let op = core(b, layer, CorePass::Backward);
    if !is_ring(b) {
        let reads: Vec<_> = [input].iter().chain(reads).copied().collect();
        b.compute(Kernel::AttentionGradient { ring: 0 }, op, &reads, writes);
        return;
    }
    let mut held = pack(b, layer, input);
    let elements = b.elements(held);
    let mut gradient = b.activation("travelling gradients", elements, None);
    let steps = b.shape.context as u16;
    for ring in 0..steps {
        let arrived = (ring + 1 < steps).then(|| shift(b, "travelling keys and values", held));
        let step_reads: Vec<_> = [input].iter().chain(reads).chain([&held]).copied().collect();
        let step_writes: Vec<_> = writes.iter().chain([&gradient]).copied().collect();
        b.compute(Kernel::AttentionGradient { ring }, op, &step_reads, &step_writes);
        gradient = shift(b, "travelling gradients", gradient);
        held = arrived.unwrap_or(held);
    }
    b.elementwise(Kernel::UnpackKeysValues, (ElementwiseKind::Add, elements, 2), &[gradient], &writes[..1]);
}

/// Appends the backward of the output's `gradient`; what the norm passes on is added to `target`.
pub fn backward(
    b: &mut Builder<'_>,
    layer: &Attention,
    saved: &Saved,
    gradient: ValueId,
    target: ValueId,
    trainable: bool,
) {
    let shape = b.shape;
    let (tokens, stream) = (shape.tokens(), shape.stream_tokens());
    let hidden = layer.hidden;
    let w = widths(b, layer);

    let mut branch = branch_gradient(b, Branch::Attention, gradient, saved.mask, stream * hidden);
    if let Some(input) = saved.output_norm_input {
        let name = "attention output norm gradient";
        branch = output_norm_gradient(b, name, branch, input, (hidden, trainable));
    }
    let whole = b.gather_sequence("attention projection gradient", branch);
    let context = b.activation("attention output gradient", tokens * w.output, None);
    let output = Kernel::InputGradient(Matrix::AttentionOutput, Into::Set);
    b.linear(output, (tokens, hidden, w.output), &[whole], &[context]);
    if trainable {
        let bias = layer.output_bias.then_some(branch);
        let reads: Vec<_> = [saved.context, whole].into_iter().chain(bias).collect();
        b.weight_gradient(Matrix::AttentionOutput, (tokens, w.output, hidden), &reads);
    }

    let core_output = exchange(
        b,
        "exchanged output gradient",
        Kernel::ToHeads { packed: false },
        context,
        tokens * w.output,
        None,
    );
    let core_input = b.activation("query, key, value gradients", b.elements(saved.core_input), None);
    let mut reads = vec![saved.core_output, core_output];
    reads.extend(saved.log_sum_exp);
    reads.extend(&saved.probabilities);
    let mut writes = vec![core_input];
    if !shape.fused_attention {
        let pairs = shape.local_heads(layer.heads) * tokens * shape.seq_len;
        writes.push(b.activation("score gradients", pairs, None));
    }
    core_backward(b, layer, saved.core_input, &reads, &writes);
    let heads = exchange(
        b,
        "exchanged head gradients",
        Kernel::ToTokens { packed: true },
        core_input,
        tokens * (w.query + w.key_value),
        None,
    );
    if rotates(layer) {
        let mut reads = vec![heads];
        if layer.query_key_norm.is_some() {
            reads.push(saved.heads);
        }
        b.elementwise(rotary(layer, Kernel::RotaryGradient), rotated(tokens, &w), &reads, &[heads]);
    }
    project_backward(b, layer, saved, &w, heads, target, trainable);
}

/// Input and weight gradients of the projections, and the norm behind them.
fn project_backward(
    b: &mut Builder<'_>,
    layer: &Attention,
    saved: &Saved,
    w: &Widths,
    heads: ValueId,
    target: ValueId,
    trainable: bool,
) {
    let (tokens, stream, hidden) = (b.shape.tokens(), b.shape.stream_tokens(), layer.hidden);
    // Gathered again while the input gradient is computed; that is then reduced while the weight gradient is.
    let whole = trainable.then(|| b.gather_input_again("attention input again", saved.normed, saved.whole));
    let input = b.activation("attention input gradient", tokens * hidden, None);
    let mut products = Vec::new();
    match layer.projection {
        Projection::Grouped { .. } => {
            let kernel = Kernel::InputGradient(Matrix::QueryKeyValue, Into::Set);
            b.linear(kernel, (tokens, w.query + w.key_value, hidden), &[heads], &[input]);
            products.push((hidden, w.query + w.key_value, None, heads));
        }
        Projection::Latent { query_rank, key_value_rank, rotary_dim, plain_dim, value_dim } => {
            let Some(latents) = saved.latent else { return };
            let down = query_rank.unwrap_or(0) + key_value_rank + rotary_dim;
            let up = b.shape.local_heads(layer.heads) * (plain_dim + value_dim);
            let latent = b.activation("latent gradients", tokens * down, None);
            b.linear(Kernel::Planned, (tokens, up, key_value_rank), &[heads], &[latent]);
            if let Some(rank) = query_rank {
                b.linear(Kernel::Planned, (tokens, w.query, rank), &[heads], &[latent]);
                products.push((rank, w.query, Some(latents.normed), heads));
            } else {
                b.linear(Kernel::Planned, (tokens, w.query, hidden), &[heads], &[input]);
                products.push((hidden, w.query, None, heads));
            }
            products.push((key_value_rank, up, Some(latents.normed), heads));
            b.compute(Kernel::Planned, b.row_norm(latent, down, true), &[latent, latents.plain], &[latent]);
            b.linear(Kernel::Planned, (tokens, down, hidden), &[latent], &[input]);
            products.push((hidden, down, None, latent));
        }
    }
    let shard = b.reduce_sequence("attention input gradient shard", input, None);
    if let Some(whole) = whole {
        for (depth, columns, read, from) in products {
            let sizes = (tokens, depth, columns);
            b.weight_gradient(Matrix::QueryKeyValue, sizes, &[read.unwrap_or(whole), from]);
        }
    }
    if layer.norm.is_none() {
        b.elementwise(Kernel::Add, (ElementwiseKind::Add, stream * hidden, 3), &[shard, target], &[target]);
        return;
    }
    let input = (saved.source, saved.statistics);
    b.norm_gradient((Place::Input, Into::Add), (hidden, trainable), shard, input, target);
}
