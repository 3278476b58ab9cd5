//! What works, but not as its user may think, is said: in JSON, as text and on the page.

use serde_json::{Value, json};

use crate::place::Place;

const LLAMA: &str = r#"{"model_type":"llama","hidden_size":64,"intermediate_size":128,"num_hidden_layers":2,
    "num_attention_heads":4,"num_key_value_heads":2,"vocab_size":512,"max_position_embeddings":128,
    "hidden_act":"silu","rms_norm_eps":1e-5,"rope_theta":10000.0,"tie_word_embeddings":false}"#;

fn warnings(document: &Value) -> Vec<String> {
    let list = document["warnings"].as_array().into_iter().flatten();
    list.map(|warning| warning.as_str().unwrap().to_owned()).collect()
}

/// The document of `line`, which warns of `says`.
fn warns(place: &Place, line: &str, says: &str) -> Value {
    let run = place.line(&format!("{line} --json"));
    assert!([0, 4].contains(&run.code), "{line}\n{}", run.stderr);
    let document = run.json();
    let found = warnings(&document);
    assert!(found.iter().any(|warning| warning.contains(says)), "{line}\n{found:?}");
    document
}

#[test]
fn a_precision_that_the_device_emulates_is_said_everywhere() {
    let place = Place::new();
    let line = "simulate gpt2 --cluster 1x8xv100-sxm-32gb --global-batch 8 --engine megatron --strategy dp=8";
    warns(&place, line, "v100-sxm-32gb has no units for bf16");
    warns(&place, line, "--precision fp16");
    let text = place.line(&format!("{line} --report page.html")).stdout;
    assert!(text.contains("warning") && text.contains("no units for bf16"), "{text}");
    assert!(place.read("page.html").contains("no units for bf16"));
    let other = place.line(&format!("{line} --precision fp16 --json"));
    assert_eq!(warnings(&other.json()), [""; 0]);
}

#[test]
fn nodes_larger_than_boards_are_said_with_their_link() {
    let place = Place::new();
    let line = |cluster: &str| {
        format!("simulate gpt2 --cluster {cluster} --global-batch 144 --engine megatron --strategy micro=1")
    };
    warns(&place, &line("1x16xh100-sxm"), "built 8 to a node");
    warns(&place, &line("1x16xh100-sxm"), "2x8xh100-sxm");
    for cluster in ["1x72xgb200", "18x4xgb200", "2x8xh100-sxm"] {
        let run = place.line(&format!("{} --json", line(cluster)));
        assert_eq!(warnings(&run.json()), [""; 0], "{cluster}");
    }
}

#[test]
fn host_memory_that_does_not_hold_its_processes_is_said() {
    let place = Place::new();
    let cluster = |device: &str, memory: &str| {
        json!({ "version": 1, "name": "lab", "device": device, "nodes": 1, "devices_per_node": 4,
                "host": { "memory": memory } })
        .to_string()
    };
    place.write("gpus.json", cluster("h100-sxm", "8GiB"));
    place.write("cores.json", cluster("cpu", "64MiB"));
    let line = |name: &str| {
        format!(
            "simulate gpt2 --cluster {name} --global-batch 4 --seq-len 64 --strategy zero=1,offload=optimizer:0.5"
        )
    };
    let gpus = warns(&place, &line("gpus.json"), "the processes of its 4 ranks");
    assert_eq!(gpus["prediction"]["fits"], json!(false), "nothing is left for what is offloaded");
    warns(&place, &line("cores.json"), "its memory is 64.0 MiB");
}

#[test]
fn sequences_beyond_the_positions_of_a_model_are_said_or_refused() {
    let place = Place::new();
    place.write("llama.json", LLAMA);
    warns(
        &place,
        "simulate llama.json --cluster 1x2xcpu --global-batch 4 --seq-len 256 --precision fp32 --strategy dp=2",
        "longer than the 128",
    );
    let made = place.line(
        "simulate llama.json --cluster 1x2xcpu --global-batch 4 --seq-len 16 --precision fp32 --strategy dp=2 --out \
         plan.json",
    );
    assert_eq!(made.code, 0, "{}", made.stderr);
    warns(&place, "execute plan.json --seq-len 256 --dry-run", "longer than the 128");
    let text = place.line("execute plan.json --seq-len 256 --steps 1").stdout;
    assert!(text.contains("longer than the 128"), "{text}");
    let run = place.line("execute --seq-len 512 --json");
    assert_eq!((run.code, &run.json()["error"]["nearest"]), (3, &json!(["256"])));
}

#[test]
fn keys_without_effect_count_as_their_default_and_are_said() {
    let place = Place::new();
    let simulate = "simulate gpt2 --cluster 1x1xh100-sxm --global-batch 8 --seq-len 64 --strategy";
    let plain = place.line(&format!("{simulate} zero=0 --json")).json();
    for zero in ["zero=1", "zero=2", "zero=3", "zero=3,reshard=off,sync=immediate"] {
        let document = warns(&place, &format!("{simulate} {zero}"), "ZeRO shards nothing");
        for field in ["strategy", "prediction"] {
            assert_eq!(document[field], plain[field], "{zero}");
        }
    }
    let plan = "plan gpt2 --cluster 1x1xh100-sxm --global-batch 8 --seq-len 64";
    let fixed = warns(&place, &format!("{plan} --fix zero=1"), "zero=1 has no effect here and counts as 0");
    assert_eq!(fixed["strategy"]["zero_stage"], json!(0));
    let two = "plan gpt2 --cluster 1x2xh100-sxm --global-batch 8 --seq-len 64 --fix zero=1,dp=2";
    let two = place.line(&format!("{two} --json")).json();
    assert_eq!((&two["strategy"]["zero_stage"], warnings(&two)), (&json!(1), Vec::new()));
}

#[test]
fn free_keys_that_open_no_choice_are_said() {
    let place = Place::new();
    let line = |rest: &str| format!("plan gpt2 --cluster 1x2xh100-sxm --global-batch 8 --seq-len 64 {rest}");
    for (rest, says) in [
        ("--free tp", "--free tp changes nothing: a search varies it anyway"),
        ("--free overlap", "--free overlap changes nothing: a search leaves it"),
        ("--free compress --engine megatron", "--free compress changes nothing: megatron"),
        ("--free capacity", "--free capacity changes nothing: the model has no experts"),
        ("--free grad --precision fp32", "--free grad changes nothing: under fp32"),
        ("--free grad --engine deepspeed", "--free grad changes nothing: deepspeed does that in bf16"),
    ] {
        warns(&place, &line(rest), says);
    }
    let run = place.line(&line("--free grad,compress --json"));
    assert_eq!(warnings(&run.json()), [""; 0], "these the embedded engine can vary");
}

#[test]
fn a_cluster_without_any_strategy_is_named_with_those_that_have_one() {
    let place = Place::new();
    let run = place.line("plan gpt2 --cluster 125x8xh100-sxm --json");
    assert_eq!(run.code, 4, "{}", run.stderr);
    let error = &run.json()["error"];
    assert_eq!((&error["field"], &error["value"]), (&json!("cluster"), &json!("125x8xh100-sxm")));
    assert!(run.stderr.contains("1000 devices") && run.stderr.contains("512 sequences"), "{}", run.stderr);
    let near = error["nearest"][0].as_str().unwrap();
    let small = format!("simulate gpt2 --cluster {near} --strategy tp=2 --json");
    assert_ne!(place.line(&small).json()["error"]["field"], json!("cluster"));
}

#[test]
fn the_layers_of_a_model_are_listed() {
    let place = Place::new();
    let text = place.line("models gpt2").stdout;
    assert!(text.contains("block {0..11} attention") && text.contains("124,439,808"), "{text}");
    let document = place.line("models gpt2 --json").json();
    let names = document["names"].as_array().unwrap();
    assert_eq!((names.len(), &names[1]), (27, &json!("block 0 attention")));
    let groups = document["groups"].as_array().unwrap();
    let sum: u64 = groups.iter().map(|group| group["parameters"].as_u64().unwrap()).sum();
    assert_eq!(json!(sum), document["parameters"]);
    assert_eq!(groups[0]["tensors"][0], json!({ "role": "tokens", "shape": [50257, 768] }));
    // What is listed can be frozen.
    for group in groups {
        let name = group["name"].as_str().unwrap().replace("{0..11}", "*");
        let run = place.run([
            "simulate",
            "gpt2",
            "--cluster",
            "1x2xh100-sxm",
            "--global-batch",
            "8",
            "--strategy",
            "dp=2",
            "--freeze",
            name.as_str(),
        ]);
        assert_eq!(run.code, 0, "{name}: {}", run.stderr);
    }
}

#[test]
fn a_folder_without_traces_says_what_was_looked_for_and_what_would_do() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("models")).unwrap();
    place.write("models/a.json", r#"{"version": 1}"#);
    let failed = place.line("validate models --json");
    assert_eq!(failed.code, 3, "{}", failed.stderr);
    assert!(failed.stderr.contains("holds no trace: of 1 .json files none is one"), "{}", failed.stderr);
    assert!(failed.stderr.contains("execute --trace"), "{}", failed.stderr);
    let published = concat!(env!("CARGO_MANIFEST_DIR"), "/traces/publishd");
    let failed = place.run(["validate", published, "--json"]);
    let nearest = failed.json()["error"]["nearest"][0].as_str().unwrap().to_owned();
    assert!(nearest.ends_with("traces/published"), "{nearest}");
}
