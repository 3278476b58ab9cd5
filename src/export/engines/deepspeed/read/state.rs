//! Precision, how state is sharded, what gradients are kept and reduced in, and what is on the host.

use super::{is_auto, is_on};
use crate::export::engines::deepspeed::write::BUCKET;
use crate::export::error::ImportError;
use crate::export::meaning::{Meaning, Scene};
use crate::export::reader::Reader;
use crate::strategy::OffloadCategory;
use crate::units::ElementType;

/// Its names of types (0.19.8 `runtime/config.py:144`).
const TYPES: &[(&str, ElementType)] = &[
    ("fp32", ElementType::Fp32),
    ("bf16", ElementType::Bf16),
    ("fp16", ElementType::Fp16),
    ("float32", ElementType::Fp32),
    ("bfloat16", ElementType::Bf16),
    ("float16", ElementType::Fp16),
    ("float", ElementType::Fp32),
    ("half", ElementType::Fp16),
    ("torch.float32", ElementType::Fp32),
    ("torch.bfloat16", ElementType::Bf16),
    ("torch.float16", ElementType::Fp16),
];

/// Reads precision and clipping.
pub fn precision(reader: &Reader<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let mut found = None;
    let mut open = None;
    for (path, element) in [
        ("bf16.enabled", ElementType::Bf16),
        ("bfloat16.enabled", ElementType::Bf16),
        ("fp16.enabled", ElementType::Fp16),
    ] {
        if is_auto(reader, path) {
            open.get_or_insert(path);
        } else if reader.is_on(path)? {
            if found.is_some_and(|known| known != element) {
                return Err(reader
                    .refused(path, "it contradicts the other 16-bit type")
                    .or(vec!["false".to_owned()]));
            }
            found = Some(element);
        }
    }
    meaning.precision = match (found, open) {
        (Some(element), _) => Some(element),
        (None, Some(path)) => {
            meaning.notes.push(format!("`{path}` is auto: --precision TYPE says what it is to be."));
            None
        }
        (None, None) => Some(ElementType::Fp32),
    };
    let path = "data_types.param_dtype";
    let own = reader.choice(path, TYPES)?;
    if own.zip(meaning.precision).is_some_and(|(own, precision)| own != precision) {
        return Err(reader.refused(path, "it contradicts bf16.enabled and fp16.enabled"));
    }
    let path = "gradient_clipping";
    // Left out, it is on (0.19.8 `runtime/constants.py:203`).
    meaning.clip = if is_auto(reader, path) { None } else { Some(reader.real(path)?.unwrap_or(1.0)) };
    if meaning.clip.is_some_and(|clip| clip < 0.0) {
        return Err(reader
            .refused(path, "a norm of at least 0 is needed; 0 does not clip")
            .or(vec!["0".to_owned()]));
    }
    Ok(())
}

/// Reads ZeRO stage, shard group and bucket.
pub fn zero(reader: &Reader<'_>, scene: &Scene<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let path = |name: &str| format!("zero_optimization.{name}");
    let stage_path = path("stage");
    let stage = reader.count(&stage_path)?.unwrap_or(0);
    let is_piped = meaning.draft.pipeline.is_some_and(|stages| stages > 1);
    let zero = u8::try_from(stage).ok().filter(|zero| *zero <= 3);
    let zero =
        zero.ok_or_else(|| reader.refused(&stage_path, "0, 1, 2 or 3 is needed").or(vec!["3".to_owned()]))?;
    if is_piped && zero > 1 {
        let rule = "a pipeline goes with stages 0 and 1 only";
        return Err(reader.refused(&stage_path, rule).or(vec!["1".to_owned()]));
    }
    meaning.draft.zero = Some(zero);
    let bucket = path("reduce_bucket_size");
    // Where it is left open, transformers take the square of the width.
    meaning.draft.bucket = Some(if is_auto(reader, &bucket) {
        width(scene).map_or(BUCKET, |width| width.saturating_mul(width))
    } else {
        reader.size(&bucket)?.unwrap_or(BUCKET)
    });
    let group = path("mics_shard_size");
    if let Some(size) = reader.whole(&group)?.filter(|size| *size > 0) {
        if zero < 3 {
            return Err(reader.refused(&group, "it goes with stage 3 only").or(vec!["-1".to_owned()]));
        }
        meaning.draft.shard = u64::try_from(size).ok();
        meaning
            .notes
            .push("MiCS is read as versions before 0.19.8 have it; 0.19.8 refuses the key.".to_owned());
    }
    reader.switch(&path("mics_hierarchical_params_gather"))?;
    // By itself it is on at stage 3 only (0.19.8 `runtime/zero/config.py:383`).
    let overlaps = is_on(reader, &path("overlap_comm"), zero == 3)?;
    if zero > 0 && !overlaps && !is_piped {
        meaning.notes.push(
            "overlap_comm is off; the reduction of gradients is predicted beside the backward.".to_owned(),
        );
    }
    for (name, what) in [
        ("reduce_scatter", "Gradients are summed whole; they are predicted as reduced and scattered."),
        (
            "contiguous_gradients",
            "Gradients are reduced where they lie; they are predicted as copied to buckets.",
        ),
    ] {
        if zero > 0 && !is_on(reader, &path(name), true)? {
            meaning.notes.push(what.to_owned());
        }
    }
    Ok(())
}

/// The width of the model's first layer.
fn width(scene: &Scene<'_>) -> Option<u64> {
    scene.model.layers().find_map(|layer| match &layer.kind {
        crate::model::layer::LayerKind::Attention(attention) => Some(attention.hidden),
        _ => None,
    })
}

/// Reads the types that gradients are kept and reduced in.
pub fn gradients(reader: &Reader<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let path = "data_types.grad_accum_dtype";
    let kept = reader.choice(path, TYPES)?;
    if meaning.draft.zero == Some(0)
        && let Some((kept, precision)) = kept.zip(meaning.precision)
        && kept != precision
    {
        let rule = format!("without ZeRO, gradients are kept in the model's type, {precision}");
        return Err(reader.refused(path, rule).or(vec![precision.to_string()]));
    }
    meaning.draft.gradient_type = kept.or(meaning.precision);
    let types = &TYPES[..3];
    let plain = reader.choice("communication_data_type", types)?;
    let sequence = reader.choice("seq_parallel_communication_data_type", types)?;
    meaning.draft.reduce_type = if meaning.draft.context.is_some_and(|size| size > 1) {
        // 32 bits where it is left out (0.19.8 `runtime/constants.py:236`).
        Some(sequence.unwrap_or(ElementType::Fp32))
    } else {
        plain.or(meaning.precision)
    };
    Ok(())
}

/// Reads what is on the host.
pub fn offload(reader: &Reader<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let device = |section: &str, older: &str| {
        let path = format!("zero_optimization.{section}.device");
        let choices = [("none", false), ("cpu", true), ("nvme", true)];
        let is_off_device = reader.choice(&path, &choices)?.unwrap_or(false);
        if reader.name(&path) == Some("nvme") {
            return Err(reader
                .refused(&path, "what lies on NVMe is not modelled")
                .or(vec!["cpu".to_owned()]));
        }
        let older = is_on(reader, &format!("zero_optimization.{older}"), false)?;
        Ok(is_off_device || older)
    };
    let mut list = Vec::new();
    let path = "zero_optimization.offload_optimizer.ratio";
    let ratio = reader.real(path)?.unwrap_or(1.0);
    if !(0.0..=1.0).contains(&ratio) {
        return Err(reader.refused(path, "a share from 0 to 1 is needed").or(vec!["1".to_owned()]));
    }
    if device("offload_optimizer", "cpu_offload")? && ratio > 0.0 {
        list.push((OffloadCategory::Optimizer, vec![ratio]));
    }
    match (device("offload_param", "cpu_offload_param")?, meaning.draft.zero) {
        (true, Some(3)) => list.push((OffloadCategory::Parameters, vec![1.0])),
        // 0.19.8 `runtime/engine.py`, _configure_zero_optimizer: only stage 3 is handed it.
        (true, stage) => meaning.notes.push(format!(
            "zero_optimization.offload_param does nothing under stage {}: DeepSpeed hands it to stage 3 alone.",
            stage.unwrap_or(0)
        )),
        (false, _) => {}
    }
    if is_on(reader, "activation_checkpointing.cpu_checkpointing", false)? {
        list.push((OffloadCategory::Activations, vec![1.0]));
    }
    meaning.draft.offload = (!list.is_empty()).then_some(list);
    Ok(())
}
