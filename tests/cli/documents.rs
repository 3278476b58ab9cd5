//! The documents that `plan` and `simulate` print and write keep what is documented.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use crate::place::{Place, Run};
use serde_json::Value;

const SIMULATE: &str = "simulate gpt2 --cluster 1x2xh100-sxm --global-batch 8 --seq-len 256";
const PLAN: &str = "plan gpt2 --cluster 1x2xh100-sxm --global-batch 8 --seq-len 256";
/// Small, and with several plans that are nearly as good.
const SMALL: &str = "gpt2 --cluster 1x4xrtx-4090 --global-batch 64";

/// Fields of every plan document, as `docs/reference/plan-json.md` lists them.
const FIELDS: &[&str] = &[
    "/version",
    "/engine",
    "/cost_model/name",
    "/cost_model/hash",
    "/cost_model/origin",
    "/model/name",
    "/model/parameters",
    "/model/layers",
    "/cluster/devices",
    "/cluster/nodes",
    "/cluster/device",
    "/workload/global_batch",
    "/workload/seq_len",
    "/workload/precision",
    "/workload/dropout",
    "/workload/clip",
    "/strategy/text",
    "/strategy/tensor_parallel",
    "/strategy/sequence_parallel",
    "/strategy/context_parallel",
    "/strategy/expert_parallel",
    "/strategy/pipeline_parallel",
    "/strategy/virtual_stages",
    "/strategy/stage_layers",
    "/strategy/schedule",
    "/strategy/data_parallel",
    "/strategy/zero_stage",
    "/strategy/shard_group",
    "/strategy/reshard_after_forward",
    "/strategy/micro_batch",
    "/strategy/accumulation",
    "/strategy/gradient_sync",
    "/strategy/checkpointing",
    "/strategy/offload",
    "/strategy/compression",
    "/strategy/mesh_order",
    "/prediction/step_time_s",
    "/prediction/tokens_per_s_per_device",
    "/prediction/interval/step_time_s/1",
    "/prediction/interval/peak_memory_bytes/1",
    "/prediction/fits",
    "/prediction/mfu",
    "/prediction/peak_memory_bytes",
    "/prediction/safe_memory_bytes/allocated",
    "/prediction/safe_memory_bytes/reserved",
    "/prediction/safe_memory_bytes/process",
    "/prediction/host_memory_bytes",
    "/prediction/communication_hidden_s",
    "/prediction/ranks/0",
    "/verdict",
    "/digest",
];

/// Fields that only a search knows.
const SEARCHED: &[&str] = &[
    "/search/considered",
    "/search/illegal",
    "/search/out_of_memory",
    "/search/bounded",
    "/search/priced",
    "/search/played",
    "/search/proven_optimal",
    "/search/gap",
    "/search/held",
    "/search/inner_choices_log10",
    "/search/wall_time_s",
    "/search/axes/tp",
    "/alternatives/0/strategy/text",
    "/alternatives/0/prediction/step_time_s",
    "/alternatives/0/trades",
    "/ladder/0/strategy/text",
    "/ladder/0/prediction/step_time_s",
    "/ladder/0/changed",
];

fn number(value: &Value, pointer: &str) -> f64 {
    value.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("{pointer} in {value}"))
}

/// The sum of `names` under `pointer`, which holds nothing else.
fn sum(value: &Value, pointer: &str, names: &[&str]) -> f64 {
    assert_eq!(value.pointer(pointer).unwrap().as_object().unwrap().len(), names.len(), "{pointer}");
    names.iter().map(|name| number(value, &format!("{pointer}/{name}"))).sum()
}

/// That the parts of time and memory sum to the whole, for the prediction and every rank in it.
fn adds_up(prediction: &Value) {
    let mut parts = vec![prediction];
    parts.extend(prediction["ranks"].as_array().unwrap());
    for part in parts {
        let causes = ["compute", "recompute", "communication_exposed", "copy_exposed", "bubble", "optimizer"];
        let step = number(prediction, "/step_time_s");
        let time = sum(part, "/time_s", &causes);
        assert!(time <= step * (1.0 + 1e-9), "{time} of {step}");
        if std::ptr::eq(part, prediction) {
            assert!((time - step).abs() <= 1e-9 * step, "{time} is not {step}");
        }
        let categories =
            ["parameters", "gradients", "optimizer", "activations", "logits", "buffers", "overhead"];
        assert_eq!(sum(part, "/memory_bytes", &categories), number(part, "/peak_memory_bytes"));
    }
}

#[test]
fn simulate_prints_every_field_of_the_contract() {
    let place = Place::new();
    for strategy in ["tp=2", "pp=2,ckpt=full", "zero=3,offload=optimizer:0.5"] {
        let Run { code, stdout, stderr } = place.line(&format!("{SIMULATE} --strategy {strategy} --json"));
        assert_eq!((code, stderr.as_str()), (0, ""), "{strategy}");
        let plan: Value = serde_json::from_str(&stdout).unwrap();
        for pointer in FIELDS {
            assert!(plan.pointer(pointer).is_some(), "{pointer} is missing");
        }
        adds_up(&plan["prediction"]);
        assert_eq!(plan["model"]["parameters"], 124_439_808);
        assert_eq!(plan["cluster"]["devices"], 2);
        assert_eq!(plan["workload"]["precision"], "bf16");
        // What is printed parses back to itself.
        let text = plan["strategy"]["text"].as_str().unwrap();
        let again = place.line(&format!("{SIMULATE} --strategy {text} --json")).json();
        assert_eq!(again, plan);
    }
}

#[test]
fn plan_prints_every_field_of_the_contract() {
    let place = Place::new();
    let Run { code, stdout, stderr } = place.line(&format!("plan {SMALL} --json"));
    assert_eq!((code, stderr.as_str()), (0, ""));
    let plan: Value = serde_json::from_str(&stdout).unwrap();
    for pointer in FIELDS.iter().chain(SEARCHED) {
        assert!(plan.pointer(pointer).is_some(), "{pointer} is missing");
    }
    adds_up(&plan["prediction"]);
    let list = |name: &str| plan[name].as_array().unwrap();
    assert!(list("alternatives").len() <= 5);
    for shown in list("alternatives").iter().chain(list("ladder")) {
        adds_up(&shown["prediction"]);
    }
    assert_eq!(plan["prediction"]["fits"], true);
    let count = |name: &str| plan["search"][name].as_u64().unwrap();
    let fates = count("illegal") + count("out_of_memory") + count("bounded") + count("priced");
    assert_eq!(count("considered"), fates);
    assert!(count("played") <= count("priced"));
}

#[test]
fn the_best_is_no_slower_than_what_a_person_would_try() {
    let place = Place::new();
    let plan = place.line(&format!("plan {SMALL} --json")).json();
    let best = number(&plan, "/prediction/step_time_s");
    for strategy in ["dp=4", "dp=4,micro=4", "zero=1,micro=16", "tp=2,zero=1", "zero=3,ckpt=full"] {
        let simple = place.line(&format!("simulate {SMALL} --strategy {strategy} --json"));
        let time = number(&simple.json(), "/prediction/step_time_s");
        assert!(simple.code == 4 || best <= time * (1.0 + 1e-12), "{strategy}: {time} beats {best}");
    }
}

#[test]
fn a_search_holds_what_is_fixed_and_shows_as_many_as_asked() {
    let place = Place::new();
    let plan = place.line(&format!("{PLAN} --fix tp=2,micro=2 --top 1 --json")).json();
    assert_eq!(plan["strategy"]["tensor_parallel"], 2);
    assert_eq!(plan["strategy"]["micro_batch"], 2);
    assert!(plan.get("alternatives").is_none_or(|list| list.as_array().unwrap().len() <= 1));
    let leanest = place.line(&format!("{PLAN} --objective memory --json")).json();
    let fastest = place.line(&format!("{PLAN} --json")).json();
    let peak = |plan: &Value| number(plan, "/prediction/peak_memory_bytes");
    assert!(peak(&leanest) <= peak(&fastest));
}

#[test]
fn the_workload_reaches_the_document() {
    let place = Place::new();
    let plan = place
        .line(
            "simulate gpt2 --cluster 1x2xh100-sxm --strategy dp=2 --precision fp32 --dropout 0.1 --clip 0 \
             --engine megatron --freeze embedding --json",
        )
        .json();
    assert_eq!(plan["workload"]["global_batch"], 512);
    assert_eq!(plan["workload"]["seq_len"], 1024, "the model's maximum is below 4096");
    assert_eq!(plan["workload"]["precision"], "fp32");
    assert_eq!(plan["workload"]["dropout"], 0.1);
    assert_eq!(plan["workload"]["clip"], 0.0);
    assert_eq!(plan["engine"], "megatron");
    assert_eq!(plan["model"]["graph"]["layers"][0]["frozen"], true);
}

#[test]
fn longer_sequences_than_a_rotary_model_names_are_warned_of() {
    let place = Place::new();
    let config = r#"{"model_type":"llama","hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,
        "num_key_value_heads":4,"intermediate_size":128,"vocab_size":512,"max_position_embeddings":128,
        "hidden_act":"silu","tie_word_embeddings":false}"#;
    place.write("rotary.json", config);
    let line = "simulate rotary.json --cluster 1x1xh100-sxm --global-batch 2 --strategy dp=1 --json";
    assert_eq!(place.line(line).json()["workload"]["seq_len"], 128);
    let run = place.line(&format!("{line} --seq-len 256"));
    let warning = run.json()["warnings"][0].as_str().unwrap().to_owned();
    assert!(run.code == 0 && warning.contains("256 tokens") && warning.contains("128"), "{warning}");
}

#[test]
fn a_legal_strategy_that_does_not_fit_is_shown_whole() {
    let place = Place::new();
    let line = "simulate llama-2-7b --cluster 1x2xrtx-4090 --global-batch 4 --seq-len 512 --strategy dp=2";
    let run = place.line(&format!("{line} --json --out plan.json"));
    let plan = run.json();
    assert_eq!((run.code, &plan["prediction"]["fits"]), (4, &Value::Bool(false)));
    assert_eq!(run.stdout, place.read("plan.json"));
    adds_up(&plan["prediction"]);
    let text = place.line(line);
    assert_eq!(text.code, 4);
    assert!(text.stdout.contains("Does not fit"), "{}", text.stdout);
}

#[test]
fn the_last_line_says_what_binds() {
    let place = Place::new();
    let plan = place.line(&format!("{SIMULATE} --strategy tp=2 --json")).json();
    let text = place.line(&format!("{SIMULATE} --strategy tp=2")).stdout;
    let end: String = text.lines().rev().take(3).collect::<Vec<_>>().into_iter().rev().collect();
    let last = plan["verdict"].as_str().unwrap().rsplit(' ').next().unwrap();
    assert!(end.trim_end().ends_with(last), "{text}");
    assert!(!text.contains('\u{1b}'), "colour only on a terminal");
}

#[test]
fn plans_make_pages_again() {
    let place = Place::new();
    let run = place.line(&format!("{PLAN} --out plan.json --report page.html --json"));
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.stdout, place.read("plan.json"));
    let again = place.line("report plan.json --out again.html");
    assert_eq!((again.code, again.stdout.as_str(), again.stderr.as_str()), (0, "", ""));
    assert_eq!(place.read("again.html"), place.read("page.html"));
    assert!(place.read("page.html").to_lowercase().starts_with("<!doctype html>"));
    assert_eq!(place.line("report plan.json --out again.html --json").json()["report"], "again.html");
    assert_eq!(place.names(), ["again.html", "page.html", "plan.json"]);
}

/// Bytes of all categories of `memory`.
fn held(memory: &Value) -> u64 {
    memory.as_object().unwrap().values().map(|bytes| bytes.as_u64().unwrap()).sum()
}

#[test]
fn memory_over_time_peaks_at_what_is_printed() {
    let place = Place::new();
    // With and without buffers that are placed, and with memory beside the program's.
    for (engine, strategies) in [
        ("embedded", ["dp=2,zero=1", "pp=2,micro=1", "tp=2,micro=2"]),
        ("megatron", ["dp=2,zero=1", "pp=2,micro=1", "tp=2,micro=2"]),
        ("torchtitan", ["dp=2,zero=3", "dp=2,zero=0,micro=1", "tp=2,micro=2"]),
        ("deepspeed", ["dp=2,zero=1", "dp=2,zero=3", "dp=2,zero=2,offload=optimizer:1"]),
    ] {
        for strategy in strategies {
            let what = format!("{engine}, {strategy}");
            let run = place.line(&format!("{SIMULATE} --engine {engine} --strategy {strategy} --json"));
            assert_eq!(run.code, 0, "{what}: {}", run.stderr);
            let plan = run.json();
            let (prediction, curve) = (&plan["prediction"], &plan["memory_over_time"]);
            let moments = curve["moments"].as_array().unwrap();
            assert!(moments.len() > 4 && moments.len() <= 400, "{what}: {}", moments.len());
            let fullest = moments
                .iter()
                .map(|moment| &moment["memory_bytes"])
                .reduce(|full, memory| if held(memory) > held(full) { memory } else { full });
            assert_eq!(fullest, Some(&prediction["memory_bytes"]), "{what}");
            assert_eq!(fullest.map(held), prediction["peak_memory_bytes"].as_u64(), "{what}");
            let stage = curve["stage"].as_u64().unwrap() as usize;
            assert_eq!(
                prediction["ranks"][stage]["peak_memory_bytes"], prediction["peak_memory_bytes"],
                "{what}"
            );
            // The step gives back what it takes.
            let (first, last) = (&moments[0], &moments[moments.len() - 1]);
            assert_eq!(first["memory_bytes"], last["memory_bytes"], "{what}");
            assert_eq!(first["at_s"].as_f64(), Some(0.0), "{what}");
            let end = prediction["ranks"][stage]["step_time_s"].as_f64().unwrap();
            assert!((last["at_s"].as_f64().unwrap() - end).abs() < 1e-7, "{what}");
        }
    }
}

#[test]
fn plans_written_before_memory_over_time_was_make_pages() {
    let place = Place::new();
    assert_eq!(place.line(&format!("{SIMULATE} --strategy pp=2 --out plan.json --report page.html")).code, 0);
    let mut plan: meshwright::plan::Plan = serde_json::from_str(&place.read("plan.json")).unwrap();
    plan.memory_over_time = None;
    plan.digest = meshwright::plan::digest(&plan);
    let text = serde_json::to_string(&plan).unwrap();
    assert!(!text.contains("memory_over_time"));
    place.write("older.json", text);
    let run = place.line("report older.json --out older.html");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let drawn = "Memory of the rank of stage 0 over a step";
    assert!(place.read("page.html").contains(drawn) && !place.read("older.html").contains(drawn));
}

#[test]
fn timelines_are_trace_events() {
    let place = Place::new();
    let run = place.line(&format!("{SIMULATE} --strategy pp=2 --timeline trace.json --json"));
    let trace: Value = serde_json::from_str(&place.read("trace.json")).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let passes: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
    assert_eq!(passes.len(), run.json()["timeline"].as_array().unwrap().len());
    let step = number(&run.json(), "/prediction/step_time_s") * 1e6;
    for event in &passes {
        assert!(number(event, "/ts") + number(event, "/dur") <= step + 1.0);
    }
    let count = |name: &str| passes.iter().filter(|event| event["cat"] == name).count();
    assert_eq!((count("forward"), count("backward"), count("step")), (16, 16, 2));
    assert!(events.iter().any(|event| event["ph"] == "M" && event["args"]["name"] == "stage 1"));
}

#[cfg(unix)]
#[test]
fn new_files_have_the_usual_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    place.line(&format!("{SIMULATE} --strategy tp=2 --out plan.json"));
    place.write("other", "");
    let mode = |name: &str| fs::metadata(place.path().join(name)).unwrap().permissions().mode();
    assert_eq!(mode("plan.json"), mode("other"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_meshwright"));
    command.args(SIMULATE.split(' ')).args(["--strategy", "pp=2", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((child.wait().unwrap().code(), said.as_str()), (Some(0), ""));
}
