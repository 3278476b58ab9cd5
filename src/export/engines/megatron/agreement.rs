//! That a MODEL which was given is the one that arguments describe.

use crate::export::decoder::Decoder;
use crate::export::error::ImportError;
use crate::export::meaning::Scene;
use crate::export::reader::Reader;

/// Checks each size that arguments say against the model's.
///
/// # Errors
/// If one is another.
pub fn agrees(reader: &Reader<'_>, scene: &Scene<'_>) -> Result<(), ImportError> {
    let Some(decoder) = Decoder::of(scene.model) else { return Ok(()) };
    let is_grouped = reader.is_on("group-query-attention")?;
    let experts = decoder.experts.as_ref().map(|experts| &experts.layer);
    let sizes = [
        ("num-layers", Some(decoder.blocks)),
        ("hidden-size", Some(decoder.hidden())),
        ("num-attention-heads", Some(decoder.attention.heads)),
        ("num-query-groups", Some(decoder.kv_heads()).filter(|_| is_grouped && decoder.head_dim().is_some())),
        ("kv-channels", decoder.head_dim()),
        ("ffn-hidden-size", decoder.mlp.as_ref().map(|mlp| mlp.intermediate)),
        ("num-experts", Some(experts.map_or(0, |layer| layer.experts))),
        ("moe-ffn-hidden-size", experts.map(|layer| layer.intermediate)),
        ("moe-router-topk", experts.map(|layer| layer.top_k)),
    ];
    for (path, own) in sizes {
        let (Some(said), Some(own)) = (reader.count(path)?, own) else { continue };
        if said != own {
            let rule = format!(
                "{} has {own}: leave out MODEL, or give the one that the file is for",
                scene.model.name
            );
            return Err(reader.refused(path, rule).or(vec![own.to_string()]));
        }
    }
    Ok(())
}
