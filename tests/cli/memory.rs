//! Too little memory, by `ulimit -v`: whatever the limit, a command ends with a documented exit code and a sentence.

use std::process::{Command, Output};

use crate::place::Place;

const TINY: &str =
    r#"{"model_type":"gpt2","n_embd":64,"n_layer":2,"n_head":2,"vocab_size":512,"n_positions":32}"#;

/// Runs `line` with so many KiB of addresses.
fn limited(place: &Place, kibibytes: u64, line: &str) -> Output {
    let script = format!("ulimit -v {kibibytes}; exec {} {line}", env!("CARGO_BIN_EXE_meshwright"));
    let mut command = Command::new("bash");
    command.args(["-c", &script]).current_dir(place.path());
    command.env("MESHWRIGHT_CACHE", place.cache()).env("CUDA_VISIBLE_DEVICES", "").output().unwrap()
}

/// What Rust's runtime needs before `main`, in KiB: where even that is lacking, it aborts.
const RUNTIME: u64 = 512;

/// The least limit, to 64 KiB, under which `main` runs: below it, the system's loader or Rust's runtime ends the process.
fn least(place: &Place) -> u64 {
    let starts =
        |kibibytes| limited(place, kibibytes, "--version").status.code().is_some_and(|code| code <= 6);
    let (mut below, mut above) = (0, 1 << 20);
    assert!(starts(above));
    while above - below > 64 {
        let middle = u64::midpoint(below, above);
        if starts(middle) { above = middle } else { below = middle }
    }
    above + RUNTIME
}

fn check(place: &Place, kibibytes: u64, line: &str) -> i32 {
    let output = limited(place, kibibytes, line);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let Some(code) = output.status.code() else {
        panic!("{line} under {kibibytes} KiB: {}\n{said}", output.status)
    };
    assert!([0, 3, 4, 6].contains(&code), "{line} under {kibibytes} KiB: exit code {code}\n{said}");
    if code != 0 {
        assert!(said.contains("error: ") && said.len() > 30, "{line} under {kibibytes} KiB: {said}");
    }
    code
}

#[test]
fn whatever_the_limit_a_command_ends_with_a_sentence() {
    let place = Place::new();
    place.write("model.json", TINY);
    let run = place.line(
        "simulate model.json --cluster 1x2xcpu --global-batch 8 --seq-len 32 --precision fp32 --strategy dp=2 --out \
         plan.json",
    );
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(place.line("execute plan.json --steps 1 --save out").code, 0);
    place.write("data.txt", "a ".repeat(4 << 20));
    let least = least(&place);
    let commands = [
        "plan llama-3.1-8b --cluster 1x8xh100-sxm --global-batch 64",
        "simulate llama-3.1-8b --cluster 1x8xh100-sxm --global-batch 64 --strategy tp=2,pp=2,micro=1",
        "execute plan.json --no-calibrate --steps 2 --init out --data data.txt --save new",
    ];
    for line in commands {
        let mut codes = Vec::new();
        // From what the system needs to start it up to what it needs to end well, denser below.
        let mut limit = least;
        let mut step = 1 << 10;
        while codes.last() != Some(&0) {
            codes.push(check(&place, limit, line));
            limit += step;
            step += step / 2;
        }
        assert!(codes.contains(&4), "{line}: {codes:?}");
    }
}

#[test]
fn what_a_run_needs_is_known_before_it_starts() {
    let place = Place::new();
    place.write("model.json", TINY.replace("512", "50000"));
    let run = place.line(
        "simulate model.json --cluster 1x2xcpu --global-batch 8 --seq-len 32 --precision fp32 --strategy dp=2 --out \
         plan.json",
    );
    assert_eq!(run.code, 0, "{}", run.stderr);
    let output =
        limited(&place, least(&place) + (120 << 10), "execute plan.json --no-calibrate --steps 1 --json");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("the arenas of 2 ranks take") && said.contains("ulimit -v"), "{said}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["error"]["field"], "memory");
}

/// Measuring takes the same ways out; it is slow, so a few limits must do.
#[test]
fn calibrating_under_a_limit_ends_with_a_sentence() {
    let place = Place::new();
    let least = least(&place);
    for more in [20 << 10, 60 << 10, 90 << 10, 150 << 10] {
        check(&place, least + more, "calibrate --device cpu --out cores.json");
    }
}
