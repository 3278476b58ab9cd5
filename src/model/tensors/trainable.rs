//! What the embedded backend has no exact meaning for, and so does not train.

use std::collections::HashSet;

use thiserror::Error;

use crate::model::graph::Model;
use crate::model::hugging_face::{is_shaped, model_type, otherwise};
use crate::model::layer::{Attention, LayerKind, Position, Projection};

/// A feature of a model that is planned for and not trained.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("layer `{layer}` has {feature}, which the embedded backend plans for and does not train")]
pub struct Untrainable {
    pub layer: String,
    pub feature: String,
}

/// Whether the embedded backend can train the model exactly.
///
/// # Errors
/// The first layer with a feature that it has no exact meaning for, and that feature.
pub fn trainable(model: &Model) -> Result<(), Untrainable> {
    let mut names = HashSet::new();
    let of_family = of_family(model);
    for (index, layer) in model.layers().enumerate() {
        let feature = match &layer.kind {
            LayerKind::Attention(attention) => of_attention(model, attention),
            LayerKind::Mlp(mlp) => {
                let shares = mlp.norm.is_none() && mlp.residual_norm.is_none();
                let has_limit = model.constants.gate_limit.is_some();
                let limit = has_limit.then(|| "a gate with a limit".to_owned());
                let shared = shares && model.inputs(index).len() == 2;
                shared.then(|| "a norm shared with attention".to_owned()).or(limit)
            }
            LayerKind::Head(head) if head.passes > 1 => Some("multi-token prediction".to_owned()),
            LayerKind::Moe(moe) if moe.bias || moe.router_bias => {
                Some("biases in its experts or router".to_owned())
            }
            LayerKind::Moe(moe) if moe.norm.is_none() => {
                Some("experts without a norm of their own".to_owned())
            }
            LayerKind::Moe(moe) if moe.output_norm.is_some() => Some("a norm behind its experts".to_owned()),
            LayerKind::Moe(_) if !model.constants.router.chooses_by_softmax() => {
                Some("a router that chooses by groups or by corrected scores".to_owned())
            }
            LayerKind::Moe(_) if model.constants.gate_limit.is_some() => {
                Some("a gate with a limit".to_owned())
            }
            LayerKind::Head(_) if model.constants.logit_scale != 1.0 => Some("scaled logits".to_owned()),
            _ => None,
        };
        // Names of tensors write spaces as underscores.
        let repeated = !names.insert(layer.name.replace(' ', "_"));
        let feature = feature.or_else(|| of_family.map(str::to_owned));
        let feature = feature.or_else(|| repeated.then(|| "a name that differs in spaces only".to_owned()));
        if let Some(feature) = feature {
            return Err(Untrainable { layer: layer.name.clone(), feature });
        }
    }
    Ok(())
}

/// What a family computes otherwise than its layers say, in every layer.
fn of_family(model: &Model) -> Option<&'static str> {
    match model_type(model.config.as_ref()?)? {
        "gptj" | "cohere" | "glm4" => Some("rotary positions that turn neighbouring elements"),
        "granite" => Some("factors of its residual stream and logits"),
        "olmo2" => Some("norms of queries and keys over all heads"),
        "starcoder2" | "stablelm" => Some("layers that were not compared with those of transformers"),
        shaped if is_shaped(shaped) => {
            Some(otherwise(shaped).unwrap_or("layers that were not compared with those of transformers"))
        }
        _ => None,
    }
}

fn of_attention(model: &Model, attention: &Attention) -> Option<String> {
    let constants = &model.constants;
    if matches!(attention.projection, Projection::Latent { .. }) {
        return Some("multi-head latent attention".to_owned());
    }
    if attention.sinks {
        return Some("attention sinks".to_owned());
    }
    if constants.projection_clip.is_some() {
        return Some("clamped queries, keys and values".to_owned());
    }
    if attention.position != Position::Rotary {
        return None;
    }
    if constants.residual_scale != 1.0 {
        return Some("a scaled residual".to_owned());
    }
    if constants.rotary.interleaved {
        return Some("rotary positions that turn neighbouring elements".to_owned());
    }
    if let Some(name) = constants.rotary.scaling.not_computed() {
        return Some(format!("rotary positions scaled by `{name}`"));
    }
    let rotated = constants.rotary.rotated(attention.query_dim());
    (rotated % 2 == 1).then(|| format!("rotary positions on {rotated} elements, an odd number"))
}
