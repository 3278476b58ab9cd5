//! By which cost model `execute` predicts: this machine's, measured once and kept, or the one that is named.

use std::fs;

use serde_json::{Value, json};

use crate::place::{Place, Run};

const TINY: &str =
    r#"{"model_type":"gpt2","n_embd":16,"n_layer":2,"n_head":2,"vocab_size":32,"n_positions":16}"#;

/// A plan of the tiny model on two ranks of `device`, in `plan.json`.
fn planned(place: &Place, device: &str) {
    place.write("tiny.json", TINY);
    let line = format!(
        "simulate tiny.json --cluster 1x2x{device} --global-batch 4 --seq-len 8 --precision fp32 --strategy dp=2 \
         --out plan.json"
    );
    let run = place.line(&line);
    assert_eq!(run.code, 0, "{}", run.stderr);
}

/// The built-in cost model of CPUs as a file's text.
fn built_in() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/cost_models/cpu.json")).unwrap()
}

fn kept(place: &Place) -> Vec<(String, String)> {
    let entries = fs::read_dir(place.cache()).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.display().to_string(), fs::read_to_string(path).unwrap())).collect()
}

fn ended(run: &Run) -> Value {
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.json()
}

#[test]
fn the_machine_is_measured_once_and_kept() {
    let place = Place::new();
    planned(&place, "h100-sxm");
    let first = place.typed("execute plan.json --steps 3 --json");
    let document = ended(&first);
    assert!(first.stderr.contains("measuring this machine") && first.stderr.contains("kept in"));
    let drift = document["step_time_s"]["drift"].as_f64().unwrap();
    assert!(drift > 0.0 && drift.is_finite());
    assert_eq!(document["planned"]["cost_model"], "h100-sxm");
    assert!(document["planned"]["step_time_s"].as_f64().unwrap() > 0.0);
    let files = kept(&place);
    let [(path, text)] = files.as_slice() else { panic!("{files:?}") };
    let second = place.typed("execute plan.json --steps 3 --json");
    let again = ended(&second);
    assert_eq!(second.stderr, "", "nothing is measured again");
    assert_eq!(again["step_time_s"]["predicted"], document["step_time_s"]["predicted"]);
    assert_eq!(kept(&place), files);
    // What is kept is a cost model like any other.
    let file = Place::new();
    file.write("machine.json", text);
    planned(&file, "./machine.json");
    let run = file.typed("execute plan.json --steps 3 --cost-model machine.json --json");
    let document = ended(&run);
    assert!(document["step_time_s"]["drift"].as_f64().is_some() && document["planned"].is_null(), "{path}");
    assert_eq!(kept(&file), []);
}

#[test]
fn tests_neither_measure_nor_keep_anything() {
    let place = Place::new();
    planned(&place, "cpu");
    let run = place.line("execute plan.json --steps 2");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("the built-in cost model cpu"), "{}", run.stderr);
    assert_eq!(kept(&place), []);
    let dry = place.typed("execute plan.json --dry-run --json");
    assert_eq!(ended(&dry)["step_time_s"]["drift"], Value::Null);
    assert_eq!((dry.stderr.as_str(), kept(&place)), ("", vec![]));
}

#[test]
fn a_plan_is_shown_by_its_own_cost_model_too() {
    let place = Place::new();
    planned(&place, "h100-sxm");
    place.write("here.json", built_in().replace("One core of the host", "One core of another host"));
    let document = ended(&place.line("execute plan.json --steps 2 --cost-model here.json --json"));
    assert_eq!(document["planned"]["cost_model"], "h100-sxm");
    assert_eq!(document["step_time_s"]["drift"], Value::Null, "the file knows no fixed kernel");
    let text = place.line("execute plan.json --steps 2 --cost-model here.json").stdout;
    assert!(text.contains("The plan's own cost model h100-sxm predicts"), "{text}");
}

#[test]
fn cost_models_that_cannot_be_used_name_file_and_field() {
    let place = Place::new();
    planned(&place, "cpu");
    let gpu = concat!(env!("CARGO_MANIFEST_DIR"), "/cost_models/h100-sxm.json");
    place.write("gpu.json", fs::read_to_string(gpu).unwrap());
    place.write("cut.json", &built_in()[..200]);
    place.write("version.json", built_in().replacen("\"version\": 1", "\"version\": 9", 1));
    place.write("negative.json", built_in().replacen("\"value\": 1.2e10", "\"value\": -1", 1));
    let cases = [
        ("missing.json", "cost-model"),
        ("gpu.json", "class"),
        ("cut.json", "cost_model"),
        ("version.json", "version"),
        ("negative.json", "memory_bandwidth"),
    ];
    for (file, field) in cases {
        let run = place.line(&format!("execute plan.json --cost-model {file} --json"));
        assert_eq!(run.code, 3, "{}", run.stderr);
        let error = &run.json()["error"];
        assert_eq!((&error["kind"], &error["field"]), (&json!("input"), &json!(field)));
        assert!(error["message"].as_str().unwrap().contains(file), "{error}");
    }
    let both = place.line("execute plan.json --no-calibrate --cost-model gpu.json");
    assert_eq!(both.code, 2, "{}", both.stderr);
}
