//! Settings that DeepSpeed refuses, and settings that change a run in ways that are not modelled.

use super::{is_auto, is_on};
use crate::export::engines::deepspeed::config::HARMLESS;
use crate::export::error::ImportError;
use crate::export::reader::Reader;

/// Sections and keys that 0.19.8 refuses because it has lost them (`runtime/config.py:80-120`).
const REMOVED: [&str; 12] = [
    "nebula",
    "compression_training",
    "amp",
    "quantize_training",
    "sparse_gradients",
    "eigenvalue",
    "sparse_attention",
    "elasticity",
    "graph_harvesting",
    "curriculum_learning",
    "progressive_layer_drop",
    "zero_optimization.zeropp_loco_param",
];

/// Switches that are not modelled, with what they do.
const UNMODELLED: [(&str, &str); 15] = [
    ("bf16.bf16_master_weights_and_grads", "master weights in 16 bits are not modelled"),
    ("bf16.bf16_optimizer_states", "optimizer state in 16 bits is not modelled"),
    ("fp16.fp16_master_weights_and_grads", "master weights in 16 bits are not modelled"),
    (
        "torch_autocast.enabled",
        "autocast over 32-bit parameters is not modelled; bf16.enabled and fp16.enabled are",
    ),
    ("zero_optimization.zero_quantized_weights", "gathering of quantised parameters is not modelled"),
    ("zero_optimization.zero_quantized_nontrainable_weights", "quantised parameters are not modelled"),
    ("zero_optimization.zero_quantized_gradients", "reduction of quantised gradients is not modelled"),
    ("zero_optimization.legacy_stage1", "DeepSpeed has no such stage 1 any more"),
    ("zero_optimization.offload_optimizer.super_offload", "offload for superchips is not modelled"),
    ("hybrid_engine.enabled", "training with generation between is not modelled"),
    ("data_efficiency.enabled", "sequences or layers that are left out are not modelled"),
    ("compile.deepcompile", "what DeepCompile moves is not modelled"),
    ("tensor_parallel.replace_with_kernel_inject", "kernels of inference are not modelled"),
    ("tensor_parallel.kernel_inject", "kernels of inference are not modelled"),
    (
        "tensor_parallel.vocab_parallel_lm_head",
        "logits that are split over tensor ranks are not modelled here",
    ),
];

/// Refuses what cannot be predicted.
pub fn check(reader: &Reader<'_>) -> Result<(), ImportError> {
    for name in REMOVED {
        let section = format!("{name}.");
        let stands = |path: &str| path == name || path.starts_with(&section);
        if let Some(found) = reader.document().found.iter().find(|found| stands(&found.path)) {
            return Err(
                reader.refused(&found.path, "DeepSpeed has lost this feature, and 0.19.8 refuses the key")
            );
        }
    }
    for (path, rule) in UNMODELLED {
        if is_on(reader, path, false)? {
            return Err(reader.refused(path, rule).or(vec!["false".to_owned()]));
        }
    }
    for section in ["zero_optimization.zenflow.", "weight_quantization."] {
        if let Some(found) = reader.document().found.iter().find(|found| found.path.starts_with(section)) {
            return Err(reader.refused(&found.path, "what this section does is not modelled"));
        }
    }
    optimizer(reader)?;
    let hpz = "zero_optimization.zero_hpz_partition_size";
    if reader.count(hpz)?.unwrap_or(1) > 1 {
        let rule = "a second copy of parameters inside a node is not modelled; 1 keeps none";
        return Err(reader.refused(hpz, rule).or(vec!["1".to_owned()]));
    }
    if reader.has("zero_optimization") {
        let rule = "a section with `stage` is needed";
        return Err(reader.refused("zero_optimization", rule));
    }
    let operation = "gradient_allreduce_op";
    reader.choice(operation, &[("mean", ()), ("sum", ())])?;
    let is_sum = reader.name(operation) == Some("sum");
    if is_sum && reader.count("zero_optimization.stage")?.unwrap_or(0) == 3 {
        return Err(reader.refused(operation, "ZeRO stage 3 takes mean only").or(vec!["mean".to_owned()]));
    }
    Ok(())
}

/// The optimizer, whose state is predicted as Adam's.
fn optimizer(reader: &Reader<'_>) -> Result<(), ImportError> {
    let path = "optimizer.type";
    if is_auto(reader, path) {
        return Ok(());
    }
    let names = ["Adam", "AdamW", "FusedAdam", "CPUAdam", "Lamb", "FusedLamb", "MuAdam", "MuAdamW"]
        .map(|name| (name, ()));
    let refused = |error: ImportError| match error {
        ImportError::Value { .. } | ImportError::Elsewhere { .. } => {
            let rule =
                "state other than two moments of each parameter is not modelled, as Adam and Lamb have";
            reader.refused(path, rule).or(vec!["AdamW".to_owned()])
        }
        other => other,
    };
    reader.choice(path, &names).map(drop).map_err(refused)
}

/// Sections that are read by classes which refuse keys that they do not know (0.19.8 `runtime/config_utils.py:110`).
const STRICT: [&str; 4] = ["zero_optimization.", "bf16.", "fp16.", "tensor_parallel."];

/// Refuses keys of these sections that nobody asked for; what is near a known one is named later.
pub fn strangers(reader: &Reader<'_>) -> Result<(), ImportError> {
    reader.sections(HARMLESS)?;
    for (found, near) in reader.left(HARMLESS) {
        if near.is_none() && STRICT.iter().any(|section| found.path.starts_with(section)) {
            return Err(
                reader.refused(&found.path, "DeepSpeed knows no such key in this section, and refuses it")
            );
        }
    }
    Ok(())
}
