//! What cannot be done ends in one clear error with the documented exit code, and leaves no file.

use std::fs::{self, File};

use crate::place::{Place, Run};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

const TINY: &str =
    r#"{"model_type":"gpt2","n_embd":64,"n_layer":2,"n_head":4,"vocab_size":512,"n_positions":128}"#;
const SIMULATE: &str = "--cluster 1x2xh100-sxm --strategy tp=2 --global-batch 8 --seq-len 64";

/// Checks both forms of an error, and that nothing was written.
fn fails(place: &Place, line: &str, code: i32, kind: &str, field: &str, says: &str) {
    let before = place.names();
    let Run { code: found, stdout, stderr } = place.line(line);
    assert_eq!(found, code, "{line}\n{stderr}");
    assert_eq!(stdout, "", "{line}");
    assert!(stderr.starts_with("error: ") && stderr.matches("error: ").count() == 1, "{line}\n{stderr}");
    assert!(stderr.contains(says), "{line}\n{stderr}");
    let run = place.line(&format!("{line} --json"));
    assert_eq!(run.code, code, "{line}\n{}", run.stderr);
    assert!(run.stderr.starts_with("error: "), "{line}\n{}", run.stderr);
    let document = run.json();
    let error = &document["error"];
    assert_eq!(document.as_object().unwrap().len(), 1, "{line}");
    let keys: Vec<_> = error.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["field", "kind", "message", "nearest", "value"], "{line}");
    assert_eq!((&error["kind"], &error["field"]), (&json!(kind), &json!(field)), "{line}");
    assert!(error["message"].as_str().unwrap().contains(says), "{line}");
    assert!(error["nearest"].as_array().unwrap().iter().all(Value::is_string), "{line}");
    assert!(error["value"].is_string(), "{line}");
    assert_eq!(place.names(), before, "{line}");
}

#[test]
fn flags_that_do_not_parse_are_usage_errors() {
    let place = Place::new();
    let plan = "plan gpt2 --cluster 1x2xh100-sxm --out plan.json --report page.html";
    for (line, field, says) in [
        ("plna", "command", "plna"),
        ("plan", "cluster, model", "<MODEL>"),
        ("plan gpt2", "cluster", "--cluster <CLUSTER>"),
        ("plan gpt2 --clutser 1x2xcpu", "clutser", "--clutser"),
        ("plan gpt2 gpt2 --cluster 1x2xcpu", "gpt2", "gpt2"),
        ("simulate gpt2 --cluster 1x1xcpu", "strategy", "--strategy"),
        ("report plan.json", "out", "--out"),
    ] {
        fails(&place, line, 2, "usage", field, says);
    }
    for (rest, field, says) in [
        ("--global-batch 0", "global-batch", "from 1 to 1048576"),
        ("--global-batch -8", "global-batch", "from 1 to 1048576"),
        ("--global-batch 2.5", "global-batch", "from 1 to 1048576"),
        ("--global-batch 1e3", "global-batch", "from 1 to 1048576"),
        ("--global-batch 1000000000000000000", "global-batch", "from 1 to 1048576"),
        ("--global-batch 99999999999999999999999", "global-batch", "from 1 to 1048576"),
        ("--global-batch many", "global-batch", "from 1 to 1048576"),
        ("--global-batch=", "global-batch", "from 1 to 1048576"),
        ("--global-batch 1048576 --seq-len 1048576", "global-batch", "at most 68,719,476,736"),
        ("--seq-len 0", "seq-len", "from 1 to 16777216"),
        ("--seq-len -1", "seq-len", "from 1 to 16777216"),
        ("--seq-len 1000000000000000000", "seq-len", "from 1 to 16777216"),
        ("--precision fp4", "precision", "fp4"),
        ("--dropout 1", "dropout", "from 0 to below 1"),
        ("--dropout -0.1", "dropout", "from 0 to below 1"),
        ("--dropout NaN", "dropout", "from 0 to below 1"),
        ("--clip -1", "clip", "of at least 0"),
        ("--clip inf", "clip", "of at least 0"),
        ("--engine megaton", "engine", "megatron"),
        ("--objective speed", "objective", "speed"),
        ("--top -1", "top", "from 0 to 1000"),
        ("--top 1000000000000000000", "top", "from 0 to 1000"),
        ("--memory-limit 0", "memory-limit", "at least 1 byte"),
        ("--memory-limit 70gigs", "memory-limit", "80GiB"),
        ("--memory-limit -1GiB", "memory-limit", "80GiB"),
        ("--fix tp", "strategy", "key=value"),
        ("--fix tp=0", "tp", "least"),
        ("--fix tpp=2", "tpp", "tp"),
        ("--fix zero=4", "zero", "3"),
        ("--fix micro=1.5", "micro", "whole"),
        ("--free compres", "free", "compres"),
        ("--fix grad=bf16 --free grad", "free", "fixed by --fix"),
    ] {
        fails(&place, &format!("{plan} {rest}"), 2, "usage", field, says);
    }
    fails(&place, "plan gpt2 --cluster 0x8xh100-sxm", 2, "usage", "nodes", "`0`");
    fails(&place, "plan gpt2 --cluster 1x-8xh100-sxm", 2, "usage", "devices per node", "`-8`");
    let same = "plan gpt2 --cluster 1x2xh100-sxm --out same --report same";
    fails(&place, same, 2, "usage", "report", "--out writes there too");
}

#[test]
fn files_and_values_that_cannot_be_used_are_input_errors() {
    let place = Place::new();
    place.write("tiny.json", TINY);
    place.write("prose.json", "not JSON");
    place.write("cut.json", &TINY[..TINY.len() / 2]);
    place.write("deep.json", format!("{{\"model_type\":{}1{}}}", "[".repeat(200_000), "]".repeat(200_000)));
    place.write("heads.json", TINY.replace("\"n_head\":4", "\"n_head\":5"));
    place.write("layers.json", TINY.replace("\"n_layer\":2", "\"n_layer\":1000000000000000000"));
    place.write("zero.json", TINY.replace("\"n_layer\":2", "\"n_layer\":0"));
    place.write("negative.json", TINY.replace("\"n_embd\":64", "\"n_embd\":-64"));
    place.write("fraction.json", TINY.replace("\"n_embd\":64", "\"n_embd\":64.5"));
    place.write("type.json", TINY.replace("gpt2", "gpt5"));
    place.write("bytes.json", [0xff, 0xfe]);
    File::create(place.path().join("large.json")).unwrap().set_len(1 << 30).unwrap();
    fs::create_dir(place.path().join("folder")).unwrap();
    for (model, field, says) in [
        ("gpt2-xll", "model", "gpt2-xl"),
        ("./missing.json", "model", "missing.json"),
        ("folder", "model", "no config.json"),
        ("prose.json", "model", "not JSON"),
        ("cut.json", "model", "not JSON"),
        ("deep.json", "model", "not JSON"),
        ("bytes.json", "model", "UTF-8"),
        ("large.json", "model", "1.00 GiB"),
        ("heads.json", "n_embd", "5"),
        ("layers.json", "n_layer", "1000000000000000000"),
        ("zero.json", "n_layer", "0"),
        ("negative.json", "n_embd", "-64"),
        ("fraction.json", "n_embd", "64.5"),
        ("type.json", "model_type", "gpt5"),
    ] {
        let line = format!("simulate {model} {SIMULATE} --out plan.json --timeline trace.json");
        fails(&place, &line, 3, "input", field, says);
    }
    let line = |rest: &str| format!("simulate tiny.json {rest} --strategy dp=2 --out plan.json");
    for (rest, field, says) in [
        ("--cluster 1x2xh1000", "device", "h100-sxm"),
        ("--cluster 1x2xa100", "device", "a100-sxm-80gb"),
        ("--cluster nowhere", "cluster", "neither"),
        ("--cluster nowhere.json", "cluster", "nowhere.json"),
        ("--cluster prose.json", "cluster", "schema"),
        ("--cluster cut.json", "cluster", "ends"),
        ("--cluster deep.json", "cluster", "schema"),
        ("--cluster large.json", "cluster", "larger"),
        ("--cluster 1x2xcpu --seq-len 256", "seq-len", "learned positions for 128"),
        ("--cluster 1x2xcpu --freeze block9*", "freeze", "matches no layer"),
        ("--cluster 1x2xcpu --freeze *", "freeze", "nothing to train"),
    ] {
        fails(&place, &line(rest), 3, "input", field, says);
    }
}

#[test]
fn plans_that_cannot_be_trusted_are_input_errors() {
    let place = Place::new();
    place.write("tiny.json", TINY);
    assert_eq!(place.line(&format!("simulate tiny.json {SIMULATE} --out plan.json")).code, 0);
    let plan = place.read("plan.json");
    place.write("later.json", plan.replacen("\"version\": 3", "\"version\": 4", 1));
    place.write("changed.json", plan.replacen("\"fits\": true", "\"fits\": false", 1));
    place.write("more.json", plan.replacen('{', "{\"more\": 1,", 1));
    place.write("cut.json", &plan[..plan.len() / 2]);
    place.write("deep.json", "[".repeat(200_000));
    place.write("list.json", "[]");
    File::create(place.path().join("large.json")).unwrap().set_len(1 << 30).unwrap();
    fs::create_dir(place.path().join("folder")).unwrap();
    for (name, field, says) in [
        ("later.json", "version", "version 4"),
        ("changed.json", "digest", "changed after it was written"),
        ("more.json", "plan", "more"),
        ("cut.json", "plan", "not JSON"),
        ("deep.json", "plan", "not JSON"),
        ("list.json", "plan", "version"),
        ("tiny.json", "plan", "version"),
        ("large.json", "plan", "larger"),
        ("folder", "plan", "directory"),
        ("missing.json", "plan", "missing.json"),
    ] {
        fails(&place, &format!("report {name} --out page.html"), 3, "input", field, says);
    }
}

#[test]
fn illegal_strategies_name_what_is_legal() {
    let place = Place::new();
    for (strategy, field, says) in [
        ("tp=3", "tp", "2 devices"),
        ("dp=4", "dp", "not 2"),
        ("tp=2,dp=2", "dp", "not 2"),
        ("micro=3", "micro", "2 and 4"),
        ("pp=1000000000000000000", "pp", "2 devices"),
        ("pp=2,cuts=1/1", "cuts", "12"),
        ("ep=2", "ep", "no experts"),
    ] {
        let line = format!(
            "simulate gpt2 --cluster 1x2xh100-sxm --global-batch 8 --strategy {strategy} --out plan.json"
        );
        fails(&place, &line, 4, "illegal", field, says);
    }
    let fixed = "plan gpt2 --cluster 1x2xh100-sxm --global-batch 8 --fix tp=3 --out plan.json";
    fails(&place, fixed, 4, "illegal", "tp", "2 devices");
}

#[test]
fn fixed_choices_that_contradict_each_other_or_the_model_are_illegal() {
    let place = Place::new();
    place.write("tiny.json", TINY);
    let line = |fix: &str| {
        format!(
            "plan tiny.json --cluster 1x4xh100-sxm --global-batch 8 --seq-len 64 --fix {fix} --out plan.json"
        )
    };
    // Two blocks: other cuts, and other chunks than there are cuts, modes or fractions for, break a rule each.
    for fix in [
        "pp=2,cuts=2/1",
        "pp=2,cuts=1",
        "pp=2,cuts=1/1/0",
        "pp=1,ckpt=full/none",
        "pp=2,offload=optimizer:1/0/0",
    ] {
        let run = place.line(&line(fix));
        assert_eq!(run.code, 4, "{fix}\n{}", run.stderr);
        assert!(
            run.stderr.starts_with("error: ") && !run.stderr.contains("panicked"),
            "{fix}\n{}",
            run.stderr
        );
    }
    // What fits some pipelines is planned on these.
    for (fix, stages) in [("cuts=1/1", 2), ("ckpt=full/none", 2), ("offload=optimizer:1/0", 2)] {
        let run = place.line(&format!("{} --json", line(fix)));
        assert_eq!(run.code, 0, "{fix}\n{}", run.stderr);
        assert_eq!(run.json()["strategy"]["pipeline_parallel"], json!(stages), "{fix}");
    }
}

#[test]
fn what_fits_nowhere_is_infeasible() {
    let place = Place::new();
    let line = "plan llama-2-7b --cluster 1x1xrtx-4090 --global-batch 4 --seq-len 512 --memory-limit 1GiB \
                --out plan.json --report page.html";
    fails(&place, line, 4, "infeasible", "memory-limit", "smallest peak");
}

#[test]
fn outputs_that_cannot_be_written_are_said_before_the_work() {
    let place = Place::new();
    fs::create_dir(place.path().join("folder")).unwrap();
    place.write("file", "");
    for path in ["missing/plan.json", "folder", "file/plan.json"] {
        for flag in ["out", "report", "timeline"] {
            // The model would be an input error: the output comes first.
            let line = format!("simulate no-model {SIMULATE} --{flag} {path}");
            fails(&place, &line, 5, "output", flag, "cannot write");
        }
    }
}

#[cfg(unix)]
#[test]
fn a_second_output_that_fails_leaves_the_first_unwritten() {
    let place = Place::new();
    let run = place.line(&format!("simulate gpt2 {SIMULATE} --out plan.json --report /dev/full"));
    assert_eq!((run.code, run.stdout.as_str()), (5, ""));
    assert!(run.stderr.contains("cannot write `/dev/full`"), "{}", run.stderr);
    assert_eq!(place.names(), [""; 0]);
}

/// Words that mean something to the program, and some that do not.
#[rustfmt::skip]
const SOUP: &[&str] = &[
    "plan", "simulate", "report", "models", "clusters", "completions", "tiny.json", "gpt2", "missing.json",
    "", "--cluster", "1x2xh100-sxm", "1x1xcpu", "2x2xcpu", "0x0x", "--strategy", "tp=2", "pp=2,sched=1f1b",
    "zero=3", "micro=2,accum=2", "ckpt=full", "cuts=1/1", "offload=optimizer:0.5", "sched=zb-v,pp=2",
    "tp=,", "=", "--global-batch", "4", "8", "-1", "0.5", "1e18", "18446744073709551616", "--seq-len",
    "64", "16777216", "NaN", "--precision", "fp8", "fp32", "--dropout", "0.1", "--clip", "--freeze",
    "*mlp", "?", "--engine", "megatron", "torchtitan", "--fix", "--free", "grad,reduce", "--memory-limit",
    "1GiB", "--objective", "memory", "--top", "--out", "out.json", "/", "--report", "page.html",
    "--timeline", "--json", "--help", "--version", "--", "-x", "bash", "ünïcode", "\u{202e}", "\n",
];

#[test]
fn no_soup_of_arguments_panics() {
    let place = Place::new();
    place.write("tiny.json", TINY);
    let mut runner = TestRunner::new_with_rng(
        Config { cases: 200, failure_persistence: None, ..Config::default() },
        TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]),
    );
    let word = || prop::sample::select(SOUP);
    let command = prop::sample::select(&["plan", "simulate"][..]);
    let wild = prop::collection::vec(word(), 0..12).boxed();
    // Beginnings that often parse, so that what follows is reached.
    let tame = (command, prop::collection::vec(word(), 0..6))
        .prop_map(|(command, rest)| {
            let mut line = vec![command, "tiny.json", "--cluster", "1x2xh100-sxm", "--global-batch", "8"];
            if command == "simulate" {
                line.extend(["--strategy", "dp=2"]);
            }
            line.extend(rest);
            line
        })
        .boxed();
    let line = prop_oneof![wild, tame];
    runner
        .run(&line, |line| {
            let run = place.run(&line);
            prop_assert!([0, 2, 3, 4, 5].contains(&run.code), "{} for {:?}", run.code, line);
            prop_assert!(!run.stderr.contains("panicked"), "{:?}: {}", line, run.stderr);
            Ok(())
        })
        .unwrap();
}

/// Items of strategy texts.
#[rustfmt::skip]
const ITEMS: &[&str] = &[
    "tp=1", "tp=2", "tp=4", "cp=2", "cp_kind=ulysses", "pp=2", "pp=4", "dp=1", "dp=2", "dp=4", "sp=off",
    "ep=2", "sched=gpipe", "sched=interleaved", "sched=zb-h1", "sched=zb-h2", "sched=zb-v", "virtual=1",
    "virtual=2", "cuts=2/0", "cuts=0/2", "zero=1", "zero=2", "zero=3", "shard=2", "reshard=off", "micro=2",
    "micro=8", "accum=1", "accum=8", "sync=immediate", "sync=scatter", "sync=deferred", "ckpt=full",
    "ckpt=full:1", "ckpt=selective", "offload=optimizer:1", "offload=params:0.5",
    "offload=activations:0.3+optimizer:0.2", "overlap=off", "compress=8bit", "compress=4bit",
    "loss=chunked", "attention=materialised", "bucket=1K", "grad=bf16", "reduce=fp32", "order=pp-dp-cp-tp",
    "order=tp-cp-replica-pp-shard",
];

const ENGINES: &[&str] = &["embedded", "megatron", "torchtitan", "deepspeed", "colossalai"];
const PRECISIONS: &[&str] = &["bf16", "fp16", "fp32", "fp64", "fp8"];

#[test]
fn no_strategy_panics() {
    let place = Place::new();
    place.write("tiny.json", TINY);
    let mut runner = TestRunner::new_with_rng(
        Config { cases: 150, failure_persistence: None, ..Config::default() },
        TestRng::from_seed(RngAlgorithm::ChaCha, &[8; 32]),
    );
    let strategy = prop::sample::subsequence(ITEMS, 0..7).prop_map(|items| items.join(","));
    let case = (strategy, prop::sample::select(ENGINES), prop::sample::select(PRECISIONS));
    runner
        .run(&case, |(strategy, engine, precision)| {
            let line = format!(
                "simulate tiny.json --cluster 1x4xh100-sxm --global-batch 16 --engine {engine} --precision \
                 {precision} --json --strategy"
            );
            let run = place.run(line.split_whitespace().chain([strategy.as_str()]));
            prop_assert!([0, 2, 4].contains(&run.code), "{} for {}\n{}", run.code, strategy, run.stderr);
            prop_assert!(!run.stderr.contains("panicked"), "{}: {}", strategy, run.stderr);
            run.json();
            Ok(())
        })
        .unwrap();
}
