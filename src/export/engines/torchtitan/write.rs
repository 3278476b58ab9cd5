//! The settings of torchtitan v0.2.2 that make it run a strategy.

use super::batch::BatchUnit;
use super::cuts::{self, OUTPUT};
use super::flavors::{self, Flavor, MODULE, PLANNED};
use super::schedule_file::{FILE, needs};
use crate::export::case::Case;
use crate::export::settings::Settings;
use crate::strategy::{CheckpointMode, OffloadCategory, Schedule};
use crate::units::ElementType;

/// The settings of `case`.
pub fn settings(case: &Case<'_>) -> Settings {
    let mut settings = Settings::default();
    model(case, &mut settings);
    training(case, &mut settings);
    parallelism(case, &mut settings);
    checkpoint(case, &mut settings);
    settings.set_noted("compile.enable", false, "the plan is of the model as it is, uncompiled");
    settings
}

fn model(case: &Case<'_>, settings: &mut Settings) {
    match flavors::flavor(case) {
        Flavor::Own(family, flavor, folder) => {
            settings.set("model.name", family).set("model.flavor", flavor);
            settings.set("model.hf_assets_path", format!("./assets/hf/{folder}"));
        }
        Flavor::Registered => {
            settings.set("model.name", "llama3").set("model.flavor", PLANNED);
            settings.set_noted("model.hf_assets_path", "./assets/hf/planned", "where the tokenizer lies");
        }
        Flavor::Unknown => {
            let name = case.problem.model.name.as_str();
            settings.set_noted(
                "model.name",
                name,
                "torchtitan has no such model: register it, and name it here",
            );
            settings.set("model.flavor", PLANNED);
        }
    }
    if case.problem.workload.precision == ElementType::Fp8 {
        settings.set("model.converters", vec!["quantize.linear.float8"]);
    }
}

fn training(case: &Case<'_>, settings: &mut Settings) {
    let (strategy, workload) = (case.strategy, &case.problem.workload);
    BatchUnit::Sequences.write(case, settings);
    settings.set("training.max_norm", clip(workload.clip));
    let is_offloaded = !strategy.offload.lacks(OffloadCategory::Optimizer);
    settings.set("training.enable_cpu_offload", is_offloaded);
    settings.set("training.dtype", "float32");
    let compute = match workload.precision {
        ElementType::Fp32 => "float32",
        _ => "bfloat16",
    };
    settings.set("training.mixed_precision_param", compute);
    settings.set("training.mixed_precision_reduce", "float32");
}

/// torchtitan always clips: what does not clip is a norm that none reaches.
pub fn clip(clip: f64) -> f64 {
    if clip == 0.0 { 1e30 } else { clip }
}

/// The file that says the schedule, where no name does.
pub fn schedule_file(case: &Case<'_>, settings: &mut Settings) {
    let schedule = case.strategy.schedule;
    if needs(schedule) {
        // The name says one chunk a rank, the file the order (distributed/pipeline_parallel.py:56,171).
        let note = format!("the order of {schedule}, in place of the named one");
        settings.set_noted("parallelism.pipeline_parallel_schedule_csv", FILE, note);
    }
}

fn parallelism(case: &Case<'_>, settings: &mut Settings) {
    let strategy = case.strategy;
    axes(case, settings, OUTPUT);
    settings.set("parallelism.enable_async_tensor_parallel", false);
    if strategy.pipeline > 1 {
        BatchUnit::Sequences.write_pipeline(case, settings);
        schedule_file(case, settings);
    }
    if !case.problem.facts.experts.is_empty() {
        settings.set("parallelism.expert_parallel_degree", strategy.expert);
        settings.set("parallelism.expert_tensor_parallel_degree", strategy.expert_tensor);
    }
    if case.problem.workload.precision == ElementType::Fp8 {
        // Weights are gathered in bf16, as the plan has it.
        settings.set("quantize.linear.float8.recipe_name", "rowwise");
        settings.set("quantize.linear.float8.filter_fqns", vec!["output"]);
    }
    if flavors::flavor(case) == Flavor::Registered {
        settings.set("experimental.custom_import", MODULE);
    }
}

/// The settings of the mesh and of the pipeline that all versions have; `head` is the module that computes logits.
pub fn axes(case: &Case<'_>, settings: &mut Settings, head: &str) {
    let strategy = case.strategy;
    let (replicas, shards) = match strategy.zero {
        0 => (strategy.data, 1),
        _ => (strategy.replicas(), strategy.shard),
    };
    let is_piped = strategy.pipeline > 1;
    let mut set = |name: &str, value: serde_json::Value| {
        settings.set(&format!("parallelism.{name}"), value);
    };
    set("data_parallel_replicate_degree", replicas.into());
    set("data_parallel_shard_degree", shards.into());
    let reshard = match (strategy.reshard_after_forward, is_piped) {
        (true, true) => "always",
        (false, false) => "never",
        // Without a pipeline it reshards, with one it does not.
        _ => "default",
    };
    set("fsdp_reshard_after_forward", reshard.into());
    set("tensor_parallel_degree", strategy.tensor.into());
    set("context_parallel_degree", strategy.context.into());
    set("pipeline_parallel_degree", strategy.pipeline.into());
    if is_piped {
        set("pipeline_parallel_schedule", schedule(strategy.schedule).into());
        let chunks = strategy.cuts.len() as u32;
        let usual = strategy.virtual_stages == if is_single(strategy.schedule) { 1 } else { 2 };
        let ends = [1, 0].into_iter().find(|end| {
            usual
                && cuts::dealt(strategy.cuts.iter().sum(), chunks, *end, *end).as_ref()
                    == Some(&strategy.cuts)
        });
        match ends {
            Some(end) => {
                set("pipeline_parallel_first_stage_less_layers", end.into());
                set("pipeline_parallel_last_stage_less_layers", end.into());
            }
            None => set("module_fqns_per_model_part", cuts::modules(&strategy.cuts, head)),
        }
    }
}

/// Its name of a schedule (`torch.distributed.pipelining.schedules`, `get_schedule_class`).
pub fn schedule(schedule: Schedule) -> &'static str {
    match schedule {
        Schedule::GPipe => "GPipe",
        Schedule::Interleaved => "Interleaved1F1B",
        Schedule::ZeroBubbleV => "ZBVZeroBubble",
        Schedule::OneForwardOneBackward | Schedule::ZeroBubbleH1 | Schedule::ZeroBubbleH2 => "1F1B",
    }
}

/// Whether a rank has one chunk under it.
pub const fn is_single(schedule: Schedule) -> bool {
    !matches!(schedule, Schedule::Interleaved | Schedule::ZeroBubbleV)
}

fn checkpoint(case: &Case<'_>, settings: &mut Settings) {
    match case.checkpoint() {
        Some(CheckpointMode::Full) => {
            settings.set("activation_checkpoint.mode", "full");
        }
        Some(CheckpointMode::Selective) => {
            settings.set("activation_checkpoint.mode", "selective");
            settings.set("activation_checkpoint.selective_ac_option", "op");
        }
        Some(CheckpointMode::None) | None => match super::read::frequency(case.strategy) {
            Some(every) if case.checkpoint().is_none() => {
                settings.set("activation_checkpoint.mode", "selective");
                settings.set("activation_checkpoint.selective_ac_option", every.to_string());
            }
            _ => {
                settings.set("activation_checkpoint.mode", "none");
            }
        },
    }
}
