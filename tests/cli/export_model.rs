//! What an export says of the model, what an engine refuses, and where a better plan stands in a script of one's own.

use serde_json::Value;

use crate::place::Place;

/// A place with `plan.json`, of `strategy` under `engine`.
fn planned(model: &str, cluster: &str, engine: &str, strategy: &str) -> Place {
    let place = Place::new();
    let run = place.run([
        "simulate",
        model,
        "--cluster",
        cluster,
        "--global-batch",
        "256",
        "--seq-len",
        "4096",
        "--engine",
        engine,
        "--strategy",
        strategy,
        "--out",
        "plan.json",
    ]);
    assert!(matches!(run.code, 0 | 4), "{}", run.stderr);
    assert!(place.path().join("plan.json").exists(), "{}", run.stderr);
    place
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The JSON of the export of `plan.json` to `target`, and its exit code.
fn exported(place: &Place, target: &str) -> (i32, Value) {
    let run =
        place.run(["export", "plan.json", "--to", target, "--out", "run", "--as-is", "--force", "--json"]);
    (run.code, json(&run.stdout))
}

#[test]
fn arguments_of_deepseek_v3_make_deepseek_v3() {
    let strategy = "pp=8,cuts=7/8/8/8/8/8/8/6,ep=32,zero=1,micro=1,ckpt=full";
    let place = planned("deepseek-v3", "32x8xh100-sxm", "megatron", strategy);
    let (code, summary) = exported(&place, "megatron");
    assert_eq!((code, &summary["differences"]), (0, &serde_json::json!([])));
    let text = place.read("run/arguments.sh");
    for argument in [
        "--rotary-base 10000",
        "--rope-type yarn",
        "--rotary-scaling-factor 40",
        "--norm-epsilon 1e-6",
        "--moe-router-score-function sigmoid",
        "--moe-router-num-groups 8",
        "--moe-router-group-topk 4",
        "--moe-router-topk-scaling-factor 2.5",
        "--moe-router-enable-expert-bias",
        "--qk-layernorm",
    ] {
        assert!(text.contains(argument), "{argument} in {text}");
    }
    // What is read back is the same model: its constants travel to the next engine.
    let cluster = ["--cluster", "32x8xh100-sxm"];
    let from = ["simulate", "--from", "run/arguments.sh", "--out", "back.json"];
    let run = place.run(from.iter().chain(&cluster).copied());
    assert!(matches!(run.code, 0 | 4), "{}", run.stderr);
    let run = place.run(["export", "back.json", "--to", "megatron", "--out", "again", "--as-is"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let lines = |text: String| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(lines(place.read("again/arguments.sh")), lines(text));
}

#[test]
fn multi_token_prediction_has_layers_of_its_own() {
    let place = Place::new();
    let simulate =
        ["simulate", "deepseek-v3", "--mtp", "--cluster", "32x8xh100-sxm", "--global-batch", "256"];
    let strategy =
        ["--engine", "megatron", "--strategy", "pp=8,ep=32,zero=1,ckpt=full", "--out", "plan.json"];
    place.run(simulate.iter().chain(&strategy).copied());
    assert_eq!(exported(&place, "megatron").0, 0);
    let text = place.read("run/arguments.sh");
    assert!(text.contains("--num-layers 61\n") && text.contains("--mtp-num-layers 1\n"), "{text}");
    assert!(text.contains("mL'"), "{text}");
}

#[test]
fn what_an_engine_builds_otherwise_is_said_with_both_values() {
    let place = planned("gemma-2-9b", "1x8xh100-sxm", "megatron", "zero=1");
    let run = place.run(["export", "plan.json", "--to", "megatron", "--out", "run", "--as-is"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(!run.stdout.contains("All "), "{}", run.stdout);
    assert!(run.stdout.contains("not said  head.soft_cap is on in the plan, and off as"), "{}", run.stdout);
    assert!(
        run.stdout.contains("Warning: the model that megatron@0.20 builds is not the plan's"),
        "{}",
        run.stdout
    );
    assert!(place.read("run/arguments.sh").contains("--window-size 4095,0\n"));
    assert!(place.read("run/README.md").contains("- head.soft_cap is on in the plan"));
    let (_, summary) = exported(&place, "megatron");
    let differs = |field: &str| {
        let list = summary["differences"].as_array().unwrap();
        list.iter().any(|difference| difference["field"] == field)
    };
    assert!(differs("attention.soft_cap") && differs("constants.embedding_scale") && !differs("windows"));
    let checked =
        place.run(["export", "plan.json", "--to", "megatron", "--out", "other", "--as-is", "--check"]);
    assert_eq!(checked.code, 4, "{}", checked.stdout);
    assert!(!place.path().join("other").exists());
}

#[test]
fn a_model_of_known_sizes_and_other_constants_is_another_model() {
    let config = |theta: &str| {
        format!(
            r#"{{"model_type":"llama","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,
            "num_key_value_heads":8,"intermediate_size":14336,"vocab_size":128256,"max_position_embeddings":8192,
            "rms_norm_eps":1e-5,"rope_theta":{theta}}}"#
        )
    };
    for (engine, file) in [("torchtitan", "planned_model.py"), ("maxtext", "arguments.sh")] {
        let place = Place::new();
        place.write("config.json", config("1234567"));
        let run = place.run([
            "simulate",
            "./config.json",
            "--cluster",
            "1x8xh100-sxm",
            "--engine",
            engine,
            "--strategy",
            "zero=3,ckpt=full",
            "--out",
            "plan.json",
        ]);
        assert!(matches!(run.code, 0 | 4), "{}", run.stderr);
        let (code, summary) = exported(&place, engine);
        assert_eq!(code, 0, "{summary}");
        assert!(place.read(&format!("run/{file}")).contains("1234567"), "{engine}");
        assert_eq!(summary["warnings"], serde_json::json!([]), "{engine}");
    }
}

#[test]
fn nemo_starts_as_it_is_priced() {
    let place = planned("llama-3.1-8b", "1x8xh100-sxm", "nemo", "cp=2,zero=1");
    assert_eq!(exported(&place, "nemo").0, 0);
    let script = place.read("run/run.sh");
    assert!(script.contains("--factory \"${RECIPE:-llama31_8b(performance_mode=True)}\""), "{script}");
    let text = place.read("run/overrides.sh");
    for field in ["rotary_base=500000", "layernorm_epsilon=0.00001", "scale_factor=8.0", "vocab_size=128256"]
    {
        assert!(text.contains(&format!("model.config.{field}\n")), "{field}: {text}");
    }
    let place = planned("mixtral-8x7b", "1x8xh100-sxm", "nemo", "ep=8,zero=1");
    let (_, summary) = exported(&place, "nemo");
    assert!(place.read("run/run.sh").contains("${RECIPE:-mixtral_8x7b}"));
    assert!(summary["unsaid"].to_string().contains("drops tokens"), "{summary}");
}

#[test]
fn what_an_engine_refuses_is_neither_planned_nor_written() {
    let place = Place::new();
    let simulate = |model: &str, engine: &str, strategy: &str| {
        let run = place.run([
            "simulate",
            model,
            "--cluster",
            "1x8xh100-sxm",
            "--engine",
            engine,
            "--strategy",
            strategy,
            "--out",
            "plan.json",
            "--json",
        ]);
        (run.code, json(&run.stdout))
    };
    let (code, document) = simulate("llama-3.2-1b", "torchtitan", "pp=2,zero=3");
    assert_eq!((code, &document["error"]["field"]), (4, &Value::from("pp")));
    let message = document["error"]["message"].as_str().unwrap();
    assert!(message.contains("tied embeddings"), "{message}");
    for strategy in ["tp=2,ep=4,sp=off,zero=1", "tp=2,sp=off,zero=1"] {
        let (code, document) = simulate("mixtral-8x7b", "megatron", strategy);
        assert_eq!((code, &document["error"]["nearest"]), (4, &serde_json::json!(["on"])), "{strategy}");
    }
    let plan = place.run([
        "plan",
        "llama-3.2-1b",
        "--cluster",
        "1x8xh100-sxm",
        "--engine",
        "torchtitan",
        "--export",
        "own",
    ]);
    assert_eq!(plan.code, 0, "{}", plan.stderr);
    // No capability knows that this model has no pipeline in this version.
    let (code, _) = simulate("qwen3-8b", "torchtitan", "pp=2,zero=3");
    assert!(matches!(code, 0 | 4));
    let (code, document) = exported(&place, "torchtitan@v0.2.2");
    assert_eq!((code, &document["error"]["field"]), (4, &Value::from("check")));
    assert!(!place.path().join("run").exists());
    assert_eq!(exported(&place, "torchtitan@v0.3.0").0, 0);
}

const TAIL: &str = "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 \
                    --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 128 --bf16";

/// Scripts as people have them, none of which says the vocabulary.
fn scripts() -> Vec<(&'static str, String)> {
    vec![
        (
            "line",
            format!("torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 8 {TAIL}\n"),
        ),
        (
            "srun",
            format!("srun --ntasks 8 python -u pretrain_gpt.py --tensor-model-parallel-size 8 {TAIL}\n"),
        ),
        (
            "module",
            format!(
                "python -m torch.distributed.run --nproc_per_node 8 \\\n  --nnodes 1 \\\n  pretrain_gpt.py \\\n  \
                 --tensor-model-parallel-size 8 \\\n  {TAIL}\n"
            ),
        ),
        (
            "string",
            format!(
                "ARGS=\"\n  --tensor-model-parallel-size 8\n  {TAIL}\n\"\n\
                 torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py $ARGS\n"
            ),
        ),
        (
            "arrays",
            format!(
                "MODEL=(\n  {TAIL}\n)\nPARALLEL=(\n  --tensor-model-parallel-size 8\n)\n\
                 DISTRIBUTED=(\n  --nproc_per_node 8\n  --nnodes 1\n)\n\
                 torchrun ${{DISTRIBUTED[@]}} pretrain_gpt.py ${{MODEL[@]}} ${{PARALLEL[@]}}\n"
            ),
        ),
    ]
}

#[test]
fn new_arguments_go_to_the_program_and_not_to_what_starts_it() {
    for (name, text) in scripts() {
        let place = Place::new();
        place.write("train.sh", &text);
        let from = ["llama-2-7b", "--cluster", "1x8xh100-sxm", "--from", "train.sh", "--json"];
        let run = place.run(["explain"].iter().chain(&from).copied());
        assert_eq!(run.code, 0, "{name}: {}{}", run.stdout, run.stderr);
        let explained = json(&run.stdout);
        let unified = explained["file"]["unified"].as_str().unwrap_or_else(|| panic!("{name}: no diff"));
        // Stubs of what starts it and of the program print what each is given.
        place.write("better.diff", unified);
        let patched = std::process::Command::new("patch")
            .args(["-s", "train.sh", "better.diff"])
            .current_dir(place.path())
            .status();
        if !patched.is_ok_and(|status| status.success()) {
            return;
        }
        for stub in ["torchrun", "srun", "python"] {
            place.write(stub, "#!/bin/sh\nprintf '%s\\n' \"$@\"\n");
            let stub = place.path().join(stub);
            std::process::Command::new("chmod").arg("+x").arg(stub).status().unwrap();
        }
        let path = format!("{}:{}", place.path().display(), std::env::var("PATH").unwrap());
        let script = std::process::Command::new("bash")
            .arg("train.sh")
            .env("PATH", path)
            .current_dir(place.path())
            .output()
            .unwrap();
        let given = String::from_utf8(script.stdout).unwrap();
        let (launcher, program) =
            given.split_once("pretrain_gpt.py\n").unwrap_or_else(|| panic!("{name}: {given}"));
        for line in explained["file"]["lines"].as_array().unwrap() {
            let argument = format!("--{}\n", line["setting"].as_str().unwrap());
            assert!(!launcher.contains(&argument), "{name}: {argument} before the program: {given}");
            if !line["to"].is_null() {
                assert!(program.contains(&argument), "{name}: no {argument} in {given}");
            }
        }
        let better = place.run(["simulate"].iter().chain(&from).copied());
        assert_eq!(json(&better.stdout)["strategy"]["text"], explained["best"]["strategy"]["text"], "{name}");
    }
}

#[test]
fn scripts_that_megatron_refuses_are_refused() {
    let base = format!("torchrun --nproc_per_node 8 pretrain_gpt.py {TAIL} --vocab-size 32000");
    for (more, wanted) in [
        ("--decoder-last-pipeline-num-layers 1", "decoder-last-pipeline-num-layers"),
        ("--decoder-first-pipeline-num-layers 4", "decoder-first-pipeline-num-layers"),
        ("--num-virtual-stages-per-pipeline-rank 4", "pipeline ranks"),
        ("--tensor-model-parallel-size 2 --tp-comm-overlap", "--sequence-parallel"),
        ("--num-experts 8 --moe-router-topk 1", "--moe-router-pre-softmax"),
        ("--num-experts 8 --moe-router-enable-expert-bias", "sigmoid"),
        ("--num-experts 8 --moe-router-group-topk 2", "--moe-router-num-groups"),
    ] {
        let place = Place::new();
        place.write("train.sh", format!("{base} {more}\n"));
        let arguments =
            ["simulate", "mixtral-8x7b", "--cluster", "1x8xh100-sxm", "--from", "train.sh", "--json"];
        let run = place.run(arguments);
        assert_eq!(run.code, 3, "{more}: {}", run.stdout);
        let message = json(&run.stdout)["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(wanted), "{more}: {message}");
    }
}

#[test]
fn a_value_in_the_place_of_a_section_is_told_so() {
    for (file, text, path) in [
        (
            "a.json",
            r#"{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3, "offload_param": false}}"#,
            "offload_param",
        ),
        (
            "b.json",
            r#"{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}, "bf16": true}"#,
            "bf16",
        ),
        (
            "c.toml",
            "parallelism = 2\n[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nseq_len = 2048\n",
            "parallelism",
        ),
    ] {
        let place = Place::new();
        place.write(file, text);
        let run = place.run([
            "simulate",
            "llama-3.1-8b",
            "--cluster",
            "1x8xh100-sxm",
            "--global-batch",
            "8",
            "--seq-len",
            "2048",
            "--from",
            file,
            "--json",
        ]);
        assert_eq!(run.code, 3, "{file}: {}", run.stdout);
        let error = json(&run.stdout)["error"].clone();
        assert!(error["field"].as_str().unwrap().ends_with(path), "{error}");
        assert!(error["message"].as_str().unwrap().contains("its settings are needed here"), "{error}");
    }
}
