//! The matrices whose gradients an engine makes placeholders of.

use crate::lower::shape::Shape;
use crate::model::Model;
use crate::model::layer::{LayerKind, Projection};

/// Rows and columns of the trained matrices of `layers` on one rank, as an engine fuses them: queries, keys and values
/// are one, and so are gate and up. Experts are alike; routers, embeddings and heads are left out.
pub fn matrices(model: &Model, layers: std::ops::Range<usize>, shape: &Shape<'_>) -> Vec<(u64, u64)> {
    let mut list = Vec::new();
    for layer in layers.map(|index| model.layer(index)).filter(|layer| !layer.frozen) {
        match &layer.kind {
            LayerKind::Attention(attention) => {
                let heads = shape.local_heads(attention.heads);
                let query = heads * attention.query_dim();
                match attention.projection {
                    Projection::Grouped { kv_heads, head_dim } => {
                        list.push((query + 2 * shape.local_kv_heads(kv_heads) * head_dim, attention.hidden));
                    }
                    Projection::Latent { query_rank, key_value_rank, plain_dim, rotary_dim, value_dim } => {
                        list.extend(query_rank.map(|rank| (rank, attention.hidden)));
                        list.push((query, query_rank.unwrap_or(attention.hidden)));
                        list.push((key_value_rank + rotary_dim, attention.hidden));
                        list.push((heads * (plain_dim + value_dim), key_value_rank));
                    }
                }
                list.push((attention.hidden, heads * attention.value_dim()));
            }
            LayerKind::Mlp(mlp) => {
                let ups = if mlp.gated { 2 } else { 1 };
                let width = mlp.intermediate / shape.tensor;
                list.extend([(ups * width, mlp.hidden), (mlp.hidden, width)]);
            }
            LayerKind::Moe(moe) => {
                let ups = if moe.gated { 2 } else { 1 };
                let widths = [moe.intermediate / shape.expert_tensor, moe.shared_intermediate / shape.tensor];
                for width in widths.into_iter().filter(|width| *width > 0) {
                    list.extend([(ups * width, moe.hidden), (moe.hidden, width)]);
                }
            }
            LayerKind::Embedding(_) | LayerKind::Head(_) | LayerKind::Loss(_) => {}
        }
    }
    list
}
