//! The strategy and workload of a published run, in our words.

use crate::model::Model;
use crate::profile::EngineProfile;
use crate::profile::choices::ContextKind;
use crate::strategy::draft::CheckpointEntry;
use crate::strategy::{
    AttentionKernel, Capacity, CheckpointMode, Draft, GradientSync, OffloadCategory, Schedule, Workload,
};
use crate::trace::published::{PublishedRun, PublishedStrategy};
use crate::units::ElementType;

/// What was trained on, as far as it is planned: `dropout` is what the engine has unless told otherwise, for models of
/// GPT's kind; those of Llama's and after are trained without.
///
/// # Errors
/// Says what is missing.
pub fn workload(run: &PublishedRun, dropout: f64) -> Result<Workload, String> {
    let strategy = &run.strategy;
    let precision = precision(&strategy.dtype)
        .ok_or_else(|| format!("strategy.dtype `{}` is not planned", strategy.dtype))?;
    Ok(Workload {
        global_batch: global_batch(strategy).ok_or("strategy.global_batch is not given")?,
        seq_len: run.model.seq_len,
        precision,
        dropout: run
            .model
            .other
            .get("dropout")
            .and_then(serde_json::Value::as_f64)
            .unwrap_or(if matches!(run.model.kind.as_str(), "gpt" | "mpt") { dropout } else { 0.0 }),
        clip: 1.0,
    })
}

/// Sequences a step, as given or as the product of what is.
pub(super) fn global_batch(strategy: &PublishedStrategy) -> Option<u64> {
    let product = || Some(strategy.dp? * strategy.micro_batch? * strategy.grad_accum?);
    strategy.global_batch.or_else(product)
}

fn precision(dtype: &str) -> Option<ElementType> {
    let names = [
        ("bf16", ElementType::Bf16),
        ("fp16", ElementType::Fp16),
        ("fp32", ElementType::Fp32),
        ("fp8", ElementType::Fp8),
        ("mxfp8", ElementType::Fp8),
    ];
    names.into_iter().find(|(name, _)| dtype.starts_with(name)).map(|(_, element)| element)
}

/// The strategy text's keys; what the table leaves out is the engine's default.
///
/// # Errors
/// Says what is missing or not planned.
pub fn draft(run: &PublishedRun, model: &Model, engine: &EngineProfile) -> Result<Draft, String> {
    let strategy = &run.strategy;
    let size = |field: &str, value: Option<u64>| {
        value.filter(|size| *size > 0).ok_or_else(|| format!("strategy.{field} is not given"))
    };
    let (data, tensor, pipeline) =
        (size("dp", strategy.dp)?, size("tp", strategy.tp)?, size("pp", strategy.pp)?);
    let (schedule, virtual_stages) = schedule(strategy, pipeline, model)?;
    let micro_batch = strategy.micro_batch.or_else(|| {
        strategy.global_batch?.checked_div(data * strategy.grad_accum?).filter(|micro| *micro > 0)
    });
    // Tables call a distributed optimizer stage 2 that goes with a pipeline as stage 1 only.
    let legal = engine.supports.zeros(pipeline > 1).iter().copied();
    let below = legal.filter(|stage| (1..=strategy.zero_stage).contains(stage)).max();
    let zero = below.unwrap_or(strategy.zero_stage);
    let is_deferred = |sync| sync == GradientSync::Deferred;
    let shard = strategy.shard_group.filter(|shard| *shard < data && strategy.zero_stage > 0);
    let chunks = pipeline * virtual_stages.unwrap_or(1);
    Ok(Draft {
        tensor: Some(tensor),
        context: Some(strategy.cp),
        pipeline: Some(pipeline),
        data: Some(data),
        sequence_parallel: strategy.sp.filter(|_| tensor > 1),
        expert: Some(strategy.ep),
        expert_tensor: strategy.other.get("etp").and_then(serde_json::Value::as_u64),
        capacity: run.model.experts.is_some().then_some(Capacity::Factor(1.0)),
        schedule,
        virtual_stages,
        context_kind: context_kind(strategy),
        zero: Some(zero),
        shard,
        sync: (pipeline > 1 && zero >= 2 && engine.supports.syncs(3, true).any(is_deferred))
            .then_some(GradientSync::Deferred),
        micro_batch,
        accumulation: strategy.grad_accum,
        checkpoint: Some(checkpoint(strategy, u64::from(model.blocks()), chunks, engine)?),
        offload: offload(strategy)?,
        gradient_type: sums_in_sixteen_bits(run, engine).then_some(ElementType::Bf16),
        attention: strategy
            .flash_attention
            .map(|flash| if flash { AttentionKernel::Fused } else { AttentionKernel::Materialised }),
        ..Draft::default()
    })
}

/// Whether gradients are kept and reduced in bf16: NVIDIA's performance recipes do so (Megatron-Bridge 067f987d,
/// perf_recipes/_common.py:73-74,122).
fn sums_in_sixteen_bits(run: &PublishedRun, engine: &EngineProfile) -> bool {
    let precision = precision(&run.strategy.dtype);
    engine.name == "nemo" && matches!(precision, Some(ElementType::Bf16 | ElementType::Fp8))
}

/// How context ranks exchange keys and values, where the table says.
pub(super) fn context_kind(strategy: &PublishedStrategy) -> Option<ContextKind> {
    match strategy.other.get("cp_comm")?.as_str()? {
        "a2a" => Some(ContextKind::Ulysses),
        "p2p" => Some(ContextKind::Ring),
        _ => None,
    }
}

/// The schedule and the chunks a rank.
fn schedule(
    strategy: &PublishedStrategy,
    pipeline: u64,
    model: &Model,
) -> Result<(Option<Schedule>, Option<u64>), String> {
    if pipeline == 1 {
        return Ok((None, None));
    }
    // A table that leaves the schedule out, or its chunks, is read as tuned: it interleaves where that can be, in the
    // fewest chunks that are all alike.
    let is_whole = strategy.grad_accum.is_some_and(|count| count.is_multiple_of(pipeline));
    let tuned = if is_whole { "interleaved" } else { "1f1b" };
    let text = strategy.schedule.as_deref().unwrap_or(tuned).to_ascii_lowercase();
    let chunks = strategy.virtual_pp.filter(|chunks| *chunks > 1);
    if text.starts_with("interleaved") || chunks.is_some() {
        let blocks = u64::from(model.blocks());
        let even = (2..=blocks / pipeline).find(|chunks| blocks.is_multiple_of(pipeline * chunks));
        let chunks = chunks.or(even).unwrap_or(2);
        // A table may count the embedding and the loss among what chunks share out.
        let chunks = chunks.min(blocks / pipeline);
        return Ok(if chunks > 1 {
            (Some(Schedule::Interleaved), Some(chunks))
        } else {
            (Some(Schedule::OneForwardOneBackward), None)
        });
    }
    let known = [
        ("1f1b", Schedule::OneForwardOneBackward),
        ("gpipe", Schedule::GPipe),
        ("zbv", Schedule::ZeroBubbleV),
        ("zero-bubble", Schedule::ZeroBubbleH1),
        ("zbb", Schedule::ZeroBubbleH1),
        // DualPipe cut in half is a schedule in the shape of a V (deepseek-ai/DualPipe, README: DualPipeV).
        ("dualpipe", Schedule::ZeroBubbleV),
    ];
    let schedule = known.into_iter().find(|(name, _)| text.starts_with(name)).map(|(_, schedule)| schedule);
    schedule
        .map(|schedule| (Some(schedule), None))
        .ok_or_else(|| format!("strategy.schedule `{text}` is not planned"))
}

/// Some blocks recompute; how many, the table does not say.
pub(super) const SOME_BLOCKS: &str = "selective (some blocks)";

/// One entry for all chunks; what a table does not say is the engine's default.
fn checkpoint(
    strategy: &PublishedStrategy,
    blocks: u64,
    chunks: u64,
    engine: &EngineProfile,
) -> Result<Vec<CheckpointEntry>, String> {
    let Some(text) = strategy.checkpointing.as_deref() else {
        return Ok(vec![CheckpointEntry::Whole(engine.defaults.checkpointing)]);
    };
    let every_second = CheckpointEntry::First((blocks / chunks).div_ceil(2) as u32);
    Ok(vec![match text {
        "none" => CheckpointEntry::Whole(CheckpointMode::None),
        _ if text.starts_with("full") => CheckpointEntry::Whole(CheckpointMode::Full),
        _ if text.starts_with("selective-layer") || text.starts_with(SOME_BLOCKS) => every_second,
        _ if text.starts_with("selective") => CheckpointEntry::Whole(CheckpointMode::Selective),
        other => return Err(format!("strategy.checkpointing `{other}` is not planned")),
    }])
}

/// What is offloaded, each category with one fraction for all stages.
type Offloaded = Vec<(OffloadCategory, Vec<f64>)>;

fn offload(strategy: &PublishedStrategy) -> Result<Option<Offloaded>, String> {
    match strategy.offload.as_deref() {
        None | Some("none") => Ok(None),
        Some(text) if text.starts_with("optimizer") => {
            let parameters = text.starts_with("optimizer+params");
            let parameters = parameters.then(|| (OffloadCategory::Parameters, vec![1.0]));
            Ok(Some([(OffloadCategory::Optimizer, vec![1.0])].into_iter().chain(parameters).collect()))
        }
        Some(other) => Err(format!("strategy.offload `{other}` is not planned")),
    }
}
