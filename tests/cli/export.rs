//! `export`, `plan --export`, `simulate --from` and `explain --from`, as users run them.

use std::process::Command;

use serde_json::Value;

use crate::place::Place;

const STRATEGY: &str = "tp=2,pp=2,dp=2,zero=3,micro=1,accum=32,sync=deferred,ckpt=full";

/// A place with the plan of a strategy for an engine.
fn planned(engine: &str, strategy: &str) -> Place {
    let place = Place::new();
    let run = place.run([
        "simulate",
        "llama-3.1-8b",
        "--cluster",
        "1x8xh100-sxm",
        "--global-batch",
        "64",
        "--engine",
        engine,
        "--strategy",
        strategy,
        "--out",
        "plan.json",
    ]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    place
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn what_is_exported_simulates_to_the_same_prediction() {
    for (engine, file) in [("torchtitan", "train.toml"), ("megatron", "arguments.sh")] {
        let strategy = if engine == "megatron" { "tp=2,pp=2,dp=2,zero=1,micro=1,accum=32" } else { STRATEGY };
        let place = planned(engine, strategy);
        let run = place.run([
            "export",
            "plan.json",
            "--to",
            engine,
            "--out",
            "run",
            "--as-is",
            "--check",
            "--json",
        ]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let exported = json(&run.stdout);
        assert_eq!(exported["origin"], "as_planned");
        assert_eq!(exported["strategy"], strategy);
        let names: Vec<String> = exported["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap().to_owned())
            .collect();
        for wanted in [file, "README.md", "environment.sh", "run.sh", "run.slurm", "run.mpirun.sh"] {
            assert!(names.iter().any(|name| name == wanted), "{wanted} of {names:?}");
        }
        let back =
            place.run(["simulate", "--cluster", "1x8xh100-sxm", "--from", &format!("run/{file}"), "--json"]);
        assert_eq!(back.code, 0, "{}", back.stderr);
        let (plan, back) = (json(&place.read("plan.json")), json(&back.stdout));
        assert_eq!(back["strategy"]["text"], plan["strategy"]["text"]);
        assert_eq!(back["workload"], plan["workload"]);
        assert_eq!(back["prediction"]["step_time_s"], plan["prediction"]["step_time_s"]);
        assert_eq!(back["prediction"]["memory_bytes"], plan["prediction"]["memory_bytes"]);
    }
}

#[test]
fn a_schedule_without_a_name_is_a_file() {
    let strategy = "tp=1,pp=4,dp=2,sched=zb-h1,zero=3,reshard=off,micro=1,accum=32,sync=deferred,ckpt=full";
    let place = planned("torchtitan", strategy);
    let run = place.run(["export", "plan.json", "--to", "torchtitan", "--out", "run", "--as-is", "--json"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    assert!(place.read("run/train.toml").contains("pipeline_parallel_schedule_csv = \"schedule.csv\""));
    let csv = place.read("run/schedule.csv");
    assert_eq!(csv.lines().map(|row| row.split(',').count()).collect::<Vec<_>>(), [96; 4]);
    let simulate = || {
        let run = place.run(["simulate", "--cluster", "1x8xh100-sxm", "--from", "run/train.toml", "--json"]);
        (run.code, json(&run.stdout))
    };
    let (code, back) = simulate();
    assert_eq!((code, &back["strategy"]["text"]), (0, &Value::from(strategy)));
    for (text, wanted) in [
        (csv.replace("2I1,", "2W30,"), "rank 2 differs first at place"),
        (csv[..csv.len() / 2].to_owned(), "4 pipeline ranks"),
        ("(((((".to_owned(), "is no pass"),
        (String::new(), "0 rows"),
    ] {
        place.write("run/schedule.csv", &text);
        let (code, document) = simulate();
        let error = &document["error"];
        assert_eq!((code, &error["field"]), (3, &Value::from("parallelism.pipeline_parallel_schedule_csv")));
        assert!(error["message"].as_str().unwrap().contains(wanted), "{error}");
    }
    std::fs::remove_file(place.path().join("run/schedule.csv")).unwrap();
    assert_eq!(simulate().0, 3);
}

#[test]
fn an_engine_reads_the_files_of_the_one_it_inherits_from() {
    let place = planned("megatron", "tp=2,pp=2,dp=2,zero=1,micro=1,accum=32");
    assert_eq!(place.run(["export", "plan.json", "--to", "megatron", "--out", "run"]).code, 0);
    let simulate = |engine: &str| {
        let from = ["--from", "run/arguments.sh", "--engine", engine, "--json"];
        place.run(["simulate", "--cluster", "1x8xh100-sxm"].iter().chain(&from).copied())
    };
    let (own, kin) = (json(&simulate("megatron").stdout), json(&simulate("nemo").stdout));
    assert_eq!((own["engine"].as_str(), kin["engine"].as_str()), (Some("megatron"), Some("nemo")));
    assert_eq!(own["strategy"]["text"], kin["strategy"]["text"]);
    assert_ne!(own["prediction"]["step_time_s"], kin["prediction"]["step_time_s"]);
    let other = simulate("torchtitan");
    assert_eq!(other.code, 3, "{}", other.stdout);
    assert!(other.stderr.contains("it has no settings of torchtitan"), "{}", other.stderr);
}

#[test]
fn scripts_are_scripts() {
    let place = planned("torchtitan", &format!("{STRATEGY},order=tp-cp-pp-dp"));
    assert_eq!(place.run(["export", "plan.json", "--to", "torchtitan", "--out", "run"]).code, 0);
    for script in ["run.sh", "run.slurm", "run.mpirun.sh", "environment.sh"] {
        let status =
            Command::new("bash").arg("-n").arg(place.path().join("run").join(script)).status().unwrap();
        assert!(status.success(), "{script}");
    }
    // Pipeline ranks are neighbours in the plan, data ranks are in the engine.
    assert_eq!(place.read("run/ranks.txt"), "0\n1\n4\n5\n2\n3\n6\n7\n");
    let back = place.run(["simulate", "--cluster", "1x8xh100-sxm", "--from", "run/train.toml", "--json"]);
    assert!(json(&back.stdout)["strategy"]["text"].as_str().unwrap().ends_with("order=tp-cp-pp-dp"));
    // What a process sees: torchrun is a program of ours here, which prints its arguments.
    place.write("torchrun", "#!/bin/sh\necho \"$@\"\n");
    place.write("python", "#!/bin/sh\necho rank $RANK of $WORLD_SIZE on $LOCAL_RANK: \"$@\"\n");
    for name in ["torchrun", "python"] {
        Command::new("chmod").arg("+x").arg(place.path().join(name)).status().unwrap();
    }
    let path = format!("{}:{}", place.path().display(), std::env::var("PATH").unwrap());
    let run = Command::new(place.path().join("run/run.sh")).env("PATH", path).output().unwrap();
    let mut lines: Vec<String> = String::from_utf8(run.stdout).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines.len(), 8, "{lines:?}");
    assert_eq!(lines[2], "rank 2 of 8 on 4: -m torchtitan.train --job.config_file train.toml");
}

#[test]
fn another_engine_gets_another_plan_or_a_refusal() {
    let place = planned("torchtitan", STRATEGY);
    let run = place.run(["export", "plan.json", "--to", "megatron", "--out", "run", "--as-is", "--json"]);
    assert_eq!(run.code, 4);
    assert_eq!(json(&run.stdout)["error"]["field"], "zero");
    assert!(!place.path().join("run").exists());
    let run = place.run(["export", "plan.json", "--to", "megatron", "--out", "run", "--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let exported = json(&run.stdout);
    assert_eq!(exported["origin"], "planned_anew");
    assert!(exported["reason"].as_str().unwrap().contains("zero"));
    let readme = place.read("run/README.md");
    assert!(readme.contains("## Planned anew") && readme.contains("| zero | 3 |"), "{readme}");
}

#[test]
fn what_has_no_word_is_rounded_and_priced() {
    let place = planned("torchtitan", "tp=2,zero=3,sp=off,loss=chunked");
    let run = place.run(["export", "plan.json", "--to", "torchtitan", "--out", "run", "--as-is"]);
    assert_eq!(run.code, 4);
    let run = place.run(["export", "plan.json", "--to", "torchtitan@0.2.2", "--out", "run", "--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let exported = json(&run.stdout);
    assert_eq!(exported["origin"], "rounded");
    assert_eq!(exported["changes"], serde_json::json!([["sp", "off", "on"], ["loss", "chunked", "full"]]));
    assert_ne!(exported["planned"]["step_time_s"], exported["prediction"]["step_time_s"]);
    assert!(place.read("run/README.md").contains("| sp | off | on |"));
}

#[test]
fn one_command_plans_and_exports() {
    let place = Place::new();
    let run = place.run([
        "plan",
        "llama-3.1-8b",
        "--cluster",
        "1x8xh100-sxm",
        "--engine",
        "torchtitan",
        "--export",
        "run",
    ]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    // In a version that has words for it, whatever the plan is.
    assert!(run.stdout.contains("as planned"), "{}", run.stdout);
    assert!(place.read("run/README.md").contains("llama-3.1-8b"));
    for (loss, file, says) in [
        ("full", "whole/train.toml", "flavor = \"8B\""),
        ("chunked", "parts/planned.py", "ChunkedLossWrapper"),
    ] {
        let folder = file.split('/').next().unwrap();
        let line = format!(
            "plan llama-3.1-8b --cluster 1x8xh100-sxm --engine torchtitan --fix loss={loss} --export {folder}"
        );
        let run = place.line(&line);
        assert!(run.stdout.contains("as planned"), "{line}: {}", run.stdout);
        assert!(place.read(file).contains(says), "{line}");
    }
    let refused =
        place.run(["plan", "gpt2", "--cluster", "1x2xcpu", "--engine", "embedded", "--export", "other"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("embedded"), "{}", refused.stderr);
}

#[test]
fn folders_and_targets_that_will_not_do() {
    let place = planned("torchtitan", STRATEGY);
    let error = |arguments: &[&str]| {
        let all: Vec<&str> =
            ["export", "plan.json"].iter().chain(arguments).chain(&["--json"]).copied().collect();
        let run = place.run(all);
        let document = json(&run.stdout);
        (
            run.code,
            document["error"]["field"].as_str().unwrap_or_default().to_owned(),
            document["error"].clone(),
        )
    };
    let (code, field, whole) = error(&["--to", "torchtitn", "--out", "run"]);
    assert_eq!((code, field.as_str(), &whole["nearest"][0]), (2, "to", &Value::from("torchtitan")));
    let (code, _, whole) = error(&["--to", "torchtitan@9.9", "--out", "run"]);
    assert_eq!((code, &whole["nearest"][0]), (2, &Value::from("torchtitan@v0.2.2")));
    place.write("file", "");
    assert_eq!(error(&["--to", "torchtitan", "--out", "file"]).0, 5);
    assert_eq!(error(&["--to", "torchtitan", "--out", "missing/run"]).0, 5);
    assert_eq!(place.run(["export", "plan.json", "--to", "torchtitan", "--out", "run"]).code, 0);
    assert_eq!(error(&["--to", "torchtitan", "--out", "run"]).0, 5);
    assert_eq!(place.run(["export", "plan.json", "--to", "torchtitan", "--out", "run", "--force"]).code, 0);
    assert_eq!(place.run(["export", "missing.json", "--to", "torchtitan", "--out", "other"]).code, 3);
    assert!(!place.path().join("other").exists());
}

#[test]
fn a_better_plan_is_a_diff_of_the_file() {
    let place = Place::new();
    let file = "# my run\n[model]\nname = \"llama3\"\nflavor = \"8B\"\n\n[training]\nlocal_batch_size = 1\n\
                global_batch_size = 128\nseq_len = 4096\n\n[parallelism]\ntensor_parallel_degree = 4  # as the wiki says\n\n\
                [activation_checkpoint]\nmode = \"full\"\n";
    place.write("train.toml", file);
    let run = place.run(["explain", "--cluster", "1x8xh100-sxm", "--from", "train.toml", "--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let explained = json(&run.stdout);
    let diff = &explained["file"];
    let unified = diff["unified"].as_str().unwrap();
    assert!(
        unified.contains("-mode = \"full\"") && unified.contains("+tensor_parallel_degree = "),
        "{unified}"
    );
    assert!(unified.contains("# as the wiki says"), "the rest of a line stays: {unified}");
    for line in diff["lines"].as_array().unwrap() {
        assert!(!line["buys"].as_str().unwrap().is_empty(), "{line}");
    }
    // The diff is one that `patch` takes, and what it makes means the best plan.
    place.write("better.diff", unified);
    let status =
        Command::new("patch").args(["-s", "train.toml", "better.diff"]).current_dir(place.path()).status();
    if status.is_ok_and(|status| status.success()) {
        let better = place.run(["simulate", "--cluster", "1x8xh100-sxm", "--from", "train.toml", "--json"]);
        assert_eq!(json(&better.stdout)["strategy"]["text"], explained["best"]["strategy"]["text"]);
    }
}

#[test]
fn files_that_will_not_do() {
    let place = Place::new();
    let cases: &[(&str, &str, &[&str], &str)] = &[
        ("none.toml", "", &[], "no settings of"),
        ("cut.toml", "[model\n", &[], "line 1"),
        ("cut.json", "{\"train_batch_size\": 8,", &[], "line 1"),
        ("deep.yaml", &format!("a: {}1{}", "[".repeat(99), "]".repeat(99)), &[], "nested deeper"),
        ("unknown.toml", "[server]\nport = 1\n", &[], "no settings of"),
        (
            "run.sh",
            "--tensor-model-parallel-size 2 --micro-batch-size 1 --num-layers $N",
            &["llama-3.1-8b"],
            "--env N=VALUE",
        ),
        ("bare.sh", "--tensor-model-parallel-size 2 --micro-batch-size 1", &[], "MODEL"),
        (
            "length.sh",
            "--tensor-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 8",
            &["llama-3.1-8b"],
            "--seq-len",
        ),
        ("quote.sh", "--micro-batch-size 1 --title \"open", &["llama-3.1-8b"], "not closed"),
    ];
    for (name, text, more, wanted) in cases {
        place.write(name, text);
        let mut arguments = vec!["simulate"];
        arguments.extend(*more);
        arguments.extend(["--cluster", "1x8xh100-sxm", "--from", name, "--json"]);
        let run = place.run(arguments);
        assert_eq!(run.code, 3, "{name}: {}{}", run.stdout, run.stderr);
        let message = json(&run.stdout)["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(wanted), "{name}: {message}");
    }
    assert_eq!(place.run(["simulate", "--cluster", "1x8xh100-sxm", "--from", "."]).code, 3);
    assert_eq!(place.run(["simulate", "--cluster", "1x8xh100-sxm", "--from", "nowhere.toml"]).code, 3);
    assert_eq!(place.run(["simulate", "gpt2", "--cluster", "1x1xh100-sxm"]).code, 2);
    assert_eq!(
        place
            .run(["simulate", "gpt2", "--cluster", "1x1xh100-sxm", "--strategy", "tp=1", "--from", "a.toml"])
            .code,
        3
    );
}

#[test]
fn what_matters_and_is_not_understood_is_named() {
    let place = Place::new();
    place.write(
        "train.toml",
        "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 1\nseq_len = 2048\n[metrics]\n\
         log_freq = 1\n[parallelism]\nsome_new_switch = true\n[activation_checkpoint]\nmode = \"none\"\n",
    );
    let run = place.run(["simulate", "--cluster", "1x8xh100-sxm", "--from", "train.toml", "--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let document = json(&run.stdout);
    let warnings: Vec<&str> =
        document["warnings"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(
        warnings.iter().any(|warning| warning.contains("Line 10: `parallelism.some_new_switch` may matter"))
    );
    assert!(!warnings.iter().any(|warning| warning.contains("log_freq")), "{warnings:?}");
}
