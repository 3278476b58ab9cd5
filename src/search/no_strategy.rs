//! That no strategy is legal though none of its keys is fixed: it is about cluster and batch, and so are the values that
//! would do.

use crate::cluster::Cluster;
use crate::search::problem::Problem;
use crate::search::request::Request;
use crate::search::space::Space;
use crate::strategy::rules::{Rule, RuleBreak};
use crate::strategy::{Draft, Workload};
use crate::units::typed;

/// Clusters that are tried below and above.
const MOST_TRIED: u64 = 24;

/// Why `problem` has no legal strategy under `request`, which fixes nothing that matters.
pub fn no_strategy(problem: &Problem<'_>, request: &Request) -> RuleBreak {
    let (model, cluster, workload) = (problem.model, problem.cluster, &problem.workload);
    let plainest = Draft::default().resolve(&problem.facts).err();
    let batch = workload.global_batch;
    let reason = plainest.as_ref().map_or_else(String::new, |broken| {
        let rule = broken.message.split("; ").next().unwrap_or_default();
        format!(": {rule}, and no other strategy is legal either")
    });
    let nearest: Vec<String> =
        clusters(cluster).into_iter().filter_map(|list| first_legal(problem, request, list)).collect();
    let larger = batch.div_ceil(cluster.devices().max(1)).saturating_mul(cluster.devices());
    let would = |batch: u64| {
        let workload = Workload { global_batch: batch, ..*workload };
        let problem = Problem::new(model, cluster, workload, problem.engine, Some(problem.memory_limit));
        !Space::new(&problem, request).is_empty()
    };
    let mut ways = nearest.clone();
    ways.extend((larger != batch && would(larger)).then(|| format!("a global batch of {larger}")));
    let ways = if ways.is_empty() { String::new() } else { format!("; {} would do", ways.join(" or ")) };
    let message = format!(
        "no strategy trains {} on the {} of {} with {} of {} a step{reason}{ways}",
        model.name,
        typed("device", cluster.devices()),
        cluster.name,
        typed("sequence", batch),
        typed("token", workload.seq_len),
    );
    let rule = plainest.map_or(Rule::Devices, |broken| broken.rule);
    RuleBreak { rule, field: "cluster".to_owned(), value: cluster.name.clone(), message, nearest }
}

/// Clusters of this kind with fewer and with more devices, the nearest first.
fn clusters(cluster: &Cluster) -> [Vec<Cluster>; 2] {
    let node = if cluster.nodes > 1 { u64::from(cluster.devices_per_node) } else { 1 };
    let devices = cluster.devices();
    let below =
        (1..=MOST_TRIED).map_while(|steps| devices.checked_sub(steps * node)).filter(|count| *count > 0);
    let most = if cluster.nodes > 1 { MOST_TRIED } else { 0 };
    let above = (1..=most).map(|steps| devices + steps * node);
    let resized = |count: u64| cluster.resized(count).ok();
    [below.filter_map(resized).collect(), above.filter_map(resized).collect()]
}

/// The first of `clusters` on which a strategy is legal.
fn first_legal(problem: &Problem<'_>, request: &Request, clusters: Vec<Cluster>) -> Option<String> {
    let is_legal = |cluster: &Cluster| {
        let Problem { model, workload, engine, .. } = problem;
        let other = Problem::new(model, cluster, *workload, engine, Some(problem.memory_limit));
        !Space::new(&other, request).is_empty()
    };
    clusters.into_iter().find(is_legal).map(|cluster| cluster.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::engines::embedded;
    use crate::units::ElementType;
    use crate::{cluster, model};

    #[test]
    fn cluster_and_batch_are_named_with_what_would_do() {
        let precision = ElementType::Bf16;
        let workload = Workload { global_batch: 512, seq_len: 1024, precision, dropout: 0.0, clip: 1.0 };
        let model = model::load("gpt2").unwrap();
        let cluster = cluster::load("125x8xh100-sxm").unwrap();
        let problem = Problem::new(&model, &cluster, workload, embedded(), None);
        let request = Request::default();
        assert!(Space::new(&problem, &request).is_empty());
        let found = no_strategy(&problem, &request);
        assert_eq!((found.field.as_str(), found.value.as_str()), ("cluster", "125x8xh100-sxm"));
        assert!(found.message.contains("1000 devices") && found.message.contains("512 sequences"), "{found}");
        assert!(!found.nearest.is_empty(), "{found}");
        for near in &found.nearest {
            let cluster = cluster::load(near).unwrap();
            let other = Problem::new(&model, &cluster, workload, embedded(), None);
            assert!(!Space::new(&other, &request).is_empty(), "{near}");
        }
    }
}
