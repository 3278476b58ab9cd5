//! Every fix fits when it is played, every nearest strategy is legal, and what each key changes is what playing says.

use super::*;
use crate::cluster::{self, Cluster};
use crate::model::{self, Model};
use crate::profile::engines::engine;
use crate::strategy::Workload;
use crate::units::{Bytes, ElementType};

struct Place {
    model: Model,
    cluster: Cluster,
}

impl Place {
    fn new(cluster: &str) -> Self {
        Self { model: model::load("gpt2").unwrap(), cluster: cluster::load(cluster).unwrap() }
    }

    fn problem(&self, engine_name: &str, limit: Option<u64>) -> Problem<'_> {
        let precision = ElementType::Bf16;
        let workload = Workload { global_batch: 64, seq_len: 1024, precision, dropout: 0.0, clip: 1.0 };
        let limit = limit.map(|mib| Bytes(mib << 20));
        Problem::new(&self.model, &self.cluster, workload, engine(engine_name).unwrap(), limit)
    }
}

fn resolved(problem: &Problem<'_>, text: &str) -> Strategy {
    Draft::parse(text).unwrap().resolve(&problem.facts).unwrap_or_else(|broken| panic!("{text}: {broken}"))
}

/// `strategy` as it is, whatever was typed.
fn start(strategy: &Strategy) -> Start<'_> {
    Start { typed: Cow::Owned(Draft::default()), strategy }
}

#[test]
fn every_fix_fits_when_played_and_the_fastest_stands_first() {
    let place = Place::new("1x4xrtx-4090");
    let mut keys = Vec::new();
    for (engine, limit, text) in [
        ("embedded", 6_000, "dp=4,micro=16"),
        ("embedded", 4_000, "dp=2,tp=2,sp=off,micro=16"),
        ("embedded", 4_500, "pp=4,micro=2,sched=gpipe"),
        ("embedded", 4_000, "pp=2,micro=8,sched=interleaved,virtual=3,ckpt=full:1"),
        ("embedded", 2_000, "zero=1,micro=1"),
        ("megatron", 5_000, "pp=2,micro=8,attention=materialised"),
        ("deepspeed", 2_000, "zero=2,micro=4,offload=optimizer:1"),
    ] {
        let problem = place.problem(engine, Some(limit));
        let strategy = resolved(&problem, text);
        let mine = problem.play(strategy.clone());
        assert!(!problem.fits(&mine), "{text} takes {}", mine.memory.process);
        let fixes = fixes::fixes(&problem, &start(&strategy));
        assert!(fixes.tried > 5, "{text}: {}", fixes.tried);
        assert_eq!(fixes.fitting.is_empty(), fixes.closest.is_some(), "{text}");
        let mut texts = Vec::new();
        for fix in &fixes.fitting {
            let written = fix.candidate.strategy.text(problem.facts.defaults);
            let again = problem.play(resolved(&problem, &written));
            assert!(problem.fits(&again), "{text}: {written} takes {}", again.memory.process);
            assert_eq!(again.playback.step_time, fix.candidate.playback.step_time);
            let mut differing = strategy.changes_to(&again.strategy, problem.facts.defaults);
            differing.retain(|change| !fix.follows.contains(change));
            assert_eq!(differing, std::slice::from_ref(&fix.key), "{text}: {written}");
            texts.push(written);
        }
        keys.extend(fixes.fitting.iter().map(|fix| fix.key.key));
        let times: Vec<f64> = fixes.fitting.iter().map(|fix| fix.candidate.playback.step_time.0).collect();
        assert!(times.is_sorted(), "{text}: {times:?}");
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), times.len(), "{text}: one is listed twice");
        if let Some(miss) = &fixes.closest {
            assert!(!problem.fits(&problem.play(miss.change.strategy.clone())), "{text}");
        }
    }
    for key in [Key::MicroBatch, Key::Checkpoint, Key::Tensor, Key::Pipeline, Key::Schedule, Key::Offload] {
        assert!(keys.contains(&key), "{key} fixes none: {keys:?}");
    }
}

#[test]
fn no_smaller_micro_batch_that_fits_is_missed() {
    let place = Place::new("1x4xrtx-4090");
    let problem = place.problem("embedded", Some(6_000));
    let strategy = resolved(&problem, "dp=4,micro=16");
    let found: Vec<String> = fixes::fixes(&problem, &start(&strategy))
        .fitting
        .into_iter()
        .filter(|fix| fix.key.key == Key::MicroBatch)
        .map(|fix| fix.key.to)
        .collect();
    for micro in [1, 2, 4, 8] {
        let fits = problem.fits(&problem.play(resolved(&problem, &format!("dp=4,micro={micro}"))));
        assert_eq!(found.contains(&micro.to_string()), fits, "micro={micro}: {found:?}");
    }
}

#[test]
fn the_gentlest_recompute_that_fits_is_taken() {
    let place = Place::new("1x4xrtx-4090");
    let problem = place.problem("embedded", Some(6_000));
    let strategy = resolved(&problem, "dp=4,micro=16");
    let fixes = fixes::fixes(&problem, &start(&strategy));
    let count = fixes.fitting.iter().find_map(|fix| fix.key.to.strip_prefix("full:")?.parse::<u32>().ok());
    let count = count.expect("some count of blocks fits");
    let less = resolved(&problem, &format!("dp=4,micro=16,ckpt=full:{}", count - 1));
    assert!(!problem.fits(&problem.play(less)), "full:{} would do", count - 1);
}

#[test]
fn blocks_move_away_from_the_stage_that_is_full() {
    let place = Place::new("1x4xrtx-4090");
    let problem = place.problem("embedded", None);
    let strategy = resolved(&problem, "pp=4,micro=4");
    let peaks = |cuts: &str| problem.play(resolved(&problem, &format!("pp=4,micro=4{cuts}"))).memory.process;
    let (even, moved) = (peaks(""), peaks(",cuts=2/3/4/3"));
    assert!(moved < even, "{moved} {even}");
    let tight = Problem { memory_limit: moved, ..problem.clone() };
    let fixes = fixes::fixes(&tight, &start(&strategy));
    let cuts = fixes.fitting.iter().find(|fix| fix.key.key == Key::Cuts).expect("cuts fit");
    assert!(cuts.candidate.strategy.cuts[0] < strategy.cuts[0], "{:?}", cuts.key);
}

#[test]
fn the_nearest_strategy_is_legal_and_keeps_what_it_can() {
    for (cluster, engine, typed, expected) in [
        ("1x8xh100-sxm", "embedded", "tp=6,zero=1", "tp=4,pp=1,dp=2,zero=1,micro=1,accum=32"),
        ("1x8xh100-sxm", "embedded", "tp=8", "tp=4,pp=1,dp=2,zero=0,micro=1,accum=32"),
        ("1x8xh100-sxm", "embedded", "tp=2,dp=8,micro=5", "tp=2,pp=1,dp=4,zero=0,micro=4,accum=4"),
        ("1x8xh100-sxm", "embedded", "zero=1,shard=3", "tp=1,pp=1,dp=8,zero=1,shard=2,micro=1,accum=8"),
        ("1x8xh100-sxm", "embedded", "pp=2,cuts=3/3", "tp=1,pp=2,dp=4,zero=0,micro=1,accum=16"),
        ("1x8xh100-sxm", "embedded", "sched=zb-h1", "tp=1,pp=1,dp=8,zero=0,micro=1,accum=8"),
        ("1x8xh100-sxm", "megatron", "pp=2,zero=3", "tp=1,pp=2,dp=4,zero=1,micro=1,accum=16"),
        // 12 does not divide the batch of 64, so that another axis takes the 3.
        ("1x12xh100-sxm", "embedded", "dp=12", "tp=1,pp=3,dp=4,zero=0,micro=1,accum=16"),
    ] {
        let place = Place::new(cluster);
        let problem = place.problem(engine, None);
        let draft = Draft::parse(typed).unwrap();
        let broken = draft.resolve(&problem.facts).expect_err(typed);
        assert!(!broken.nearest.is_empty(), "{typed}: {broken}");
        let near = nearest::nearest(&draft, &problem.facts).unwrap_or_else(|| panic!("{typed}: none"));
        let text = near.text(problem.facts.defaults);
        assert_eq!(resolved(&problem, &text), near, "{typed}");
        assert_eq!(text, expected, "{typed}");
    }
}

#[test]
fn each_step_towards_the_best_is_what_playing_says() {
    let place = Place::new("1x4xrtx-4090");
    let problem = place.problem("embedded", None);
    let explained = explain(&problem, &Draft::parse("tp=2,zero=1,micro=1,ckpt=full").unwrap(), &|_| {});
    let (Finding::Fits { mine, steps }, Ok(best)) = (&explained.finding, &explained.best) else {
        panic!("{explained:?}")
    };
    assert!(best.playback.step_time.0 < mine.playback.step_time.0);
    let defaults = problem.facts.defaults;
    let mut keys: Vec<Key> = steps.iter().map(|step| step.key.key).collect();
    let mut differing = mine.strategy.changes_to(&best.strategy, defaults);
    // Resharding by itself does nothing below ZeRO 3.
    differing.retain(|change| !matches!(change.key, Key::Data | Key::Accumulation | Key::Reshard));
    let mut expected: Vec<Key> = differing.iter().map(|change| change.key).collect();
    keys.sort();
    expected.sort();
    assert_eq!(keys, expected);
    let times: Vec<f64> = steps
        .iter()
        .filter_map(|step| step.runs(&problem))
        .map(|played| played.playback.step_time.0)
        .collect();
    assert!(times.is_sorted() && times[0] < mine.playback.step_time.0, "{times:?}");
    for step in steps {
        if let StepOutcome::Played(candidate) = &step.outcome {
            let again = problem.play(resolved(&problem, &candidate.strategy.text(defaults)));
            assert_eq!(again.playback.step_time, candidate.playback.step_time);
        }
    }
}

#[test]
fn the_best_is_compared_with_itself_and_trains_the_same_numbers() {
    let place = Place::new("1x4xrtx-4090");
    let problem = place.problem("embedded", None);
    let plain = explain(&problem, &Draft::parse("tp=4").unwrap(), &|_| {});
    let best = plain.best.expect("something fits").strategy;
    let text = best.text(problem.facts.defaults);
    let again = explain(&problem, &Draft::parse(&text).unwrap(), &|_| {});
    assert_eq!(again.best.expect("it fits").strategy, best);
    assert!(matches!(&again.finding, Finding::Fits { steps, .. } if steps.is_empty()));
    let lossy = explain(&problem, &Draft::parse("tp=4,compress=8bit").unwrap(), &|_| {});
    let compression = lossy.best.expect("something fits").strategy.compression;
    assert_eq!(compression, crate::strategy::Compression::EightBit);
}

#[test]
fn where_nothing_fits_the_reason_is_kept() {
    let place = Place::new("1x4xrtx-4090");
    let problem = place.problem("embedded", Some(600));
    let explained = explain(&problem, &Draft::parse("dp=4").unwrap(), &|_| {});
    assert!(matches!(explained.best, Err(Failure::NothingFits { .. })));
    let Finding::OutOfMemory { fixes, .. } = &explained.finding else { panic!("{explained:?}") };
    assert!(fixes.fitting.is_empty() && fixes.closest.is_some());
}
