//! An interrupt ends a run with exit code 130.

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::place::Place;

const TINY: &str =
    r#"{"model_type":"gpt2","n_embd":16,"n_layer":2,"n_head":2,"vocab_size":32,"n_positions":16}"#;

#[test]
fn an_interrupt_ends_with_130_and_leaves_nothing() {
    let place = Place::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_meshwright"));
    // A million micro-batches: far longer than the test waits.
    command
        .args("simulate gpt2 --cluster 1x2xh100-sxm --strategy zero=3,micro=1 --engine embedded".split(' '));
    command.args("--global-batch 1000000 --out plan.json".split(' ')).current_dir(place.path());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    sleep(Duration::from_millis(300));
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn an_interrupted_run_ends_after_its_step_with_its_trace() {
    let place = Place::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_meshwright"));
    place.write("tiny.json", TINY);
    let line =
        "simulate tiny.json --cluster 1x2xcpu --global-batch 2 --seq-len 8 --strategy dp=2 --out plan.json";
    assert_eq!(place.line(line).code, 0);
    let line =
        "execute plan.json --no-calibrate --steps 1000000000 --trace trace.json --save weights --grads all";
    command.args(line.split_whitespace()).current_dir(place.path());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    sleep(Duration::from_millis(2500));
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let expected = ["grads.safetensors", "plan.json", "tiny.json", "trace.json", "weights"];
    assert_eq!(place.names(), expected);
    let trace: serde_json::Value = serde_json::from_str(&place.read("trace.json")).unwrap();
    assert!(!trace["losses"].as_array().unwrap().is_empty());
    assert!(!trace["named_gradients"].as_array().unwrap().is_empty(), "those of the last step that was made");
}

#[test]
fn an_interrupted_calibration_keeps_nothing() {
    let place = Place::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_meshwright"));
    command
        .args(["execute", "--steps", "1"])
        .current_dir(place.path())
        .env("MESHWRIGHT_CACHE", place.cache());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    sleep(Duration::from_millis(500));
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(std::fs::read_dir(place.cache()).unwrap().count(), 0);
}
