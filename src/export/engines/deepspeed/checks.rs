//! DeepSpeed's own rules, with the numbers of a case.

use crate::export::case::Case;
use crate::export::check::Check;
use crate::strategy::cuts::first_more;
use crate::strategy::{OffloadCategory, Strategy};

/// The rules that 0.19.8 checks of these settings.
pub fn checks(case: &Case<'_>) -> Vec<Check> {
    let s = case.strategy;
    let workload = &case.problem.workload;
    let mut checks = vec![
        Check::product(
            ("devices", s.devices()),
            &[("pipe", s.pipeline), ("data", s.data), ("sequence", s.context), ("tensor", s.tensor)],
            "runtime/pipe/module.py:175, utils/groups.py",
        ),
        Check::product(
            ("train_batch_size", workload.global_batch),
            &[("micro", s.micro_batch), ("accumulation", s.accumulation), ("data", s.data)],
            "runtime/config.py:602",
        ),
    ];
    if s.pipeline > 1 {
        checks.push(Check::new(
            s.zero < 2,
            format!("ZeRO stage {} goes with a pipeline, as 0 and 1 do", s.zero),
            "runtime/pipe/engine.py:77",
        ));
        let cuts = first_more(case.problem.facts.blocks, s.cuts.len());
        checks.push(Check::new(
            cuts.as_ref() == Some(&s.cuts),
            format!(
                "{} blocks over {} stages: what is over goes to the first stages",
                case.problem.facts.blocks, s.pipeline
            ),
            "runtime/utils.py:627",
        ));
    }
    if s.zero == 0 {
        checks.push(Check::new(
            s.gradient_type == workload.compute_type(),
            format!("without ZeRO, gradients are kept in the model's type, {}", workload.compute_type()),
            "runtime/engine.py:2323",
        ));
    }
    sequence(case, s, &mut checks);
    offload(s, &mut checks);
    if !case.problem.facts.experts.is_empty() {
        experts(case, s, &mut checks);
    }
    checks
}

fn sequence(case: &Case<'_>, s: &Strategy, checks: &mut Vec<Check>) {
    if s.context == 1 {
        return;
    }
    for heads in &case.problem.facts.heads {
        checks.push(Check::divides(
            ("heads", heads.query),
            ("sequence_parallel_size", s.context),
            "runtime/sequence_parallel/ulysses_sp.py:148",
        ));
        let (groups, context) = (heads.key_value, s.context);
        checks.push(Check::new(
            groups.is_multiple_of(context) || context.is_multiple_of(groups),
            format!("one of {groups} key-value heads and sequence_parallel_size {context} divides the other"),
            "runtime/sequence_parallel/ulysses_sp.py:149",
        ));
    }
    checks.push(Check::divides(
        ("sequence", case.problem.workload.seq_len),
        ("sequence_parallel_size", s.context),
        "runtime/sequence_parallel/ulysses_sp.py:706",
    ));
    checks.push(Check::product(
        ("devices", s.devices()),
        &[("data_parallel_size", s.data), ("sequence_parallel_size", s.context)],
        "__init__.py:545: its mesh has these two axes alone",
    ));
}

fn offload(s: &Strategy, checks: &mut Vec<Check>) {
    let optimizer = s.offload.fraction(OffloadCategory::Optimizer, 0);
    if optimizer > 0.0 && optimizer < 1.0 {
        checks.push(Check::new(
            s.zero == 3,
            format!("a ratio of {optimizer} goes with ZeRO stage 3, and this is {}", s.zero),
            "runtime/zero/config.py:399",
        ));
    }
    if !s.offload.lacks(OffloadCategory::Parameters) {
        checks.push(Check::new(
            s.zero == 3,
            format!("offload_param goes with ZeRO stage 3, and this is {}", s.zero),
            "runtime/zero/config.py:167",
        ));
    }
}

fn experts(case: &Case<'_>, s: &Strategy, checks: &mut Vec<Check>) {
    if s.expert == 1 && s.expert_tensor == s.tensor {
        return;
    }
    const FOLDING: &str = "module_inject/auto_ep_folding.py:";
    let mut rule = |holds: bool, text: String, line: u32| {
        checks.push(Check::new(holds, text, &format!("{FOLDING}{line}")));
    };
    rule(
        s.expert_tensor == 1,
        format!("expert_tensor_parallel_size is 1, and this is {}", s.expert_tensor),
        214,
    );
    if s.tensor > 1 {
        rule(
            s.pipeline == 1,
            format!("AutoEP with AutoTP goes with no pipeline, and this has {}", s.pipeline),
            206,
        );
        rule(s.context == 1, format!("nor with sequence parallelism, and this has {}", s.context), 210);
        rule(s.expert > 1, format!("it takes autoep_size above 1, and this is {}", s.expert), 240);
        let is_free =
            s.offload.lacks(OffloadCategory::Optimizer) && s.offload.lacks(OffloadCategory::Parameters);
        rule(is_free, "it goes with no offload of ZeRO".to_owned(), 248);
    }
    for experts in &case.problem.facts.experts {
        checks.push(Check::divides(
            ("experts", experts.count),
            ("autoep_size", s.expert),
            "module_inject/auto_ep_config.py, validate_autoep_post_detection",
        ));
    }
    checks.push(Check::divides(
        ("ranks of a stage", s.tensor * s.context * s.data),
        ("ep · etp", s.expert * s.expert_tensor),
        "module_inject/auto_ep_folding.py:111",
    ));
    if s.zero == 3 {
        checks.push(Check::new(
            s.context == 1,
            format!("AutoEP with ZeRO stage 3 goes with no sequence parallelism, and this has {}", s.context),
            "runtime/engine.py:2220",
        ));
    }
}
