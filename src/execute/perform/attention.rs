//! Attention cores, rotary positions, and heads that context ranks exchange.

use super::Done;
use crate::execute::element::Element;
use crate::execute::error::ExecuteError;
use crate::execute::kernels::attention::{
    Alibi, Core, Dropout, Heads, KeyValues, Mask, Pair, Score, Window, fused, materialised,
};
use crate::execute::kernels::rotary::{HeadColumns, Rotary, Turn, rotate};
use crate::execute::placement::Issue;
use crate::execute::worker::Worker;
use crate::lower::kernel::Into;
use crate::model::layer::{Attention, LayerKind, Position};
use crate::profile::choices::AttentionKernel;
use crate::units::ceil_div;

/// Widths of the columns of packed heads, in elements.
#[derive(Clone, Copy)]
struct Columns {
    query: usize,
    key: usize,
    value: usize,
}

impl Columns {
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

    /// Keys and values in `data`: beside their queries, or without them, as they travel a ring.
    fn keys_values<D>(self, data: D, travels: bool) -> KeyValues<D> {
        let keys = if travels { 0 } else { self.query };
        KeyValues { data, stride: keys + self.key + self.value, keys, values: keys + self.key }
    }
}

impl<'r, T: Element, G: Element<Wide = T::Wide>> Worker<'r, T, G> {
    fn is_fused(&self) -> bool {
        self.run.strategy.attention == AttentionKernel::Fused
    }

    fn attention_layer(&self, issue: &Issue, layer: u16) -> Result<&'r Attention, ExecuteError> {
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
    fn columns(&self, layer: &Attention) -> Columns {
        let tensor = self.run.strategy.tensor;
        Columns::new(layer, layer.heads / tensor, ceil_div(layer.kv_heads(), tensor))
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

    /// Runs `work` with the core of `layer` whose keys are those of the context rank `ring` steps before this one.
    fn with_core(
        &self,
        issue: &Issue,
        layer: &Attention,
        number: u16,
        ring: u16,
        work: impl FnOnce(&Core<'_>),
    ) -> Done {
        let run = self.run;
        let contexts = run.strategy.context;
        let source = (self.rank.context + contexts - u64::from(ring) % contexts) % contexts;
        let (queries, keys) = if run.is_ring() {
            (&self.rank.positions[self.rank.context as usize], &self.rank.positions[source as usize])
        } else {
            (&self.rank.all_positions, &self.rank.all_positions)
        };
        let score = self.score(issue, layer)?;
        let first_head = self.first_head(layer);
        let rate = run.workload.dropout;
        let dropout = self.dropout_of(self.site(issue, number, 1)?);
        let first_sequence = self.first_sequence(issue);
        let (heads, tokens) = (layer.heads, run.workload.seq_len);
        let keep = |pair: Pair| {
            let head = first_head + pair.head as u64;
            let row =
                ((first_sequence + pair.sequence as u64) * heads + head) * tokens + u64::from(pair.query);
            dropout.factor::<f64>(row * tokens + u64::from(pair.key)) > 0.0
        };
        work(&Core {
            batch: run.strategy.micro_batch as usize,
            heads: self.heads(layer),
            mask: Mask {
                causal: layer.causal,
                window: layer.window.map(|window| window as u32),
                query_positions: queries,
                key_positions: keys,
            },
            score,
            dropout: (rate > 0.0).then_some(Dropout { keep: &keep, scale: 1.0 / (1.0 - rate) }),
        });
        Ok(())
    }

    /// Columns of the heads that the core sees.
    fn core_columns(&self, layer: &Attention) -> Columns {
        let heads = self.heads(layer);
        Columns::new(layer, heads.heads as u64, heads.kv_heads as u64)
    }

    pub(in crate::execute) fn attention(&mut self, issue: &Issue, number: u16, ring: u16) -> Done {
        let layer = self.attention_layer(issue, number)?;
        let columns = self.core_columns(layer);
        let packed = self.read::<T>(issue.reads[0]);
        let queries = Window { data: packed, stride: columns.all(), column: 0 };
        let travelling = issue.reads.get(1).filter(|_| self.run.is_ring());
        let keys_values = travelling.map_or(packed, |region| self.read::<T>(*region));
        let keys_values = columns.keys_values(keys_values, travelling.is_some());
        let output = self.write::<T>(issue.writes[0]);
        let write = if ring == 0 { Into::Set } else { Into::Add };
        let pool = self.pool;
        if self.is_fused() {
            let log_sum_exp = self.write::<T::Wide>(issue.writes[1]);
            self.with_core(issue, layer, number, ring, |core| {
                fused::forward(core, queries, keys_values, output, log_sum_exp, write, pool);
            })
        } else {
            let probabilities = self.write::<T>(issue.writes[1]);
            let kept = issue.writes.get(2).map_or(&mut [][..], |region| self.write::<T>(*region));
            self.with_core(issue, layer, number, ring, |core| {
                materialised::forward(core, queries, keys_values, probabilities, kept, output, pool);
            })
        }
    }

    pub(in crate::execute) fn attention_gradient(&mut self, issue: &Issue, number: u16, ring: u16) -> Done {
        let layer = self.attention_layer(issue, number)?;
        let columns = self.core_columns(layer);
        let (is_ring, is_fused) = (self.run.is_ring(), self.is_fused());
        let drops = self.run.workload.dropout > 0.0;
        let (packed, stride) = (self.read::<T>(issue.reads[0]), columns.all());
        let queries = Window { data: packed, stride, column: 0 };
        let (output, output_gradient) = (self.read::<T>(issue.reads[1]), self.read::<T>(issue.reads[2]));
        let left = 3 + if is_fused || !drops { 1 } else { 2 };
        let travelling = issue.reads.get(left).filter(|_| is_ring);
        let keys_values = travelling.map_or(packed, |region| self.read::<T>(*region));
        let keys_values = columns.keys_values(keys_values, travelling.is_some());
        let write = if ring == 0 { Into::Set } else { Into::Add };
        let pool = self.pool;
        // The gradient that arrives has its sender's part in it, so each rank adds its own; the first starts it.
        let key_write = if is_ring { write } else { Into::Set };
        let query_gradients = || Window { data: self.write::<T>(issue.writes[0]), stride, column: 0 };
        let key_gradients = || {
            let travelling = issue.writes.last().filter(|_| is_ring);
            let data = self.write::<T>(travelling.copied().unwrap_or(issue.writes[0]));
            columns.keys_values(data, travelling.is_some())
        };
        if is_fused {
            let log_sum_exp = self.read::<T::Wide>(issue.reads[3]);
            let saved = fused::Saved { queries, keys_values, output, output_gradient, log_sum_exp };
            self.with_core(issue, layer, number, ring, |core| {
                fused::backward_queries(core, &saved, query_gradients(), write, pool);
                fused::backward_keys_values(core, &saved, key_gradients(), key_write, pool);
            })
        } else {
            let all = self.read::<T>(issue.reads[3]);
            let kept = if drops { self.read::<T>(issue.reads[4]) } else { all };
            let probabilities = materialised::Probabilities { all, kept };
            let saved = materialised::Saved { queries, keys_values, probabilities, output_gradient };
            self.with_core(issue, layer, number, ring, |core| {
                let scores = self.write::<T>(issue.writes[1]);
                materialised::backward_scores(core, &saved, scores, pool);
                materialised::backward_queries(core, &saved, scores, query_gradients(), write, pool);
                materialised::backward_keys_values(core, &saved, scores, key_gradients(), key_write, pool);
            })
        }
    }

    /// Keys and values between packed heads and a matrix of their own.
    pub(in crate::execute) fn pack_keys_values(&mut self, issue: &Issue, number: u16, packs: bool) -> Done {
        let layer = self.attention_layer(issue, number)?;
        let columns = self.columns(layer);
        let (from, to) = (self.read::<T>(issue.reads[0]), self.write::<T>(issue.writes[0]));
        let (whole, part) = (columns.all(), columns.key + columns.value);
        if packs {
            for (from, to) in from.chunks_exact(whole).zip(to.chunks_exact_mut(part)) {
                to.copy_from_slice(&from[columns.query..]);
            }
        } else {
            for (from, to) in from.chunks_exact(part).zip(to.chunks_exact_mut(whole)) {
                to[columns.query..].copy_from_slice(from);
            }
        }
        Ok(())
    }

    pub(in crate::execute) fn rotary(&mut self, issue: &Issue, number: u16, turn: Turn) -> Done {
        let layer = self.attention_layer(issue, number)?;
        let constants = &self.run.model.constants.rotary;
        let head_dim = layer.query_dim() as usize;
        let rotary = Rotary {
            theta: constants.theta,
            dim: constants.rotated(head_dim as u64) as usize,
            scaling: &constants.scaling,
        };
        let columns = self.columns(layer);
        let data = self.write::<T>(issue.writes[0]);
        let heads =
            HeadColumns { stride: columns.all(), heads: (columns.query + columns.key) / head_dim, head_dim };
        rotate(&rotary, data, heads, &self.rank.positions[self.rank.context as usize], turn, self.pool);
        Ok(())
    }

    /// Ulysses: from this rank's tokens of all heads to all tokens of its heads, and back. Packed heads keep their
    /// order: queries, keys, values. Key-value heads that are fewer than the ranks go to several, whose gradients
    /// are summed.
    pub(in crate::execute) fn exchange_heads(
        &mut self,
        issue: &Issue,
        (to_heads, is_packed): (bool, bool),
    ) -> Done {
        let number = match issue.task {
            crate::program::instruction::Task::Kernel { layer, .. } => layer,
            _ => return Err(self.missing(issue, "its layer")),
        };
        let layer = self.attention_layer(issue, number)?;
        let op = self.collective_of(issue)?;
        let contexts = self.run.strategy.context as usize;
        let (batch, local) = (self.run.strategy.micro_batch as usize, self.run.local_tokens());
        let (from, to) = (self.read::<T>(issue.reads[0]), self.write::<T>(issue.writes[0]));
        let (whole, core) = (self.columns(layer), self.core_columns(layer));
        let value = layer.value_dim() as usize;
        let heads = self.heads(layer);
        // Start among all heads and among own ones, width of own ones, and how many ranks share each part.
        let (parts, all_width, own_width) = if is_packed {
            let copies = |own: usize, all: usize| (own * contexts / all.max(1)).max(1);
            let parts = vec![
                (0, 0, core.query, 1),
                (whole.query, core.query, core.key, copies(core.key, whole.key)),
                (whole.query + whole.key, core.query + core.key, core.value, copies(core.value, whole.value)),
            ];
            (parts, whole.all(), core.all())
        } else {
            let own = heads.heads * value;
            (vec![(0, 0, own, 1)], own * contexts, own)
        };
        let me = self.rank.context as usize;
        // Of a row of one context rank's tokens, the row among all tokens.
        let row_of = |row: usize, rank: usize| (row / local * contexts + rank) * local + row % local;
        let endpoint = self.endpoint(op.group);
        if to_heads {
            endpoint.exchange(from, |member, theirs| {
                for (row, source) in theirs.chunks_exact(all_width).take(batch * local).enumerate() {
                    let target = &mut to[row_of(row, member) * own_width..][..own_width];
                    for &(start, own, width, copies) in &parts {
                        let first = start + me / copies * width;
                        target[own..own + width].copy_from_slice(&source[first..first + width]);
                    }
                }
            })?;
        } else {
            to.fill(T::default());
            endpoint.exchange(from, |member, theirs| {
                for (row, target) in to.chunks_exact_mut(all_width).take(batch * local).enumerate() {
                    let source = &theirs[row_of(row, me) * own_width..][..own_width];
                    for &(start, own, width, copies) in &parts {
                        let first = start + member / copies * width;
                        for (to, from) in target[first..first + width].iter_mut().zip(&source[own..]) {
                            *to = T::narrow(to.wide() + from.wide());
                        }
                    }
                }
            })?;
        }
        Ok(())
    }
}
