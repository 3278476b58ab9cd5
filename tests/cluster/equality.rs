//! Processes against threads: losses, gradients, weights and state are the same bits, memory is as predicted.

use std::fs;
use std::path::Path;

use meshwright::model;
use serde_json::Value;

use crate::dice::Dice;
use crate::job::{GPT2, LLAMA, MIXTRAL, alone, document, plan, together};
use crate::texts::{Draw, random_text};

/// Runs the plan in `folder` under `strategy` by threads and by processes, and compares all that they leave.
fn compare(folder: &Path, ranks: u64, strategy: &str, more: &[&str]) {
    let case = format!("{strategy} on {ranks}");
    let run = |name: &str, run: &dyn Fn(&[&str]) -> std::process::Output| {
        let (save, gradients) = (format!("{name}-out"), format!("{name}-grads.safetensors"));
        let of_all = [
            "execute",
            "plan.json",
            "--strategy",
            strategy,
            "--steps",
            "2",
            "--lr",
            "1e-2",
            "--no-calibrate",
            "--json",
            "--save",
            &save,
            "--grads",
            "all",
            "--grads-out",
            &gradients,
        ];
        document(&run(&[&of_all, more].concat()), &format!("{name}: {case}"))
    };
    let threads = run("threads", &|arguments| alone(folder, arguments));
    let processes = run("processes", &|arguments| together(folder, ranks, arguments));
    assert_eq!(threads["losses"], processes["losses"], "{case}");
    assert_eq!(threads["named_gradients"], processes["named_gradients"], "{case}");
    for row in processes["memory"].as_array().unwrap() {
        assert_eq!(row["predicted_bytes"], row["measured_bytes"], "{case}: {row}");
    }
    for row in processes["extent"].as_array().unwrap() {
        assert_eq!(row["predicted_bytes"], row["measured_bytes"], "{case}: {row}");
    }
    let rows = |of: &Value, name: &str| of[name].as_array().unwrap().len();
    assert_eq!(rows(&threads, "memory"), rows(&processes, "memory"), "{case}");
    assert_eq!(rows(&threads, "time"), rows(&processes, "time"), "{case}");
    let bytes = |path: String| fs::read(folder.join(&path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    for file in ["out/model.safetensors", "out/state.safetensors", "out/config.json", "grads.safetensors"] {
        let same = bytes(format!("threads-{file}")) == bytes(format!("processes-{file}"));
        assert!(same, "{case}: {file} differs");
    }
}

/// Random legal strategies of a model on two to eight processes.
fn random(config: &str, seed: u64, count: usize) {
    let folder = tempfile::tempdir().unwrap();
    let draw = Draw::of(&model::from_text(config, "config", "model").unwrap());
    let mut dice = Dice::new(seed);
    let (mut checked, mut tried) = (0, 0);
    while checked < count {
        tried += 1;
        assert!(tried < 100 * count, "only {checked} legal strategies in {tried}");
        let ranks = dice.pick(&[2, 2, 4, 4, 8]);
        let text = random_text(&mut dice, ranks, draw);
        let is_legal = {
            let path = folder.path().join(format!("of-{ranks}"));
            if !path.exists() {
                fs::create_dir(&path).unwrap();
                let first = if draw.is_moe { "tp=1,capacity=full" } else { "tp=1" };
                plan(&path, config, ranks, first);
            }
            let arguments = ["execute", "plan.json", "--strategy", &text, "--dry-run", "--json"];
            alone(&path, &arguments).status.success()
        };
        if is_legal {
            compare(&folder.path().join(format!("of-{ranks}")), ranks, &text, &[]);
            checked += 1;
        }
    }
}

/// How many strategies of each model: `MESHWRIGHT_STRATEGIES` asks for more.
fn count(usual: usize) -> usize {
    std::env::var("MESHWRIGHT_STRATEGIES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn gpt2_trains_to_the_bit_as_by_threads() {
    random(GPT2, 1, count(14));
}

#[test]
fn llama_trains_to_the_bit_as_by_threads() {
    random(LLAMA, 2, count(14));
}

#[test]
fn mixtral_trains_to_the_bit_as_by_threads() {
    random(MIXTRAL, 3, count(12));
}

/// Every collective between processes is in one of these.
#[test]
fn every_axis_trains_to_the_bit() {
    let folder = tempfile::tempdir().unwrap();
    for (config, ranks, strategies) in [
        (
            LLAMA,
            4,
            &[
                "tp=2,pp=2,micro=2",
                "tp=4,micro=4",
                "cp=2,zero=3,micro=1",
                "cp=4,cp_kind=ulysses,micro=4",
                "pp=4,virtual=1,sched=zb-h1,micro=1",
                "zero=3,shard=2,micro=1",
            ][..],
        ),
        (MIXTRAL, 4, &["ep=4,micro=2,capacity=full,zero=1", "ep=2,etp=2,tp=2,micro=2,capacity=full"][..]),
    ] {
        let path = folder.path().join(if config == LLAMA { "llama" } else { "mixtral" });
        fs::create_dir(&path).unwrap();
        plan(&path, config, ranks, strategies[0]);
        for strategy in strategies {
            compare(&path, ranks, strategy, &["--clip", "0.1"]);
        }
    }
}

/// What processes saved goes on under another layout, by processes and by threads alike.
#[test]
fn a_save_goes_on_under_another_layout() {
    let folder = tempfile::tempdir().unwrap();
    plan(folder.path(), LLAMA, 4, "tp=2,pp=2,micro=2");
    let first = ["execute", "plan.json", "--steps", "2", "--no-calibrate", "--json", "--save", "first"];
    document(&together(folder.path(), 4, &first), "first");
    let goes_on = |run: &dyn Fn(&[&str]) -> std::process::Output, strategy: &str| {
        let arguments = ["execute", "plan.json", "--init", "first", "--strategy", strategy, "--steps", "2"];
        document(&run(&[&arguments[..], &["--no-calibrate", "--json"]].concat()), strategy)
    };
    let other = "zero=3,micro=1,order=dp-tp-cp-pp";
    let processes = goes_on(&|arguments| together(folder.path(), 4, arguments), other);
    assert_eq!(processes["first_step"], 2);
    let threads = goes_on(&|arguments| alone(folder.path(), arguments), other);
    assert_eq!(processes["losses"], threads["losses"]);
    let same = goes_on(&|arguments| alone(folder.path(), arguments), "tp=2,pp=2,micro=2");
    let loss = |of: &Value, step: usize| of["losses"][step].as_f64().unwrap();
    for step in 0..2 {
        assert!((loss(&same, step) - loss(&processes, step)).abs() < 1e-11);
    }
}

/// One timeline shows all ranks: what a rank receives was sent before.
#[test]
fn clocks_are_one() {
    let folder = tempfile::tempdir().unwrap();
    plan(folder.path(), LLAMA, 2, "pp=2,micro=1");
    let arguments =
        ["execute", "plan.json", "--steps", "6", "--no-calibrate", "--json", "--trace", "trace.json"];
    document(&together(folder.path(), 2, &arguments), "pp=2");
    let trace: Value = serde_json::from_slice(&fs::read(folder.path().join("trace.json")).unwrap()).unwrap();
    assert_eq!(trace["machine"]["hosts"].as_array().unwrap().len(), 2);
    let ends = |rank: usize, work: &str, field: &str| -> Vec<f64> {
        let instructions = trace["stages"][rank]["instructions"].as_array().unwrap();
        let is_of = |index: &usize| instructions[*index]["work"].as_str().unwrap().contains(work);
        let times = trace["ranks"][rank][field].as_array().unwrap();
        (0..instructions.len()).filter(is_of).map(|index| times[index].as_f64().unwrap()).collect()
    };
    for (from, to) in [(0, 1), (1, 0)] {
        let (sent, received) = (ends(from, "send", "start_us"), ends(to, "receive", "end_us"));
        assert_eq!((sent.len(), received.len()), (8, 8));
        for (sent, received) in sent.iter().zip(&received) {
            // Clocks are compared to some ten microseconds where the machine is busy.
            assert!(sent - 1000.0 < *received, "sent at {sent} us, received at {received} us");
        }
    }
}
