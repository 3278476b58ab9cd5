//! What a configuration of nanotron means.

use super::release::Release;
use crate::export::error::ImportError;
use crate::export::meaning::{Meaning, Scene};
use crate::export::reader::Reader;
use crate::strategy::cuts::CutCosts;
use crate::strategy::{CheckpointEntry, CheckpointMode, ContextKind, Draft, Schedule};
use crate::units::ElementType;

/// What the settings mean.
pub fn read(reader: &Reader<'_>, scene: &Scene<'_>, release: Release) -> Result<Meaning, ImportError> {
    let mut meaning = Meaning::default();
    if release == Release::Published {
        for name in
            ["recompute_layer", "moe_layer_recompute", "tp_recompute_allgather", "context_parallel_size"]
        {
            let path = format!("parallelism.{name}");
            if reader.has(&path) {
                return Err(reader.refused(
                    &path,
                    "the release has no such setting; nanotron@0.4, its main branch, has it",
                ));
            }
        }
    }
    sizes(reader, scene, &mut meaning.draft)?;
    pipeline(reader, scene, &mut meaning)?;
    tensor(reader, release, &mut meaning)?;
    tokens(reader, &mut meaning)?;
    state(reader, &mut meaning)?;
    let mut mode = CheckpointMode::None;
    if reader.is_on("parallelism.recompute_layer")? {
        mode = CheckpointMode::Full;
    }
    if reader.is_on("parallelism.moe_layer_recompute")? && mode == CheckpointMode::None {
        let rule = "recomputation of the experts alone is not modelled; recompute_layer is";
        return Err(reader.refused("parallelism.moe_layer_recompute", rule).or(vec!["false".to_owned()]));
    }
    meaning.draft.checkpoint = Some(vec![CheckpointEntry::Whole(mode)]);
    meaning.dropout = Some(0.0);
    Ok(meaning)
}

/// A size that the class demands.
fn needed(reader: &Reader<'_>, path: &str) -> Result<u64, ImportError> {
    let missing =
        || ImportError::Missing { path: path.to_owned(), rule: "nanotron has no default for it".to_owned() };
    reader.size(path)?.ok_or_else(missing)
}

fn sizes(reader: &Reader<'_>, scene: &Scene<'_>, draft: &mut Draft) -> Result<(), ImportError> {
    let data = needed(reader, "parallelism.dp")?;
    let pipeline = needed(reader, "parallelism.pp")?;
    let tensor = needed(reader, "parallelism.tp")?;
    let context = reader.size("parallelism.context_parallel_size")?.unwrap_or(1);
    let path = "parallelism.expert_parallel_size";
    if reader.size(path)?.unwrap_or(1) > 1 {
        let rule = "nanotron lays ranks out with it and checks their number without it (parallel/context.py:26 \
                    against 62), so no number of devices passes both";
        return Err(reader.refused(path, rule).or(vec!["1".to_owned()]));
    }
    let product = [pipeline, tensor, context].iter().try_fold(data, |a, b| a.checked_mul(*b));
    if product != Some(scene.devices) {
        let rule = format!(
            "dp · pp · tp · cp = {data} · {pipeline} · {tensor} · {context} is not the {} devices",
            scene.devices
        );
        return Err(reader.refused("parallelism.dp", rule));
    }
    draft.data = Some(data);
    draft.pipeline = Some(pipeline);
    draft.tensor = Some(tensor);
    draft.context = Some(context);
    draft.context_kind = (context > 1).then_some(ContextKind::Ring);
    Ok(())
}

fn pipeline(reader: &Reader<'_>, scene: &Scene<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let engines = [("afab", Schedule::GPipe), ("1f1b", Schedule::OneForwardOneBackward)];
    let schedule = reader.choice("parallelism.pp_engine", &engines)?.unwrap_or(Schedule::GPipe);
    // Where told so, one stage runs all forwards first too (parallel/pipeline_parallel/engine.py).
    meaning.draft.schedule = Some(schedule);
    let stages = meaning.draft.pipeline.unwrap_or(1);
    if stages == 1 {
        return Ok(());
    }
    let blocks = scene.model.blocks();
    match CutCosts::of(scene.model).dealt(usize::try_from(stages).unwrap_or(usize::MAX)) {
        Some(cuts) => meaning.draft.cuts = Some(cuts),
        None => {
            let rule = format!(
                "nanotron cuts {blocks} blocks by their cost so that a stage has none and the head is not on the last"
            );
            return Err(reader.refused("parallelism.pp", rule));
        }
    }
    Ok(())
}

fn tensor(reader: &Reader<'_>, release: Release, meaning: &mut Meaning) -> Result<(), ImportError> {
    let modes = [("ALL_REDUCE", false), ("REDUCE_SCATTER", true)];
    let sequence = reader.choice("parallelism.tp_mode", &modes)?.unwrap_or(false);
    let path = "parallelism.tp_linear_async_communication";
    let is_asynchronous = reader.is_on(path)?;
    let keeps = !reader.switch("parallelism.tp_recompute_allgather")?.unwrap_or(true);
    if meaning.draft.tensor == Some(1) {
        return Ok(());
    }
    if is_asynchronous && !sequence {
        let rule = "it goes with tp_mode REDUCE_SCATTER only (parallel/tensor_parallel/nn.py:145)";
        return Err(reader.refused(path, rule).or(vec!["false".to_owned()]));
    }
    meaning.draft.sequence_parallel = Some(sequence);
    meaning.is_asynchronous = is_asynchronous;
    // The release keeps them.
    if sequence && !keeps && release == Release::Main {
        meaning
            .notes
            .push("Inputs are gathered anew in the backward; they are predicted as kept.".to_owned());
    }
    Ok(())
}

fn tokens(reader: &Reader<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let micro = needed(reader, "tokens.micro_batch_size")?;
    let accumulation = needed(reader, "tokens.batch_accumulation_per_replica")?;
    meaning.seq_len = Some(needed(reader, "tokens.sequence_length")?);
    meaning.draft.micro_batch = Some(micro);
    meaning.draft.accumulation = Some(accumulation);
    let data = meaning.draft.data.unwrap_or(1);
    let global = micro.checked_mul(accumulation).and_then(|local| local.checked_mul(data));
    meaning.global_batch = Some(global.ok_or_else(|| {
        reader.refused(
            "tokens.micro_batch_size",
            "micro-batch, accumulation and dp multiply to more than 64 bits hold",
        )
    })?);
    Ok(())
}

fn state(reader: &Reader<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let types =
        [("bfloat16", ElementType::Bf16), ("float16", ElementType::Fp16), ("float32", ElementType::Fp32)];
    let precision = reader.choice("model.dtype", &types)?.unwrap_or(ElementType::Bf16);
    meaning.precision = Some(precision);
    let path = "optimizer.zero_stage";
    let zero = reader.count(path)?.unwrap_or(0);
    meaning.draft.zero = match zero {
        0 | 1 => Some(zero as u8),
        // Any stage above 0 shards the optimizer's state and nothing else (helpers.py:409).
        _ => {
            return Err(reader
                .refused(path, "nanotron has 0 and 1; what is above runs as 1")
                .or(vec!["1".to_owned()]));
        }
    };
    let is_wide = reader.is_on("optimizer.accumulate_grad_in_fp32")?;
    meaning.draft.gradient_type = match precision {
        ElementType::Fp32 => None,
        _ if is_wide => Some(ElementType::Fp32),
        narrow => Some(narrow),
    };
    let path = "optimizer.optimizer_factory.name";
    if reader.word(path)?.is_some_and(|name| !name.eq_ignore_ascii_case("adamW")) {
        let rule = "the state of adamW is what is modelled";
        return Err(reader.refused(path, rule).or(vec!["adamW".to_owned()]));
    }
    let path = "optimizer.clip_grad";
    let clip = reader.real(path)?;
    if clip.is_some_and(|norm| norm <= 0.0) {
        return Err(reader
            .refused(path, "gradients are scaled to this norm; null does not clip")
            .or(vec!["null".to_owned()]));
    }
    meaning.clip = Some(clip.unwrap_or(0.0));
    Ok(())
}
