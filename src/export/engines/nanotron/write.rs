//! The settings of nanotron that make it run a strategy, with all that its configuration classes demand.

use super::model;
use super::release::Release;
use crate::export::case::Case;
use crate::export::settings::Settings;
use crate::strategy::{CheckpointMode, Schedule};
use crate::units::ElementType;

/// The settings of `case`. What the classes demand and no plan has is filled in, and named by `unsaid`.
pub fn settings(case: &Case<'_>, release: Release) -> Settings {
    let mut settings = Settings::default();
    settings.set("general.project", "meshwright").set("general.run", "planned");
    settings.set("general.seed", 42);
    settings.set_noted("checkpoints.checkpoints_path", "checkpoints", "yours to set");
    settings.set("checkpoints.checkpoint_interval", 1000);
    settings.set("logging.iteration_step_info_interval", 1);
    parallelism(case, release, &mut settings);
    tokens(case, &mut settings);
    settings.set("model.ddp_bucket_cap_mb", 25);
    let dtype = match case.problem.workload.precision {
        ElementType::Fp16 => "float16",
        ElementType::Fp32 => "float32",
        _ => "bfloat16",
    };
    settings.set("model.dtype", dtype);
    settings.set("model.init_method.std", case.problem.model.constants.initializer_range);
    settings.set("model.make_vocab_size_divisible_by", 1);
    model::write(case, release, &mut settings);
    optimizer(case, release, &mut settings);
    settings.set_noted("tokenizer.tokenizer_name_or_path", "gpt2", "yours to set");
    settings
}

fn parallelism(case: &Case<'_>, release: Release, settings: &mut Settings) {
    let s = case.strategy;
    let mut set = |name: &str, value: serde_json::Value| {
        settings.set(&format!("parallelism.{name}"), value);
    };
    set("dp", s.data.into());
    set("pp", s.pipeline.into());
    set("tp", s.tensor.into());
    set("expert_parallel_size", 1.into());
    let engine = if s.schedule == Schedule::GPipe { "afab" } else { "1f1b" };
    set("pp_engine", engine.into());
    set("tp_mode", if s.sequence_parallel { "REDUCE_SCATTER" } else { "ALL_REDUCE" }.into());
    set("tp_linear_async_communication", false.into());
    if release == Release::Published {
        return;
    }
    set("context_parallel_size", s.context.into());
    set("recompute_layer", (case.checkpoint() == Some(CheckpointMode::Full)).into());
    settings.set_noted("parallelism.tp_recompute_allgather", false, "the plan keeps gathered inputs");
}

fn tokens(case: &Case<'_>, settings: &mut Settings) {
    let s = case.strategy;
    settings.set("tokens.sequence_length", case.problem.workload.seq_len);
    settings.set("tokens.micro_batch_size", s.micro_batch);
    settings.set("tokens.batch_accumulation_per_replica", s.accumulation);
    settings.set_noted("tokens.train_steps", 1000, "yours to set");
    settings.set("tokens.val_check_interval", -1);
}

fn optimizer(case: &Case<'_>, release: Release, settings: &mut Settings) {
    let s = case.strategy;
    let workload = &case.problem.workload;
    settings.set("optimizer.zero_stage", s.zero);
    let is_wide = s.gradient_type == ElementType::Fp32 && workload.precision != ElementType::Fp32;
    settings.set("optimizer.accumulate_grad_in_fp32", is_wide);
    match workload.clip {
        0.0 => settings.set("optimizer.clip_grad", serde_json::Value::Null),
        clip => settings.set("optimizer.clip_grad", clip),
    };
    settings.set("optimizer.weight_decay", 0.01);
    let adam = match release {
        Release::Main => {
            settings.set("optimizer.optimizer_factory.name", "adamW");
            "optimizer.optimizer_factory"
        }
        Release::Published => "optimizer",
    };
    settings.set(&format!("{adam}.adam_beta1"), 0.9).set(&format!("{adam}.adam_beta2"), 0.95);
    settings.set(&format!("{adam}.adam_eps"), 1e-8).set(&format!("{adam}.torch_adam_is_fused"), true);
    settings.set_noted(
        "optimizer.learning_rate_scheduler.learning_rate",
        3e-4,
        "yours to set, as the lines below",
    );
    settings.set("optimizer.learning_rate_scheduler.lr_warmup_steps", 100);
    settings.set("optimizer.learning_rate_scheduler.lr_warmup_style", "linear");
    settings.set("optimizer.learning_rate_scheduler.lr_decay_style", "cosine");
    settings.set("optimizer.learning_rate_scheduler.min_decay_lr", 3e-5);
}
