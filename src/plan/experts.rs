//! What a plan says of tokens and experts, where none is dropped.

use crate::search::Problem;
use crate::strategy::{Capacity, Strategy};

/// For how many tokens bytes and time of experts are predicted, where no capacity factor settles that.
pub(super) fn expert_slots(problem: &Problem<'_>, strategy: &Strategy) -> Option<String> {
    let experts = problem.facts.experts.first().filter(|_| strategy.capacity == Capacity::Full)?;
    let name = &problem.engine.name;
    Some(match problem.expert_load(strategy) {
        Some(load) => format!(
            "No token is dropped: the rank with most of them is taken to have {} ± {} times the tokens of an even \
             spread over experts ({}), which the intervals hold.",
            load.fullest.value, load.spread.value, load.fullest.kind
        ),
        None => format!(
            "No token is dropped, and {name} keeps slots for the case that all tokens choose one expert: {:.1} times \
             those of an even spread. A capacity factor (`--fix capacity=1.25`) keeps fewer and drops tokens beyond \
             them.",
            experts.count as f64 / experts.top_k.max(1) as f64
        ),
    })
}
