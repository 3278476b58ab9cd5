//! Megatron-LM's own rules, with the numbers of a case.

use crate::export::case::Case;
use crate::export::check::Check;
use crate::strategy::Schedule;

/// The rules that core 0.20 checks of these arguments.
pub fn checks(case: &Case<'_>) -> Vec<Check> {
    let s = case.strategy;
    let workload = &case.problem.workload;
    let mut checks = vec![
        Check::product(
            ("devices", s.devices()),
            &[("tp", s.tensor), ("cp", s.context), ("pp", s.pipeline), ("dp", s.data)],
            "megatron/training/arguments.py, world_size",
        ),
        Check::divides(
            ("global-batch-size", workload.global_batch),
            ("micro-batch-size · dp", s.micro_batch * s.data),
            "core/num_microbatches_calculator.py:381",
        ),
    ];
    for heads in &case.problem.facts.heads {
        checks.push(Check::divides(
            ("heads", heads.query),
            ("tp", s.tensor),
            "core/transformer/transformer_config.py:1446",
        ));
        let (groups, tensor) = (heads.key_value, s.tensor);
        checks.push(Check::new(
            groups.is_multiple_of(tensor) || tensor.is_multiple_of(groups),
            format!("one of {groups} query groups and tp {tensor} divides the other"),
            "core/transformer/transformer_config.py:1461",
        ));
    }
    if s.context > 1 {
        checks.push(Check::divides(
            ("seq-length", workload.seq_len),
            ("2 · cp", 2 * s.context),
            "megatron/training/arguments.py:1335",
        ));
    }
    if s.sequence_parallel {
        checks.push(Check::divides(
            ("seq-length / cp", workload.seq_len / s.context),
            ("tp", s.tensor),
            "core/tensor_parallel/mappings.py",
        ));
    }
    if s.schedule == Schedule::Interleaved && s.pipeline > 1 {
        let rest = s.accumulation % s.pipeline;
        checks.push(Check::new(
            s.accumulation >= s.pipeline && rest == 0,
            format!("{} micro-batches are whole rounds of {} pipeline ranks", s.accumulation, s.pipeline),
            "core/pipeline_parallel/schedules.py:1160",
        ));
    }
    for experts in &case.problem.facts.experts {
        checks.push(Check::divides(
            ("num-experts", experts.count),
            ("ep", s.expert),
            "megatron/training/arguments.py:1657",
        ));
        checks.push(Check::divides(
            ("ranks of a stage", s.tensor * s.context * s.data),
            ("ep · etp", s.expert * s.expert_tensor),
            "core/parallel_state.py:881",
        ));
        if s.tensor > 1 {
            checks.push(Check::new(
                s.sequence_parallel,
                "experts beside tensor parallelism go with sequence parallelism",
                "core/transformer/moe/moe_layer.py:636",
            ));
        }
    }
    let decoder = case.decoder();
    if decoder.and_then(|decoder| decoder.experts).is_some_and(|experts| experts.layer.bias) {
        checks.push(Check::new(
            s.expert_tensor == 1,
            format!("experts with biases are not split over tensor ranks, and etp is {}", s.expert_tensor),
            "core/transformer/transformer_config.py:2612",
        ));
    }
    if s.zero > 0 && s.replicas() > 1 {
        checks.push(Check::divides(
            ("dp", s.data),
            ("num-distributed-optimizer-instances", s.replicas()),
            "megatron/training/arguments.py, _add_distributed_args",
        ));
    }
    if s.zero > 1 {
        checks.push(Check::new(
            s.pipeline == 1,
            "Megatron-FSDP is run without a pipeline here",
            "not verified beyond it",
        ));
    }
    checks
}
