//! The arguments of Megatron-LM that make it run a strategy.

use super::layout::layout;
use super::write_model;
use crate::export::case::Case;
use crate::export::settings::Settings;
use crate::strategy::{
    AttentionKernel, Axis, Capacity, CheckpointMode, ContextKind, MeshOrder, OffloadCategory, Strategy,
};
use crate::units::ElementType;

/// Its order of ranks with `--use-tp-pp-dp-mapping`.
pub const PIPELINE_BEFORE_DATA: MeshOrder =
    MeshOrder([Axis::Tensor, Axis::Context, Axis::Pipeline, Axis::Shard, Axis::Replica]);

/// The arguments of `case`.
pub fn settings(case: &Case<'_>) -> Settings {
    let mut settings = Settings::default();
    write_model::write(case, &mut settings);
    workload(case, &mut settings);
    parallelism(case, &mut settings);
    state(case, &mut settings);
    recomputation(case, &mut settings);
    offload(case.strategy, &mut settings);
    settings
}

fn workload(case: &Case<'_>, settings: &mut Settings) {
    let workload = &case.problem.workload;
    settings.set("seq-length", workload.seq_len);
    settings.set("micro-batch-size", case.strategy.micro_batch);
    settings.set("global-batch-size", workload.global_batch);
    match workload.precision {
        ElementType::Fp16 => {
            settings.set("fp16", true);
        }
        ElementType::Fp8 => {
            settings.set("bf16", true).set("fp8-format", "hybrid");
        }
        ElementType::Bf16 => {
            settings.set("bf16", true);
        }
        _ => {}
    }
    settings.set("clip-grad", workload.clip);
    settings.set("attention-dropout", workload.dropout).set("hidden-dropout", workload.dropout);
}

fn parallelism(case: &Case<'_>, settings: &mut Settings) {
    let s = case.strategy;
    settings.set("tensor-model-parallel-size", s.tensor);
    if s.sequence_parallel {
        settings.set("sequence-parallel", true);
    }
    settings.set("pipeline-model-parallel-size", s.pipeline);
    if s.pipeline > 1 {
        let modules = case.decoder().map_or(0, |decoder| decoder.multi_token);
        // Without a layout, the layers before these are dealt evenly.
        let is_even = modules == 0 && s.cuts.iter().all(|blocks| *blocks == s.cuts[0]);
        match (is_even, s.virtual_stages) {
            (true, 1) => {}
            (true, chunks) => {
                settings.set("num-virtual-stages-per-pipeline-rank", chunks);
            }
            (false, _) => {
                settings.set(
                    "pipeline-model-parallel-layout",
                    layout(&s.cuts, u32::try_from(modules).unwrap_or(0)),
                );
            }
        }
    }
    settings.set("context-parallel-size", s.context);
    if s.context > 1 {
        let kind = match s.context_kind {
            ContextKind::Ring => "p2p",
            ContextKind::Ulysses => "a2a",
        };
        settings.set("cp-comm-type", kind);
    }
    if !case.problem.facts.experts.is_empty() {
        settings.set("expert-model-parallel-size", s.expert);
        settings.set("expert-tensor-parallel-size", s.expert_tensor);
        if let Capacity::Factor(factor) = s.capacity {
            settings.set("moe-expert-capacity-factor", factor);
        }
    }
    if is_piped_first(s) {
        settings.set("use-tp-pp-dp-mapping", true);
    }
    let backend = match s.attention {
        AttentionKernel::Fused => "flash",
        AttentionKernel::Materialised => "unfused",
    };
    settings.set("attention-backend", backend);
}

/// Whether pipeline ranks are nearer than data ranks, as `--use-tp-pp-dp-mapping` has it.
pub fn is_piped_first(strategy: &Strategy) -> bool {
    let size = |axis| strategy.size(axis);
    strategy.order != MeshOrder::default()
        && strategy.order.normalised(size) == PIPELINE_BEFORE_DATA.normalised(size)
}

fn state(case: &Case<'_>, settings: &mut Settings) {
    let s = case.strategy;
    match s.zero {
        0 => {
            settings.set("overlap-grad-reduce", true);
        }
        1 => {
            settings.set("use-distributed-optimizer", true);
            settings.set("overlap-grad-reduce", true).set("overlap-param-gather", true);
        }
        stage => {
            settings.set("use-megatron-fsdp", true);
            let sharding = if stage == 2 { "optim_grads" } else { "optim_grads_params" };
            settings.set("data-parallel-sharding-strategy", sharding);
            settings.set("ckpt-format", "fsdp_dtensor");
        }
    }
    if s.zero > 0 && s.replicas() > 1 {
        settings.set("num-distributed-optimizer-instances", s.replicas());
    }
    match (case.problem.workload.precision, s.gradient_type) {
        (ElementType::Bf16 | ElementType::Fp8, ElementType::Bf16) => {
            settings.set("grad-reduce-in-bf16", true);
        }
        // Under fp16 gradients are kept as parameters are, unless told otherwise.
        (ElementType::Fp16, ElementType::Fp32) => {
            settings.set("accumulate-allreduce-grads-in-fp32", true);
        }
        _ => {}
    }
}

fn recomputation(case: &Case<'_>, settings: &mut Settings) {
    match case.checkpoint() {
        Some(CheckpointMode::None) => {}
        Some(CheckpointMode::Selective) => {
            settings.set("recompute-granularity", "selective");
        }
        Some(CheckpointMode::Full) => {
            settings.set("recompute-granularity", "full").set("recompute-method", "uniform");
            settings.set("recompute-num-layers", 1);
        }
        None => {
            let full = |modes: &crate::strategy::Checkpoint| {
                modes.modes().take_while(|mode| *mode == CheckpointMode::Full).count()
            };
            let first = case.strategy.checkpoint.iter().map(full).max().unwrap_or(0);
            settings.set("recompute-granularity", "full").set("recompute-method", "block");
            settings.set_noted("recompute-num-layers", first, "the first of each chunk");
        }
    }
}

fn offload(strategy: &Strategy, settings: &mut Settings) {
    let fraction = strategy.offload.fraction(OffloadCategory::Optimizer, 0);
    if fraction > 0.0 {
        settings.set("optimizer-cpu-offload", true).set("optimizer-offload-fraction", fraction);
        settings.set("use-precision-aware-optimizer", true);
        if strategy.overlap {
            settings.set("overlap-cpu-optimizer-d2h-h2d", true);
        }
    }
    let fraction = strategy.offload.fraction(OffloadCategory::Activations, 0);
    if fraction > 0.0 {
        settings.set("fine-grained-activation-offloading", true);
        settings.set("offload-modules", vec!["attn_norm", "core_attn", "attn_proj", "mlp_norm"]);
        settings.set("activation-offload-fraction", fraction);
    }
}
