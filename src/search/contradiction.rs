//! Fixed keys that leave no strategy: the fewest of them that contradict each other (an irreducible infeasible subset),
//! and the values closest to theirs that do not.

use crate::search::axes::Axes;
use crate::search::no_strategy::no_strategy;
use crate::search::problem::Problem;
use crate::search::request::Request;
use crate::search::space::Space;
use crate::strategy::rules::{Rule, RuleBreak};
use crate::strategy::{Draft, Key};

/// Most values of a key that are tried.
const MOST_TRIED: usize = 32;

/// The contradiction in what `request` fixes, which no strategy has.
pub fn contradiction(problem: &Problem<'_>, request: &Request) -> RuleBreak {
    let is_empty =
        |fix: &Draft| Space::new(problem, &Request { fix: fix.clone(), ..request.clone() }).is_empty();
    let without = |fix: &Draft, key: Key| {
        let mut fewer = fix.clone();
        fewer.take(key, &Draft::default());
        fewer
    };
    let mut fix = request.fix.clone();
    for key in fix.keys() {
        let fewer = without(&fix, key);
        if is_empty(&fewer) {
            fix = fewer;
        }
    }
    let keys = fix.keys();
    if keys.is_empty() {
        return no_strategy(problem, request);
    }
    let broken = fix.resolve(&problem.facts).err();
    let values: Vec<String> = keys.iter().filter_map(|&key| fix.value(key)).collect();
    let said: Vec<String> = keys.iter().zip(&values).map(|(key, value)| format!("{key}={value}")).collect();
    let mut nearest = Vec::new();
    for (&key, value) in keys.iter().zip(&values) {
        let others = Request { fix: without(&fix, key), ..request.clone() };
        let mut tried = Axes::new(problem, &others).listed().remove(key.name()).unwrap_or_default();
        tried.extend(
            broken
                .iter()
                .filter(|broken| broken.field == key.name())
                .flat_map(|broken| broken.nearest.clone()),
        );
        sort_by_distance(&mut tried, value);
        let leaves_some = |near: &&String| {
            let Ok(near) = Draft::parse(&format!("{key}={near}")) else { return false };
            let mut fix = request.fix.clone();
            fix.take(key, &near);
            !is_empty(&fix)
        };
        let found: Vec<&String> = tried.iter().take(MOST_TRIED).filter(leaves_some).take(2).collect();
        nearest.extend(
            found
                .into_iter()
                .map(|near| if keys.len() == 1 { near.clone() } else { format!("{key}={near}") }),
        );
    }
    // What the rule says, without what it would rather have.
    let of_these = broken.filter(|broken| keys.iter().any(|key| key.name() == broken.field));
    let reason = of_these.as_ref().and_then(|broken| broken.message.split("; ").next());
    let mut message = match (keys.len(), reason) {
        (1, Some(reason)) => format!("{} is in no strategy: {reason}", said[0]),
        (1, None) => format!("{} is in no strategy", said[0]),
        (_, Some(reason)) => format!("{} contradict each other: {reason}", said.join(" and ")),
        (_, None) => format!("{} contradict each other: no strategy has them all", said.join(" and ")),
    };
    if !nearest.is_empty() {
        message += &format!("; {} would do", nearest.join(" or "));
    }
    let names: Vec<&str> = keys.iter().map(|key| key.name()).collect();
    let rule = of_these.map_or(Rule::Devices, |broken| broken.rule);
    RuleBreak { rule, field: names.join(", "), value: values.join(", "), message, nearest }
}

/// The closest to `value` first, where these are numbers.
fn sort_by_distance(tried: &mut Vec<String>, value: &str) {
    tried.retain(|near| near != value);
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| *number > 0.0);
    if let Some(value) = number(value) {
        let far = |near: &String| number(near).map_or(f64::INFINITY, |near| (near / value).ln().abs());
        tried.sort_by(|one, other| far(one).total_cmp(&far(other)));
    }
    tried.dedup();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::engines::engine;
    use crate::strategy::Workload;
    use crate::units::ElementType;
    use crate::{cluster, model};

    #[test]
    fn the_keys_that_contradict_each_other_are_named_and_what_is_told_instead_does() {
        let precision = ElementType::Bf16;
        let workload = Workload { global_batch: 64, seq_len: 1024, precision, dropout: 0.0, clip: 1.0 };
        let model = model::load("gpt2-xl").unwrap();
        let cluster = cluster::load("1x8xh100-sxm").unwrap();
        for (engine_name, fix, keys) in [
            ("megatron", "zero=3,pp=4,micro=1", "pp, zero"),
            ("embedded", "tp=25,ckpt=full", "tp"),
            ("embedded", "tp=8", "tp"),
            ("embedded", "tp=4,dp=4,zero=1", "tp"),
            ("megatron", "pp=4,dp=4", "pp, dp"),
            ("torchtitan", "dp=2,shard=4,zero=3", "dp"),
            ("embedded", "micro=3,zero=1", "micro"),
            ("embedded", "micro=8,accum=16", "micro, accum"),
            ("embedded", "pp=4,cuts=24/24", "pp, cuts"),
            ("embedded", "pp=2,cuts=24/12/12", "cuts"),
            ("embedded", "sched=zb-v,pp=1", "pp, sched"),
            ("embedded", "pp=3,sched=zb-v", "pp"),
            ("embedded", "sched=1f1b,virtual=2", "sched, virtual"),
            ("embedded", "pp=2,dp=2,cp=3", "cp"),
            ("embedded", "pp=2,dp=4,cp=2", "cp, pp, dp"),
            ("embedded", "ep=2", "ep"),
            ("megatron", "compress=8bit", "compress"),
        ] {
            let problem = Problem::new(&model, &cluster, workload, engine(engine_name).unwrap(), None);
            let asked = |fix: &str| Request { fix: Draft::parse(fix).unwrap(), ..Request::default() };
            let found = contradiction(&problem, &asked(fix));
            assert_eq!(found.field, keys, "{engine_name} {fix}: {found:?}");
            for near in &found.nearest {
                let (key, value) = near.split_once('=').unwrap_or((keys, near));
                let others = fix.split(',').filter(|item| !item.starts_with(&format!("{key}=")));
                let repaired: Vec<_> =
                    others.chain([format!("{key}={value}").as_str()]).map(str::to_owned).collect();
                let again = asked(&repaired.join(","));
                assert!(!Space::new(&problem, &again).is_empty(), "{fix} was told {near}: {found:?}");
            }
        }
    }
}
