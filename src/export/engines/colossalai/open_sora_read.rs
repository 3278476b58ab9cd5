//! What a configuration of Open-Sora 2.0 means.

use super::plugin::{MEGA, Plugin};
use super::read_hybrid::{self, Call};
use super::read_pipeline::{self, Batch};
use crate::export::error::ImportError;
use crate::export::meaning::{Meaning, Scene};
use crate::export::reader::Reader;
use crate::strategy::{CheckpointEntry, CheckpointMode, OffloadCategory};
use crate::units::ElementType;

/// Blocks of Open-Sora's model: those of two streams, then those of one (`configs/diffusion/train/image.py`).
const BLOCKS: [u32; 2] = [19, 38];

/// What the settings mean.
pub fn read(reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Meaning, ImportError> {
    let mut meaning = Meaning::default();
    let types = [("bf16", ElementType::Bf16), ("fp16", ElementType::Fp16), ("fp32", ElementType::Fp32)];
    meaning.precision = Some(reader.choice("dtype", &types)?.unwrap_or(ElementType::Bf16));
    meaning.clip = Some(reader.real("grad_clip")?.unwrap_or(0.0));
    let names = [("zero1", Some(1)), ("zero2", Some(2)), ("hybrid", None)];
    let call = Call { reader, prefix: "plugin_config" };
    reader.name("plugin_config");
    match reader.choice("plugin", &names)?.unwrap_or(Some(2)) {
        Some(stage) => low_level(&call, stage, scene, &mut meaning)?,
        None => read_hybrid::read(&call, Plugin::Hybrid, scene, &mut meaning)?,
    }
    batch(&call, scene, &mut meaning)?;
    recomputation(reader, scene, &mut meaning)?;
    if let Some(base) = reader.list("_base_")? {
        let names: Vec<&str> = base.iter().filter_map(|name| name.as_str()).collect();
        meaning.notes.push(format!(
            "What {} says is not read; what this file leaves out is as Open-Sora's program has it.",
            names.join(", ")
        ));
    }
    Ok(meaning)
}

fn low_level(
    call: &Call<'_>,
    stage: u8,
    scene: &Scene<'_>,
    meaning: &mut Meaning,
) -> Result<(), ImportError> {
    let reader = call.reader;
    for name in ["sp_size", "tp_size", "pp_size"] {
        let path = call.path(name);
        if reader.size(&path)?.unwrap_or(1) > 1 {
            let rule = "zero1 and zero2 have data ranks only; hybrid has this";
            return Err(reader.refused(&path, rule).or(vec!["1".to_owned()]));
        }
    }
    let draft = &mut meaning.draft;
    (draft.tensor, draft.pipeline, draft.context) = (Some(1), Some(1), Some(1));
    draft.data = Some(scene.devices);
    draft.zero = Some(stage);
    let size = reader.real(&call.path("reduce_bucket_size_in_m"))?.unwrap_or(20.0);
    draft.bucket = Some((size * MEGA).round() as u64).filter(|elements| *elements > 0);
    if reader.is_on(&call.path("cpu_offload"))? {
        draft.offload = Some(vec![(OffloadCategory::Optimizer, vec![1.0])]);
    }
    Ok(())
}

/// The batch of a data rank: said, or the only one of `bucket_config`, or what the command line's batch leaves.
fn batch(call: &Call<'_>, scene: &Scene<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let reader = call.reader;
    let steps = reader.size("accumulation_steps")?.unwrap_or(1);
    let buckets = reader.value("bucket_config")?;
    let plain = reader.size("batch_size")?;
    let sizes: Vec<u64> = buckets
        .and_then(|buckets| buckets.as_object())
        .into_iter()
        .flat_map(|buckets| buckets.values())
        .filter_map(|frames| frames.as_object())
        .flat_map(|frames| frames.values())
        .filter_map(|pair| pair.as_array()?.get(1)?.as_u64())
        .collect();
    let data = meaning.draft.data.unwrap_or(1);
    let local = match (sizes.as_slice(), plain) {
        ([one], _) => *one,
        ([], Some(local)) => local,
        _ => {
            let global = scene.needed_global_batch()?;
            let parts = data.saturating_mul(steps);
            if !global.is_multiple_of(parts) {
                let rule =
                    format!("the batch of {global} does not divide by {data} data ranks and {steps} steps");
                return Err(reader.refused("accumulation_steps", rule));
            }
            meaning
                .notes
                .push("The plan is of the bucket whose batch this is; others are not predicted.".to_owned());
            global / parts
        }
    };
    if local == 0 {
        return Err(reader.refused("bucket_config", "a batch of at least 1 is needed"));
    }
    read_pipeline::batch(call, Batch { local, steps }, "accumulation_steps", meaning)
}

fn recomputation(reader: &Reader<'_>, scene: &Scene<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let path = "grad_ckpt_settings";
    let list = reader.list(path)?;
    let is_on = reader.switch("grad_checkpoint")?.unwrap_or(true);
    if reader.real("grad_ckpt_buffer_size")?.unwrap_or(0.0) > 0.0 {
        meaning.notes.push(
            "Inputs of blocks that recompute go to the host; they are predicted on the device.".to_owned(),
        );
    }
    let blocks = scene.model.blocks();
    let whole = |mode| Some(vec![CheckpointEntry::Whole(mode)]);
    let counts: Option<Vec<u64>> =
        list.as_ref().map(|list| list.iter().filter_map(|count| count.as_u64()).collect());
    meaning.draft.checkpoint = match counts.as_deref() {
        _ if !is_on => whole(CheckpointMode::None),
        None => whole(CheckpointMode::Full),
        Some([both, single]) if blocks == BLOCKS.iter().sum::<u32>() && meaning.draft.pipeline == Some(1) => {
            let full = [*both, *single].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
            let [both, single] = [full[0].min(BLOCKS[0]), full[1].min(BLOCKS[1])];
            let (full, none) = (CheckpointMode::Full, CheckpointMode::None);
            let runs =
                vec![(full, both), (none, BLOCKS[0] - both), (full, single), (none, BLOCKS[1] - single)];
            Some(vec![CheckpointEntry::Runs(runs)])
        }
        // The counts are of a rank's blocks.
        Some([both, single]) if *both.min(single) >= u64::from(blocks) => whole(CheckpointMode::Full),
        Some([0, 0]) => whole(CheckpointMode::None),
        Some([_, _]) => {
            let rule = format!(
                "which of {blocks} blocks have one stream is known of 57 without a pipeline: 19 and 38"
            );
            return Err(reader.refused(path, rule).or(vec![format!("({blocks}, {blocks})")]));
        }
        Some(_) => return Err(reader.refused(path, "two numbers of blocks are needed")),
    };
    Ok(())
}
