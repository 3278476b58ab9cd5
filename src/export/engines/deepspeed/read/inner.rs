//! Where the model is cut, what blocks recompute, and how experts lie.

use super::{is_auto, is_on};
use crate::export::error::ImportError;
use crate::export::meaning::{Meaning, Scene};
use crate::export::reader::Reader;
use crate::model::layer::LayerKind;
use crate::strategy::cuts::first_more;
use crate::strategy::{CheckpointEntry, CheckpointMode, Key};

/// Reads the cuts of a pipeline.
pub fn cuts(reader: &Reader<'_>, scene: &Scene<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let path = "pipeline.partition";
    let method = reader.word(path)?.or(reader.word("pipeline.partition_method")?).unwrap_or("best");
    let stages = meaning.draft.pipeline.unwrap_or(1);
    if stages == 1 {
        return Ok(());
    }
    let blocks = scene.model.blocks();
    if stages > u64::from(blocks) {
        return Err(reader.refused("pipeline.stages", format!("the model has {blocks} blocks")));
    }
    match method.to_ascii_lowercase().as_str() {
        "best" | "uniform" | "parameters" | "auto" => {
            meaning.notes.push(format!(
                "Where the pipeline is cut ({method}) depends on all layers that Python lists; the first stages have one block more here, where blocks do not divide."
            ));
        }
        kind if kind.starts_with("type:") => {}
        _ => {
            let rule = "uniform, parameters or type: and the class of a block is needed";
            return Err(reader.refused(path, rule).or(vec!["parameters".to_owned()]));
        }
    }
    meaning.leave(Key::Cuts, true);
    meaning.draft.cuts = first_more(blocks, stages as usize);
    Ok(())
}

/// What is said of a file that does not say what blocks recompute.
pub const NOTHING_RECOMPUTED: &str =
    "What blocks recompute is said in Python; none is taken to, and --strategy ckpt=full says that all do.";

/// Reads what blocks recompute.
pub fn checkpoint(reader: &Reader<'_>, scene: &Scene<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let section = |name: &str| format!("activation_checkpointing.{name}");
    let is_piped = meaning.draft.pipeline.is_some_and(|stages| stages > 1);
    let interval = reader.count("pipeline.activation_checkpoint_interval")?;
    let number = section("number_checkpoints");
    let number = if is_auto(reader, &number) { None } else { reader.count(&number)? };
    let is_partitioned = is_on(reader, &section("partition_activations"), false)?;
    let is_on_host = is_on(reader, &section("cpu_checkpointing"), false)?;
    let every = interval.filter(|_| is_piped).unwrap_or(0);
    let recomputes = every > 0 || number.is_some_and(|number| number > 0) || is_partitioned || is_on_host;
    if recomputes {
        meaning.draft.checkpoint = Some(vec![CheckpointEntry::Whole(CheckpointMode::Full)]);
    } else if number.is_none() && interval.filter(|_| is_piped).is_none() {
        meaning.leave(Key::Checkpoint, true);
        if scene.typed(|draft| &draft.checkpoint).is_none() {
            meaning.notes.push(NOTHING_RECOMPUTED.to_owned());
        }
    }
    if every > 1 {
        meaning.notes.push(format!(
            "Fewer inputs are kept where {every} layers recompute as one; that is predicted as one each."
        ));
    }
    if is_partitioned && meaning.draft.tensor.is_some_and(|size| size > 1) {
        meaning.notes.push("Saved inputs are split over tensor ranks; they are predicted whole.".to_owned());
    }
    Ok(())
}

/// Reads how experts lie.
pub fn experts(reader: &Reader<'_>, scene: &Scene<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let size =
        |name: &str| Ok::<u64, ImportError>(reader.size(&format!("expert_parallel.{name}"))?.unwrap_or(1));
    let is_spread = reader.is_on("expert_parallel.enabled")?;
    let (expert, tensor) = (size("autoep_size")?, size("expert_tensor_parallel_size")?);
    if scene.model.layers().all(|layer| !matches!(layer.kind, LayerKind::Moe(_))) {
        return Ok(());
    }
    let inner = "expert_parallel.expert_tensor_parallel_size";
    if is_spread && tensor > 1 {
        // 0.19.8 `module_inject/auto_ep_folding.py:214`, and behind it :240.
        return Err(reader.refused(inner, "DeepSpeed takes 1 only").or(vec!["1".to_owned()]));
    }
    let draft = &mut meaning.draft;
    if is_spread && expert == 1 && draft.tensor.is_some_and(|size| size > 1) {
        let rule = "beside tensor parallelism, AutoEP takes sizes above 1";
        return Err(reader.refused("expert_parallel.autoep_size", rule).or(vec!["2".to_owned()]));
    }
    (draft.expert, draft.expert_tensor) =
        if is_spread { (Some(expert), Some(tensor)) } else { (Some(1), draft.tensor) };
    Ok(())
}
