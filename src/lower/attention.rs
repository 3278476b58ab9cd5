//! Attention layers: projections split by heads over the tensor group, the core split over the context group.

use super::graph::{Builder, ValueId};
use super::mlp::{ResidualNorm, branch_gradient, residual_add, residual_norm};
use crate::model::layer::{Attention, Position, Projection};
use crate::ops::{AttentionCore, CollectiveKind, CorePass, ElementwiseKind, Group, Op};
use crate::profile::choices::ContextKind;
use crate::profile::engine::SavedTensor;
use crate::units::Bytes;

/// The forward values that the backward reads.
pub struct Saved {
    source: ValueId,
    statistics: Option<ValueId>,
    /// Norm output, a shard under sequence parallelism.
    normed: ValueId,
    latent: Option<ValueId>,
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

/// Elements a token of queries, keys and values on one tensor rank.
struct Widths {
    query: u64,
    key_value: u64,
    output: u64,
}

fn widths(b: &Builder<'_>, layer: &Attention) -> Widths {
    let heads = b.shape.local_heads(layer.heads);
    let kv_heads = b.shape.local_kv_heads(layer.kv_heads());
    Widths {
        query: heads * layer.query_dim(),
        key_value: kv_heads * (layer.query_dim() + layer.value_dim()),
        output: heads * layer.value_dim(),
    }
}

/// Appends the forward; `source` feeds norm and residual alike. Returns the output.
pub fn forward(b: &mut Builder<'_>, layer: &Attention, source: ValueId) -> (ValueId, Saved) {
    let shape = b.shape;
    let (tokens, stream) = (shape.tokens(), shape.stream_tokens());
    let hidden = layer.hidden;
    let w = widths(b, layer);

    let mut statistics = None;
    let mut normed = source;
    if layer.norm.is_some() {
        normed = b.activation("attention norm", stream * hidden, Some(SavedTensor::LinearInput));
        statistics = b.optional("attention norm statistics", stream * 8, SavedTensor::NormStatistics);
        let writes: Vec<_> = [Some(normed), statistics].into_iter().flatten().collect();
        b.row_norm(stream * hidden, hidden, false, &[source], &writes);
    }
    let whole = b.gather_sequence("attention input", normed, false);

    let heads = b.activation(
        "queries, keys, values",
        tokens * (w.query + w.key_value),
        Some(SavedTensor::QueryKeyValue),
    );
    let latent = project(b, layer, &w, whole, heads);
    if layer.position == Position::Rotary || layer.query_key_norm.is_some() {
        b.elementwise(ElementwiseKind::Rotary, tokens * (w.query + w.key_value / 2), 2, &[heads], &[heads]);
    }

    let core_input = exchange(b, "exchanged heads", heads, Some(SavedTensor::QueryKeyValue));
    let core_output = b.activation("attention output", tokens * w.output, Some(SavedTensor::AttentionOutput));
    let local_heads = shape.local_heads(layer.heads);
    let log_sum_exp = shape
        .fused_attention
        .then(|| b.optional("log-sum-exp", tokens * local_heads * 4, SavedTensor::LogSumExp))
        .flatten();
    let probabilities = probabilities(b, layer);
    let mut writes = vec![core_output];
    writes.extend(log_sum_exp);
    writes.extend(&probabilities);
    core(b, layer, CorePass::Forward, core_input, &[], &writes);
    let context = exchange(b, "gathered output", core_output, Some(SavedTensor::AttentionOutput));

    let partial = b.activation("attention projection", tokens * hidden, None);
    b.linear(tokens, w.output, hidden, &[context], &[partial]);
    let mut branch = b.reduce_sequence("attention projection shard", partial, None);
    let mut output_norm_input = None;
    if layer.output_norm.is_some() {
        let normed = b.activation("attention output norm", stream * hidden, None);
        b.row_norm(stream * hidden, hidden, false, &[branch], &[normed]);
        output_norm_input = Some(branch);
        branch = normed;
    }
    let (sum, mask) = residual_add(b, branch, source, stream * hidden);
    let (output, residual_norm) = residual_norm(b, layer.residual_norm, sum, hidden);

    let saved = Saved {
        source,
        statistics,
        normed,
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

/// The projections to queries, keys and values; latent attention goes through its low-rank latents.
fn project(
    b: &mut Builder<'_>,
    layer: &Attention,
    w: &Widths,
    input: ValueId,
    heads: ValueId,
) -> Option<ValueId> {
    let tokens = b.shape.tokens();
    match layer.projection {
        Projection::Grouped { .. } => {
            b.linear(tokens, layer.hidden, w.query + w.key_value, &[input], &[heads]);
            None
        }
        Projection::Latent { query_rank, key_value_rank, rotary_dim, plain_dim, value_dim } => {
            let down = query_rank.unwrap_or(0) + key_value_rank + rotary_dim;
            let latent = b.activation("latents", tokens * down, Some(SavedTensor::Latent));
            b.linear(tokens, layer.hidden, down, &[input], &[latent]);
            b.row_norm(tokens * down, down, false, &[latent], &[latent]);
            match query_rank {
                Some(rank) => b.linear(tokens, rank, w.query, &[latent], &[heads]),
                None => b.linear(tokens, layer.hidden, w.query, &[input], &[heads]),
            }
            let up = b.shape.local_heads(layer.heads) * (plain_dim + value_dim);
            b.linear(tokens, key_value_rank, up, &[latent], &[heads]);
            Some(latent)
        }
    }
}

/// The all-to-all of Ulysses between sequence shards and head shards; the value itself otherwise.
fn exchange(b: &mut Builder<'_>, name: &'static str, value: ValueId, saved: Option<SavedTensor>) -> ValueId {
    if b.shape.context == 1 || b.shape.context_kind != ContextKind::Ulysses {
        return value;
    }
    let elements = b.elements(value);
    let exchanged = b.activation(name, elements, saved);
    let bytes = Bytes(elements * b.shape.compute.size());
    b.collective(CollectiveKind::AllToAll, Group::Context, bytes, &[value], &[exchanged], false);
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
    if shape.dropout {
        values.push(b.activation("dropped probabilities", pairs, saved));
        if shape.stores(SavedTensor::DropoutMask) {
            values.push(b.raw("probability mask", pairs, saved));
        }
    }
    values
}

/// The core itself; over a ring, one step for each context rank, keys and values moving meanwhile.
fn core(
    b: &mut Builder<'_>,
    layer: &Attention,
    pass: CorePass,
    input: ValueId,
    reads: &[ValueId],
    writes: &[ValueId],
) {
    let shape = b.shape;
    let ring = shape.context > 1 && shape.context_kind == ContextKind::Ring;
    let ulysses = shape.context > 1 && !ring;
    let spread = if ulysses { shape.context } else { 1 };
    let local = shape.seq_len / if ring { shape.context } else { 1 };
    let visible = layer.window.map_or(shape.seq_len, |window| window.min(shape.seq_len));
    let op = AttentionCore {
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
    };
    let mut all_reads = vec![input];
    all_reads.extend(reads);
    if !ring {
        b.compute(Op::Attention(op), &all_reads, writes);
        return;
    }
    // Keys and values travel forward; backward, their gradients travel with them.
    let key_value = widths(b, layer).key_value * shape.tokens();
    let travelling = if pass == CorePass::Forward { key_value } else { 2 * key_value };
    let mut from = input;
    for step in 0..shape.context {
        let arrived = (step + 1 < shape.context).then(|| {
            let next = b.activation("travelling keys and values", travelling, None);
            let bytes = Bytes(travelling * shape.compute.size());
            b.collective(CollectiveKind::RingShift, Group::Context, bytes, &[from], &[next], false);
            next
        });
        let mut step_reads = all_reads.clone();
        if from != input {
            step_reads.push(from);
        }
        b.compute(Op::Attention(op), &step_reads, writes);
        from = arrived.unwrap_or(from);
    }
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

    let mut branch = branch_gradient(b, gradient, saved.mask, stream * hidden);
    if let Some(input) = saved.output_norm_input {
        let through = b.activation("attention output norm gradient", stream * hidden, None);
        b.row_norm(stream * hidden, hidden, true, &[branch, input], &[through]);
        branch = through;
    }
    let whole = b.gather_sequence("attention projection gradient", branch, false);
    let context = b.activation("attention output gradient", tokens * w.output, None);
    b.linear(tokens, hidden, w.output, &[whole], &[context]);
    if trainable {
        b.weight_gradient(tokens, w.output, hidden, &[saved.context, whole]);
    }

    let core_output = exchange(b, "exchanged output gradient", context, None);
    let core_input = b.activation("query, key, value gradients", b.elements(saved.core_input), None);
    let mut reads = vec![saved.core_output, core_output];
    reads.extend(saved.log_sum_exp);
    reads.extend(&saved.probabilities);
    let mut writes = vec![core_input];
    if !shape.fused_attention {
        let pairs = shape.local_heads(layer.heads) * tokens * shape.seq_len;
        writes.push(b.activation("score gradients", pairs, None));
    }
    core(b, layer, CorePass::Backward, saved.core_input, &reads, &writes);
    let heads = exchange(b, "exchanged head gradients", core_input, None);
    if layer.position == Position::Rotary || layer.query_key_norm.is_some() {
        let mut reads = vec![heads];
        if layer.query_key_norm.is_some() {
            reads.push(saved.heads);
        }
        b.elementwise(ElementwiseKind::Rotary, tokens * (w.query + w.key_value / 2), 2, &reads, &[heads]);
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
    let whole = trainable.then(|| b.gather_sequence("attention input again", saved.normed, true));
    let input = b.activation("attention input gradient", tokens * hidden, None);
    let mut products = Vec::new();
    match layer.projection {
        Projection::Grouped { .. } => {
            b.linear(tokens, w.query + w.key_value, hidden, &[heads], &[input]);
            products.push((hidden, w.query + w.key_value, None, heads));
        }
        Projection::Latent { query_rank, key_value_rank, rotary_dim, plain_dim, value_dim } => {
            let Some(latent_value) = saved.latent else { return };
            let down = query_rank.unwrap_or(0) + key_value_rank + rotary_dim;
            let up = b.shape.local_heads(layer.heads) * (plain_dim + value_dim);
            let latent = b.activation("latent gradients", tokens * down, None);
            b.linear(tokens, up, key_value_rank, &[heads], &[latent]);
            if let Some(rank) = query_rank {
                b.linear(tokens, w.query, rank, &[heads], &[latent]);
                products.push((rank, w.query, Some(latent_value), heads));
            } else {
                b.linear(tokens, w.query, hidden, &[heads], &[input]);
                products.push((hidden, w.query, None, heads));
            }
            products.push((key_value_rank, up, Some(latent_value), heads));
            b.row_norm(tokens * down, down, true, &[latent, latent_value], &[latent]);
            b.linear(tokens, down, hidden, &[latent], &[input]);
            products.push((hidden, down, None, latent));
        }
    }
    let shard = b.reduce_sequence("attention input gradient shard", input, None);
    if let Some(whole) = whole {
        for (depth, columns, read, from) in products {
            b.weight_gradient(tokens, depth, columns, &[read.unwrap_or(whole), from]);
        }
    }
    if layer.norm.is_none() {
        b.elementwise(ElementwiseKind::Add, stream * hidden, 3, &[shard, target], &[target]);
        return;
    }
    let mut reads = vec![shard, saved.source];
    reads.extend(saved.statistics);
    reads.push(target);
    b.row_norm(stream * hidden, hidden, true, &reads, &[target]);
}
