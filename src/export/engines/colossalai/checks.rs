//! ColossalAI's own rules, with the numbers of a case.

use super::plugin::{Plugin, partly};
use crate::export::case::Case;
use crate::export::check::Check;
use crate::strategy::{ContextKind, OffloadCategory, Schedule};
use crate::units::ElementType;

const HYBRID: &str = "booster/plugin/hybrid_parallel_plugin.py:1053-1151";

/// The rules that 4f9953be checks, and what its plugins can say together.
pub fn checks(case: &Case<'_>) -> Vec<Check> {
    let s = case.strategy;
    let plugin = Plugin::of(case);
    let workload = &case.problem.workload;
    let mut checks = vec![
        Check::product(
            ("devices", s.devices()),
            &[("tp", s.tensor), ("pp", s.pipeline), ("sp", s.context), ("dp", s.data)],
            HYBRID,
        ),
        Check::new(
            matches!(
                (plugin, s.zero),
                (Plugin::LowLevelZero, 1 | 2)
                    | (Plugin::Gemini, 3)
                    | (Plugin::Hybrid, 0..=2)
                    | (Plugin::Moe, 0 | 1)
            ),
            format!("{} runs ZeRO {}", plugin.class(), s.zero),
            "low_level_zero_plugin.py:433, gemini_plugin.py, hybrid_parallel_plugin.py:1122, moe_hybrid_parallel_plugin.py:227",
        ),
        Check::new(
            s.zero == 0 || s.shard == s.data || plugin == Plugin::Gemini,
            "only Gemini keeps copies of sharded state",
            "gemini_plugin.py:546, extra_dp_size",
        ),
        Check::new(
            s.zero == 0 || workload.precision != ElementType::Fp32 || plugin == Plugin::LowLevelZero,
            format!("{} has ZeRO in {}", plugin.class(), workload.precision),
            "hybrid_parallel_plugin.py:1361, gemini_plugin.py:39",
        ),
        Check::new(
            !(s.sequence_parallel && s.context > 1),
            "sequences are split over tensor ranks or over ranks of their own",
            "hybrid_parallel_plugin.py:1061-1081: one mode",
        ),
        Check::new(
            partly(s).is_none() || s.pipeline > 1,
            "blocks differ in what they recompute in a pipeline only",
            "shardformer/modeling/llama.py, gradient_checkpoint_config",
        ),
    ];
    for heads in &case.problem.facts.heads {
        checks.push(Check::divides(
            ("heads", heads.query),
            ("tp", s.tensor),
            "shardformer/policies/llama.py:97",
        ));
        checks.push(Check::divides(
            ("key-value heads", heads.key_value),
            ("tp", s.tensor),
            "shardformer/policies/llama.py:100",
        ));
    }
    if plugin == Plugin::Gemini && !s.offload.lacks(OffloadCategory::Parameters) {
        let share = s.offload.fraction(OffloadCategory::Optimizer, 0);
        checks.push(Check::new(
            share == 1.0,
            "parameters go to the host with all optimizer state only",
            "zero/gemini/placement_policy.py:59",
        ));
    }
    if s.pipeline > 1 {
        checks.extend(pipeline(case));
    }
    for experts in &case.problem.facts.experts {
        checks.push(Check::divides(
            ("experts", experts.count),
            ("ep", s.expert),
            "shardformer/policies/mixtral.py",
        ));
        checks.push(Check::divides(("dp", s.data), ("ep", s.expert), "moe_hybrid_parallel_plugin.py:268"));
        checks.push(Check::new(
            s.expert_tensor == s.tensor,
            "experts are split over tensor ranks",
            "moe_hybrid_parallel_plugin.py",
        ));
        checks.push(Check::new(
            s.context == 1 || s.context_kind == ContextKind::Ulysses,
            "with experts there is no ring attention",
            "moe_hybrid_parallel_plugin.py:258",
        ));
        checks.push(Check::new(
            plugin != Plugin::Gemini || s.tensor == 1,
            "Gemini does not split experts over tensor ranks",
            "shardformer/policies/mixtral.py needs an expert group",
        ));
    }
    checks
}

fn pipeline(case: &Case<'_>) -> Vec<Check> {
    let s = case.strategy;
    let count = s.accumulation;
    let mut checks = vec![Check::new(
        count >= s.pipeline,
        format!("{count} micro-batches are at least {} stages", s.pipeline),
        "pipeline/schedule/one_f_one_b.py:93",
    )];
    if s.schedule == Schedule::Interleaved {
        checks.push(Check::divides(
            ("micro-batches", count),
            ("pp", s.pipeline),
            "pipeline/schedule/interleaved_pp.py:88",
        ));
    }
    checks
}
