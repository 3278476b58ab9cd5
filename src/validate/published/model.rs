//! The model of a published run, from the dimensions that its table gives.

use crate::model::Model;
use crate::model::dimensions::{Dimensions, Experts, Style};
use crate::model::layer::Projection;
use crate::trace::published::{PublishedModel, PublishedRun};

/// The model that was trained.
///
/// # Errors
/// Says what is missing or is not planned here.
pub fn model(run: &PublishedRun) -> Result<Model, String> {
    let dimensions = dimensions(&run.model)?;
    dimensions.model(&run.model.name).map_err(|error| error.to_string())
}

fn dimensions(model: &PublishedModel) -> Result<Dimensions, String> {
    let needed = |field: &str, value: Option<u64>| value.ok_or_else(|| format!("model.{field} is not given"));
    if model.note.as_deref().is_some_and(|note| note.starts_with("one transformer layer only")) {
        return Err("one transformer layer was timed, no step".to_owned());
    }
    let style = match (model.kind.as_str(), model.activation.as_deref()) {
        ("gpt", Some(activation)) if activation.starts_with("squared-relu") => Style::Nemotron,
        ("gpt", _) => Style::Gpt,
        ("mpt", _) => Style::Mpt,
        ("llama" | "moe", _) => Style::Llama,
        (other, _) => return Err(format!("models of type `{other}` are not planned")),
    };
    let hidden = needed("hidden", model.hidden)?;
    let heads = needed("heads", model.heads)?;
    let learned = model.learned_positional.unwrap_or(style == Style::Gpt);
    Ok(Dimensions {
        style,
        layers: needed("layers", model.layers)?,
        hidden,
        intermediate: needed("ffn_hidden", model.ffn_hidden)?,
        gated: model.glu,
        heads,
        projection: projection(model, hidden, heads)?,
        vocabulary: needed("vocab", model.vocab)?,
        positions: if learned { model.seq_len } else { 0 },
        window: model.sliding_window,
        // Megatron and GPT-2 tie unless told otherwise.
        tied: model.tied_embeddings.unwrap_or(true),
        experts: experts(model)?,
    })
}

fn projection(model: &PublishedModel, hidden: u64, heads: u64) -> Result<Projection, String> {
    if let (Some(key_value_rank), Some(plain_dim), Some(rotary_dim), Some(value_dim)) =
        (model.kv_lora_rank, model.qk_head_dim, model.qk_rope_dim, model.v_head_dim)
    {
        let query_rank = model.q_lora_rank;
        return Ok(Projection::Latent { query_rank, key_value_rank, plain_dim, rotary_dim, value_dim });
    }
    let head_dim = model.head_dim.or_else(|| hidden.checked_div(heads));
    let head_dim = head_dim.ok_or_else(|| "model.heads is 0".to_owned())?;
    Ok(Projection::Grouped { kv_heads: model.kv_heads.unwrap_or(heads), head_dim })
}

fn experts(model: &PublishedModel) -> Result<Option<Experts>, String> {
    let Some(count) = model.experts else { return Ok(None) };
    let top_k = model.topk.ok_or("model.topk is not given")?;
    let intermediate = model.moe_ffn_hidden.ok_or("model.moe_ffn_hidden is not given")?;
    Ok(Some(Experts {
        count,
        top_k,
        intermediate,
        shared_intermediate: model.shared_ffn_hidden.unwrap_or(0),
        dense_layers: dense_layers(model),
    }))
}

/// The first layers that have no experts: as the table says or, in the pattern `([0]*1+[1]*15)` of Megatron, the zeros
/// that it begins with. A table that gives an MLP width of its own beside shared experts describes DeepSeek's models,
/// of which the first layer is dense (DeepSeek-V2 report, section 2.2.1).
fn dense_layers(model: &PublishedModel) -> u64 {
    let pattern = || {
        let zeros = model.moe_layer_freq.as_deref()?.trim_start_matches('(').strip_prefix("[0]*")?;
        zeros.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    let width_of_its_own = model.shared_ffn_hidden.is_some_and(|width| width > 0)
        && model.moe_layer_freq.is_none()
        && model.ffn_hidden != model.moe_ffn_hidden
        && model.ffn_hidden != model.shared_ffn_hidden;
    model.dense_layers.or_else(pattern).unwrap_or(u64::from(width_of_its_own))
}
