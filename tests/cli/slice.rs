//! `execute --slice`: a rank by itself holds and runs what it does beside its peers, and nothing priced is called measured.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::place::Place;
use crate::small::{DENSE, EXPERTS, executed, planned, rows};

fn valid(document: &Value, schema: &str) {
    let path = format!("{}/docs/schemas/{schema}.schema.json", env!("CARGO_MANIFEST_DIR"));
    let schema: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    jsonschema::validate(&schema, document).unwrap();
}

/// What a stage's instructions are, without where their times come from.
fn instructions(trace: &Value, stage: &Value) -> Vec<Value> {
    let stages = trace["stages"].as_array().unwrap();
    let found = stages.iter().find(|of| of["stage"] == *stage).unwrap();
    let mut list = found["instructions"].as_array().unwrap().clone();
    list.iter_mut().for_each(|one| {
        one.as_object_mut().unwrap().remove("time_from");
    });
    list
}

/// Every rank of a plan on `ranks` ranks, by itself and beside its peers.
fn check(model: &str, ranks: u64, strategy: &str) {
    let place = Place::new();
    planned(&place, model, ranks, 8, strategy);
    let (_, whole) = executed(&place, "--steps 2");
    let all: Vec<_> = (0..ranks).map(|rank| rank.to_string()).collect();
    let (_, alone) = executed(&place, &format!("--steps 2 --slice {}", all.join(",")));
    for rank in 0..ranks {
        for table in ["memory", "extent"] {
            let (found, expected) = (rows(&alone, table, rank), rows(&whole, table, rank));
            assert!(!found.is_empty(), "{strategy}: rank {rank}");
            assert_eq!(found, expected, "{strategy}: {table} of rank {rank}");
        }
        let (found, expected) = (rows(&alone, "ranks", rank)[0], rows(&whole, "ranks", rank)[0]);
        assert_eq!(found["stage"], expected["stage"], "{strategy}");
        let count = |row: &Value, field: &str| row[field].as_array().unwrap().len();
        assert_eq!(count(found, "measured_us"), count(expected, "start_us"), "{strategy}");
        let stage = &found["stage"];
        assert_eq!(instructions(&alone, stage), instructions(&whole, stage), "{strategy}: stage {stage}");
    }
    check_priced(&alone, strategy);
}

/// An instruction has a measured time where it is said to be measured and nowhere else, and no measured row of time is
/// one of communication.
fn check_priced(trace: &Value, strategy: &str) {
    let mut priced = 0;
    for rank in trace["ranks"].as_array().unwrap() {
        let stages = trace["stages"].as_array().unwrap();
        let stage = stages.iter().find(|stage| stage["stage"] == rank["stage"]).unwrap();
        let took = rank["measured_us"].as_array().unwrap();
        for (one, took) in stage["instructions"].as_array().unwrap().iter().zip(took) {
            let is_priced = one["time_from"] == "priced";
            assert_eq!(is_priced, took.is_null(), "{strategy}: {one}");
            assert!(is_priced || one["time_from"] == "measured", "{strategy}: {one}");
            priced += usize::from(is_priced);
        }
    }
    assert!(priced > 0, "{strategy}");
    for row in trace["time"].as_array().unwrap() {
        let computes = ["compute", "recompute", "optimizer"].contains(&row["cause"].as_str().unwrap());
        assert_eq!(computes, row["measured_s"].is_number(), "{strategy}: {row}");
    }
    assert_eq!(trace["step_time_s"]["measured"], Value::Null);
    assert_eq!((&trace["losses"], &trace["step_times_s"]), (&json!([]), &json!([])));
    assert!(trace["slice"]["composed_step_time_s"].as_f64().unwrap() > 0.0, "{strategy}");
}

#[test]
fn a_rank_by_itself_holds_what_it_holds_beside_its_peers() {
    for strategy in [
        "tp=2,zero=1,micro=2",
        "cp=2,micro=2",
        "cp=2,cp_kind=ulysses,micro=2",
        "pp=4,micro=1",
        "pp=2,sched=interleaved,virtual=2,zero=2,micro=1",
        "zero=2,micro=1",
        "zero=3,micro=1",
        "zero=3,shard=2,micro=1",
        "zero=3,micro=1,offload=optimizer:1",
        "tp=2,pp=2,micro=1,ckpt=full",
    ] {
        check(DENSE, 4, strategy);
    }
}

#[test]
fn a_rank_of_experts_by_itself_holds_what_it_holds_beside_its_peers() {
    check(EXPERTS, 4, "ep=2,zero=1,micro=1,capacity=full");
    check(EXPERTS, 4, "ep=4,zero=2,micro=1,capacity=full");
}

#[test]
fn two_ranks_of_512_run_in_seconds() {
    let place = Place::new();
    planned(&place, DENSE, 512, 512, "tp=4,pp=2,zero=3,micro=1");
    let start = Instant::now();
    let (report, trace) = executed(&place, "--steps 2 --slice 0,511");
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    assert_eq!((&report["slice"]["ranks"], &report["losses"]), (&json!([0, 511]), &json!([])));
    valid(&report, "execute");
    valid(&trace, "trace");
    check_priced(&trace, "512 ranks");
    for row in trace["memory"].as_array().unwrap() {
        assert_eq!(row["predicted_bytes"], row["measured_bytes"], "{row}");
    }
    let shown = place.line("execute plan.json --steps 1 --slice 511").stdout;
    assert!(shown.contains("composed and not measured"), "{shown}");
    assert!(shown.contains("Memory is as predicted to the byte, of rank 511 by itself"), "{shown}");
    let judged = place.line("validate trace.json --json");
    assert!(format!("{}{}", judged.stdout, judged.stderr).contains("peers absent"), "{}", judged.stdout);
}

#[test]
fn what_means_nothing_beside_a_slice_is_refused() {
    let place = Place::new();
    planned(&place, DENSE, 4, 8, "zero=1,micro=1");
    for (flags, field, says) in [
        ("--slice 4", "slice", "3"),
        ("--slice 0,1,0", "slice", "named twice"),
        ("--slice x", "slice", "x"),
        ("--slice 0 --grads all", "slice", "no gradients"),
        ("--slice 0 --save out", "slice", "nothing to save"),
        ("--slice 0 --init out", "slice", "drawn weights"),
        ("--slice 0 --dry-run", "slice", "every rank already"),
        ("--slice 0 --steps 0", "slice", "at least 1 step"),
    ] {
        let run = place.line(&format!("execute plan.json {flags} --json"));
        assert_ne!(run.code, 0, "{flags}");
        let error = &run.json()["error"];
        assert_eq!(error["field"], field, "{flags}: {error}");
        assert!(error["message"].as_str().unwrap().contains(says), "{flags}: {error}");
    }
}
