//! The map of a model so small that every neighbouring setting can be searched.

use super::*;
use crate::cluster;
use crate::model::{self, Model};
use crate::profile::engines::engine;
use crate::search::{Failure, Request, search};
use crate::strategy::{Draft, Strategy, Workload};
use crate::units::{Bytes, ElementType};

const TINY: &str =
    r#"{"model_type":"gpt2","n_embd":64,"n_layer":2,"n_head":4,"vocab_size":512,"n_positions":4096}"#;

fn tiny() -> Model {
    model::from_text(TINY, "the test", "tiny").unwrap()
}

fn base<'a>(model: &'a Model, cluster: &str, global_batch: u64) -> Setting<'a> {
    let workload =
        Workload { global_batch, seq_len: 128, precision: ElementType::Bf16, dropout: 0.0, clip: 1.0 };
    let cluster = cluster::load(cluster).unwrap();
    Setting { model, engine: engine("embedded").unwrap(), cluster, workload, memory_limit: None }
}

fn strategy(setting: &Setting<'_>, text: &str) -> Strategy {
    Draft::parse(text).unwrap().resolve(&setting.problem().facts).unwrap()
}

/// A limit that this strategy just fits.
fn limited<'a>(setting: &Setting<'a>, text: &str) -> Setting<'a> {
    let limit = setting.problem().play(strategy(setting, text)).memory.process;
    Setting { memory_limit: Some(limit), ..setting.clone() }
}

#[test]
fn only_another_kind_of_plan_is_a_break_even() {
    let model = tiny();
    let setting = base(&model, "1x4xh100-sxm", 16);
    let plans = [
        "dp=4,micro=4",
        "dp=4,micro=2",
        "dp=4,micro=1",
        "tp=2,dp=2,micro=1,zero=1",
        "tp=2,dp=2,micro=8,zero=1",
    ]
    .map(|text| strategy(&setting, text));
    let points: Vec<_> = plans.iter().enumerate().map(|(place, plan)| (place as u64, plan)).collect();
    let found = break_evens(&points);
    let said: Vec<_> = found
        .iter()
        .map(|found| {
            let keys: Vec<_> = found.changes.iter().map(|change| change.key).collect();
            (found.from, found.to, keys)
        })
        .collect();
    assert_eq!(
        said,
        [(0, 1, vec!["micro"]), (1, 2, vec!["micro"]), (2, 3, vec!["tp", "zero"]), (3, 4, vec!["micro"])]
    );
    assert_eq!((found[2].changes[0].from.as_str(), found[2].changes[0].to.as_str()), ("1", "2"));
    // Neither accumulates, so that the micro-batch is what data parallelism leaves.
    let keys: Vec<_> =
        break_evens(&[points[0], points[4]])[0].changes.iter().map(|change| change.key).collect();
    assert_eq!(keys, ["tp", "zero"]);
    assert_eq!(break_evens(&[points[0], points[0]]), []);
}

#[test]
fn the_largest_batch_is_that_of_trying_all() {
    let model = tiny();
    let setting = limited(&base(&model, "1x2xh100-sxm", 12), "dp=2,micro=6,ckpt=full");
    let request = Request::default();
    let ceiling = Ceiling { most: 1 << 20, reason: "counted".to_owned() };
    let found = maximum(&setting, &request, Maximize::Batch, &ceiling, Watch::SILENT).unwrap();
    let fits = |batch: u64| {
        let mut setting = setting.clone();
        setting.workload.global_batch = batch;
        let fix = Draft { accumulation: Some(1), ..Draft::default() };
        search(&setting.problem(), &Request { fix, ..Request::default() }, &|_| {}).is_ok()
    };
    assert!(found.value >= 12);
    let most = (1..=2 * found.value).filter(|&batch| fits(batch)).max();
    assert_eq!(most, Some(found.value));
    assert_eq!(found.outcome.winner.strategy.accumulation, 1);
    assert!(found.next > found.value && found.next <= found.value + 2, "{}", found.next);
    assert!(found.next_fails_because.contains("nothing fits"), "{}", found.next_fails_because);
}

#[test]
fn the_longest_sequence_is_a_multiple_that_fits_while_the_next_does_not() {
    let model = tiny();
    let mut base = base(&model, "1x1xh100-sxm", 4);
    base.workload.seq_len = 640;
    let fine = limited(&base, "dp=1,micro=1,ckpt=full");
    let fix = Draft::parse("offload=none").unwrap();
    let request = Request { fix, ..Request::default() };
    let ceiling = Ceiling { most: 4096, reason: "positions".to_owned() };
    let longest = |setting: &Setting<'_>| {
        let found = maximum(setting, &request, Maximize::SeqLen, &ceiling, Watch::SILENT).unwrap();
        (found.value, found.next, found.next_fails_because)
    };
    let (value, next, _) = longest(&fine);
    assert!((640..1024).contains(&value) && value.is_multiple_of(128), "{value}");
    assert_eq!(next, value + 128);
    // With memory enough, the ceiling says why not.
    let free = Setting { memory_limit: None, ..fine };
    assert_eq!(longest(&free), (4096, 4097, "positions".to_owned()));
    let none = Setting { memory_limit: Some(Bytes::mib(1)), ..free };
    let failed = maximum(&none, &request, Maximize::SeqLen, &ceiling, Watch::SILENT);
    assert!(matches!(failed, Err(Failure::NothingFits { .. })));
}

#[test]
fn each_scenario_changes_what_it_says_and_the_best_is_no_worse_than_what_is_kept() {
    let model = tiny();
    let setting = base(&model, "2x2xh100-sxm", 8);
    let chosen = strategy(&setting, "dp=4,micro=1");
    let answers = sensitivity(&setting, &Request::default(), &chosen, Watch::SILENT);
    let asked: Vec<_> = answers.iter().map(|answer| answer.scenario).collect();
    assert_eq!(
        asked,
        [Scenario::HalfNetwork, Scenario::LessMemory, Scenario::DoubleBatch, Scenario::HalfBatch]
    );
    let network = |setting: &Setting<'_>| setting.cluster.levels[1].link.bandwidth.0;
    assert_eq!(2.0 * network(&answers[0].setting), network(&setting));
    assert_eq!(answers[0].setting.cluster.levels[0], setting.cluster.levels[0]);
    let time = |candidate: &crate::search::Candidate| candidate.playback.step_time;
    let here = time(&setting.problem().play(chosen));
    for answer in &answers {
        let Kept::Fits(kept) = &answer.kept else { panic!("{:?}", answer.scenario) };
        assert!(time(answer.best.as_ref().unwrap()) <= time(kept), "{:?}", answer.scenario);
        match answer.scenario {
            Scenario::HalfNetwork | Scenario::DoubleBatch => assert!(time(kept) > here),
            Scenario::HalfBatch => assert!(time(kept) < here),
            Scenario::LessMemory | Scenario::FastHostLink => assert_eq!(time(kept), here),
        }
    }
    // On one node there is no network to halve.
    let single = base(&model, "1x4xh100-sxm", 7);
    let chosen = strategy(&single, "tp=4");
    let answers = sensitivity(&single, &Request::default(), &chosen, Watch::SILENT);
    let asked: Vec<_> = answers.iter().map(|answer| answer.scenario).collect();
    assert_eq!(asked, [Scenario::LessMemory, Scenario::DoubleBatch]);
}

#[test]
fn a_sweep_says_where_nothing_fits_and_may_end_where_something_does() {
    let model = tiny();
    let base = base(&model, "1x4xh100-sxm", 8);
    let tight = limited(&base, "dp=4,micro=1,zero=3,ckpt=full");
    let at = |devices| Setting { cluster: base.cluster.resized(devices).unwrap(), ..tight.clone() };
    let asked = Sweep { key: SweepKey::Devices, settings: vec![at(1), at(2), at(4)] };
    let all = sweep(&asked, &Request::default(), Until::End, Watch::SILENT);
    assert_eq!(all.len(), 3);
    let first = all.iter().position(|point| point.winner().is_some()).unwrap();
    let until = sweep(&asked, &Request::default(), Until::FirstFit, Watch::SILENT);
    assert_eq!(until.len(), first + 1);
    for point in all.iter().filter_map(Point::winner) {
        assert!(point.memory.process <= tight.memory_limit.unwrap());
    }
}
