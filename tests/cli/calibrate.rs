//! `calibrate` and `validate` as their callers meet them.

use crate::place::Place;

#[test]
fn a_machine_without_a_gpu_is_told_so() {
    let place = Place::new();
    let run = place.line("calibrate --device cuda --out model.json --json");
    assert_eq!(run.code, 6, "{}", run.stderr);
    let error = &run.json()["error"];
    assert_eq!((&error["field"], &error["nearest"][0]), (&"device".into(), &"cpu".into()));
    assert!(place.names().is_empty());
}

#[test]
fn published_runs_are_skipped_with_the_reason() {
    let place = Place::new();
    place.write("runs.json", r#"[{"id":"a run","quality":"A"}]"#);
    let run = place.line("validate runs.json --json");
    assert_eq!(run.code, 0, "{}", run.stderr);
    let document = run.json();
    assert_eq!(document["skipped"][0]["id"], "a run");
    assert!(document["runs"].as_array().unwrap().is_empty());
}

#[test]
fn a_run_of_our_own_is_judged() {
    let place = Place::new();
    let tiny = r#"{"model_type":"gpt2","n_embd":16,"n_layer":2,"n_head":2,"vocab_size":32,"n_positions":16}"#;
    place.write("tiny.json", tiny);
    let planned = "simulate tiny.json --cluster 1x2xcpu --global-batch 4 --seq-len 8 --precision fp32 \
                   --strategy dp=2 --out plan.json";
    assert_eq!(place.line(planned).code, 0);
    let run = place.line("execute plan.json --steps 3 --trace trace.json");
    assert_eq!(run.code, 0, "{}", run.stderr);
    let document = place.line("validate trace.json --json").json();
    let judged = &document["runs"][0];
    assert_eq!((&judged["id"], &judged["family"]), (&"trace".into(), &"embedded".into()));
    assert_eq!(judged["error"]["memory"], 0.0);
    assert!(judged["error"]["step_time"].as_f64().is_some_and(|error| error > -1.0));
    assert_eq!(document["groups"].as_array().unwrap().len(), 2);
    assert!(place.line("validate trace.json").stdout.contains("embedded"));
}

#[test]
fn what_is_no_trace_is_an_input_error() {
    let place = Place::new();
    place.write("other.json", "{\"version\": 7}");
    place.write("cut.json", "{\"version\": 1");
    for file in ["other.json", "cut.json", "missing.json"] {
        assert_eq!(place.line(&format!("validate {file}")).code, 3, "{file}");
    }
    assert_eq!(place.line("validate other.json --engine none").code, 2);
}
