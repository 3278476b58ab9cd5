//! MaxText's own rules, with the numbers of a case.

use super::mesh::Parts;
use crate::export::case::Case;
use crate::export::check::Check;
use crate::strategy::{Checkpoint, CheckpointMode, LossMode, Strategy};
use crate::units::ElementType;

/// The rules that e591f30cb checks of these arguments, and what its mesh can say.
pub fn checks(case: &Case<'_>) -> Vec<Check> {
    let (s, workload) = (case.strategy, &case.problem.workload);
    let mut checks = mesh(case);
    for heads in &case.problem.facts.heads {
        checks.push(Check::divides(
            ("heads", heads.query),
            ("tensor", s.tensor),
            "sharding of heads, configs/base.yml",
        ));
    }
    if s.context > 1 {
        checks.push(Check::divides(
            ("max_target_length", workload.seq_len),
            ("2 · context", 2 * s.context),
            "configs/types.py:4017",
        ));
    }
    if s.pipeline > 1 {
        let blocks = u64::from(case.problem.model.blocks());
        checks.push(Check::divides(
            ("decoder layers", blocks),
            ("stages", s.pipeline),
            "configs/types.py:3580",
        ));
        checks.push(Check::divides(
            ("num_pipeline_microbatches", s.accumulation),
            ("stages", s.pipeline),
            "configs/types.py:3609",
        ));
    }
    let keeps_all = |modes: &Checkpoint| modes.modes().any(|mode| mode == CheckpointMode::None);
    checks.push(Check::new(
        !s.checkpoint.iter().any(keeps_all),
        "a named policy says what blocks keep: none of them keeps all",
        "configs/types.py, RematPolicy",
    ));
    if workload.precision == ElementType::Fp8 {
        checks.push(Check::new(
            s.pipeline > 1 || s.accumulation == 1,
            "fp8 goes without gradient_accumulation_steps",
            "configs/types.py:3878",
        ));
    }
    if s.loss == LossMode::Chunked {
        let tokens = s.micro_batch * workload.seq_len / s.context.max(1);
        checks.push(Check::divides(
            ("tokens of a rank", tokens),
            ("num_vocab_tiling", super::write::TILES),
            "configs/types.py:4003",
        ));
    }
    checks.extend(experts(case));
    checks
}

fn mesh(case: &Case<'_>) -> Vec<Check> {
    let s = case.strategy;
    let devices = case.devices_per_node();
    let parts = Parts::of(s, devices);
    let has_fsdp = has_fsdp(s);
    let order = parts.and_then(|parts| parts.order(has_fsdp));
    let size = |axis| s.size(axis);
    let mut checks = vec![
        Check::new(
            parts.is_some(),
            format!("the axes split at the edge of a node of {devices} devices"),
            "configs/base.yml:655-684: ICI and DCN parts",
        ),
        Check::new(
            order.is_some_and(|order| order.normalised(size) == s.order.normalised(size)),
            "between nodes, axes lie as the mesh of JAX numbers them: tensor, context, fsdp, stage, data",
            "configs/base.yml:531",
        ),
        Check::new(
            s.zero > 1 || (s.context == 1 && s.expert == 1),
            "weights are split over context and expert ranks, so zero is 3 with them",
            "configs/base.yml, logical axis embed",
        ),
        Check::new(
            s.zero <= 1 || has_fsdp,
            "zero 3 has ranks to split weights over",
            "configs/base.yml, logical axis embed",
        ),
        Check::new(
            s.zero != 1 || s.shard == s.data,
            "shard_optimizer_over_data is over all data ranks",
            "configs/types.py:1206",
        ),
    ];
    if s.zero == 3 && !s.reshard_after_forward {
        checks.push(Check::new(
            s.pipeline > 1,
            "weights are kept gathered in a pipeline only",
            "configs/base.yml:332",
        ));
    }
    checks
}

/// Whether weights are split over ranks.
fn has_fsdp(s: &Strategy) -> bool {
    s.zero > 1 && s.shard * s.context > 1
}

fn experts(case: &Case<'_>) -> Vec<Check> {
    let s = case.strategy;
    let mut checks = Vec::new();
    for experts in &case.problem.facts.experts {
        checks.push(Check::divides(
            ("num_experts", experts.count),
            ("expert", s.expert),
            "logical axis exp, configs/base.yml",
        ));
        checks.push(Check::divides(
            ("fsdp · expert", s.shard),
            ("expert", s.expert),
            "configs/base.yml:684: it splits the batch",
        ));
        checks.push(Check::new(
            s.expert_tensor == s.tensor,
            "experts are split over tensor ranks as everything else is",
            "logical axis mlp_moe, configs/base.yml",
        ));
    }
    checks
}
