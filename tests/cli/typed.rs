//! What people type for models, clusters, devices, counts and strategies is understood, or the answer names what was
//! meant.

use serde_json::Value;

use crate::place::Place;

/// Arguments of a run that is legal with any of the names below in their places.
fn simulate(model: &str, cluster: &str, rest: &[&str]) -> Vec<String> {
    let line = ["simulate", model, "--cluster", cluster, "--engine", "megatron", "--json"];
    line.iter().chain(rest).map(|part| (*part).to_owned()).collect()
}

/// The document, whether it fits or not.
fn understood(arguments: &[String]) -> Value {
    let run = Place::new().run(arguments);
    assert!([0, 4].contains(&run.code), "{arguments:?}: {}", run.stderr);
    run.json()
}

/// The error with its code; each of what it names can be put in its place.
fn refused(arguments: &[String], code: i32) -> Value {
    let run = Place::new().run(arguments);
    assert_eq!(run.code, code, "{arguments:?}: {}", run.stderr);
    run.json()["error"].clone()
}

fn nearest(error: &Value) -> Vec<&str> {
    error["nearest"].as_array().unwrap().iter().map(|near| near.as_str().unwrap()).collect()
}

#[test]
fn clusters_are_understood_without_nodes_and_in_any_case() {
    for (typed, nodes, devices, device) in [
        ("8xh100-sxm", 1, 8, "h100-sxm"),
        ("1x8xH100-SXM", 1, 8, "h100-sxm"),
        ("1X8XH100", 1, 8, "h100-sxm"),
        ("16xH100", 2, 16, "h100-sxm"),
        ("1x8xa100-80gb", 1, 8, "a100-sxm-80gb"),
        ("1x8xA100-SXM4-40GB", 1, 8, "a100-sxm-40gb"),
        ("1x8xNVIDIA H100 80GB HBM3", 1, 8, "h100-sxm"),
        ("2 x 8 x H100 SXM5 80GB", 2, 16, "h100-sxm"),
        ("4x4090", 1, 4, "rtx-4090"),
        ("1x2xrtx3090", 1, 2, "rtx-3090"),
        ("1x8xMI300X", 1, 8, "mi300x"),
        ("1x8xb200", 1, 8, "b200-sxm"),
        ("1x8xa800", 1, 8, "a800-sxm-80gb"),
        ("1x4xTesla V100-SXM2-32GB", 1, 4, "v100-sxm-32gb"),
    ] {
        let document = understood(&simulate("gpt2", typed, &["--strategy", "zero=1"]));
        let cluster = &document["cluster"];
        assert_eq!((&cluster["nodes"], &cluster["devices"]), (&nodes.into(), &devices.into()), "{typed}");
        assert_eq!(cluster["device"], device, "{typed}");
        // What was not typed is said, unless only the case differs.
        let says = document["warnings"].to_string().contains(&format!("Cluster `{typed}` is read as"));
        let is_same = typed.to_lowercase() == cluster["name"].as_str().unwrap();
        assert_eq!(says, !is_same, "{typed}: {}", document["warnings"]);
    }
}

#[test]
fn devices_of_several_sizes_are_not_guessed() {
    for (typed, family) in [("1x8xa100", "a100-"), ("1x8xv100", "v100-"), ("1x8xa100-64gb", "a100-")] {
        let error = refused(&simulate("gpt2", typed, &["--strategy", "zero=1"]), 3);
        assert!(nearest(&error).iter().all(|near| near.starts_with(family)), "{error}");
        assert!(nearest(&error).len() > 1, "{error}");
        for near in nearest(&error) {
            understood(&simulate("gpt2", &format!("1x8x{near}"), &["--strategy", "zero=1"]));
        }
    }
    for typed in ["12xh100-sxm", "h100-sxm", "H100:8", "h100 x 8"] {
        let error = refused(&simulate("gpt2", typed, &["--strategy", "zero=1"]), 3);
        assert!(!nearest(&error).is_empty(), "{error}");
        for near in nearest(&error) {
            understood(&simulate("gpt2", near, &["--strategy", "zero=1", "--global-batch", "48"]));
        }
    }
    let error = refused(&simulate("gpt2", "1x8xtpu-v5p", &["--strategy", "zero=1"]), 3);
    assert!(
        nearest(&error).is_empty() && error["message"].as_str().unwrap().contains("meshwright clusters"),
        "{error}"
    );
}

#[test]
fn models_are_understood_as_hubs_call_them() {
    for (typed, name) in [
        ("Llama-3.1-8B", "llama-3.1-8b"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("meta-llama/Llama-2-7b-hf", "llama-2-7b"),
        ("Qwen/Qwen3-8B", "qwen3-8b"),
        ("GPT2", "gpt2"),
    ] {
        let document = understood(&simulate(typed, "1x8xh100-sxm", &["--strategy", "zero=1"]));
        assert_eq!(document["model"]["name"], name, "{typed}");
    }
    for (typed, near) in
        [("llama3-8b", "llama-3.1-8b"), ("LLaMA 3 70B", "llama-3.1-70b"), ("qwen2-7b", "qwen2.5-7b")]
    {
        let error = refused(&simulate(typed, "1x8xh100-sxm", &["--strategy", "zero=1"]), 3);
        assert_eq!(nearest(&error)[0], near, "{error}");
    }
    // A folder of the name goes before a preset that is spelled otherwise.
    let place = Place::new();
    std::fs::create_dir(place.path().join("Llama-3.1-8B")).unwrap();
    let run = place.line("simulate Llama-3.1-8B --cluster 1x1xcpu --strategy tp=1");
    assert!(run.code == 3 && run.stderr.contains("config.json"), "{}", run.stderr);
}

#[test]
fn counts_have_units() {
    let workload = |rest: &[&str]| {
        let rest = [rest, &["--strategy", "zero=1,ckpt=full"]].concat();
        understood(&simulate("llama-3.1-8b", "1x8xh100-sxm", &rest))["workload"].clone()
    };
    for (typed, tokens) in
        [("128k", 131_072), ("128K", 131_072), ("32Ki", 32_768), ("8,192", 8_192), ("4_096", 4_096)]
    {
        assert_eq!(workload(&["--seq-len", typed, "--global-batch", "8"])["seq_len"], tokens, "{typed}");
    }
    assert_eq!(workload(&["--seq-len", "1k", "--global-batch", "1Ki"])["global_batch"], 1024);
    assert_eq!(workload(&["--precision", "BFloat16", "--global-batch", "8"])["precision"], "bf16");
    // People write 1k for both.
    let error =
        refused(&simulate("gpt2", "1x8xh100-sxm", &["--strategy", "zero=1", "--global-batch", "1k"]), 2);
    assert_eq!(nearest(&error), ["1000", "1024"]);
    for typed in ["128kb", "k", "1.5", "1,28", "-1k", "128 k tokens"] {
        refused(&simulate("gpt2", "1x8xh100-sxm", &["--strategy", "zero=1", "--seq-len", typed]), 2);
    }
    let place = Place::new();
    let run = place.line("execute --steps 1k --dry-run --no-calibrate");
    assert_eq!(run.code, 0, "{}", run.stderr);
}

#[test]
fn keys_of_other_tools_are_answered_with_ours() {
    for (typed, near, also) in [
        ("fsdp=2", "zero=3", "zero=2"),
        ("fsdp", "zero=3", "SHARD_GRAD_OP"),
        ("fsdp2=8", "zero=3", "shard=8"),
        ("hsdp=8", "zero=3,shard=8", "shard"),
        ("ddp=8", "dp=8,zero=0", "zero=0"),
        ("sharding=stage2", "zero=2", "stage"),
        ("zero_stage=3", "zero=3", "zero"),
        ("mbs=4", "micro=4", "--global-batch"),
        ("bs=4", "micro=4", "--global-batch"),
        ("ga=2", "accum=2", "accum"),
        ("grad_accum=2", "accum=2", "accum"),
        ("tp_size=8", "tp=8", "tp"),
        ("gradient_checkpointing=true", "ckpt=full", "ckpt"),
        ("ac=selective", "ckpt=selective", "ckpt"),
        ("gbs=64", "--global-batch 64", "flag"),
    ] {
        let error = refused(&simulate("gpt2", "1x8xh100-sxm", &["--strategy", typed]), 2);
        assert_eq!(nearest(&error)[0], near, "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(near) && message.contains(also), "{error}");
        if !near.starts_with("--") {
            let run = Place::new().run(simulate("gpt2", "1x8xh100-sxm", &["--strategy", near]));
            assert_ne!(run.code, 2, "{near}: {}", run.stderr);
        }
    }
}

#[test]
fn engines_are_known_by_other_names() {
    let place = Place::new();
    for (typed, name) in
        [("Megatron", "megatron"), ("TorchTitan", "torchtitan"), ("megatron-core", "megatron")]
    {
        let line = format!("simulate gpt2 --cluster 1x8xh100-sxm --strategy micro=1 --engine {typed} --json");
        assert_eq!(place.line(&line).json()["engine"], name);
    }
    let run = place.line("simulate gpt2 --cluster 1x8xh100-sxm --strategy zero=1 --engine fsdp --json");
    assert_eq!((run.code, nearest(&run.json()["error"])), (2, vec!["torchtitan"]));
}

/// Sisters of devices with runs: all is theirs but what the datasheet says, and nothing claims to be measured on them.
#[test]
fn the_a800_and_h800_are_their_sisters_with_slower_links() {
    let place = Place::new();
    let step = |device: &str, strategy: &str| {
        let line = format!(
            "simulate llama-2-7b --cluster 1x8x{device} --strategy {strategy} --engine deepspeed --global-batch 8 \
             --seq-len 2048 --json"
        );
        let run = place.line(&line);
        assert_eq!(run.code, 0, "{}", run.stderr);
        run.json()["prediction"]["step_time_s"].as_f64().unwrap()
    };
    for (sister, device) in [("a100-sxm-80gb", "a800-sxm-80gb"), ("h100-sxm", "h800-sxm")] {
        let strategy = "zero=3,ckpt=full";
        assert!(step(device, strategy) > step(sister, strategy), "{device} has the slower links");
    }
    let list = place.line("clusters --json").json();
    for device in list["devices"].as_array().unwrap() {
        let name = device["name"].as_str().unwrap();
        if name.starts_with("a800") || name.starts_with("h800") {
            let evidence = &device["evidence"];
            // What runs fix of the chip is fitted to those of the sister too; the links are nobody's measurement.
            assert!(evidence["measured"].is_null(), "{name}: {evidence}");
        }
    }
}
