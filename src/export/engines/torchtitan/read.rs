//! What settings of torchtitan v0.2.2 mean.

use serde_json::Value;

use super::batch::BatchUnit;
use super::cuts::{self, OUTPUT};
use super::schedule_file::Frame;
use super::write::is_single;
use crate::export::error::ImportError;
use crate::export::meaning::{Meaning, Scene};
use crate::export::reader::Reader;
use crate::model::layer::LayerKind;
use crate::strategy::{
    CheckpointEntry, CheckpointMode, Draft, GradientSync, OffloadCategory, Schedule, Strategy,
};
use crate::units::ElementType;

/// Its names of schedules that have a word here.
const SCHEDULES: &[(&str, Schedule)] = &[
    ("1F1B", Schedule::OneForwardOneBackward),
    ("GPipe", Schedule::GPipe),
    ("Interleaved1F1B", Schedule::Interleaved),
    ("ZBVZeroBubble", Schedule::ZeroBubbleV),
];

/// What it may be called beside a file of its own; chunks are then as under these.
const BESIDE_FILES: &[(&str, Schedule)] = &[
    ("PipelineScheduleSingle", Schedule::OneForwardOneBackward),
    ("PipelineScheduleMulti", Schedule::Interleaved),
];

/// What the settings mean.
pub fn read(reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Meaning, ImportError> {
    let mut meaning = Meaning::default();
    axes(reader, scene, &mut meaning.draft)?;
    // v0.2.2 splits sequences wherever it splits tensors.
    meaning.draft.sequence_parallel = (meaning.draft.tensor > Some(1)).then_some(true);
    let layout = Layout { micro: BatchUnit::Sequences.micro_batches(reader)?, head: OUTPUT };
    pipeline(reader, scene, &mut meaning.draft, &layout)?;
    experts(reader, scene, &mut meaning.draft)?;
    checkpoint(reader, scene, &mut meaning.draft)?;
    offload(reader, &mut meaning.draft)?;
    if meaning.draft.offload.is_some() && meaning.draft.zero == Some(0) {
        meaning.draft.offload = None;
        meaning.notes.push("Nothing is offloaded: v0.2.2 does that only where it shards.".to_owned());
    }
    BatchUnit::Sequences.read(reader, scene, &mut meaning, true)?;
    precision(reader, &mut meaning)?;
    meaning.clip = clip(reader)?;
    speed(reader, &mut meaning)?;
    if meaning.is_compiled && meaning.draft.schedule.is_some_and(Schedule::splits_weight) {
        // torch 2.11 distributed/pipelining/schedules.py:2839,3424.
        let rule = "compiled blocks do not go with backwards that are split in two";
        return Err(reader.refused("compile.enable", rule).or(vec!["false".to_owned()]));
    }
    unmodelled(reader)?;
    Ok(meaning)
}

/// The mesh, and how state is sharded over it.
pub fn axes(reader: &Reader<'_>, scene: &Scene<'_>, draft: &mut Draft) -> Result<(), ImportError> {
    let sizes = sizes(reader, scene)?;
    draft.tensor = Some(sizes.tensor);
    draft.context = Some(sizes.context);
    draft.pipeline = Some(sizes.pipeline);
    draft.data = Some(sizes.replicas.saturating_mul(sizes.shards));
    // Where experts are spread, FSDP shards them over the ranks that hold the same (distributed/parallel_dims.py).
    let expert = reader.size("parallelism.expert_parallel_degree")?.unwrap_or(1);
    let spreads = expert > 1 && sizes.replicas == 1 && has_experts(scene);
    let is_sharded = sizes.shards > 1 || sizes.context > 1 || spreads;
    draft.zero = Some(if is_sharded { 3 } else { 0 });
    draft.shard = (is_sharded && sizes.replicas > 1).then_some(sizes.shards);
    reshard(reader, draft)
}

/// One switch keeps parameters, gradients and optimizer state on the host.
pub fn offload(reader: &Reader<'_>, draft: &mut Draft) -> Result<(), ImportError> {
    if reader.is_on("training.enable_cpu_offload")? {
        let all = |category| (category, vec![1.0]);
        draft.offload = Some(vec![all(OffloadCategory::Optimizer), all(OffloadCategory::Parameters)]);
    }
    Ok(())
}

/// The norm that gradients are clipped to; one that none reaches does not clip.
pub fn clip(reader: &Reader<'_>) -> Result<Option<f64>, ImportError> {
    let clip = reader.real("training.max_norm")?.unwrap_or(1.0);
    Ok(Some(if clip >= 1e29 { 0.0 } else { clip }))
}

/// What is said of an optimizer step that is several pipeline steps.
pub fn several_steps(iterations: u64) -> String {
    format!(
        "Each of {iterations} pipeline steps of an optimizer step drains its pipeline and reduces gradients; they are \
         predicted as one pipeline step with one reduction."
    )
}

/// Whether the model has experts.
pub fn has_experts(scene: &Scene<'_>) -> bool {
    scene.model.layers().any(|layer| matches!(layer.kind, LayerKind::Moe(_)))
}

struct Sizes {
    replicas: u64,
    shards: u64,
    context: u64,
    tensor: u64,
    pipeline: u64,
}

/// The sizes of the axes; a shard degree of −1 is what is left over.
fn sizes(reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Sizes, ImportError> {
    let path = |name: &str| format!("parallelism.{name}");
    let size = |name: &str| Ok::<u64, ImportError>(reader.size(&path(name))?.unwrap_or(1));
    let replicas = size("data_parallel_replicate_degree")?;
    let context = size("context_parallel_degree")?;
    let tensor = size("tensor_parallel_degree")?;
    let pipeline = size("pipeline_parallel_degree")?;
    reader.choice("parallelism.context_parallel_rotate_method", &[("allgather", ()), ("alltoall", ())])?;
    reader.word("parallelism.context_parallel_load_balancer")?;
    let shard = path("data_parallel_shard_degree");
    let shards = match reader.whole(&shard)?.unwrap_or(-1) {
        -1 => {
            let others =
                [replicas, context, tensor, pipeline].iter().try_fold(1_u64, |a, b| a.checked_mul(*b));
            match others.filter(|others| scene.devices.is_multiple_of(*others)) {
                Some(others) => scene.devices / others,
                None => {
                    let rule = format!(
                        "what is left over is no whole number: the other degrees multiply to {}, and there are {} devices",
                        others.map_or_else(|| "too much".to_owned(), |others| others.to_string()),
                        scene.devices
                    );
                    return Err(reader.refused(&shard, rule));
                }
            }
        }
        _ => size("data_parallel_shard_degree")?,
    };
    Ok(Sizes { replicas, shards, context, tensor, pipeline })
}

/// Whether gathered parameters are given back, where they are sharded. Without a pipeline they are unless told otherwise,
/// with one they are not.
pub fn reshard(reader: &Reader<'_>, draft: &mut Draft) -> Result<(), ImportError> {
    let usual = draft.pipeline == Some(1);
    let choices = [("default", usual), ("always", true), ("never", false)];
    let keeps = reader.choice("parallelism.fsdp_reshard_after_forward", &choices)?.unwrap_or(usual);
    draft.reshard_after_forward = (draft.zero == Some(3)).then_some(keeps);
    Ok(())
}

/// What versions say of a pipeline in ways of their own.
pub struct Layout {
    /// Micro-batches of a pipeline step.
    pub micro: u64,
    /// What the module is called that computes logits.
    pub head: &'static str,
}

/// Schedule, chunks and cuts.
pub fn pipeline(
    reader: &Reader<'_>,
    scene: &Scene<'_>,
    draft: &mut Draft,
    layout: &Layout,
) -> Result<(), ImportError> {
    let stages = draft.pipeline.unwrap_or(1);
    let path = |name: &str| format!("parallelism.{name}");
    let csv = path("pipeline_parallel_schedule_csv");
    let names_file = reader.word(&csv)?.is_some_and(|file| !file.is_empty());
    let names = if names_file { [SCHEDULES, BESIDE_FILES].concat() } else { SCHEDULES.to_vec() };
    let named = reader.choice(&path("pipeline_parallel_schedule"), &names);
    let weight = |end: &str| reader.count(&path(&format!("pipeline_parallel_{end}_stage_less_layers")));
    let (first, last) = (weight("first")?.unwrap_or(1), weight("last")?.unwrap_or(1));
    let each = reader.size(&path("pipeline_parallel_layers_per_stage"))?;
    let lists = reader.list(&path("module_fqns_per_model_part"))?;
    if stages == 1 {
        return Ok(());
    }
    let schedule = named?.unwrap_or(Schedule::OneForwardOneBackward);
    draft.schedule = Some(schedule);
    let blocks = scene.model.blocks();
    let chunks = match (&lists, each) {
        (Some(lists), _) => lists.len() as u64,
        (None, Some(each)) => first.saturating_add(last).saturating_add(blocks.into()).div_ceil(each),
        (None, None) => stages * if is_single(schedule) { 1 } else { 2 },
    };
    let field = path(if lists.is_some() {
        "module_fqns_per_model_part"
    } else {
        "pipeline_parallel_layers_per_stage"
    });
    let each_rank = chunks / stages;
    let (is_taken, takes) = match schedule {
        Schedule::ZeroBubbleV => (each_rank == 2, "two each"),
        schedule if is_single(schedule) => (each_rank == 1, "one each"),
        _ => (each_rank >= 2, "at least two each, all as many"),
    };
    if !chunks.is_multiple_of(stages) || !is_taken {
        let rule = format!("that makes {chunks} chunks, and {stages} ranks with {schedule} take {takes}");
        return Err(reader.refused(&field, rule));
    }
    draft.virtual_stages = Some(chunks / stages);
    if let Some(text) = reader.companion(&csv)? {
        // The name says only how many chunks a rank has, and where they lie.
        let is_v = schedule == Schedule::ZeroBubbleV;
        let frame = Frame { ranks: stages, chunks: each_rank, micro: layout.micro, is_v };
        draft.schedule = Some(frame.schedule(&text).map_err(|rule| reader.refused(&csv, rule))?);
    }
    let cuts = match &lists {
        Some(lists) => cuts::cuts_of(lists, layout.head).map_err(|rule| reader.refused(&field, rule))?,
        None => {
            let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
            cuts::dealt(blocks, narrow(chunks), narrow(first), narrow(last)).ok_or_else(|| {
                let rule = format!("{blocks} blocks cannot be dealt to {chunks} chunks so");
                reader.refused(&path("pipeline_parallel_first_stage_less_layers"), rule)
            })?
        }
    };
    draft.cuts = Some(cuts);
    // Inside a pipeline step gradients are reduced once.
    draft.sync = Some(GradientSync::Deferred);
    Ok(())
}

fn experts(reader: &Reader<'_>, scene: &Scene<'_>, draft: &mut Draft) -> Result<(), ImportError> {
    let expert = reader.size("parallelism.expert_parallel_degree")?;
    let tensor = reader.size("parallelism.expert_tensor_parallel_degree")?;
    if !has_experts(scene) {
        return Ok(());
    }
    let expert = expert.unwrap_or(1);
    draft.expert = Some(expert);
    // Without expert parallelism, experts are split as everything else is, whatever this says.
    draft.expert_tensor = match expert {
        1 => draft.tensor,
        _ => Some(tensor.unwrap_or(1)),
    };
    Ok(())
}

fn checkpoint(reader: &Reader<'_>, scene: &Scene<'_>, draft: &mut Draft) -> Result<(), ImportError> {
    let path = "activation_checkpoint.mode";
    let option = "activation_checkpoint.selective_ac_option";
    let word = reader.value(option)?.map_or_else(
        || "2".to_owned(),
        |value| match value {
            Value::String(word) => word.clone(),
            other => other.to_string(),
        },
    );
    let whole = |mode| Some(vec![CheckpointEntry::Whole(mode)]);
    draft.checkpoint = match reader.word(path)?.unwrap_or("selective") {
        "none" => whole(CheckpointMode::None),
        "full" => whole(CheckpointMode::Full),
        "selective" if word == "op" => whole(CheckpointMode::Selective),
        "selective" => match word.parse::<u32>() {
            Ok(0 | 1) => whole(CheckpointMode::Full),
            Ok(every) => Some(every_kth(every, scene, draft)),
            Err(_) => return Err(reader.refused(option, "op, or every how many blocks one recomputes")),
        },
        "memory_budget" => {
            let rule = "what the compiler chooses within a budget is not modelled; none, selective, full are";
            return Err(reader.refused(path, rule).or(vec!["selective".to_owned()]));
        }
        _ => return Err(reader.refused(path, "none, selective, full is needed")),
    };
    Ok(())
}

/// One block in `every` recomputes wholly, counted over all blocks of a rank
/// (v0.2.2 `distributed/activation_checkpoint.py`, whose counter is the process's).
fn every_kth(every: u32, scene: &Scene<'_>, draft: &Draft) -> Vec<CheckpointEntry> {
    let cuts = draft.cuts.clone().unwrap_or_else(|| vec![scene.model.blocks()]);
    let stages = draft.pipeline.unwrap_or(1);
    let is_v = draft.schedule == Some(Schedule::ZeroBubbleV);
    let mut counts = vec![0_u32; usize::try_from(stages).unwrap_or(1)];
    let entry = |(chunk, blocks): (usize, &u32)| {
        let chunk = chunk as u64;
        let stage = if is_v && chunk >= stages { 2 * stages - 1 - chunk } else { chunk % stages };
        let count = &mut counts[stage as usize];
        let mut runs: Vec<(CheckpointMode, u32)> = Vec::new();
        for _ in 0..*blocks {
            *count += 1;
            let mode = if count.is_multiple_of(every) { CheckpointMode::Full } else { CheckpointMode::None };
            match runs.last_mut() {
                Some((known, number)) if *known == mode => *number += 1,
                _ => runs.push((mode, 1)),
            }
        }
        CheckpointEntry::Runs(runs)
    };
    cuts.iter().enumerate().map(entry).collect()
}

/// Every how many blocks of a rank one recomputes wholly, if that is what `strategy` does.
pub fn frequency(strategy: &Strategy) -> Option<u32> {
    let stage = |stage: u64| -> Vec<CheckpointMode> {
        strategy
            .chunks_of(stage)
            .iter()
            .flat_map(|chunk| strategy.checkpoint[*chunk as usize].modes())
            .collect()
    };
    let stages: Vec<Vec<CheckpointMode>> = (0..strategy.pipeline).map(stage).collect();
    let first = stages
        .iter()
        .filter_map(|modes| modes.iter().position(|mode| *mode == CheckpointMode::Full))
        .min()?;
    let every = u32::try_from(first + 1).ok()?;
    let is_due = |(index, mode): (usize, &CheckpointMode)| {
        let is_full = (index as u32 + 1).is_multiple_of(every);
        *mode == if is_full { CheckpointMode::Full } else { CheckpointMode::None }
    };
    stages.iter().all(|modes| modes.iter().enumerate().all(is_due)).then_some(every)
}

/// Types of state and of computing.
pub fn types(reader: &Reader<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let types = [("bfloat16", ElementType::Bf16), ("float32", ElementType::Fp32)];
    let state = reader.choice("training.dtype", &types)?.unwrap_or(ElementType::Fp32);
    let compute = reader.choice("training.mixed_precision_param", &types)?.unwrap_or(ElementType::Bf16);
    reader.choice("training.mixed_precision_reduce", &types[1..])?;
    if state == ElementType::Bf16 {
        let rule = "state in 16 bits without a master copy is not modelled; float32 is";
        return Err(reader.refused("training.dtype", rule).or(vec!["float32".to_owned()]));
    }
    meaning.precision = Some(compute);
    Ok(())
}

fn precision(reader: &Reader<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    types(reader, meaning)?;
    let converters = reader.list("model.converters")?.unwrap_or_default();
    let is_float8 = converters.iter().any(|name| name.as_str().is_some_and(|name| name.contains("float8")));
    for name in ["recipe_name", "filter_fqns", "precompute_float8_dynamic_scale_for_fsdp", "emulate"] {
        reader.value(&format!("quantize.linear.float8.{name}"))?;
    }
    if reader.is_on("quantize.linear.float8.enable_fsdp_float8_all_gather")? && is_float8 {
        meaning.notes.push("Parameters are gathered in 8 bits; they are predicted in bf16.".to_owned());
    }
    if is_float8 {
        meaning.precision = Some(ElementType::Fp8);
    }
    Ok(())
}

/// What makes a step faster than the profile has it.
pub fn speed(reader: &Reader<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let components = reader.list("compile.components")?;
    let compiles = |part: &str| {
        components.as_ref().is_none_or(|list| list.iter().any(|name| name.as_str() == Some(part)))
    };
    let enables = reader.is_on("compile.enable")?;
    meaning.is_compiled = enables && compiles("model");
    meaning.compiles_loss = enables && compiles("loss");
    let is_asynchronous = reader.is_on("parallelism.enable_async_tensor_parallel")?;
    meaning.is_asynchronous = reader.is_on("compile.enable_async_tensor_parallel")? || is_asynchronous;
    Ok(())
}

/// Settings that change a run in ways that are not modelled.
pub fn unmodelled(reader: &Reader<'_>) -> Result<(), ImportError> {
    for (path, rule) in [
        ("parallelism.disable_loss_parallel", "logits that are not split over tensor ranks are not modelled"),
        ("optimizer.early_step_in_backward", "an optimizer step inside the backward is not modelled"),
        ("fault_tolerance.enable", "replica groups that train apart are not modelled"),
    ] {
        if reader.is_on(path)? {
            return Err(reader.refused(path, rule).or(vec!["false".to_owned()]));
        }
    }
    Ok(())
}
