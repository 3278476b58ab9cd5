//! The settings of DeepSpeed 0.19 that make it run a strategy.

use crate::export::case::Case;
use crate::export::settings::Settings;
use crate::strategy::{CheckpointMode, OffloadCategory, Strategy};
use crate::units::ElementType;

/// Elements of a bucket where none is said, and always without ZeRO (0.19.8 `runtime/engine.py:151`).
pub const BUCKET: u64 = 500_000_000;

/// The settings of `case`.
pub fn settings(case: &Case<'_>) -> Settings {
    let mut settings = Settings::default();
    let (strategy, workload) = (case.strategy, &case.problem.workload);
    settings.set("train_batch_size", workload.global_batch);
    settings.set("train_micro_batch_size_per_gpu", strategy.micro_batch);
    settings.set("gradient_accumulation_steps", strategy.accumulation);
    settings.set("gradient_clipping", workload.clip);
    settings.set("bf16.enabled", workload.precision == ElementType::Bf16);
    settings.set("fp16.enabled", workload.precision == ElementType::Fp16);
    settings.set("communication_data_type", strategy.reduce_type.to_string());
    settings.set("data_types.grad_accum_dtype", strategy.gradient_type.to_string());
    zero(strategy, &mut settings);
    parallelism(strategy, &mut settings);
    if !case.problem.facts.experts.is_empty() {
        experts(strategy, &mut settings);
    }
    if strategy.pipeline > 1 {
        pipeline(case, &mut settings);
    }
    checkpoint(case, &mut settings);
    settings.set("optimizer.type", "AdamW");
    settings
}

fn zero(strategy: &Strategy, settings: &mut Settings) {
    let mut set = |name: &str, value: serde_json::Value| {
        settings.set(&format!("zero_optimization.{name}"), value);
    };
    set("stage", strategy.zero.into());
    set("reduce_bucket_size", strategy.bucket.into());
    if strategy.zero > 0 {
        set("allgather_bucket_size", BUCKET.into());
        // A pipeline switches it off by itself, with a warning.
        set("overlap_comm", (strategy.pipeline == 1).into());
        set("contiguous_gradients", true.into());
        set("reduce_scatter", true.into());
    }
    let optimizer = strategy.offload.fraction(OffloadCategory::Optimizer, 0);
    if optimizer > 0.0 {
        set("offload_optimizer.device", "cpu".into());
        set("offload_optimizer.pin_memory", true.into());
        set("offload_optimizer.ratio", optimizer.into());
    }
    if !strategy.offload.lacks(OffloadCategory::Parameters) {
        set("offload_param.device", "cpu".into());
        set("offload_param.pin_memory", true.into());
    }
}

fn parallelism(strategy: &Strategy, settings: &mut Settings) {
    if strategy.tensor > 1 && strategy.pipeline == 1 {
        settings.set("tensor_parallel.autotp_size", strategy.tensor);
    } else if strategy.tensor > 1 {
        // AutoTP knows no pipeline: the layers of the pipeline split themselves over the topology's axis `model`.
        settings.set("tensor_parallel.autotp_size", 0);
        settings.set("tensor_parallel.tp.tp_size", strategy.tensor);
    }
    if strategy.context > 1 {
        settings.set("sequence_parallel_size", strategy.context);
        settings.set("data_parallel_size", strategy.data);
        // In its place, under sequence parallelism.
        settings.set("seq_parallel_communication_data_type", strategy.reduce_type.to_string());
    }
}

fn experts(strategy: &Strategy, settings: &mut Settings) {
    // AutoTP alone splits every expert over its ranks.
    if strategy.expert > 1 || strategy.expert_tensor != strategy.tensor {
        settings.set("expert_parallel.enabled", true);
        settings.set("expert_parallel.autoep_size", strategy.expert);
        settings.set("expert_parallel.expert_tensor_parallel_size", strategy.expert_tensor);
    }
}

fn pipeline(case: &Case<'_>, settings: &mut Settings) {
    settings.set("pipeline.stages", case.strategy.pipeline);
    settings.set("pipeline.partition", "type:DecoderLayer");
    let interval = u32::from(case.checkpoint() == Some(CheckpointMode::Full));
    settings.set("pipeline.activation_checkpoint_interval", interval);
}

fn checkpoint(case: &Case<'_>, settings: &mut Settings) {
    if case.checkpoint() != Some(CheckpointMode::Full) {
        return;
    }
    let blocks = case.strategy.cuts.iter().max().copied().unwrap_or(0);
    let is_offloaded = !case.strategy.offload.lacks(OffloadCategory::Activations);
    settings.set("activation_checkpointing.partition_activations", false);
    settings.set("activation_checkpointing.cpu_checkpointing", is_offloaded);
    settings.set("activation_checkpointing.number_checkpoints", blocks);
}
