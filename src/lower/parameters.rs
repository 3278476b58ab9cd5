//! How many parameters of a unit one rank of the tensor and expert groups holds.

use crate::lower::shape::Shape;
use crate::model::layer::{Head, LayerKind};
use crate::model::parameters::{ParameterTensor, Split, parameters};
use crate::model::roles::Role;
use crate::model::{Layer, Model};
use crate::units::ceil_div;

/// Elements of one unit on one rank, before ZeRO shards them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitParameters {
    /// Parameters outside experts.
    pub dense: u64,
    /// Parameters of the experts of this rank.
    pub expert: u64,
    /// The trained ones among them.
    pub dense_trained: u64,
    pub expert_trained: u64,
    /// Of the largest tensor.
    pub largest: u64,
    /// Dense trained ones whose gradients tensor ranks hold partial sums of.
    pub partial: u64,
    /// A table among the dense trained ones that a tied head shares: sharded by itself, so that all who hold it
    /// shard it alike.
    pub table: u64,
    /// Such a table where it is frozen, among the dense ones.
    pub frozen_table: u64,
    /// The embedding's table, which a tied head uses; a head on another pipeline rank holds its own copy.
    pub tied: u64,
    /// That table is trained. It is the embedding's: whether the head is frozen is of no account.
    pub trains_tied: bool,
    /// Of a tied head beside its embedding: the table, which is gathered for the head too.
    pub borrowed: u64,
    /// Its gradient has one writer in a step: no other unit's backward and no other loss's adds to it.
    pub has_own_gradient: bool,
    /// Its kernels multiply with all that it has, and do not look rows up.
    pub is_multiplied: bool,
}

impl UnitParameters {
    /// The parameters of `layers` on one rank.
    pub fn of(model: &Model, layers: std::ops::Range<usize>, shape: &Shape<'_>) -> Self {
        let mut sum = Self::default();
        let mut looks_up = false;
        for index in layers {
            sum.add_layer(model, model.layer(index), shape);
            looks_up |= matches!(model.layer(index).kind, LayerKind::Embedding(_));
        }
        sum.has_own_gradient = sum.table == 0 && model.losses.len() <= 1;
        sum.is_multiplied = !looks_up;
        sum
    }

    fn add_layer(&mut self, model: &Model, layer: &Layer, shape: &Shape<'_>) {
        for tensor in parameters(&layer.kind) {
            let elements = local_elements(&layer.kind, &tensor, shape);
            let expert = matches!(tensor.split, Split::Expert | Split::ExpertReplicated);
            *(if expert { &mut self.expert } else { &mut self.dense }) += elements;
            self.largest = self.largest.max(elements);
            if !layer.frozen {
                *(if expert { &mut self.expert_trained } else { &mut self.dense_trained }) += elements;
                if !expert && is_partial(&layer.kind, &tensor, shape) {
                    self.partial += elements;
                }
            }
            if tensor.split == Split::Vocabulary
                && matches!(layer.kind, LayerKind::Embedding(_))
                && ties(model)
            {
                *(if layer.frozen { &mut self.frozen_table } else { &mut self.table }) += elements;
            }
        }
        if let LayerKind::Head(head) = &layer.kind
            && head.tied
        {
            let width = head.table_width.unwrap_or(head.hidden);
            let owner = model.layers().find(|layer| matches!(layer.kind, LayerKind::Embedding(_)));
            self.tied += if owner.is_some() { shape.local_vocabulary(head.vocabulary) * width } else { 0 };
            self.trains_tied = owner.is_some_and(|owner| !owner.frozen);
        }
    }

    /// Elements of one shard of the trained parameters: the table is sharded by itself.
    pub const fn trained_shard(&self, shards: u64, expert_shards: u64) -> u64 {
        (self.dense_trained - self.table).div_ceil(shards)
            + self.table.div_ceil(shards)
            + self.expert_trained.div_ceil(expert_shards)
    }

    /// Elements of one shard of all parameters: frozen ones are sharded by themselves.
    pub const fn shard(&self, shards: u64, expert_shards: u64) -> u64 {
        self.trained_shard(shards, expert_shards)
            + (self.dense - self.dense_trained - self.frozen_table).div_ceil(shards)
            + self.frozen_table.div_ceil(shards)
            + (self.expert - self.expert_trained).div_ceil(expert_shards)
    }

    /// Of what is borrowed, the elements that the unit has a gradient of.
    pub const fn borrowed_trained(&self) -> u64 {
        if self.trains_tied { self.borrowed } else { 0 }
    }

    /// All parameters.
    pub const fn total(&self) -> u64 {
        self.dense + self.expert
    }

    /// All trained parameters.
    pub const fn trained(&self) -> u64 {
        self.dense_trained + self.expert_trained
    }
}

/// Whether a head uses the embedding's table.
fn ties(model: &Model) -> bool {
    model.layers().any(|layer| matches!(&layer.kind, LayerKind::Head(head) if head.tied))
}

/// Whether the backward of `head`, a layer that is `frozen` or not, makes gradients of its matrix, its bias or its
/// projection.
pub fn trains_matrix(model: &Model, head: &Head, frozen: bool) -> bool {
    let owner = model.layers().find(|layer| matches!(layer.kind, LayerKind::Embedding(_)));
    match owner {
        Some(owner) if head.tied => !owner.frozen || ((head.bias || head.table_width.is_some()) && !frozen),
        _ => !frozen,
    }
}

/// Whether tensor ranks compute parts of `tensor`'s gradient that must be summed: of what all hold, where each sees
/// some tokens only; of routers; and of key-value heads that several ranks hold.
pub fn is_partial(kind: &LayerKind, tensor: &ParameterTensor, shape: &Shape<'_>) -> bool {
    match (tensor.split, kind) {
        _ if shape.tensor == 1 => false,
        (Split::Replicated, LayerKind::Moe(_)) if matches!(tensor.role, Role::Router | Role::RouterBias) => {
            true
        }
        (Split::Replicated, _) => shape.sequence_parallel,
        (Split::KeyValueHeads, LayerKind::Attention(attention)) => attention.kv_heads() < shape.tensor,
        _ => false,
    }
}

/// Elements of `tensor` on one rank of the tensor and expert groups.
pub fn local_elements(kind: &LayerKind, tensor: &ParameterTensor, shape: &Shape<'_>) -> u64 {
    let elements = tensor.elements();
    match tensor.split {
        Split::Replicated => elements,
        Split::Tensor => elements / shape.tensor,
        Split::KeyValueHeads => match kind {
            LayerKind::Attention(attention) => {
                elements / attention.kv_heads() * shape.local_kv_heads(attention.kv_heads())
            }
            _ => elements / shape.tensor,
        },
        Split::Vocabulary => shape.local_vocabulary(tensor.rows) * tensor.columns,
        Split::Expert => ceil_div(elements, shape.expert * shape.expert_tensor),
        Split::ExpertReplicated => ceil_div(elements, shape.expert),
    }
}
