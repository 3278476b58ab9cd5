//! The settings of Accelerate 1.15 that make it run a strategy.

use super::script;
use crate::export::case::Case;
use crate::export::settings::Settings;
use crate::strategy::{AttentionKernel, CheckpointMode, OffloadCategory};
use crate::units::ElementType;

/// The settings of `case`.
pub fn settings(case: &Case<'_>) -> Settings {
    let mut settings = Settings::default();
    let s = case.strategy;
    let is_sharded = s.zero > 0;
    settings.set("compute_environment", "LOCAL_MACHINE");
    let kind = match (is_sharded, s.devices()) {
        (true, _) => "FSDP",
        (false, 1) => "NO",
        (false, _) => "MULTI_GPU",
    };
    settings.set("distributed_type", kind);
    let precision = match case.problem.workload.precision {
        ElementType::Fp32 | ElementType::Fp64 => "no",
        ElementType::Bf16 => "bf16",
        ElementType::Fp16 => "fp16",
        ElementType::Fp8 => "fp8",
    };
    settings.set("mixed_precision", precision);
    settings.set("num_machines", case.nodes());
    settings.set("num_processes", s.devices());
    settings.set_noted("machine_rank", 0, "--machine_rank says another on the other nodes");
    settings.set("main_training_function", "main");
    settings.set("rdzv_backend", "c10d");
    settings.set("same_network", true);
    settings.set("use_cpu", false);
    if is_sharded {
        sharding(case, &mut settings);
    }
    let mut size = |name: &str, number: u64| {
        settings.set(&format!("parallelism_config.parallelism_config_{name}_size"), number);
    };
    size("dp_replicate", if is_sharded { s.replicas() } else { s.data });
    size("dp_shard", if is_sharded { s.shard } else { 1 });
    size("tp", s.tensor);
    size("cp", s.context);
    if s.context > 1 {
        settings.set("parallelism_config.parallelism_config_cp_comm_strategy", "allgather");
    }
    settings.set_noted(script::MICRO, s.micro_batch, "for the training script, which run.sh gives it to");
    settings.set_noted(script::STEPS, s.accumulation, "likewise, and in the environment");
    if script::recomputes(case) {
        settings.set_noted(script::CHECKPOINT, true, "likewise: DDP wraps no blocks");
    }
    if s.attention == AttentionKernel::Materialised {
        settings.set_noted(script::ATTENTION, "eager", "likewise");
    }
    if precision == "fp8" {
        settings.set("fp8_config.backend", "AO");
        // Weights are gathered in bf16, as the plan has it.
        settings.set("fp8_config.enable_fsdp_float8_all_gather", false);
    }
    settings
}

fn sharding(case: &Case<'_>, settings: &mut Settings) {
    let s = case.strategy;
    let mut set = |name: &str, value: serde_json::Value| {
        settings.set(&format!("fsdp_config.fsdp_{name}"), value);
    };
    set("version", 2.into());
    set("reshard_after_forward", s.reshard_after_forward.into());
    set("auto_wrap_policy", "TRANSFORMER_BASED_WRAP".into());
    set("activation_checkpointing", (case.checkpoint() == Some(CheckpointMode::Full)).into());
    set("offload_params", (!s.offload.lacks(OffloadCategory::Optimizer)).into());
    set("state_dict_type", "SHARDED_STATE_DICT".into());
    set("cpu_ram_efficient_loading", true.into());
}
