//! ColossalAI at 4f9953be3: a Python file that makes the plugin and holds what a training script reads beside it.

use super::plugin::{Plugin, is_outside, kind, order, recomputes};
use super::{checks, read, write};
use crate::export::case::Case;
use crate::export::check::Check;
use crate::export::dialect::Dialect;
use crate::export::error::ImportError;
use crate::export::launch::Program;
use crate::export::meaning::{Meaning, Scene};
use crate::export::reader::Reader;
use crate::export::settings::{Settings, Term};
use crate::export::syntax::{Comment, Syntax};
use crate::strategy::{AttentionKernel, Schedule};

/// ColossalAI at 4f9953be3.
pub struct Script;

impl Dialect for Script {
    fn name(&self) -> &'static str {
        "colossalai"
    }

    fn version(&self) -> &'static str {
        "4f9953be3"
    }

    fn source(&self) -> &'static str {
        "hpcaitech/ColossalAI 4f9953be3"
    }

    fn profile(&self) -> &'static str {
        "colossalai"
    }

    fn file(&self) -> &'static str {
        "plugin.py"
    }

    fn syntax(&self) -> Syntax {
        Syntax::Python
    }

    fn settings(&self, case: &Case<'_>) -> Settings {
        let s = case.strategy;
        let plugin = Plugin::of(case);
        let mut settings = Settings::default();
        settings.put("plugin", Term::Call(plugin.class()));
        write::arguments(case, "plugin", &mut settings);
        let (local, steps) = match s.pipeline {
            1 => (s.micro_batch, s.accumulation),
            _ => (s.micro_batch * s.accumulation, 1),
        };
        settings.set_noted("batch_size", local, "sequences that a data rank is given at once");
        settings.set_noted("accumulation_steps", steps, "so many before each step of the optimizer");
        settings.set_noted("max_length", case.problem.workload.seq_len, "tokens a sequence");
        settings.set_noted("gradient_checkpointing", recomputes(s), "model.gradient_checkpointing_enable()");
        if plugin == Plugin::LowLevelZero {
            let kernel = match s.attention {
                AttentionKernel::Fused => "flash_attention_2",
                AttentionKernel::Materialised => "eager",
            };
            settings.set_noted("attn_implementation", kernel, "of the model, as it is made");
        }
        settings
    }

    fn text(&self, case: &Case<'_>, settings: &Settings, head: &[Comment]) -> String {
        let mut text = Comment::head(head);
        text += &format!("from colossalai.booster.plugin import {}\n", Plugin::of(case).class());
        if settings.get("plugin.gradient_checkpoint_config").is_some() {
            text += "from colossalai.shardformer import PipelineGradientCheckpointConfig\n";
        }
        if let Some(nodes) = write::scheduler_nodes(case) {
            text += "from colossalai.pipeline.schedule.v_schedule import PipelineGraph\n\n";
            text += &nodes;
        }
        text + "\n" + &self.syntax().write(settings, &[])
    }

    fn unsaid(&self, case: &Case<'_>) -> Vec<String> {
        let mut sentences = vec![
            "Your script imports plugin.py, gives plugin to Booster, and reads batch_size, accumulation_steps, max_length and \
             gradient_checkpointing: ColossalAI has no training program of its own."
                .to_owned(),
            format!("The model ({}) is made by your script.", case.problem.model.name),
        ];
        if case.problem.workload.dropout > 0.0 {
            sentences.push("Dropout is the model's to set.".to_owned());
        }
        if case.strategy.pipeline > 1 && case.strategy.schedule == Schedule::ZeroBubbleV {
            sentences.push(
                "The schedule of the V is made for passes of the same length, which is yours to change."
                    .to_owned(),
            );
        }
        sentences
    }

    fn checks(&self, case: &Case<'_>) -> Vec<Check> {
        checks::checks(case)
    }

    fn program(&self, case: &Case<'_>) -> Program {
        let plugin = Plugin::of(case);
        let mut program =
            Program::torchrun("\"${TRAIN_SCRIPT:?your training script, which imports plugin.py}\"", "");
        program.order = order(plugin, kind(plugin, case.strategy), is_outside(plugin, case.strategy));
        let program = program.with(
            "PYTHONPATH",
            "\"$PWD${PYTHONPATH:+:$PYTHONPATH}\"",
            "plugin.py lies beside the scripts",
        );
        match write::is_offloaded(case) {
            true => program.with("OMP_NUM_THREADS", "8", "the optimizer's step runs on the host"),
            false => program,
        }
    }

    fn marks(&self) -> &'static [&'static str] {
        &["LowLevelZeroPlugin()", "GeminiPlugin()", "HybridParallelPlugin()", "MoeHybridParallelPlugin()"]
    }

    fn harmless(&self) -> &'static [&'static str] {
        HARMLESS
    }

    fn read(&self, reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Meaning, ImportError> {
        read::read(reader, scene)
    }
}

/// Loss scaling, buckets' views, logging, and what scripts call their other variables.
pub const HARMLESS: &[&str] = &[
    "plugin.initial_scale",
    "plugin.min_scale",
    "plugin.max_scale",
    "plugin.growth_factor",
    "plugin.backoff_factor",
    "plugin.growth_interval",
    "plugin.hysteresis",
    "plugin.norm_type",
    "plugin.verbose",
    "plugin.cast_inputs",
    "plugin.broadcast_buffers",
    "plugin.find_unused_parameters",
    "plugin.check_reduction",
    "plugin.static_graph",
    "plugin.gradient_as_bucket_view",
    "plugin.custom_policy",
    "plugin.enable_metadata_cache",
    "plugin.parallel_output",
    "plugin.enable_fused_normalization",
    "plugin.enable_jit_fused",
    "plugin.make_vocab_size_divisible_by",
    "plugin.overlap_communication",
    "plugin.overlap_allgather",
    "plugin.overlap_p2p",
    "plugin.pin_memory",
    "plugin.force_outputs_fp32",
    "plugin.strict_ddp_mode",
    "plugin.hidden_dim",
    "plugin.memstats",
    "plugin.max_prefetch",
    "plugin.gpu_margin_mem_ratio",
    "plugin.warmup_non_model_data_ratio",
    "plugin.steady_cuda_cap_ratio",
    "plugin.chunk_config_dict",
    "plugin.chunk_init_device",
    "plugin.enable_async_reduce",
    "booster",
    "booster.*",
    "lr",
    "weight_decay",
    "warmup_steps",
    "num_epochs",
    "seed",
    "save_dir",
    "save_interval",
];
