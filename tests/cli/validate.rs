//! `validate` as its callers meet it.

use crate::place::Place;

/// Runs of one source, of one GPU each, with these step times.
fn runs(seconds: &[&str]) -> String {
    let run = |(place, seconds): (usize, &&str)| {
        format!(
            r#"{{"id":"run {place}","family":"mine","quality":"A","framework":"Megatron-LM","source":"a note",
            "model":{{"name":"small","type":"gpt","layers":2,"hidden":256,"ffn_hidden":1024,"heads":4,"vocab":1000,
            "seq_len":128}},"hardware":{{"gpu":"A100-SXM-80GB","gpu_memory_gb":80,"num_gpus":1,"gpus_per_node":1}},
            "strategy":{{"dp":1,"tp":1,"pp":1,"zero_stage":0,"micro_batch":{0},"grad_accum":1,"global_batch":{0},
            "dtype":"bf16"}},"measured":{{"step_time_s":{seconds}}}}}"#,
            place + 1
        )
    };
    format!("[{}]", seconds.iter().enumerate().map(run).collect::<Vec<_>>().join(","))
}

#[test]
fn few_runs_are_shown_one_by_one_and_many_in_tables() {
    let place = Place::new();
    place.write("few.json", runs(&["0.01", "0.02"]));
    let few = place.line("validate few.json");
    assert_eq!(few.code, 0, "{}", few.stderr);
    assert!(few.stdout.contains("run 1") && few.stdout.contains("STEP PREDICTED"), "{}", few.stdout);
    place.write("many.json", runs(&["0.01"; 40]));
    let many = place.line("validate many.json");
    assert!(
        !many.stdout.contains("STEP PREDICTED") && many.stdout.contains("LIKELY CAUSE"),
        "{}",
        many.stdout
    );
    assert!(place.line("validate many.json --runs").stdout.contains("STEP PREDICTED"));
}

#[test]
fn reports_are_pages_or_markdown() {
    let place = Place::new();
    place.write("runs.json", runs(&["0.01", "0.02", "NaN", "-1"]));
    for (name, start) in [("page.html", "<!DOCTYPE html>"), ("page.md", "# Predicted against measured")] {
        let run = place.line(&format!("validate runs.json --report {name}"));
        assert_eq!(run.code, 0, "{}", run.stderr);
        let text = place.read(name);
        assert!(text.starts_with(start) && text.contains("mine"), "{text}");
        assert!(text.contains("measured.step_time_s"), "{text}");
    }
    assert_eq!(place.line("validate runs.json --report missing/page.md").code, 5);
}

#[test]
fn bad_records_are_named_and_the_others_judged() {
    let place = Place::new();
    place.write("runs.json", runs(&["0.01", "NaN", "-1"]));
    let run = place.line("validate runs.json --json");
    assert_eq!(run.code, 0, "{}", run.stderr);
    let document = run.json();
    assert_eq!(document["runs"].as_array().unwrap().len(), 2);
    assert_eq!(document["skipped"][0]["id"], "run 1");
    let reason = document["skipped"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("measured.step_time_s") && reason.contains("NaN"), "{reason}");
    assert_eq!(document["flags"][0]["id"], "run 2");
    assert_eq!(document["flags"][0]["field"], "measured.step_time_s");
    assert!(document["runs"][1]["error"]["step_time"].is_null());
    let group = &document["groups"][0];
    assert_eq!((&group["runs"], &group["simulated"]), (&3.into(), &2.into()));
    for field in ["mape", "median", "bias", "within_5", "within_10", "within_20"] {
        assert!(group["time"][field].is_number(), "{field}");
    }
    assert_eq!(group["worst"][0]["id"], "run 0");
}

#[test]
fn a_trace_of_a_family_reads_like_an_array() {
    let place = Place::new();
    let array = runs(&["0.01", "0.02"]);
    place.write("array.json", &array);
    let trace = |version: u32, runs: &str| {
        format!(r#"{{"version":{version},"kind":"published","family":"mine","citations":[],"runs":{runs}}}"#)
    };
    place.write("trace.json", trace(1, &array));
    let read = |file: &str| place.line(&format!("validate {file} --json")).json();
    assert_eq!(read("array.json"), read("trace.json"));
    place.write("newer.json", trace(2, &array));
    place.write("none.json", trace(1, "7"));
    place.write("text.json", "runs");
    place.write("empty.json", "");
    place.write("list.json", "[]");
    place.write("runless.json", trace(1, "[]"));
    for file in ["newer.json", "none.json", "text.json", "empty.json", "list.json", "runless.json"] {
        let run = place.line(&format!("validate {file} --json"));
        assert_eq!(run.code, 3, "{file}: {}", run.stderr);
        assert_eq!(run.json()["error"]["field"], "trace");
    }
    assert_eq!(place.line("validate .").code, 3, "one bad file in a folder");
}
