//! What does not change an answer, and what ends a search.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::place::Place;

const PLAN: &str = "plan gpt2 --cluster 1x4xrtx-4090 --global-batch 64 --json";

/// A model of `blocks` blocks.
fn tall(blocks: u32) -> String {
    let norm = json!({ "kind": "rms", "width": 256 });
    let attention = json!({ "hidden": 256, "heads": 4, "norm": norm, "position": "rotary",
                            "projection": { "grouped": { "kv_heads": 4, "head_dim": 64 } } });
    let layer =
        |name: &str, from: &[&str], kind: Value| json!({ "name": name, "inputs": from, "kind": kind });
    let mlp = json!({ "hidden": 256, "intermediate": 1024, "activation": "silu", "norm": norm });
    let head = json!({ "hidden": 256, "vocabulary": 1000, "norm": norm, "tied": true });
    let layers = [
        layer("embedding", &[], json!({ "embedding": { "vocabulary": 1000, "hidden": 256 } })),
        layer("attention", &["embedding"], json!({ "attention": attention })),
        layer("mlp", &["attention"], json!({ "mlp": mlp })),
        layer("head", &["mlp"], json!({ "head": head })),
        layer("loss", &["head"], json!({ "loss": "cross_entropy" })),
    ];
    let repeat = [json!({ "first": "attention", "last": "mlp", "count": blocks })];
    let losses = [json!({ "name": "tokens", "layer": "loss" })];
    let graph = json!({ "version": 1, "name": "tall", "max_sequence": 2048, "layers": layers, "repeat": repeat,
                        "losses": losses });
    graph.to_string()
}

#[test]
fn neither_threads_nor_time_nor_an_ample_limit_change_a_plan_or_its_digest() {
    let place = Place::new();
    let plan = |threads: u32, more: &[&str]| {
        let run = place.run_on(Some(threads), PLAN.split_whitespace().chain(more.iter().copied()));
        assert_eq!(run.code, 0, "{}", run.stderr);
        let mut document = run.json();
        assert!(document["search"]["wall_time_s"].take().as_f64().unwrap() > 0.0);
        document
    };
    let first = plan(1, &[]);
    for (threads, more) in [(1, &[][..]), (2, &[]), (3, &[]), (2, &["--time-limit", "1h"])] {
        assert_eq!(plan(threads, more), first, "{threads} threads {more:?}");
    }
    assert_ne!(plan(2, &["--fix", "zero=1"])["digest"], first["digest"]);
}

#[test]
fn a_search_ends_in_time_whatever_the_model() {
    let place = Place::new();
    place.write("tall.json", tall(3_000));
    for engine in ["torchtitan", "embedded", "megatron"] {
        let start = Instant::now();
        let line = format!("plan tall.json --cluster 4x8xh100-sxm --engine {engine} --time-limit 3s --json");
        let run = place.line(&line);
        // Other programs may run beside this one, so that there is some room.
        assert!(start.elapsed() < Duration::from_secs(9), "{engine}: {:?}", start.elapsed());
        let document = run.json();
        if run.code == 0 {
            let gap = document["search"]["gap"].as_f64().unwrap();
            assert!((0.0..=1.0).contains(&gap), "{engine}: {gap}");
        } else {
            assert_eq!((run.code, &document["error"]["field"]), (4, &json!("time-limit")), "{engine}");
        }
    }
}

#[test]
fn where_nothing_is_found_in_time_that_is_what_is_said() {
    let place = Place::new();
    let run = place.line(&format!("{PLAN} --time-limit 1us"));
    let error = &run.json()["error"];
    assert_eq!((run.code, &error["kind"], &error["field"]), (4, &json!("infeasible"), &json!("time-limit")));
    assert!(error["message"].as_str().unwrap().contains("not known"), "{error}");
}

#[test]
fn a_value_outside_the_grid_is_held_and_said() {
    let place = Place::new();
    for (key, value, says) in [
        ("offload", "optimizer:0.37", true),
        ("offload", "optimizer:0.5", false),
        ("offload", "activations:1", false),
        ("offload", "activations:0.7", true),
        ("offload", "optimizer:0.5+params:1+activations:0.5", false),
        ("micro", "2", false),
        ("cp", "4", true),
        ("shard", "2", false),
        ("attention", "materialised", false),
    ] {
        let more = if key == "shard" { ",zero=1" } else { "" };
        let run = place.line(&format!("{PLAN} --fix {key}={value}{more}"));
        assert_eq!(run.code, 0, "{key}={value}: {}", run.stderr);
        let document = run.json();
        let search = &document["search"];
        assert_eq!(search["held"][key], value, "{search}");
        assert!(search["axes"].get(key).is_none_or(|axis| *axis == json!([value])), "{search}");
        let text = document["strategy"]["text"].as_str().unwrap();
        assert!(text.contains(&format!("{key}={value}")), "{text}");
        let said = document["warnings"].to_string().contains(&format!("{key}={value} is held"));
        assert_eq!(said, says, "{key}={value}: {}", document["warnings"]);
    }
}

#[test]
fn keys_that_contradict_each_other_are_both_named() {
    let place = Place::new();
    for (fix, field, value) in [
        ("zero=3,pp=4,ckpt=full", "pp, zero", "4, 3"),
        ("micro=64,accum=4", "micro, accum", "64, 4"),
        ("tp=2,dp=4", "tp, dp", "2, 4"),
        ("tp=5", "tp", "5"),
    ] {
        let run = place.line(&format!("{PLAN} --engine megatron --fix {fix}"));
        let error = &run.json()["error"];
        assert_eq!((run.code, &error["kind"]), (4, &json!("illegal")), "{fix}");
        assert_eq!((&error["field"], &error["value"]), (&json!(field), &json!(value)), "{fix}");
        for key in field.split(", ") {
            assert!(error["message"].as_str().unwrap().contains(&format!("{key}=")), "{error}");
        }
        for near in error["nearest"].as_array().unwrap() {
            let near = near.as_str().unwrap();
            let (key, value) = near.split_once('=').unwrap_or((field, near));
            let others = fix.split(',').filter(|item| !item.starts_with(&format!("{key}=")));
            let repaired: Vec<String> = others.map(str::to_owned).chain([format!("{key}={value}")]).collect();
            let line = format!("{PLAN} --engine megatron --top 0 --fix {}", repaired.join(","));
            assert_eq!(place.line(&line).code, 0, "{fix} was told {near}");
        }
    }
}
