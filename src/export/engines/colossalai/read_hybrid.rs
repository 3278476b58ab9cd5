//! What the arguments of the hybrid plugins mean.

use super::plugin::{MEGA, Plugin, order};
use crate::export::error::ImportError;
use crate::export::meaning::{Meaning, Scene};
use crate::export::reader::{Reader, multiples};
use crate::strategy::{
    CheckpointEntry, CheckpointMode, ContextKind, GradientSync, OffloadCategory, Schedule,
};
use crate::units::ElementType;

/// A call whose arguments are read.
pub struct Call<'a> {
    pub reader: &'a Reader<'a>,
    pub prefix: &'a str,
}

impl Call<'_> {
    /// The place of an argument.
    pub fn path(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    /// An argument that the class has no default for, or that is 1 where `usual` says so.
    fn size(&self, name: &str, usual: Option<u64>) -> Result<u64, ImportError> {
        let path = self.path(name);
        let missing = || ImportError::Missing { path: path.clone(), rule: "give it by its name".to_owned() };
        self.reader.size(&path)?.or(usual).ok_or_else(missing)
    }
}

/// What a batch is made of: sequences of a data rank that the plugin is given at once, and how often for a step.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    pub local: u64,
    pub steps: u64,
}

/// Reads the sizes and ZeRO stage into `meaning`, whose precision is known.
pub fn read(
    call: &Call<'_>,
    plugin: Plugin,
    scene: &Scene<'_>,
    meaning: &mut Meaning,
) -> Result<(), ImportError> {
    let reader = call.reader;
    // Open-Sora's defaults of sizes are 1; the class has none.
    let usual = (call.prefix == "plugin_config").then_some(1);
    let tensor = call.size("tp_size", usual)?;
    let pipeline = call.size("pp_size", usual)?;
    let (context, kind) = sequence(call, plugin, tensor, meaning)?;
    let inside = tensor.saturating_mul(pipeline).saturating_mul(context);
    if !scene.devices.is_multiple_of(inside) {
        let rule = format!(
            "tp · pp · sp = {tensor} · {pipeline} · {context} does not divide the {} devices",
            scene.devices
        );
        let name = if tensor > 1 { "tp_size" } else { "pp_size" };
        return Err(reader.refused(&call.path(name), rule));
    }
    let draft = &mut meaning.draft;
    draft.tensor = Some(tensor);
    draft.pipeline = Some(pipeline);
    draft.context = Some(context);
    draft.context_kind = kind;
    draft.data = Some(scene.devices / inside);
    if plugin == Plugin::Moe {
        draft.expert = Some(call.size("ep_size", None)?);
        draft.expert_tensor = Some(tensor);
    }
    let path = call.path("zero_stage");
    let zero = reader.count(&path)?.unwrap_or(0);
    if zero > 2 {
        return Err(reader
            .refused(&path, "0, 1 or 2 is needed; GeminiPlugin has 3")
            .or(vec!["2".to_owned()]));
    }
    if zero > 1 && pipeline > 1 {
        let rule = "with a pipeline it is 0 or 1 (hybrid_parallel_plugin.py:1134)";
        return Err(reader.refused(&path, rule).or(vec!["1".to_owned()]));
    }
    if zero > 0 && meaning.precision == Some(ElementType::Fp32) {
        let rule = "beside other kinds of parallelism ZeRO goes with fp16 and bf16 only (hybrid_parallel_plugin.py:1361)";
        return Err(reader.refused(&path, rule).or(vec!["0".to_owned()]));
    }
    let zero = match plugin {
        Plugin::Moe if zero == 2 => {
            meaning.notes.push(
                "With experts the plugin runs ZeRO 2 as 1 (moe_hybrid_parallel_plugin.py:227).".to_owned(),
            );
            1
        }
        _ => zero,
    };
    draft.zero = Some(zero as u8);
    bucket(call, zero, meaning)?;
    let is_offloaded = reader.is_on(&call.path("cpu_offload"))?;
    if is_offloaded && zero > 0 {
        meaning.draft.offload = Some(vec![(OffloadCategory::Optimizer, vec![1.0])]);
    }
    let name = if plugin == Plugin::Moe { "moe_dp_outside" } else { "dp_outside" };
    let outside = reader.switch(&call.path(name))?.unwrap_or(true);
    meaning.order = order(plugin, kind.unwrap_or(ContextKind::Ring), outside);
    let spreads = meaning.draft.expert.unwrap_or(1) > 1 && pipeline > 1 && outside;
    if plugin == Plugin::Moe && spreads {
        meaning.notes.push(
            "Expert ranks lie inside the pipeline, other data ranks outside; all are predicted outside."
                .to_owned(),
        );
    }
    pipes(call, scene, meaning)
}

fn sequence(
    call: &Call<'_>,
    plugin: Plugin,
    tensor: u64,
    meaning: &mut Meaning,
) -> Result<(u64, Option<ContextKind>), ImportError> {
    let reader = call.reader;
    let is_on = reader.is_on(&call.path("enable_sequence_parallelism"))?;
    let mode_path = call.path("sequence_parallelism_mode");
    let modes = ["split_gather", "ring", "all_to_all", "ring_attn"].map(|mode| (mode, mode));
    let mode = reader.choice(&mode_path, &modes)?.unwrap_or("all_to_all");
    let size_path = call.path("sp_size");
    let size = reader.size(&size_path)?.unwrap_or(1);
    reader.value(&call.path("inner_ring_size"))?;
    meaning.draft.sequence_parallel = (tensor > 1).then_some(false);
    if !is_on {
        if size > 1 {
            let rule = "it goes with enable_sequence_parallelism only (hybrid_parallel_plugin.py:1084)";
            return Err(reader.refused(&size_path, rule).or(vec!["1".to_owned()]));
        }
        return Ok((1, None));
    }
    match mode {
        "split_gather" | "ring" if tensor == 1 => {
            let rule = format!("{mode} splits sequences over the tensor group, which is 1");
            Err(reader.refused(&mode_path, rule).or(vec!["all_to_all".to_owned()]))
        }
        "split_gather" | "ring" => {
            meaning.draft.sequence_parallel = Some(true);
            Ok((1, None))
        }
        "ring_attn" if plugin == Plugin::Moe => {
            let rule =
                "with experts it is split_gather, ring or all_to_all (moe_hybrid_parallel_plugin.py:258)";
            Err(reader.refused(&mode_path, rule).or(vec!["all_to_all".to_owned()]))
        }
        "ring_attn" => Ok((size, (size > 1).then_some(ContextKind::Ring))),
        _ => Ok((size, (size > 1).then_some(ContextKind::Ulysses))),
    }
}

/// The bucket of ZeRO or of data parallelism without it.
fn bucket(call: &Call<'_>, zero: u64, meaning: &mut Meaning) -> Result<(), ImportError> {
    let mut of_zero = call.reader.real(&call.path("zero_bucket_size_in_m"))?;
    if call.prefix == "plugin_config" {
        // Open-Sora hands the other plugin's on.
        of_zero = of_zero.or(call.reader.real(&call.path("reduce_bucket_size_in_m"))?);
    }
    let of_all = call.reader.real(&call.path("ddp_bucket_cap_mb"))?.unwrap_or(25.0);
    let width = match meaning.precision {
        Some(ElementType::Fp32) => 4.0,
        _ => 2.0,
    };
    // Open-Sora gives 20 where nothing is said, the class 12.
    let usual = if call.prefix == "plugin_config" { 20.0 } else { 12.0 };
    let elements = if zero > 0 { of_zero.unwrap_or(usual) * MEGA } else { of_all * MEGA / width };
    meaning.draft.bucket = Some(elements.round() as u64).filter(|elements| *elements > 0);
    Ok(())
}

fn pipes(call: &Call<'_>, scene: &Scene<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let reader = call.reader;
    let styles = [
        ("1f1b", Schedule::OneForwardOneBackward),
        ("interleaved", Schedule::Interleaved),
        ("zbv", Schedule::ZeroBubbleV),
    ];
    let style_path = call.path("pp_style");
    let style = reader.choice(&style_path, &styles)?.unwrap_or(Schedule::OneForwardOneBackward);
    let chunks_path = call.path("num_model_chunks");
    let chunks = reader.size(&chunks_path)?.unwrap_or(1);
    let list_path = call.path("num_layers_per_stage");
    let list = reader.list(&list_path)?;
    let has_nodes = reader.name(&call.path("scheduler_nodes")).is_some();
    let stages = meaning.draft.pipeline.unwrap_or(1);
    if stages == 1 {
        return Ok(());
    }
    let fits = match style {
        Schedule::Interleaved => chunks > 1,
        Schedule::ZeroBubbleV => chunks == 2,
        _ => chunks == 1,
    };
    if !fits {
        let rule = format!(
            "{style} has {} chunks a stage (hybrid_parallel_plugin.py:1124)",
            match style {
                Schedule::Interleaved => "more than 1",
                Schedule::ZeroBubbleV => "2",
                _ => "1",
            }
        );
        return Err(reader.refused(&chunks_path, rule));
    }
    if style == Schedule::ZeroBubbleV && !has_nodes {
        return Err(reader.refused(&style_path, "it needs scheduler_nodes (hybrid_parallel_plugin.py:1056)"));
    }
    let blocks = scene.model.blocks();
    let count = stages
        .checked_mul(chunks)
        .and_then(|count| usize::try_from(count).ok())
        .filter(|count| *count <= 1 << 16);
    let Some(count) = count else {
        return Err(reader
            .refused(&chunks_path, format!("{stages} stages times {chunks} chunks are more than can be")));
    };
    let cuts = match list {
        Some(list) => {
            let cuts: Option<Vec<u32>> = list
                .iter()
                .map(|value| value.as_u64().and_then(|blocks| u32::try_from(blocks).ok()))
                .collect();
            let sums = |cuts: &Vec<u32>| {
                cuts.len() == count
                    && cuts.iter().map(|cut| u64::from(*cut)).sum::<u64>() == u64::from(blocks)
            };
            cuts.filter(sums).ok_or_else(|| {
                reader
                    .refused(&list_path, format!("{count} numbers of layers that sum to {blocks} are needed"))
            })?
        }
        None => middle(blocks, count),
    };
    meaning.draft.schedule = Some(style);
    meaning.draft.virtual_stages = Some(chunks);
    meaning.draft.cuts = Some(cuts);
    meaning.draft.sync = Some(GradientSync::Deferred);
    Ok(())
}

/// Blocks a chunk where nothing is said: the remainder goes to the middle (`pipeline/stage_manager.py:215-229`).
fn middle(blocks: u32, count: usize) -> Vec<u32> {
    let rest = blocks as usize % count;
    let start = count / 2 - rest / 2;
    let extra = |index: usize| u32::from((start..start + rest).contains(&index));
    (0..count).map(|index| blocks / count as u32 + extra(index)).collect()
}

/// What recomputes of a model that recomputes: all blocks, or what `gradient_checkpoint_config` says.
pub fn recomputation(call: &Call<'_>, is_on: bool, meaning: &mut Meaning) -> Result<(), ImportError> {
    let reader = call.reader;
    let list_path = call.path("gradient_checkpoint_config.num_ckpt_layers_per_stage");
    let list = reader.list(&list_path)?;
    let share_path = call.path("gradient_checkpoint_config.gradient_checkpointing_ratio");
    let share = reader.real(&share_path)?;
    let config = reader.name(&call.path("gradient_checkpoint_config"));
    if !is_on {
        meaning.draft.checkpoint = Some(vec![CheckpointEntry::Whole(CheckpointMode::None)]);
        return Ok(());
    }
    let draft = &mut meaning.draft;
    let stages = draft.pipeline.unwrap_or(1);
    if config.is_some() && stages == 1 {
        let rule =
            "it goes with a pipeline only: the model asks its stage manager (shardformer/modeling/llama.py)";
        return Err(reader.refused(&call.path("gradient_checkpoint_config"), rule));
    }
    let cuts = draft.cuts.clone().unwrap_or_default();
    let first = |index: usize, count: u64| -> Result<CheckpointEntry, ImportError> {
        match u32::try_from(count) {
            Ok(count) if count <= cuts[index] => Ok(CheckpointEntry::First(count)),
            _ => Err(reader
                .refused(&list_path, format!("a chunk of {} layers cannot recompute {count}", cuts[index]))),
        }
    };
    draft.checkpoint = Some(match (list, share, config) {
        (Some(list), ..) => {
            if list.len() != cuts.len() {
                return Err(
                    reader.refused(&list_path, format!("{} numbers are needed, one a chunk", cuts.len()))
                );
            }
            let is_v = draft.schedule == Some(Schedule::ZeroBubbleV);
            let place = |index: usize| match usize::try_from(stages) {
                // The second chunk of stage 0 is the last of the model.
                Ok(stages) if is_v && index >= stages => 3 * stages - 1 - index,
                _ => index,
            };
            let entry = |index: usize| {
                let count = list[place(index)]
                    .as_u64()
                    .ok_or_else(|| reader.refused(&list_path, "numbers of layers are needed"))?;
                first(index, count)
            };
            (0..cuts.len()).map(entry).collect::<Result<_, _>>()?
        }
        (None, share, Some(_)) => {
            let share = share.unwrap_or(0.0);
            if !(0.0..=1.0).contains(&share) {
                return Err(reader.refused(&share_path, "a share from 0 to 1 is needed"));
            }
            // Rounded down, of each chunk.
            cuts.iter().map(|blocks| CheckpointEntry::First((f64::from(*blocks) * share) as u32)).collect()
        }
        (None, _, None) => vec![CheckpointEntry::Whole(CheckpointMode::Full)],
    });
    Ok(())
}

/// Reads micro-batches and accumulation: a pipeline cuts the batch that it is given into micro-batches.
pub fn batch(
    call: &Call<'_>,
    batch: Batch,
    batch_path: &str,
    meaning: &mut Meaning,
) -> Result<(), ImportError> {
    let reader = call.reader;
    let (size_path, count_path) = (call.path("microbatch_size"), call.path("num_microbatches"));
    let size = reader.size(&size_path)?;
    let count = reader.size(&count_path)?;
    let is_piped = meaning.draft.pipeline.unwrap_or(1) > 1;
    let parts = match (is_piped, count, size) {
        (false, ..) => 1,
        (true, Some(count), _) => count,
        (true, None, Some(size)) if batch.local.is_multiple_of(size) => batch.local / size,
        (true, None, Some(size)) => {
            let rule = format!("it does not divide the {} sequences of a data rank", batch.local);
            return Err(reader.refused(&size_path, rule).or(multiples(batch.local, size)));
        }
        (true, None, None) => {
            return Err(ImportError::Missing {
                path: size_path,
                rule: "a pipeline needs it, or num_microbatches".to_owned(),
            });
        }
    };
    if !batch.local.is_multiple_of(parts) {
        return Err(reader.refused(
            &count_path,
            format!("it does not divide the {} sequences of a data rank", batch.local),
        ));
    }
    if parts > 1 && batch.steps > 1 {
        meaning.notes.push(format!(
            "Each of {} pipeline steps of an optimizer step drains its pipeline; they are predicted as one.",
            batch.steps
        ));
    }
    let data = meaning.draft.data.unwrap_or(1);
    let global = batch.local.checked_mul(batch.steps).and_then(|local| local.checked_mul(data));
    let too_large = || reader.refused(batch_path, "the batch of a step is more than 64 bits hold");
    meaning.draft.micro_batch = Some(batch.local / parts);
    meaning.draft.accumulation = Some(parts.checked_mul(batch.steps).ok_or_else(too_large)?);
    meaning.global_batch = Some(global.ok_or_else(too_large)?);
    Ok(())
}
