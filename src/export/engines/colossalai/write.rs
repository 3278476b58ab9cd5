//! The arguments of plugins that make them run a strategy.

use super::plugin::{MEGA, Plugin, is_outside, kind, partly, place};
use crate::export::case::{Case, common};
use crate::export::settings::{Settings, Term};
use crate::strategy::{AttentionKernel, ContextKind, OffloadCategory, Schedule};
use crate::units::ElementType;

/// Whether all optimizer state is on the host.
pub fn is_offloaded(case: &Case<'_>) -> bool {
    !case.strategy.offload.lacks(OffloadCategory::Optimizer)
}

/// ColossalAI's name of a precision.
pub const fn precision(element: ElementType) -> &'static str {
    match element {
        ElementType::Fp16 => "fp16",
        ElementType::Fp32 => "fp32",
        _ => "bf16",
    }
}

/// The arguments of the plugin that runs `case`, below `prefix`.
pub fn arguments(case: &Case<'_>, prefix: &str, settings: &mut Settings) {
    let plugin = Plugin::of(case);
    let mut set = |name: &str, value: Term| {
        settings.put(&format!("{prefix}.{name}"), value);
    };
    match plugin {
        Plugin::LowLevelZero => low_level(case, &mut set),
        Plugin::Gemini => gemini(case, &mut set),
        Plugin::Hybrid | Plugin::Moe => hybrid(case, plugin, &mut set),
    }
    let workload = &case.problem.workload;
    set("precision", precision(workload.precision).into());
    set("max_norm", workload.clip.into());
}

/// Those of ZeRO 1 and 2 over all ranks, but for precision and norm.
pub fn low_level(case: &Case<'_>, set: &mut impl FnMut(&str, Term)) {
    set("stage", case.strategy.zero.clamp(1, 2).into());
    set("cpu_offload", is_offloaded(case).into());
    set("reduce_bucket_size_in_m", (case.strategy.bucket as f64 / MEGA).into());
}

fn gemini(case: &Case<'_>, set: &mut impl FnMut(&str, Term)) {
    let s = case.strategy;
    set("placement_policy", "static".into());
    set("shard_param_frac", 1.0.into());
    set("offload_optim_frac", s.offload.fraction(OffloadCategory::Optimizer, 0).into());
    set("offload_param_frac", s.offload.fraction(OffloadCategory::Parameters, 0).into());
    set("enable_gradient_accumulation", (s.accumulation > 1).into());
    set("tp_size", s.tensor.into());
    set("extra_dp_size", s.replicas().into());
    set("enable_sequence_parallelism", s.sequence_parallel.into());
    set("enable_flash_attention", (s.attention == AttentionKernel::Fused).into());
    // Chunks of one size, in which gradients are reduced.
    set("min_chunk_size_m", (s.bucket as f64 / MEGA).into());
    set("search_range_m", 0.into());
}

/// Those of the hybrid plugins, but for precision and norm.
pub fn hybrid(case: &Case<'_>, plugin: Plugin, set: &mut impl FnMut(&str, Term)) {
    let s = case.strategy;
    set("tp_size", s.tensor.into());
    set("pp_size", s.pipeline.into());
    if plugin == Plugin::Moe {
        // It divides the data ranks.
        set("ep_size", common(s.expert, s.data).into());
    }
    sequence(case, plugin, set);
    let precision = case.problem.workload.precision;
    let zero = match plugin {
        // In 32 bits there is no ZeRO beside other kinds of parallelism.
        _ if precision == ElementType::Fp32 => 0,
        Plugin::Moe => s.zero.min(1),
        _ if s.pipeline > 1 => s.zero.min(1),
        _ => s.zero.min(2),
    };
    set("zero_stage", zero.into());
    if zero > 0 {
        set("cpu_offload", is_offloaded(case).into());
        set("zero_bucket_size_in_m", (s.bucket as f64 / MEGA).into());
    } else {
        let bytes = s.bucket as f64 * case.problem.workload.compute_type().size() as f64;
        set("ddp_bucket_cap_mb", (bytes / MEGA).into());
    }
    set("enable_flash_attention", (s.attention == AttentionKernel::Fused).into());
    if s.pipeline > 1 {
        pipeline(case, set);
    }
    let outside = if plugin == Plugin::Moe { "moe_dp_outside" } else { "dp_outside" };
    set(outside, is_outside(plugin, s).into());
}

fn sequence(case: &Case<'_>, plugin: Plugin, set: &mut impl FnMut(&str, Term)) {
    let s = case.strategy;
    let mode = match (s.context > 1, s.sequence_parallel) {
        (true, _) if kind(plugin, s) == ContextKind::Ring => "ring_attn",
        (true, _) => "all_to_all",
        (false, true) => "split_gather",
        (false, false) => {
            set("enable_sequence_parallelism", false.into());
            return;
        }
    };
    set("enable_sequence_parallelism", true.into());
    set("sequence_parallelism_mode", mode.into());
    set("sp_size", s.context.into());
}

fn pipeline(case: &Case<'_>, set: &mut impl FnMut(&str, Term)) {
    let s = case.strategy;
    let style = match s.schedule {
        Schedule::Interleaved => "interleaved",
        Schedule::ZeroBubbleV => "zbv",
        _ => "1f1b",
    };
    set("pp_style", style.into());
    set("num_model_chunks", s.virtual_stages.into());
    set("num_layers_per_stage", s.cuts.clone().into());
    set("microbatch_size", s.micro_batch.into());
    if s.schedule == Schedule::ZeroBubbleV {
        set("scheduler_nodes", Term::Call("zbv_nodes()"));
    }
    if let Some(counts) = partly(s) {
        let mut list = vec![0; counts.len()];
        for (index, count) in counts.iter().enumerate() {
            list[place(s, index as u64)] = *count;
        }
        set("gradient_checkpoint_config", Term::Call("PipelineGradientCheckpointConfig()"));
        set("gradient_checkpoint_config.num_ckpt_layers_per_stage", list.into());
    }
}

/// The line that makes the schedule of a V, where there is one: costs of passes as one, memory as a Llama block's.
pub fn scheduler_nodes(case: &Case<'_>) -> Option<String> {
    let s = case.strategy;
    if s.schedule != Schedule::ZeroBubbleV || s.pipeline == 1 {
        return None;
    }
    let hidden = case.decoder().map_or(1, |decoder| decoder.hidden());
    let heads = case.problem.facts.heads.first().map_or(1, |heads| heads.query);
    let forward = 34 * hidden + 5 * heads * case.problem.workload.seq_len;
    let weight = 32 * hidden;
    Some(format!(
        "def zbv_nodes(): return PipelineGraph(n_stage={}, n_micro={}, f_cost=1, b_cost=1, w_cost=1, c_cost=1, \
         f_mem={forward}, b_mem={}, w_mem=-{weight}).get_v_schedule()\n",
        s.pipeline,
        s.accumulation,
        weight as i64 - forward as i64,
    ))
}
