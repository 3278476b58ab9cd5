//! What was asked of a search and makes no difference: keys that are fixed without effect, or freed without need.

use crate::search::axes::Axes;
use crate::search::problem::Problem;
use crate::search::request::Request;
use crate::strategy::{Key, Strategy};
use crate::units::ElementType;

/// A sentence for each fixed key that has no effect in `winner`, and for each free one that opens no choice.
pub fn idle(problem: &Problem<'_>, request: &Request, winner: &Strategy) -> Vec<String> {
    let mut said = request.fix.idle(winner, problem.facts.defaults);
    let listed = |request: &Request| Axes::new(problem, request).listed();
    for &key in &request.free {
        let held = Request {
            free: request.free.iter().copied().filter(|&other| other != key).collect(),
            ..request.clone()
        };
        let is_fixed_by_engine = fixed_by_engine(problem, key).is_some();
        if is_fixed_by_engine || listed(request).get(key.name()) == listed(&held).get(key.name()) {
            said.push(format!("--free {key} changes nothing: {}.", reason(problem, request, key)));
        }
    }
    said
}

/// The type that the engine keeps or reduces gradients in, where it leaves no choice.
fn fixed_by_engine(problem: &Problem<'_>, key: Key) -> Option<ElementType> {
    let (state, compute) = (&problem.engine.state, problem.workload.compute_type());
    let kept = |asked: ElementType| state.gradient_kept.resolve(asked, compute);
    let reduced = |asked: ElementType| state.reduced(kept(problem.facts.defaults.gradient), asked, compute);
    let of = |asked: ElementType| match key {
        Key::Gradient => Some(kept(asked)),
        Key::Reduce => Some(reduced(asked)),
        _ => None,
    };
    let one = of(ElementType::Fp32);
    one.filter(|_| problem.workload.has_master_weights() && one == of(ElementType::Bf16))
}

/// Why a free `key` opens no choice.
fn reason(problem: &Problem<'_>, request: &Request, key: Key) -> String {
    let engine = &problem.engine.name;
    if let Some(element) = fixed_by_engine(problem, key) {
        return format!("{engine} does that in {element}");
    }
    let values = Axes::new(problem, request).listed().remove(key.name()).unwrap_or_default();
    match key {
        _ if !key.changes_numerics() && !values.is_empty() => {
            "a search varies it anyway, where model, cluster and engine leave a choice".to_owned()
        }
        _ if !key.changes_numerics() => "a search leaves it at its default".to_owned(),
        Key::Capacity if problem.facts.experts.is_empty() => "the model has no experts".to_owned(),
        Key::Gradient | Key::Reduce if !problem.workload.has_master_weights() => {
            format!("under {} gradients have that type and no other", problem.workload.precision)
        }
        Key::Compression => format!("{engine} stores activations as they are"),
        _ => "no search tries other values than its default; simulate takes any".to_owned(),
    }
}
