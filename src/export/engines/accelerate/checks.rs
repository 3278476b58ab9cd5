//! Accelerate's own rules, with the numbers of a case.

use crate::export::case::Case;
use crate::export::check::Check;

/// The rules that 1.15.0 checks of these settings.
pub fn checks(case: &Case<'_>) -> Vec<Check> {
    let s = case.strategy;
    let (replicas, shards) = if s.zero > 0 { (s.replicas(), s.shard) } else { (s.data, 1) };
    let mut checks = vec![
        Check::product(
            ("num_processes", s.devices()),
            &[("dp_replicate", replicas), ("dp_shard", shards), ("tp", s.tensor), ("cp", s.context)],
            "parallelism_config.py, _validate_accelerator",
        ),
        Check::product(
            ("the batch", case.problem.workload.global_batch),
            &[("per device", s.micro_batch), ("accumulation", s.accumulation), ("data ranks", s.data)],
            "data_loader.py: each data rank loads its own",
        ),
    ];
    if s.tensor > 1 || s.context > 1 {
        checks.push(Check::new(
            replicas == 1 || shards > 1,
            format!(
                "{replicas} replicas beside tp {} and cp {} take dp_shard above 1, and this is {shards}",
                s.tensor, s.context
            ),
            "parallelism_config.py, __post_init__",
        ));
    }
    if s.zero > 0 && s.devices() > 1 {
        checks.push(Check::new(
            shards > 1 || s.context > 1,
            format!("FSDP has something to shard over: dp_shard {shards}, cp {}", s.context),
            "parallelism_config.py, _validate_accelerator",
        ));
    }
    for heads in &case.problem.facts.heads {
        checks.push(Check::divides(("heads", heads.query), ("tp", s.tensor), "DTensor shards whole heads"));
    }
    if s.context > 1 {
        checks.push(Check::divides(
            ("the sequence", case.problem.workload.seq_len),
            ("2 · cp", 2 * s.context),
            "torch.distributed.tensor.experimental, context_parallel",
        ));
    }
    checks
}
