//! Open-Sora 2.0: a configuration of Python assignments that names a plugin of ColossalAI.

use super::plugin::{MEGA, Plugin, is_outside, kind, order, recomputes};
use super::read_hybrid::{self, Batch, Call};
use super::write;
use crate::export::case::Case;
use crate::export::check::Check;
use crate::export::dialect::Dialect;
use crate::export::error::ImportError;
use crate::export::launch::Program;
use crate::export::meaning::{Meaning, Scene};
use crate::export::reader::Reader;
use crate::export::settings::Settings;
use crate::export::syntax::Syntax;
use crate::profile::capabilities::{CheckpointGrain, Cited, Supports};
use crate::strategy::{AttentionKernel, CheckpointEntry, CheckpointMode, OffloadCategory, Schedule};
use crate::units::ElementType;

/// Blocks of Open-Sora's model: those of two streams, then those of one (`configs/diffusion/train/image.py`).
const BLOCKS: [u32; 2] = [19, 38];

/// Open-Sora 2.0.
pub struct OpenSora;

/// The plugin that runs `case`: Gemini is not among Open-Sora's.
fn plugin(case: &Case<'_>) -> Plugin {
    match Plugin::of(case) {
        Plugin::LowLevelZero if case.strategy.zero <= 2 => Plugin::LowLevelZero,
        _ => Plugin::Hybrid,
    }
}

impl Dialect for OpenSora {
    fn name(&self) -> &'static str {
        "open-sora"
    }

    fn version(&self) -> &'static str {
        "2.0"
    }

    fn source(&self) -> &'static str {
        "hpcaitech/Open-Sora 2.0, opensora/utils/train.py and scripts/diffusion/train.py"
    }

    fn profile(&self) -> &'static str {
        "colossalai"
    }

    fn narrow(&self, supports: &mut Supports) {
        let source = || "hpcaitech/Open-Sora 2.0 opensora/utils/train.py: zero1, zero2, hybrid".to_owned();
        supports.precisions.value.retain(|precision| *precision != ElementType::Fp32);
        supports.zero = Cited { value: vec![0, 1, 2], source: source() };
        // The nodes of a V are no data of a configuration.
        supports.schedules.value.retain(|schedule| *schedule != Schedule::ZeroBubbleV);
        supports.expert_parallel = Cited { value: false, source: source() };
        supports.shard_groups = Cited { value: false, source: source() };
        supports.checkpoint_grain = Cited { value: CheckpointGrain::All, source: source() };
        supports.offload.value.retain(|offer| offer.category == OffloadCategory::Optimizer);
    }

    fn widen(&self, supports: &mut Supports) {
        let source =
            "hpcaitech/Open-Sora 2.0, grad_ckpt_settings: the first blocks of two streams, and of one"
                .to_owned();
        supports.checkpoint_grain = Cited { value: CheckpointGrain::Block, source };
    }

    fn file(&self) -> &'static str {
        "config.py"
    }

    fn syntax(&self) -> Syntax {
        Syntax::Python
    }

    fn settings(&self, case: &Case<'_>) -> Settings {
        let s = case.strategy;
        let mut settings = Settings::default();
        settings.set_noted("_base_", vec!["image.py"], "data, model and encoders; this file lies beside it");
        let plugin = plugin(case);
        let name = match (plugin, s.zero) {
            (Plugin::LowLevelZero, 1) => "zero1",
            (Plugin::LowLevelZero, _) => "zero2",
            _ => "hybrid",
        };
        settings.set("plugin", name).set("plugin_config", "dict()");
        settings.set("plugin_config._delete_", true);
        let mut set = |name: &str, value: serde_json::Value| {
            // The program gives the stage, and attention is the model's own.
            if !matches!(name, "stage" | "enable_flash_attention") {
                settings.set(&format!("plugin_config.{name}"), value);
            }
        };
        match plugin {
            Plugin::LowLevelZero => write::low_level(case, &mut set),
            _ => write::hybrid(case, plugin, &mut set),
        }
        set("overlap_allgather", false.into());
        settings.set("dtype", write::precision(case.problem.workload.precision));
        settings.set("grad_clip", case.problem.workload.clip);
        // A pipeline cuts the batch that it is given into micro-batches.
        let (local, steps) = match s.pipeline {
            1 => (s.micro_batch, s.accumulation),
            _ => (s.micro_batch * s.accumulation, 1),
        };
        settings.set("accumulation_steps", steps);
        settings.set_noted("bucket_config", serde_json::Value::Null, "or batches by resolution and frames");
        settings.set_noted("batch_size", local, "samples of a data rank, where bucket_config is None");
        settings.set("grad_checkpoint", recomputes(s));
        let most = u64::from(case.problem.model.blocks()).max(100);
        settings.set_noted("grad_ckpt_settings", vec![most, most], "blocks of two streams and of one: all");
        settings.set("model", "dict()").set("model.grad_ckpt_settings", vec![most, most]);
        settings
    }

    fn unsaid(&self, case: &Case<'_>) -> Vec<String> {
        let tokens = case.problem.workload.seq_len;
        vec![
            format!(
                "The {tokens} tokens of a sample follow from resolution and frames: where bucket_config has several, the plan is \
                 of one of them."
            ),
            "Encoders of video and text run beside the model and are not in the plan: cached_video and cached_text leave them out."
                .to_owned(),
        ]
    }

    fn checks(&self, case: &Case<'_>) -> Vec<Check> {
        let s = case.strategy;
        let mut checks = vec![
            Check::product(
                ("devices", s.devices()),
                &[("tp", s.tensor), ("pp", s.pipeline), ("sp", s.context), ("dp", s.data)],
                "scripts/diffusion/train.py",
            ),
            Check::new(s.zero <= 2, format!("ZeRO {} is 0 to 2", s.zero), "opensora/utils/train.py"),
            Check::new(
                s.schedule != Schedule::ZeroBubbleV,
                "the schedule is 1f1b or interleaved",
                "scheduler_nodes are no data of a configuration",
            ),
            Check::new(
                !(s.sequence_parallel && s.context > 1),
                "sequences are split over tensor ranks or over ranks of their own",
                "hybrid_parallel_plugin.py:1061-1081: one mode",
            ),
            Check::new(
                s.attention == AttentionKernel::Fused,
                "attention is the model's, which is fused",
                "opensora/models/mmdit/math.py",
            ),
            Check::new(
                case.problem.facts.experts.is_empty(),
                "there are no experts",
                "opensora/models/mmdit",
            ),
        ];
        for heads in &case.problem.facts.heads {
            checks.push(Check::divides(
                ("heads", heads.query),
                ("tp", s.tensor),
                "opensora/models/mmdit/distributed.py",
            ));
        }
        checks
    }

    fn program(&self, case: &Case<'_>) -> Program {
        let plugin = plugin(case);
        let entry = "\"${OPEN_SORA_PATH:-.}/scripts/diffusion/train.py\"";
        let arguments = "\"${OPEN_SORA_PATH:-.}/configs/diffusion/train/config.py\"";
        let mut program = Program::torchrun(entry, arguments);
        program
            .prepare
            .push("cp config.py \"${OPEN_SORA_PATH:-.}/configs/diffusion/train/config.py\"".to_owned());
        program.order = order(plugin, kind(plugin, case.strategy), is_outside(plugin, case.strategy));
        program
    }

    fn marks(&self) -> &'static [&'static str] {
        &[
            "plugin_config",
            "grad_checkpoint",
            "grad_ckpt_settings",
            "accumulation_steps",
            "bucket_config",
            "dtype",
        ]
    }

    fn harmless(&self) -> &'static [&'static str] {
        &[
            "_base_",
            "plugin_config._delete_",
            "plugin_config.overlap_allgather",
            "plugin_config.overlap_communication",
            "plugin_config.static_graph",
            "plugin_config.find_unused_parameters",
            "plugin_config.initial_scale",
            "plugin_config.cast_inputs",
            "model",
            "model.*",
            "dataset",
            "dataset.*",
            "ae",
            "ae.*",
            "t5",
            "t5.*",
            "clip",
            "clip.*",
            "dropout_ratio",
            "dropout_ratio.*",
            "lr",
            "eps",
            "optim",
            "optim.*",
            "warmup_steps",
            "update_warmup_steps",
            "prefetch_factor",
            "num_workers",
            "num_bucket_build_workers",
            "async_io",
            "seed",
            "outputs",
            "epochs",
            "log_every",
            "ckpt_every",
            "keep_n_latest",
            "wandb",
            "wandb_project",
            "load",
            "start_epoch",
            "start_step",
            "record_time",
            "record_barrier",
            "condition_config",
            "condition_config.*",
            "is_causal_vae",
            "pin_memory_cache_pre_alloc_numels",
            "load_master_weights",
            "save_master_weights",
            "cached_video",
            "cached_text",
        ]
    }

    fn read(&self, reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Meaning, ImportError> {
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
    read_hybrid::batch(call, Batch { local, steps }, "accumulation_steps", meaning)
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
