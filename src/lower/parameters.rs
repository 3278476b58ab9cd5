//! How many parameters of a unit one rank of the tensor and expert groups holds.

use crate::lower::shape::Shape;
use crate::model::layer::LayerKind;
use crate::model::parameters::{Split, parameters};
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
    /// Trained ones that every tensor rank holds whole; under sequence parallelism their gradients are summed
    /// over the tensor group.
    pub replicated_trained: u64,
    /// A table that a tied head shares with the embedding; a head on another pipeline rank holds its own copy.
    pub tied: u64,
}

impl UnitParameters {
    /// The parameters of `layers` on one rank.
    pub fn of(model: &Model, layers: std::ops::Range<usize>, shape: &Shape<'_>) -> Self {
        let mut sum = Self::default();
        for index in layers {
            sum.add_layer(model, model.layer(index), shape);
        }
        sum
    }

    fn add_layer(&mut self, model: &Model, layer: &Layer, shape: &Shape<'_>) {
        for tensor in parameters(&layer.kind) {
            let elements = local_elements(&layer.kind, &tensor, shape);
            let expert = matches!(tensor.split, Split::Expert | Split::ExpertReplicated);
            *(if expert { &mut self.expert } else { &mut self.dense }) += elements;
            if !layer.frozen {
                *(if expert { &mut self.expert_trained } else { &mut self.dense_trained }) += elements;
                if tensor.split == Split::Replicated {
                    self.replicated_trained += elements;
                }
            }
        }
        if let LayerKind::Head(head) = &layer.kind
            && head.tied
        {
            let width = head.table_width.unwrap_or(head.hidden);
            let has_table = model.layers().any(|layer| matches!(layer.kind, LayerKind::Embedding(_)));
            self.tied += if has_table { shape.local_vocabulary(head.vocabulary) * width } else { 0 };
        }
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

fn local_elements(
    kind: &LayerKind,
    tensor: &crate::model::parameters::ParameterTensor,
    shape: &Shape<'_>,
) -> u64 {
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
