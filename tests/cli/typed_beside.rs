//! `--strategy` and `--assume` beside `--from`, and files that another engine runs.

use serde_json::Value;

use crate::place::Place;

/// Recompute, micro-batch and accumulation are not the file's to say.
const OPEN: &str = r#"{
  "bf16": {"enabled": "auto"},
  "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 2},
  "train_micro_batch_size_per_gpu": "auto",
  "gradient_accumulation_steps": "auto"
}"#;

/// The document that `arguments` behind `simulate gpt2 --from` give, and the exit code.
fn simulate(place: &Place, arguments: &str) -> (i32, Value) {
    let line = format!("simulate gpt2 --cluster 1x4xh100-sxm --seq-len 512 --json --from {arguments}");
    let run = place.line(&line);
    (run.code, run.json())
}

#[test]
fn what_a_file_leaves_open_is_typed() {
    let place = Place::new();
    place.write("ds.json", OPEN.replace(", \"zero_hpz_partition_size\": 2", ""));
    let (code, plan) = simulate(&place, "ds.json --strategy micro=2,accum=4,ckpt=full");
    assert_eq!(code, 0, "{plan}");
    let text = plan["strategy"]["text"].as_str().unwrap();
    assert!(text.contains("zero=3,micro=2,accum=4,ckpt=full"), "{text}");
    assert_eq!(plan["workload"]["global_batch"], 32);
    // What the file says may be typed too, if it is the same.
    assert_eq!(simulate(&place, "ds.json --strategy zero=3,dp=4,micro=2,accum=4").0, 0);
    let (code, error) = simulate(&place, "ds.json --strategy micro=2,accum=4,zero=2");
    let error = &error["error"];
    assert_eq!((code, error["field"].as_str()), (3, Some("zero")));
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("means zero=3") && message.contains("says zero=2"), "{message}");
    // A default of the engine is the file's, too.
    let (code, error) = simulate(&place, "ds.json --strategy micro=2,accum=4,bucket=1M");
    assert_eq!((code, error["error"]["field"].as_str()), (3, Some("bucket")));
    let (code, error) = simulate(&place, "ds.json --strategy micro=2,accum=4,offload=optimizer:1");
    assert_eq!((code, error["error"]["field"].as_str()), (3, Some("offload")));
}

#[test]
fn what_is_assumed_is_printed_and_must_be_a_setting() {
    let place = Place::new();
    place.write("ds.json", OPEN);
    let (code, error) = simulate(&place, "ds.json --strategy micro=1,accum=1");
    let message = error["error"]["message"].as_str().unwrap();
    assert_eq!(code, 3);
    assert!(
        message.contains("line 3")
            && message.contains("--assume zero_optimization.zero_hpz_partition_size=1"),
        "{message}"
    );
    let assumed = "ds.json --strategy micro=1,accum=1 --assume zero_optimization.zero_hpz_partition_size=1";
    let (code, plan) = simulate(&place, assumed);
    assert_eq!(code, 0, "{plan}");
    let warnings = plan["warnings"].as_array().unwrap();
    let is_said = |line: &Value| {
        line.as_str().unwrap().contains(
            "is assumed that `zero_optimization.zero_hpz_partition_size` is 1; the file says 2 (line 3)",
        )
    };
    assert!(warnings.iter().any(is_said), "{warnings:?}");
    for (assume, code, part) in [
        ("zero_optimisation.stage=3", 3, "no such setting"),
        ("stage", 3, "KEY=VALUE is needed"),
        ("bf16.enabled=true --assume bf16.enabled=false", 3, "assumed twice"),
    ] {
        let line = format!("{assumed} --assume {assume}");
        let (found, error) = simulate(&place, &line);
        let message = error["error"]["message"].as_str().unwrap();
        assert!(found == code && message.contains(part), "{assume}: {found} {message}");
    }
    assert_eq!(place.line("simulate gpt2 --cluster 1x4xh100-sxm --strategy dp=4 --assume a=1").code, 2);
}

#[test]
fn a_file_that_another_engine_runs_is_named_with_both() {
    let place = Place::new();
    let text = "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 2\n  gradient_accumulation_steps: 2\n\
                mixed_precision: bf16\nnum_processes: 4\n";
    place.write("acc.yaml", text);
    let (code, plan) = simulate(&place, "acc.yaml --global-batch 16");
    assert_eq!((code, plan["engine"].as_str()), (0, Some("deepspeed")), "{plan}");
    assert!(plan["strategy"]["text"].as_str().unwrap().contains("zero=2,micro=2,accum=2"));
    assert_eq!(simulate(&place, "acc.yaml --global-batch 16 --engine deepspeed").0, 0);
    let (code, error) = simulate(&place, "acc.yaml --global-batch 16 --engine accelerate");
    assert_eq!((code, error["error"]["field"].as_str()), (3, Some("engine")));
    let explained = place
        .line("explain gpt2 --cluster 1x4xh100-sxm --seq-len 512 --global-batch 16 --from acc.yaml --json");
    assert_eq!((explained.code, explained.json()["file"].is_null()), (0, true), "{}", explained.stderr);
}

#[test]
fn a_plan_that_defers_otherwise_is_no_plan_as_it_was() {
    let place = Place::new();
    let plan = "simulate gpt2 --cluster 1x4xh100-sxm --seq-len 512 --global-batch 16 --engine accelerate \
                --strategy zero=3,micro=1,accum=4,sync=immediate --out plan.json";
    assert_eq!(place.line(plan).code, 0);
    let run = place.line("export plan.json --to accelerate --out run --json");
    let exported = run.json();
    assert_eq!((run.code, exported["origin"].as_str()), (0, Some("rounded")), "{exported}");
    assert_eq!(exported["changes"][0], serde_json::json!(["sync", "immediate", "deferred"]));
    assert!(exported["strategy"].as_str().unwrap().contains("sync=deferred"));
    let run = place.line("export plan.json --to accelerate --out as-is --as-is --json");
    assert_eq!((run.code, run.json()["error"]["field"].as_str()), (4, Some("sync")));
}
