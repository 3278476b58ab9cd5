//! What the arguments of the hybrid plugins mean for a pipeline, its micro-batches and what its chunks recompute.

use super::read_hybrid::Call;
use crate::export::error::ImportError;
use crate::export::meaning::{Meaning, Scene};
use crate::export::reader::multiples;
use crate::strategy::{CheckpointEntry, CheckpointMode, GradientSync, Schedule};

/// What a batch is made of: sequences of a data rank that the plugin is given at once, and how often for a step.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    pub local: u64,
    pub steps: u64,
}

/// Reads schedule and cuts, where there is a pipeline.
pub fn pipes(call: &Call<'_>, scene: &Scene<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
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
