//! What arguments of MaxText mean.

use super::write::TILES;
use super::{read_memory, read_mesh};
use crate::export::error::ImportError;
use crate::export::meaning::{Meaning, Scene};
use crate::export::reader::Reader;
use crate::strategy::{AttentionKernel, Capacity, Draft, LossMode, Schedule};
use crate::units::ElementType;

/// What the arguments mean.
pub fn read(reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Meaning, ImportError> {
    let mut meaning = Meaning::default();
    read_mesh::read(reader, scene, &mut meaning)?;
    let rounds = pipeline(reader, scene, &mut meaning.draft)?;
    batch(reader, scene, rounds, &mut meaning)?;
    numbers(reader, &mut meaning)?;
    experts(reader, scene, &mut meaning)?;
    read_memory::read(reader, &mut meaning)?;
    unmodelled(reader)?;
    Ok(meaning)
}

/// Reads the pipeline; returns its micro-batches.
fn pipeline(reader: &Reader<'_>, scene: &Scene<'_>, draft: &mut Draft) -> Result<u64, ImportError> {
    let blocks = i64::from(scene.model.blocks());
    let each = reader.size("num_layers_per_pipeline_stage")?;
    let repeats = reader.whole("num_pipeline_repeats")?.unwrap_or(-1);
    let piped = reader.whole("pipeline_parallel_layers")?.unwrap_or(-1);
    let count = reader.whole("num_pipeline_microbatches")?.unwrap_or(-1);
    let once = reader.is_on("pipeline_fsdp_ag_once")?;
    let per_repeat = reader.is_on("pipeline_fsdp_ag_per_repeat")?;
    let delays = reader.is_on("pipeline_delay_activation_forwarding")?;
    let stages = draft.pipeline.unwrap_or(1);
    if stages == 1 {
        return Ok(1);
    }
    if delays {
        let rule = "a pipeline that hands activations on a round late is not modelled";
        return Err(reader
            .refused("pipeline_delay_activation_forwarding", rule)
            .or(vec!["false".to_owned()]));
    }
    if piped != -1 && piped != blocks {
        let rule = format!("blocks outside the pipeline are not modelled; -1 or {blocks} is needed");
        return Err(reader.refused("pipeline_parallel_layers", rule).or(vec!["-1".to_owned()]));
    }
    let of_rank = blocks as u64 / stages;
    // One layer a stage, and as many rounds as it takes, where nothing is said.
    let chunks = match (repeats, each) {
        (1.., _) => repeats as u64,
        (_, each) => of_rank / each.unwrap_or(1).max(1),
    };
    let layers = each.unwrap_or_else(|| if repeats > 0 { of_rank / chunks.max(1) } else { 1 });
    if [stages, chunks, layers].iter().try_fold(1_u64, |a, b| a.checked_mul(*b)) != Some(blocks as u64) {
        let rule =
            format!("stages · repeats · layers = {stages} · {chunks} · {layers} is not the {blocks} blocks");
        let path = if each.is_some() { "num_layers_per_pipeline_stage" } else { "num_pipeline_repeats" };
        return Err(reader.refused(path, rule).or(vec![of_rank.to_string()]));
    }
    if chunks > 1 {
        let path = if repeats > 0 { "num_pipeline_repeats" } else { "num_layers_per_pipeline_stage" };
        let rule = format!(
            "pipelines that go round {chunks} times are not modelled: {of_rank} layers a stage go round once"
        );
        return Err(reader.refused(path, rule));
    }
    if per_repeat {
        return Err(
            reader.refused("pipeline_fsdp_ag_per_repeat", "it goes with one layer a stage (types.py:3587)")
        );
    }
    draft.schedule = Some(Schedule::GPipe);
    if draft.zero == Some(3) {
        draft.reshard_after_forward = Some(!once);
    }
    let rounds =
        if count == -1 { stages } else { reader.size("num_pipeline_microbatches")?.unwrap_or(stages) };
    if !rounds.is_multiple_of(stages) {
        let rule = format!("it must be a multiple of the {stages} stages (types.py:3609)");
        return Err(reader
            .refused("num_pipeline_microbatches", rule)
            .or(crate::export::reader::multiples(rounds, stages)));
    }
    Ok(rounds)
}

fn batch(
    reader: &Reader<'_>,
    scene: &Scene<'_>,
    rounds: u64,
    meaning: &mut Meaning,
) -> Result<(), ImportError> {
    let path = "per_device_batch_size";
    let share = reader.real(path)?.unwrap_or(12.0);
    let steps = reader.size("gradient_accumulation_steps")?.unwrap_or(1);
    let whole = share * scene.devices as f64;
    let once = whole.round();
    if !(1.0..9e15).contains(&once) || (whole - once).abs() > 1e-6 * once {
        let rule = format!("times {} devices it must be a whole number of sequences", scene.devices);
        return Err(reader.refused(path, rule));
    }
    let once = once as u64;
    let data = meaning.draft.data.unwrap_or(1);
    let parts = data.saturating_mul(rounds);
    if !once.is_multiple_of(parts) {
        let rule = format!(
            "its {once} sequences a step do not divide by {data} data ranks and {rounds} micro-batches"
        );
        return Err(reader.refused(path, rule));
    }
    meaning.draft.micro_batch = Some(once / parts);
    meaning.draft.accumulation = rounds.checked_mul(steps);
    if rounds > 1 && steps > 1 {
        meaning.notes.push(format!("Each of {steps} pipeline steps of an optimizer step drains its pipeline; they are predicted as one."));
    }
    let global = once.checked_mul(steps);
    meaning.global_batch = Some(global.ok_or_else(|| {
        reader.refused("gradient_accumulation_steps", "the batch is more than 64 bits hold")
    })?);
    meaning.seq_len = Some(reader.size("max_target_length")?.unwrap_or(2048));
    Ok(())
}

fn numbers(reader: &Reader<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let types = [("bfloat16", ElementType::Bf16), ("float32", ElementType::Fp32)];
    let compute = reader.choice("dtype", &types)?.unwrap_or(ElementType::Bf16);
    for path in ["weight_dtype", "grad_dtype"] {
        if reader.choice(path, &types)? == Some(ElementType::Bf16) {
            let rule = "weights and gradients in 16 bits are not modelled; float32 is";
            return Err(reader.refused(path, rule).or(vec!["float32".to_owned()]));
        }
    }
    let quantization = reader.word("quantization")?.unwrap_or_default();
    meaning.precision = Some(match quantization {
        "" => compute,
        kind if kind.contains("fp8") => ElementType::Fp8,
        kind => {
            meaning
                .notes
                .push(format!("Products in {kind} have no word here; they are predicted in {compute}."));
            compute
        }
    });
    let steps = reader.size("gradient_accumulation_steps")?.unwrap_or(1);
    if meaning.precision == Some(ElementType::Fp8) && steps > 1 {
        let rule = "MaxText refuses it with quantization to fp8 (types.py:3878)";
        return Err(reader.refused("gradient_accumulation_steps", rule).or(vec!["1".to_owned()]));
    }
    meaning.clip = Some(reader.real("gradient_clipping_threshold")?.unwrap_or(1.0));
    meaning.dropout = Some(reader.real("dropout_rate")?.unwrap_or(0.0));
    let (fused, plain) = (AttentionKernel::Fused, AttentionKernel::Materialised);
    let kernels = [
        ("autoselected", fused),
        ("flash", fused),
        ("cudnn_flash_te", fused),
        ("cudnn_flash_jax", fused),
        ("dot_product", plain),
    ];
    meaning.draft.attention = reader.choice("attention", &kernels)?;
    let tiles = reader.size("num_vocab_tiling")?.unwrap_or(1);
    meaning.draft.loss = Some(if tiles > 1 { LossMode::Chunked } else { LossMode::Full });
    if tiles > 1 && tiles != TILES {
        meaning.notes.push(format!("The loss is computed in {tiles} parts; it is predicted in {TILES}."));
    }
    Ok(())
}

fn experts(reader: &Reader<'_>, scene: &Scene<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let factor = reader.real("capacity_factor")?.unwrap_or(-1.0);
    let is_sparse = reader.switch("sparse_matmul")?.unwrap_or(true);
    let has_experts =
        scene.model.layers().any(|layer| matches!(layer.kind, crate::model::layer::LayerKind::Moe(_)));
    if !has_experts {
        meaning.draft.expert_tensor = None;
        return Ok(());
    }
    meaning.draft.capacity = Some(match (is_sparse, factor > 0.0) {
        (false, true) => Capacity::Factor(factor),
        (false, false) => {
            let rule = "without it and without a capacity_factor every expert computes every token, which is not modelled";
            return Err(reader.refused("sparse_matmul", rule).or(vec!["true".to_owned()]));
        }
        (true, is_limited) => {
            if is_limited {
                meaning.notes.push(
                    "capacity_factor counts without sparse_matmul only: no token is dropped.".to_owned(),
                );
            }
            Capacity::Full
        }
    });
    Ok(())
}

/// Settings that change a run in ways that are not modelled.
fn unmodelled(reader: &Reader<'_>) -> Result<(), ImportError> {
    for (path, usual) in [("opt_type", "adamw"), ("mu_dtype", "float32")] {
        if reader.word(path)?.is_some_and(|word| word != usual && !word.is_empty() && word != "adam_pax") {
            let rule = format!("{usual} is what is modelled");
            return Err(reader.refused(path, rule).or(vec![usual.to_owned()]));
        }
    }
    for (path, rule) in [
        ("enable_rampup_batch_size", "batches that grow are not modelled"),
        ("use_batch_split_schedule", "batches that are split to hide messages are not modelled"),
        ("use_ring_of_experts", "experts that go round a ring are not modelled"),
        ("shard_exp_on_fsdp", "experts that are spread over FSDP ranks are not modelled"),
        ("use_dpo", "training with preferences is not modelled"),
    ] {
        if reader.is_on(path)? {
            return Err(reader.refused(path, rule).or(vec!["false".to_owned()]));
        }
    }
    Ok(())
}
