//! Open-Sora 2.0: a configuration of Python assignments that names a plugin of ColossalAI.

use super::open_sora_read;
use super::plugin::{Plugin, is_outside, kind, order, recomputes};
use super::write;
use crate::export::case::Case;
use crate::export::check::Check;
use crate::export::dialect::Dialect;
use crate::export::error::ImportError;
use crate::export::launch::Program;
use crate::export::meaning::{Meaning, Scene};
use crate::export::reader::Reader;
use crate::export::settings::{Settings, Term};
use crate::export::syntax::Syntax;
use crate::profile::capabilities::{CheckpointGrain, Cited, ShardGroups, Supports};
use crate::strategy::{AttentionKernel, OffloadCategory, Schedule};
use crate::units::ElementType;

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
        supports.shard_groups = Cited { value: ShardGroups::None, source: source() };
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
        settings.set("plugin", name).put("plugin_config", Term::Call("dict()"));
        settings.set("plugin_config._delete_", true);
        let mut set = |name: &str, value: Term| {
            // The program gives the stage, and attention is the model's own.
            if !matches!(name, "stage" | "enable_flash_attention") {
                settings.put(&format!("plugin_config.{name}"), value);
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
        settings.put("model", Term::Call("dict()")).set("model.grad_ckpt_settings", vec![most, most]);
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
            .push("cp config.py \"${OPEN_SORA_PATH:-.}/configs/diffusion/train/config.py\"".into());
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
        open_sora_read::read(reader, scene)
    }
}
