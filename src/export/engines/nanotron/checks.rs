//! nanotron's own rules, with the numbers of a case.

use super::release::Release;
use crate::export::case::Case;
use crate::export::check::Check;
use crate::strategy::cuts::CutCosts;
use crate::strategy::{AttentionKernel, CheckpointMode};
use crate::units::ElementType;

/// The rules that nanotron checks of these settings, and what it can run.
pub fn checks(case: &Case<'_>, release: Release) -> Vec<Check> {
    let (s, workload) = (case.strategy, &case.problem.workload);
    let mut checks = vec![
        Check::product(
            ("devices", s.devices()),
            &[("dp", s.data), ("pp", s.pipeline), ("tp", s.tensor), ("cp", s.context)],
            "parallel/context.py:26",
        ),
        Check::product(
            ("global batch", workload.global_batch),
            &[
                ("micro_batch_size", s.micro_batch),
                ("batch_accumulation_per_replica", s.accumulation),
                ("dp", s.data),
            ],
            "config/config.py:557",
        ),
    ];
    for heads in &case.problem.facts.heads {
        checks.push(Check::divides(("heads", heads.query), ("tp", s.tensor), "config/config.py:536"));
        checks.push(Check::divides(
            ("key-value heads", heads.key_value),
            ("tp", s.tensor),
            "models/llama.py:347",
        ));
    }
    let compute = workload.compute_type();
    checks.push(Check::new(
        s.gradient_type == ElementType::Fp32 || s.gradient_type == compute,
        format!("gradients are kept in fp32 or in {compute}, as the model is"),
        "config/config.py, accumulate_grad_in_fp32",
    ));
    checks.push(Check::new(
        s.attention == AttentionKernel::Fused,
        "attention is fused",
        "config/models_config.py, _attn_implementation: no kernel keeps scores",
    ));
    if release == Release::Published {
        checks.push(Check::new(
            s.context == 1 && case.checkpoint() == Some(CheckpointMode::None),
            "nothing recomputes, and no sequence is split",
            "config/parallelism_config.py of the release",
        ));
        let is_llama =
            case.decoder().is_some_and(|decoder| decoder.experts.is_none() && !decoder.attention.input_bias);
        checks.push(Check::new(is_llama, "the model is a Llama", "config/models_config.py of the release"));
    }
    if s.context > 1 {
        checks.push(Check::divides(
            ("sequence_length", workload.seq_len),
            ("2 · cp", 2 * s.context),
            "models/qwen.py:776",
        ));
    }
    if s.pipeline > 1 {
        let text = |cuts: &[u32]| cuts.iter().map(ToString::to_string).collect::<Vec<_>>().join("/");
        let dealt = CutCosts::of(case.problem.model).dealt(s.cuts.len());
        checks.push(Check::new(
            dealt.as_ref() == Some(&s.cuts),
            format!(
                "stages have {} blocks, as costs cut them",
                dealt.map_or_else(|| "no".to_owned(), |cuts| text(&cuts))
            ),
            "models/base.py:216",
        ));
    }
    if s.pipeline > 1 {
        checks.push(Check::new(
            s.accumulation + 1 >= s.pipeline,
            format!("{} micro-batches are at least {} stages less one", s.accumulation, s.pipeline),
            "parallel/pipeline_parallel/engine.py:252",
        ));
    }
    checks
}
