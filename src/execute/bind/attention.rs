//! Attention cores, rotary positions, and heads that context ranks exchange.

use super::{Binder, Done};
use crate::execute::call::{
    AttentionCall, AttentionGradientCall, Call, Columns, Core, Exchange, HeadExchange, HeadRun, List,
    PairDropout, Probabilities, RotaryCall, Target, View,
};
use crate::execute::error::ExecuteError;
use crate::execute::kernels::attention::{Alibi, Heads, KeyValues, Score, Window};
use crate::execute::kernels::rotary::{HeadColumns, Turn};
use crate::execute::ranks::placement::Issue;
use crate::lower::kernel::{Into, Kernel};
use crate::model::layer::{Attention, LayerKind, Position};
use crate::ops::Collective;
use crate::profile::choices::AttentionKernel;
use crate::units::ceil_div;

/// Widths of the columns of packed heads, in elements.
#[derive(Clone, Copy)]
struct Packed {
    query: usize,
    key: usize,
    value: usize,
}

impl Packed {
    fn new(layer: &Attention, heads: u64, kv_heads: u64) -> Self {
        let (query, value) = (layer.query_dim(), layer.value_dim());
        Self {
            query: (heads * query) as usize,
            key: (kv_heads * query) as usize,
            value: (kv_heads * value) as usize,
        }
    }

    const fn all(self) -> usize {
        self.query + self.key + self.value
    }

    /// Queries among all.
    const fn queries(self, data: View) -> Window<View> {
        Window { data, stride: self.all(), column: 0 }
    }

    /// Keys and values in `data`: beside their queries, or without them, as they travel a ring.
    const fn keys_values(self, data: View, travels: bool) -> KeyValues<View> {
        let keys = if travels { 0 } else { self.query };
        KeyValues { data, stride: keys + self.key + self.value, keys, values: keys + self.key }
    }
}

impl<'a> Binder<'a> {
    fn is_fused(&self) -> bool {
        self.run.strategy.attention == AttentionKernel::Fused
    }

    fn attention_layer(&self, issue: &Issue, layer: u16) -> Result<&'a Attention, ExecuteError> {
        match self.layer(issue, layer)? {
            LayerKind::Attention(attention) => Ok(attention),
            _ => Err(self.missing(issue, "its attention layer")),
        }
    }

    /// Context ranks that share the heads of a tensor rank under Ulysses.
    fn spread(&self) -> u64 {
        if self.run.is_ring() { 1 } else { self.run.strategy.context.max(1) }
    }

    /// Heads that this rank computes attention of: those of its tensor rank, or its share of them under Ulysses.
    fn heads(&self, layer: &Attention) -> Heads {
        let (strategy, spread) = (&self.run.strategy, self.spread());
        let per_tensor = ceil_div(layer.kv_heads(), strategy.tensor);
        Heads {
            heads: (layer.heads / strategy.tensor / spread) as usize,
            kv_heads: (per_tensor / spread).max(1) as usize,
            query_dim: layer.query_dim() as usize,
            value_dim: layer.value_dim() as usize,
        }
    }

    /// Columns of the heads of this tensor rank.
    fn columns(&self, layer: &Attention) -> Packed {
        let tensor = self.run.strategy.tensor;
        Packed::new(layer, layer.heads / tensor, ceil_div(layer.kv_heads(), tensor))
    }

    /// Columns of the heads that the core sees.
    fn core_columns(&self, layer: &Attention) -> Packed {
        let heads = self.heads(layer);
        Packed::new(layer, heads.heads as u64, heads.kv_heads as u64)
    }

    /// The global number of the first head that the core of this rank sees.
    fn first_head(&self, layer: &Attention) -> u64 {
        let (per_tensor, spread) = (layer.heads / self.run.strategy.tensor, self.spread());
        self.rank.slot.tensor * per_tensor + self.rank.context % spread * (per_tensor / spread)
    }

    fn score(&self, issue: &Issue, layer: &Attention) -> Result<Score, ExecuteError> {
        let constants = &self.run.model.constants;
        let mut scale = constants.score_scale.unwrap_or_else(|| 1.0 / (layer.query_dim() as f64).sqrt());
        if constants.score_scale_by_block {
            let block = self.unit(issue)?.layers[0].block;
            scale /= f64::from(self.need(issue, "the number of its block", block)? + 1);
        }
        Ok(Score {
            scale,
            soft_cap: layer.soft_cap.then_some(constants.score_cap),
            alibi: (layer.position == Position::Alibi).then_some(Alibi {
                first_head: self.first_head(layer) as usize,
                total_heads: layer.heads as usize,
            }),
        })
    }

    /// The core of `layer` whose keys are those of the context rank `ring` steps before this one.
    fn core(&self, issue: &Issue, layer: &Attention, number: u16, ring: u16) -> Result<Core, ExecuteError> {
        let run = self.run;
        let contexts = run.strategy.context;
        let source = (self.rank.context + contexts - u64::from(ring) % contexts) % contexts;
        let (queries, keys) = if run.is_ring() {
            (List::Positions(self.rank.context as u32), List::Positions(source as u32))
        } else {
            (List::AllPositions, List::AllPositions)
        };
        let dropout = PairDropout {
            rate: run.workload.dropout,
            site: self.site(issue, number, 1)?,
            first_sequence: self.first_sequence(issue),
            first_head: self.first_head(layer),
            heads: layer.heads,
            tokens: run.workload.seq_len,
            scalars: self.rank.scalar_heads()[0],
        };
        Ok(Core {
            batch: run.strategy.micro_batch as usize,
            heads: self.heads(layer),
            causal: layer.causal,
            window: layer.window.map(|window| window as u32),
            queries,
            keys,
            score: self.score(issue, layer)?,
            dropout: (dropout.rate > 0.0).then_some(dropout),
        })
    }

    pub(super) fn attention(&mut self, issue: &Issue, number: u16, ring: u16) -> Done {
        let layer = self.attention_layer(issue, number)?;
        let columns = self.core_columns(layer);
        let packed = self.activations(self.read(issue, 0)?);
        let travelling = issue.reads.get(1).filter(|_| self.run.is_ring());
        let keys_values = travelling.map_or(packed, |region| self.activations(*region));
        let second = self.written(issue, 1)?;
        let probabilities = if self.is_fused() {
            Probabilities::LogSumExp(self.wide(second))
        } else {
            let kept = issue.writes.get(2).map(|region| self.activations(*region));
            Probabilities::Whole { all: self.activations(second), kept }
        };
        let call = AttentionCall {
            core: self.core(issue, layer, number, ring)?,
            queries: columns.queries(packed),
            keys_values: columns.keys_values(keys_values, travelling.is_some()),
            output: Target { view: self.activations(self.written(issue, 0)?), write: first_of(ring) },
            probabilities,
        };
        self.push(Call::Attention(Box::new(call)));
        Ok(())
    }

    pub(super) fn attention_gradient(&mut self, issue: &Issue, number: u16, ring: u16) -> Done {
        let layer = self.attention_layer(issue, number)?;
        let columns = self.core_columns(layer);
        let (is_ring, is_fused) = (self.run.is_ring(), self.is_fused());
        let drops = self.run.workload.dropout > 0.0;
        let packed = self.activations(self.read(issue, 0)?);
        let left = 3 + if is_fused || !drops { 1 } else { 2 };
        let travelling = issue.reads.get(left).filter(|_| is_ring);
        let keys_values = travelling.map_or(packed, |region| self.activations(*region));
        let first = self.read(issue, 3)?;
        let (probabilities, scores) = if is_fused {
            (Probabilities::LogSumExp(self.wide(first)), None)
        } else {
            let kept = if drops { Some(self.activations(self.read(issue, 4)?)) } else { None };
            let scores = self.activations(self.written(issue, 1)?);
            (Probabilities::Whole { all: self.activations(first), kept }, Some(scores))
        };
        let gradients = self.activations(self.written(issue, 0)?);
        let sent = issue.writes.last().filter(|_| is_ring);
        let key_value_gradients = sent.map_or(gradients, |region| self.activations(*region));
        let write = first_of(ring);
        let call = AttentionGradientCall {
            core: self.core(issue, layer, number, ring)?,
            queries: columns.queries(packed),
            keys_values: columns.keys_values(keys_values, travelling.is_some()),
            output: self.activations(self.read(issue, 1)?),
            output_gradient: self.activations(self.read(issue, 2)?),
            probabilities,
            scores,
            query_gradients: columns.queries(gradients),
            query_write: write,
            key_value_gradients: columns.keys_values(key_value_gradients, sent.is_some()),
            // The gradient that arrives has its sender's part in it, so each rank adds its own; the first starts it.
            key_value_write: if is_ring { write } else { Into::Set },
        };
        self.push(Call::AttentionGradient(Box::new(call)));
        Ok(())
    }

    /// Keys and values between packed heads and a matrix of their own.
    pub(super) fn pack_keys_values(&mut self, issue: &Issue, number: u16, packs: bool) -> Done {
        let layer = self.attention_layer(issue, number)?;
        let columns = self.columns(layer);
        let (from, to) = (self.activations(self.read(issue, 0)?), self.activations(self.written(issue, 0)?));
        let part = columns.key + columns.value;
        let beside = |view| Columns { view, stride: columns.all(), first: columns.query, columns: part };
        let call = if packs {
            Call::CopyColumns { from: beside(from), to: Columns::all(to, part) }
        } else {
            Call::CopyColumns { from: Columns::all(from, part), to: beside(to) }
        };
        self.push(call);
        Ok(())
    }

    pub(super) fn rotary(&mut self, issue: &Issue, number: u16, kernel: Kernel) -> Done {
        let layer = self.attention_layer(issue, number)?;
        let constants = &self.run.model.constants.rotary;
        let head_dim = layer.query_dim() as usize;
        let columns = self.columns(layer);
        let call = RotaryCall {
            data: self.activations(self.written(issue, 0)?),
            heads: HeadColumns {
                stride: columns.all(),
                heads: (columns.query + columns.key) / head_dim,
                head_dim,
            },
            positions: List::Positions(self.rank.context as u32),
            turn: if kernel == Kernel::Rotary { Turn::Forward } else { Turn::Backward },
            theta: constants.theta,
            dim: constants.rotated(head_dim as u64) as usize,
            scaling: constants.scaling.clone(),
        };
        self.push(Call::Rotary(Box::new(call)));
        Ok(())
    }

    /// Ulysses: from this rank's tokens of all heads to all tokens of its heads, and back. Packed heads keep their
    /// order: queries, keys, values. Key-value heads that are fewer than the ranks go to several, whose gradients
    /// are summed.
    pub(super) fn exchange_heads(
        &mut self,
        issue: &Issue,
        (op, number): (Collective, u16),
        (to_heads, is_packed): (bool, bool),
    ) -> Done {
        let layer = self.attention_layer(issue, number)?;
        let contexts = self.run.strategy.context as usize;
        let (batch, local) = (self.run.strategy.micro_batch as usize, self.run.local_tokens());
        let (whole, core) = (self.columns(layer), self.core_columns(layer));
        let (runs, all_width, own_width) = if is_packed {
            let copies = |own: usize, all: usize| (own * contexts / all.max(1)).max(1);
            let run = |all, own, width, of| HeadRun { all, own, width, copies: copies(width, of) };
            let runs = vec![
                HeadRun { all: 0, own: 0, width: core.query, copies: 1 },
                run(whole.query, core.query, core.key, whole.key),
                run(whole.query + whole.key, core.query + core.key, core.value, whole.value),
            ];
            (runs, whole.all(), core.all())
        } else {
            let own = self.heads(layer).heads * layer.value_dim() as usize;
            (vec![HeadRun { all: 0, own: 0, width: own, copies: 1 }], own * contexts, own)
        };
        let layout = HeadExchange {
            runs,
            all_width,
            own_width,
            rows: batch * local,
            local,
            contexts,
            context: self.rank.context as usize,
            to_heads,
        };
        let (from, to) = (self.activations(self.read(issue, 0)?), self.activations(self.written(issue, 0)?));
        let exchange = Exchange::Heads { from, to, layout: Box::new(layout) };
        self.push(Call::Collective { group: op.group, exchange });
        Ok(())
    }
}

/// The first step around a ring starts what the others add to.
const fn first_of(ring: u16) -> Into {
    if ring == 0 { Into::Set } else { Into::Add }
}
