//! What to do where nothing fits or nothing is legal.

use crate::search::closed::Closing;
use crate::search::inner::InnerChoice;
use crate::search::problem::Problem;
use crate::search::request::Failure;
use crate::simulate::memory::dominant;
use crate::strategy::rules::{Rule, RuleBreak};
use crate::strategy::{Draft, Strategy, rules};
use crate::units::Bytes;

/// The fixed sizes leave no mesh at all.
pub fn empty(problem: &Problem<'_>, fix: &Draft) -> RuleBreak {
    let devices = problem.facts.devices;
    let product: u64 = [fix.tensor, fix.context, fix.pipeline, fix.data].into_iter().flatten().product();
    let nearest: Vec<String> =
        crate::search::axes::divisors(devices).into_iter().map(|size| size.to_string()).collect();
    RuleBreak {
        rule: Rule::Devices,
        field: "fix".to_owned(),
        value: product.to_string(),
        message: format!(
            "the fixed sizes multiply to {product}, which does not divide {devices} devices so that a strategy is left"
        ),
        nearest,
    }
}

/// Nothing fits: the smallest peak found, what dominates it, and what would fit.
pub fn nothing_fits(closing: &Closing<'_>, inner: &[InnerChoice], near: Strategy) -> Failure {
    let problem = closing.problem;
    // Of the inner choices on the strategy that came nearest, the smallest in exact closed form.
    let smallest = inner
        .iter()
        .filter_map(|choice| {
            let mut strategy = near.clone();
            choice.apply(&mut strategy);
            rules::legal(&strategy, &problem.facts).then(|| {
                let closed = closing.close(&strategy);
                (closed.memory.process, strategy)
            })
        })
        .min_by_key(|(process, _)| *process);
    let (process, strategy) = smallest.unwrap_or((Bytes::ZERO, near));
    let candidate = problem.play(strategy);
    let fullest = candidate.playback.ranks.iter().max_by_key(|rank| rank.memory.total);
    let dominant = fullest.map_or("parameters", |rank| dominant(&rank.memory).name());
    Failure::NothingFits {
        smallest: process,
        limit: problem.memory_limit,
        strategy: candidate.strategy.text(problem.facts.defaults),
        dominant,
        advice: advice(problem, process, dominant),
    }
}

/// Which device count, or else which single change, would fit: state and activations of the best split shrink
/// about in proportion to the devices.
fn advice(problem: &Problem<'_>, process: Bytes, dominant: &str) -> String {
    let devices = problem.facts.devices;
    let factor = process.0 as f64 / problem.memory_limit.0.max(1) as f64;
    let node = u64::from(problem.cluster.devices_per_node.max(1));
    let needed = ((devices as f64 * factor).ceil() as u64).next_power_of_two().max(devices * 2);
    let needed = needed.div_ceil(node) * node;
    match dominant {
        "activations" | "logits" => format!(
            "try about {needed} devices, a shorter sequence (now {}), or --free compress",
            problem.workload.seq_len
        ),
        _ => format!(
            "try about {needed} devices, devices of at least {process}, or 16-bit gradients (--free grad)"
        ),
    }
}
