//! Model FLOPs of a step, for model FLOPs utilisation.

use crate::model::Model;
use crate::model::layer::LayerKind;
use crate::model::parameters::parameters;
use crate::strategy::Workload;
use crate::units::Flops;

/// 6 · tokens · matrix weights that multiply (of experts the chosen and shared ones; the head even if tied, for each
/// of its passes)
/// + 12 · tokens · seq · Σ heads · head size over the blocks; causal masks not halved, recomputation not counted.
pub fn model_flops(model: &Model, workload: &Workload) -> Flops {
    let tokens = workload.tokens() as f64;
    let mut weights = 0.0;
    let mut width = 0.0;
    for layer in model.layers() {
        for tensor in parameters(&layer.kind).iter().filter(|tensor| tensor.multiplies) {
            let elements = tensor.elements() as f64;
            weights += match &layer.kind {
                LayerKind::Head(head) => elements * head.passes as f64,
                LayerKind::Moe(moe) if tensor.role.is_of_experts() => {
                    elements * moe.top_k as f64 / moe.experts as f64
                }
                _ => elements,
            };
        }
        match &layer.kind {
            LayerKind::Head(head) if head.tied => {
                let width = head.table_width.unwrap_or(head.hidden);
                weights += (head.vocabulary * width * head.passes) as f64;
            }
            LayerKind::Attention(attention) => {
                width += (attention.heads * (attention.query_dim() + attention.value_dim())) as f64 / 2.0;
            }
            _ => {}
        }
    }
    Flops(6.0 * tokens * weights + 12.0 * tokens * workload.seq_len as f64 * width)
}
