//! The modules that Megatron-LM recomputes by name under `--recompute-granularity selective`.

use serde_json::Value;

use crate::export::error::ImportError;
use crate::export::meaning::{Recomputes, Scene};
use crate::export::reader::Reader;
use crate::model::layer::{LayerKind, Projection};
use crate::profile::recomputed::RecomputedModule;

const PATH: &str = "recompute-modules";

/// The modules that core 0.20 knows (`core/transformer/transformer_config.py`, `recompute_modules`); none is the core of
/// attention.
const MODULES: [(&str, Option<RecomputedModule>); 7] = [
    ("core_attn", None),
    ("mlp", Some(RecomputedModule::Mlp)),
    ("moe", Some(RecomputedModule::Experts)),
    ("moe_act", Some(RecomputedModule::ExpertActivation)),
    ("shared_experts", Some(RecomputedModule::SharedExperts)),
    ("layernorm", Some(RecomputedModule::Norms)),
    ("mla_up_proj", Some(RecomputedModule::LatentProjection)),
];

/// What recomputes; none where the default holds, which is the core of attention.
pub fn modules(
    reader: &Reader<'_>,
    scene: &Scene<'_>,
    words: Option<&[&Value]>,
) -> Result<Option<Recomputes>, ImportError> {
    let whole_experts = reader.is_on("moe-layer-recompute")?;
    if words.is_none() && !whole_experts {
        return Ok(None);
    }
    let mut recomputes = Recomputes { core: words.is_none(), modules: Vec::new() };
    if whole_experts {
        recomputes.modules.push(RecomputedModule::Experts);
    }
    for word in words.unwrap_or_default() {
        let name = word.as_str().unwrap_or_default();
        match MODULES.iter().find(|(known, _)| *known == name) {
            Some((_, None)) => recomputes.core = true,
            Some((_, Some(module))) => recomputes.modules.push(*module),
            None => {
                let known = MODULES.map(|(known, _)| known);
                let rule = format!("the modules whose recomputation is modelled are {}", known.join(", "));
                return Err(reader.refused(PATH, rule).or(crate::spelling::nearest(name, known)));
            }
        }
    }
    let is_latent = |kind: &LayerKind| match kind {
        LayerKind::Attention(attention) => matches!(attention.projection, Projection::Latent { .. }),
        _ => false,
    };
    if recomputes.modules.contains(&RecomputedModule::LatentProjection)
        && !scene.model.layers().any(|layer| is_latent(&layer.kind))
    {
        let rule =
            "mla_up_proj goes with --multi-latent-attention (core/transformer/transformer_config.py:1969)";
        return Err(reader.refused(PATH, rule));
    }
    Ok(Some(recomputes))
}
