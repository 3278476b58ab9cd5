//! The experts of a family that is a shape, and which blocks have them.

use serde_json::Value;

use super::{Experts, Shared, Sparse};
use crate::model::error::ModelError;
use crate::model::hugging_face::config::{Config, shown};
use crate::model::layer::Moe;

/// A layer of experts without norms, and whether each block has it; none where no block has.
pub(super) fn of(
    config: &Config<'_>,
    experts: &Experts,
    gated: bool,
    layers: u64,
) -> Result<Option<(Moe, Vec<bool>)>, ModelError> {
    let count = config.experts("num_experts")?;
    let sparse = sparse(config, experts.sparse, layers)?;
    if count == 0 || !sparse.contains(&true) {
        return Ok(None);
    }
    let intermediate = config.size(experts.width)?;
    // Both factors are at most 2^32, and the check of the assembled model bounds the product.
    let shared_intermediate = match experts.shared {
        Shared::None => 0,
        Shared::Count(field) => config.count(field)?.saturating_mul(intermediate),
        Shared::Width(field) => config.count(field)?,
        Shared::One => intermediate,
    };
    let moe = Moe {
        hidden: config.size("hidden_size")?,
        experts: count,
        top_k: config.top_k(count)?,
        intermediate,
        shared_intermediate,
        shared_gate: experts.shared_gate && shared_intermediate > 0,
        gated,
        activation: config.activation(&["hidden_act"])?,
        bias: false,
        router_bias: false,
        norm: None,
        output_norm: None,
    };
    Ok(Some((moe, sparse)))
}

/// Whether each block has experts.
fn sparse(config: &Config<'_>, rule: Sparse, layers: u64) -> Result<Vec<bool>, ModelError> {
    if let Some(kinds) = config.list("mlp_layer_types")? {
        return kinds_of(kinds, layers);
    }
    let every = |has: &dyn Fn(u64) -> bool| (0..layers).map(has).collect::<Vec<bool>>();
    Ok(match rule {
        Sparse::All => every(&|_| true),
        Sparse::BehindFirst(first) => every(&|layer| layer >= first),
        Sparse::Behind => {
            let first = config.count("first_k_dense_replace")?;
            let step = config.optional_size("moe_layer_freq")?.unwrap_or(1);
            every(&|layer| layer >= first && layer.is_multiple_of(step))
        }
        Sparse::Steps(first) => {
            let step = config.size("decoder_sparse_step")?;
            let listed = numbers(config, "mlp_only_layers", layers)?;
            let dense = listed.unwrap_or_else(|| (0..first).collect());
            every(&|layer| (layer + 1).is_multiple_of(step) && !dense.contains(&layer))
        }
        Sparse::Between => {
            let step = config.size("moe_layer_interval")?;
            let (first, last) = (config.count("moe_layer_start_index")?, last_layer(config)?);
            every(&|layer| (layer + 1).is_multiple_of(step) && layer >= first && layer <= last)
        }
        Sparse::Interleaved => match numbers(config, "moe_layers", layers)? {
            Some(listed) => every(&|layer| listed.contains(&layer)),
            None => {
                let step = config.size("interleave_moe_layer_step")?;
                every(&|layer| (layer + 1).is_multiple_of(step))
            }
        },
    })
}

/// `moe_layer_end_index`, where −1 and nothing mean the last.
fn last_layer(config: &Config<'_>) -> Result<u64, ModelError> {
    match config.given("moe_layer_end_index") {
        Some((_, Value::Number(number))) if number.as_i64() == Some(-1) => Ok(u64::MAX),
        Some((_, Value::Null)) | None => Ok(u64::MAX),
        _ => config.count("moe_layer_end_index"),
    }
}

fn kinds_of(kinds: &[Value], layers: u64) -> Result<Vec<bool>, ModelError> {
    if kinds.len() as u64 != layers {
        let rule = format!("has {} entries for {layers} layers", kinds.len());
        return Err(ModelError::rule("mlp_layer_types", "(a list)", rule, [layers]));
    }
    let has = |kind: &Value| match kind.as_str() {
        Some("sparse") => Ok(true),
        Some("dense") => Ok(false),
        _ => {
            let rule = "is no kind of MLP";
            Err(ModelError::rule("mlp_layer_types", shown(kind), rule, ["dense", "sparse"]))
        }
    };
    kinds.iter().map(has).collect()
}

/// A list of layers, each from 0 to the last.
fn numbers(config: &Config<'_>, field: &'static str, layers: u64) -> Result<Option<Vec<u64>>, ModelError> {
    let number = |layer: &Value| {
        layer.as_u64().filter(|layer| *layer < layers).ok_or_else(|| {
            let rule = format!("is no layer from 0 to {}", layers - 1);
            ModelError::rule(field, shown(layer), rule, [layers - 1])
        })
    };
    config.list(field)?.map(|list| list.iter().map(number).collect()).transpose()
}
