//! What stands for `--engine auto` and `all`, what a robust plan is, and the evidence that plans show.

use crate::place::Place;

const HERE: &str = "plan llama-3.1-8b --cluster 1x8xh100-sxm --global-batch 128 --seq-len 8192";

#[test]
fn the_engine_with_most_runs_on_the_device_is_taken_and_said() {
    let place = Place::new();
    let run = place.line(&format!("{HERE} --engine auto --objective robust --json"));
    assert_eq!(run.code, 0, "{}", run.stderr);
    let plan = run.json();
    assert_eq!(plan["engine"], "nemo");
    let warnings = plan["warnings"].to_string();
    assert!(warnings.contains("Planned for nemo: it has the most measured runs on h100-sxm"), "{warnings}");
    assert!(plan["evidence"]["runs"].as_u64().unwrap() > 50);
    assert!(!plan["evidence"]["nearest"].as_array().unwrap().is_empty());
    assert!(plan["evidence"]["mape"].as_f64().unwrap() < 0.2);
    assert_eq!(plan["evidence"]["unvalidated"].as_array().unwrap().len(), 0);
    let cpu = place.line(
        "plan gpt2 --cluster 1x2xcpu --global-batch 8 --seq-len 128 --precision fp32 --engine auto --json",
    );
    assert_eq!(cpu.json()["engine"], "embedded");
    assert_eq!(cpu.json()["evidence"]["unvalidated"].as_array().unwrap().len(), 0);
}

/// The upper end of a step's interval, in seconds.
fn upper_end(plan: &serde_json::Value) -> f64 {
    plan["prediction"]["interval"]["step_time_s"][1].as_f64().unwrap()
}

#[test]
fn a_robust_plan_ends_within_the_tolerance_of_the_least_upper_end() {
    let place = Place::new();
    for engine in ["nemo", "torchtitan", "embedded"] {
        let run = place.line(&format!("{HERE} --engine {engine} --objective robust --tolerance 5% --json"));
        assert_eq!(run.code, 0, "{}", run.stderr);
        let plan = run.json();
        let gap = plan["search"]["robust_gap"].as_f64().unwrap();
        assert!((0.0..=1.0 - 1.0 / 1.06).contains(&gap), "{engine}: {gap}");
        let fastest = place.line(&format!("{HERE} --engine {engine} --objective time --json")).json();
        assert!(upper_end(&plan) <= upper_end(&fastest) * 1.05 * (1.0 + 1e-9), "{engine}");
        if let Some(beside) = plan.get("fastest") {
            assert_eq!(beside["strategy"], fastest["strategy"], "{engine}");
        }
        // What was chosen is what simulate says it is.
        let text = plan["strategy"]["text"].as_str().unwrap();
        let again = place.line(&format!(
            "simulate llama-3.1-8b --cluster 1x8xh100-sxm --global-batch 128 --seq-len 8192 --engine {engine} --strategy {text} --json"
        ));
        assert_eq!(again.code, 0, "{text}: {}", again.stderr);
        assert!((upper_end(&again.json()) / upper_end(&plan) - 1.0).abs() < 1e-9, "{text}");
    }
}

#[test]
fn a_feature_without_runs_is_not_validated_and_widens_the_interval() {
    let place = Place::new();
    let width = |strategy: &str| {
        let run = place.line(&format!(
            "simulate llama-3.1-8b --cluster 1x8xh100-sxm --global-batch 128 --seq-len 8192 --engine nemo --strategy {strategy} --json"
        ));
        let plan = run.json();
        let step = plan["prediction"]["step_time_s"].as_f64().unwrap();
        let high = plan["prediction"]["interval"]["step_time_s"][1].as_f64().unwrap();
        (high / step - 1.0, plan["evidence"]["unvalidated"].clone())
    };
    let (plain, none) = width("cp=2,zero=1,micro=1");
    let (wide, some) = width("cp=2,zero=1,micro=1,offload=activations:1");
    assert_eq!(none, serde_json::json!([]));
    assert_eq!(some, serde_json::json!(["activation offload"]));
    assert!(wide > plain, "{wide} {plain}");
}

#[test]
fn all_engines_stand_side_by_side() {
    let place = Place::new();
    let run = place.line("plan gpt2-xl --cluster 1x8xh100-sxm --global-batch 64 --seq-len 1024 --engine all --objective robust --json");
    assert_eq!(run.code, 0, "{}", run.stderr);
    let plan = run.json();
    let names: Vec<&str> =
        plan["engines"].as_array().unwrap().iter().map(|record| record["engine"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 9, "{names:?}");
    let ends = (plan["engines"].as_array().unwrap().iter())
        .filter(|record| !record["prediction"].is_null())
        .map(upper_end);
    assert_eq!(upper_end(&plan), ends.fold(f64::INFINITY, f64::min));
}

#[test]
fn profiles_that_judge_published_runs_plan_nothing() {
    let place = Place::new();
    let run = place.line(&format!("{HERE} --engine megatron-lm --objective robust"));
    assert_eq!(run.code, 2, "{}", run.stdout);
    assert!(run.stderr.contains("kept to judge published runs"), "{}", run.stderr);
    let all = "simulate gpt2 --cluster 1x8xh100-sxm --strategy zero=1 --engine all";
    assert_eq!(place.line(all).code, 2);
    let map = place.line("plan gpt2 --cluster 1x8xh100-sxm --engine all --sweep devices=1..8");
    assert_eq!(map.code, 2, "{}", map.stdout);
    assert!(map.stderr.contains("a map is made for one engine"), "{}", map.stderr);
    let tolerance = place.line(&format!("{HERE} --engine nemo --objective robust --tolerance lots"));
    assert_eq!(tolerance.code, 2);
    assert!(tolerance.stderr.contains("a share from 0% to 100% is needed"), "{}", tolerance.stderr);
}

#[test]
fn facts_of_a_card_become_its_cost_model() {
    let place = Place::new();
    let facts = r#"{"tool":"gpu_facts","torch":"2.9","date":"2026-11-24",
        "device":{"name":"NVIDIA H100 80GB HBM3","multiprocessors":132,"memory_bytes":85000000000},
        "launch":{"seconds_a_small_kernel":3.1e-6},
        "memory_bound":{"copy_1073741824_B":{"seconds":0.0008,"bytes_per_s":2.6e12}}}"#;
    place.write("facts.json", facts);
    let run = place.line("calibrate --facts facts.json --out mine.json");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.contains("kernel_time"), "{}", run.stdout);
    let model: serde_json::Value = serde_json::from_str(&place.read("mine.json")).unwrap();
    assert_eq!(model["kernel_time"]["kind"], "measured");
    assert_eq!(model["memory_bandwidth"]["kind"], "datasheet");
    let planned = place.line("simulate gpt2 --cluster 1x2x./mine.json --strategy dp=2 --json");
    assert_eq!(planned.code, 0, "{}", planned.stderr);
    let row = r#"{"model":"gpt2","shape":{"layers":12,"hidden":768,"ffn":3072,"heads":12,"kv":12,"vocab":50304,
        "llama":false},"micro_batch":16,"seq_len":1024,"accumulation":1,"checkpointing":"none","compile":false,
        "step_time_s":0.12,"parameters":163000000,"allocated_bytes":20000000000,"reserved_bytes":21000000000}"#;
    let trained =
        |row: &str| facts.replace(r#""launch""#, &format!(r#""training":[{row},{{"skipped":""}}],"launch""#));
    place.write("trained.json", trained(row));
    std::fs::create_dir(place.path().join("card")).unwrap();
    let run = place.line("calibrate --facts trained.json --out card.json --trace card/runs.json");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stdout.contains("1 run in card/runs.json, 1 skipped or failed and left out"),
        "{}",
        run.stdout
    );
    let judged = place.line("validate card --runs --json");
    assert_eq!(judged.code, 0, "{}", judged.stderr);
    assert!(judged.stdout.contains("gpu_facts-h100-sxm-0-gpt2"), "{}", judged.stdout);
    assert!(judged.stdout.contains(r#""skipped": []"#), "{}", judged.stdout);
    place.write("lacking.json", trained(&row.replace("allocated_bytes", "bytes")));
    let lacking = place.line("calibrate --facts lacking.json --out half.json --trace half-runs.json");
    assert_eq!(lacking.code, 3, "{}", lacking.stdout);
    assert!(lacking.stderr.contains("missing field `allocated_bytes`"), "{}", lacking.stderr);
    assert!(!place.names().iter().any(|name| name.starts_with("half")));
    place.write("wrong.json", "{}");
    let wrong = place.line("calibrate --facts wrong.json --out other.json");
    assert_eq!(wrong.code, 3, "{}", wrong.stderr);
    assert!(!place.names().contains(&"other.json".to_owned()));
}
