//! The likely cause of a run's error: what its prediction is mostly made of beside plain products, and what its
//! record leaves open. A pointer where to look, not a proof.

use crate::validate::document::{Quantity, Run};

/// Less of a step or peak than this explains little.
const MATTERS: f64 = 0.15;
/// Kernels whose time is waiting for the host by this share are bound by it.
const LAUNCH_BOUND: f64 = 0.2;

/// The likely cause of the error of `quantity`.
pub(super) fn likely(run: &Run, quantity: Quantity) -> String {
    let largest = match quantity {
        Quantity::StepTime => time(run),
        Quantity::Memory => memory(run),
    };
    let open = opened(run, quantity);
    if open.is_empty() { largest } else { format!("not stated: {}; {largest}", open.join(", ")) }
}

fn time(run: &Run) -> String {
    let parts = &run.time_s;
    let total: f64 = parts.parts().iter().map(|(_, seconds)| seconds.0).sum();
    let named = [
        ("exposed communication", parts.communication_exposed),
        ("bubble", parts.bubble),
        ("recomputation", parts.recompute),
        ("exposed copies to and from the host", parts.copy_exposed),
        ("the optimizer step", parts.optimizer),
    ];
    let (name, share) = largest(named.map(|(name, seconds)| (name, seconds.0 / total)));
    let kernels = 1.0 - (parts.communication_exposed + parts.bubble + parts.copy_exposed).0 / total;
    if run.launches * kernels >= LAUNCH_BOUND.max(share) {
        format!(
            "kernels are short: {} of their time they wait for the host to issue them",
            percent(run.launches)
        )
    } else if share >= MATTERS {
        format!("{name} is {} of the predicted step", percent(share))
    } else {
        format!("kernels are {} of the predicted step: their speed at these shapes", percent(kernels))
    }
}

fn memory(run: &Run) -> String {
    let parts = run.memory_bytes.parts();
    let total: f64 = parts.iter().map(|(_, bytes)| bytes.0 as f64).sum();
    let (name, share) = largest(parts.map(|(name, bytes)| (name, bytes.0 as f64 / total)));
    let counted = match run.memory_kind.as_str() {
        "reserved" => "; what the allocator keeps beside is counted",
        "process" => "; what the allocator keeps and libraries hold is counted",
        _ => "",
    };
    format!("{name} {} of the predicted peak{counted}", percent(share))
}

/// Fields that the record leaves open and that may change `quantity` much.
fn opened(run: &Run, quantity: Quantity) -> Vec<&str> {
    let matters = |field: &&str| match *field {
        "strategy.checkpointing" | "strategy.flash_attention" | "strategy.micro_batch" => true,
        "strategy.virtual_pp" => {
            run.time_s.bubble.0 > 0.05 * run.predicted.step_time_s.map_or(0.0, |step| step.0)
        }
        _ => quantity == Quantity::StepTime && run.time_s.communication_exposed.0 > 0.0,
    };
    run.assumed
        .iter()
        .map(String::as_str)
        .filter(matters)
        .map(|field| field.rsplit('.').next().unwrap_or(field))
        .collect()
}

fn largest<const N: usize>(parts: [(&'static str, f64); N]) -> (&'static str, f64) {
    parts.into_iter().fold(("nothing", 0.0), |most, part| if part.1 > most.1 { part } else { most })
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}
