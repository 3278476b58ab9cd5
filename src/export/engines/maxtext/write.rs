//! The arguments of MaxText that make it run a strategy.

use super::mesh::Parts;
use super::model;
use crate::export::case::{Case, common};
use crate::export::settings::Settings;
use crate::strategy::{
    AttentionKernel, Axis, Capacity, CheckpointMode, LossMode, MeshOrder, OffloadCategory, Strategy,
};
use crate::units::ElementType;

/// Parts in which a chunked loss computes logits, as the profile has it.
pub const TILES: u64 = 8;

/// The arguments of `case`.
pub fn settings(case: &Case<'_>) -> Settings {
    let mut settings = Settings::default();
    settings.set_noted("run_name", "planned", "yours to set");
    settings.set("hardware", "gpu");
    model::write(case, &mut settings);
    mesh(case, &mut settings);
    batch(case, &mut settings);
    numbers(case, &mut settings);
    memory(case.strategy, &mut settings);
    settings
}

/// The parts of the axes: as the plan's order has them, else as the default order has them, else all inside, which the
/// checks show.
fn parts(case: &Case<'_>) -> Parts {
    let strategy = case.strategy;
    let devices = case.devices_per_node();
    Parts::of(strategy, devices)
        .or_else(|| Parts::of(&Strategy { order: MeshOrder::default(), ..strategy.clone() }, devices))
        .unwrap_or_else(|| Parts {
            inside: super::mesh::AXES.map(|axis| strategy.size(axis)),
            between: [1; 5],
        })
}

/// What of an expert axis lies inside a node and between nodes: as much inside as goes.
fn expert(strategy: &Strategy, inside: u64, between: u64) -> (u64, u64) {
    let inner = common(strategy.expert, inside);
    (inner, common(strategy.expert / inner, between))
}

fn mesh(case: &Case<'_>, settings: &mut Settings) {
    let s = case.strategy;
    let parts = parts(case);
    let (inside, between) = (|axis| parts.inside[axis as usize], |axis| parts.between[axis as usize]);
    let (mut inner, mut outer) = ((1, 1), (1, 1));
    if !case.problem.facts.experts.is_empty() {
        let of_shard = expert(s, inside(Axis::Shard), between(Axis::Shard));
        (inner.1, outer.1) = of_shard;
    }
    // Without FSDP the data ranks that the plan's shard group has are MaxText's data axis.
    let rest = (inside(Axis::Shard) / inner.1, between(Axis::Shard) / outer.1);
    let data = match s.zero {
        0 | 1 => (rest.0 * inside(Axis::Replica), rest.1 * between(Axis::Replica)),
        _ => {
            (inner.0, outer.0) = rest;
            (inside(Axis::Replica), between(Axis::Replica))
        }
    };
    let tensor = if s.sequence_parallel { "tensor_sequence" } else { "tensor" };
    let mut set = |name: &str, (inside, between): (u64, u64)| {
        settings.set(&format!("ici_{name}_parallelism"), inside);
        settings.set(&format!("dcn_{name}_parallelism"), between);
    };
    set("data", data);
    set("pipeline", (inside(Axis::Pipeline), between(Axis::Pipeline)));
    set("fsdp", (inner.0, outer.0));
    set("context", (inside(Axis::Context), between(Axis::Context)));
    set(tensor, (inside(Axis::Tensor), between(Axis::Tensor)));
    set("expert", (inner.1, outer.1));
    if s.context > 1 {
        settings.set("context_parallel_strategy", "ring");
    }
    settings.set("shard_optimizer_over_data", s.zero == 1);
    if s.pipeline > 1 {
        settings.set("num_layers_per_pipeline_stage", u64::from(case.problem.model.blocks()) / s.pipeline);
        settings.set("num_pipeline_repeats", 1);
        settings.set("num_pipeline_microbatches", s.accumulation);
        settings.set("pipeline_fsdp_ag_once", !s.reshard_after_forward);
    }
}

fn batch(case: &Case<'_>, settings: &mut Settings) {
    let (s, workload) = (case.strategy, &case.problem.workload);
    let steps = if s.pipeline > 1 { 1 } else { s.accumulation };
    let share = (workload.global_batch / steps.max(1)) as f64 / s.devices() as f64;
    settings.set_noted(
        "per_device_batch_size",
        share,
        "of every device, those of tensor and pipeline ranks too",
    );
    settings.set("gradient_accumulation_steps", steps);
    settings.set("max_target_length", workload.seq_len);
}

fn numbers(case: &Case<'_>, settings: &mut Settings) {
    let (s, workload) = (case.strategy, &case.problem.workload);
    let dtype = if workload.precision == ElementType::Fp32 { "float32" } else { "bfloat16" };
    settings.set("dtype", dtype).set("weight_dtype", "float32").set("grad_dtype", "float32");
    if workload.precision == ElementType::Fp8 {
        settings.set("quantization", "fp8");
    }
    settings.set("gradient_clipping_threshold", workload.clip);
    settings.set("dropout_rate", workload.dropout);
    let attention = match s.attention {
        AttentionKernel::Fused => "cudnn_flash_te",
        AttentionKernel::Materialised => "dot_product",
    };
    settings.set("attention", attention);
    if !case.problem.facts.experts.is_empty() {
        match s.capacity {
            // Only the dense products of experts look at the factor.
            Capacity::Factor(factor) => settings.set("capacity_factor", factor).set("sparse_matmul", false),
            Capacity::Full => settings.set("capacity_factor", -1.0).set("sparse_matmul", true),
        };
        settings.set_noted("megablox", false, "a kernel of TPUs");
    }
    settings.set("num_vocab_tiling", if s.loss == LossMode::Chunked { TILES } else { 1 });
}

fn memory(strategy: &Strategy, settings: &mut Settings) {
    let keeps = |category| !strategy.offload.lacks(category);
    let mode = strategy.checkpoint.iter().flat_map(|chunk| &chunk.runs).next().map(|(mode, _)| *mode);
    let policy = match mode {
        Some(CheckpointMode::Full) => "full",
        _ if keeps(OffloadCategory::Activations) => "minimal_offloaded",
        _ => "minimal_with_context",
    };
    settings.set("remat_policy", policy);
    settings.set("optimizer_memory_host_offload", keeps(OffloadCategory::Optimizer));
    settings.set("parameter_memory_host_offload", keeps(OffloadCategory::Parameters));
}
