//! An interrupt ends a command with exit code 130; a search prints what it has found so far.

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

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

/// Starts `line`, and sends `signals` one after the other, the first after so long.
fn signalled(place: &Place, line: &str, wait: Duration, signals: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_meshwright"));
    command.args(line.split_whitespace()).current_dir(place.path());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    sleep(wait);
    for signal in signals {
        let sent = Command::new("kill").args([*signal, &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        sleep(Duration::from_millis(100));
    }
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A search of many minutes, which has something to show after a second.
const MODEL: &str = "llama-3.1-70b --cluster 8x8xh100-sxm --engine embedded --global-batch 512";

#[test]
fn an_interrupted_search_prints_the_best_plan_so_far() {
    let place = Place::new();
    let line = format!("plan {MODEL} --exhaustive --json --out plan.json");
    let (code, stdout, stderr) = signalled(&place, &line, Duration::from_secs(8), &["-INT"]);
    assert_eq!(code, Some(130), "{stderr}");
    let plan: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let warning = plan["warnings"][0].as_str().unwrap();
    assert!(warning.starts_with("Interrupted: this is the best plan found so far"), "{warning}");
    assert_eq!(plan["search"]["proven_optimal"], false);
    assert!(
        plan["search"]["considered"].as_u64().unwrap() > 0 && plan["search"]["gap"].as_f64().unwrap() > 0.0
    );
    // It is a plan like any other: it can be taken up again.
    assert_eq!(place.read("plan.json"), stdout);
    assert_eq!(place.line("report plan.json --out page.html").code, 0);
    let strategy = plan["strategy"]["text"].as_str().unwrap();
    let again = place.line(&format!("simulate {MODEL} --strategy {strategy} --json")).json();
    assert_eq!(again["prediction"]["step_time_s"], plan["prediction"]["step_time_s"]);
}

#[test]
fn a_second_interrupt_ends_at_once() {
    let place = Place::new();
    let began = Instant::now();
    let line = format!("plan {MODEL} --exhaustive");
    let (code, ..) = signalled(&place, &line, Duration::from_millis(1500), &["-INT", "-INT"]);
    assert_eq!(code, Some(130));
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
}

#[test]
fn a_terminated_map_prints_what_is_known() {
    let place = Place::new();
    let line = format!("plan {MODEL} --sweep devices=8..64 --sensitivity --maximize seq-len");
    let (code, stdout, stderr) = signalled(&place, &line, Duration::from_secs(3), &["-TERM"]);
    assert_eq!(code, Some(130), "{stderr}");
    let text = stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("Interrupted: ") || stderr.contains("interrupted before a plan was found"),
        "{stdout}{stderr}"
    );
}
