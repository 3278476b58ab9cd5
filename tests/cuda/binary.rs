//! The program itself on a GPU: `execute --device cuda`, traced and not, and `--slice`.

use std::fs;

use serde_json::{Value, json};

use crate::place::{Place, Run};
use crate::small::{DENSE, EXPERTS, executed, planned, rows};

fn numbers(document: &Value, field: &str) -> Vec<f64> {
    document[field].as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// Steps that are traced and steps that are not train alike, and as cores do.
#[test]
fn every_other_step_is_traced() {
    let place = Place::with_gpus();
    planned(&place, DENSE, 4, 8, "tp=2,zero=3,micro=2,offload=optimizer:0.5");
    let (_, cores) = executed(&place, "--steps 5 --lr 1e-2");
    let (report, gpu) = executed(&place, "--steps 5 --lr 1e-2 --device cuda --share-device");
    assert!(gpu["machine"]["gpu"].is_string(), "{}", gpu["machine"]);
    for (found, expected) in numbers(&gpu, "losses").iter().zip(numbers(&cores, "losses")) {
        assert!((found - expected).abs() < 2e-4 * expected, "{found}, not {expected}");
    }
    // The median of the steps that are not traced, but for the first of them, which makes graphs: the fourth step.
    let steps = numbers(&gpu, "step_times_s");
    let measured = gpu["step_time_s"]["measured"].as_f64().unwrap();
    assert_eq!((steps.len(), measured), (5, steps[3]));
    assert_eq!(report["memory"], gpu["memory"]);
    // What the driver says is taken: arenas, and little besides. What its context takes is an estimate.
    let [predicted, taken] =
        ["predicted", "measured"].map(|field| gpu["resident_bytes"][field].as_f64().unwrap());
    assert!((taken / predicted - 1.0).abs() <= 0.03, "{}", gpu["resident_bytes"]);
    for table in ["memory", "extent"] {
        assert_eq!(gpu[table], cores[table], "{table}");
    }
    for row in gpu["time"].as_array().unwrap() {
        assert!(row["measured_s"].is_number(), "{row}");
    }
}

/// How often the driver's entry points are called in `steps` steps.
fn calls(place: &Place, steps: u64, name: &str) -> u64 {
    let path = place.path().join("counts");
    let line = format!("execute plan.json --no-calibrate --device cuda --steps {steps}");
    let run = place.with("FAKE_CUDA_COUNTS", path.to_str().unwrap(), &line);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let text = fs::read_to_string(path).unwrap();
    let count = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    count.unwrap_or(0)
}

/// A step that is not traced is one graph, once it was captured.
#[test]
fn a_step_that_is_not_traced_launches_graphs() {
    let place = Place::with_gpus();
    planned(&place, DENSE, 1, 8, "tp=1,micro=4");
    let counted = |name: &str| [1, 2, 4].map(|steps| calls(&place, steps, name));
    let [launches, graphs, kept] =
        ["cuGraphLaunch ", "cuLaunchKernel ", "cuGraphInstantiateWithFlags "].map(counted);
    // The second step is captured and made as it is, the third is traced, the fourth is the graph.
    assert_eq!(launches, [0, 0, 1]);
    assert_eq!(kept, [0, 1, 1]);
    let [traced, captured] = [graphs[0], graphs[1] - graphs[0]];
    assert!(traced > 100, "{graphs:?}");
    // Traced steps launch each kernel, the captured one twice, and the graph none by itself.
    assert!(captured <= 2 * traced && graphs[2] - graphs[1] < traced + 10, "{graphs:?}");
}

/// A rank by itself on a GPU holds what it holds beside its peers on cores.
#[test]
fn a_slice_holds_what_it_holds_beside_its_peers() {
    for (model, strategy) in [
        (DENSE, "tp=2,pp=2,micro=1,ckpt=full"),
        (DENSE, "cp=2,cp_kind=ulysses,zero=2,micro=1"),
        (DENSE, "cp=4,micro=2"),
        (DENSE, "zero=3,shard=2,micro=1,offload=optimizer:1"),
        (EXPERTS, "ep=4,zero=1,micro=1,capacity=full"),
    ] {
        let place = Place::with_gpus();
        planned(&place, model, 4, 8, strategy);
        let (_, whole) = executed(&place, "--steps 2");
        let (_, alone) = executed(&place, "--steps 3 --slice 0,3 --device cuda");
        assert!(
            alone["machine"]["gpu"].is_string() && alone["slice"]["ranks"] == json!([0, 3]),
            "{strategy}"
        );
        for (rank, table) in [0, 3].into_iter().flat_map(|rank| [(rank, "memory"), (rank, "extent")]) {
            let (found, expected) = (rows(&alone, table, rank), rows(&whole, table, rank));
            assert!(!found.is_empty() && found == expected, "{strategy}: {table} of rank {rank}");
        }
        assert_eq!((&alone["losses"], &alone["step_times_s"]), (&json!([]), &json!([])), "{strategy}");
        for row in alone["time"].as_array().unwrap() {
            let computes = ["compute", "recompute", "optimizer"].contains(&row["cause"].as_str().unwrap());
            assert_eq!(computes, row["measured_s"].is_number(), "{strategy}: {row}");
        }
    }
}

/// The run ends with what the GPU was doing when it was ended.
#[test]
fn an_illegal_access_names_rank_instruction_and_kernel() {
    let place = Place::with_gpus();
    planned(&place, DENSE, 2, 8, "tp=2,micro=2");
    let line = "execute plan.json --no-calibrate --device cuda --share-device --steps 1";
    // Some kernels may be led astray within what they may read; a product reads its factor to the end.
    let launches = (60..70).map(|launch| format!("cuLaunchKernel:{launch}:moved-0"));
    let mut of_kernels = launches.map(|plant| place.with("FAKE_CUDA_SPOIL", &plant, line));
    let of_kernel = of_kernels.find(|run| run.code != 0).expect("one of ten goes wrong");
    let of_product = place.with("FAKE_CUDA_SPOIL", "cublasLtMatmul:20:moved", line);
    for (run, kernel) in [(of_kernel, "(kernel "), (of_product, "(kernel cublasLt)")] {
        assert_eq!(run.code, 6, "{}{}", run.stdout, run.stderr);
        let told = run.complaints().into_iter().find(|line| line.starts_with("error")).unwrap_or_default();
        for words in ["illegal address", " of unit ", "micro-batch ", "on rank ", kernel] {
            assert!(told.contains(words), "{words}: {}", run.stderr);
        }
    }
}

/// A plan for another GPU runs, is predicted for the one that is there, and what to do is said.
#[test]
fn a_plan_for_another_device_is_predicted_anew() {
    let place = Place::with_gpus();
    place.write("small.json", DENSE);
    let simulate =
        "simulate small.json --cluster 1x1xh100-sxm --global-batch 4 --seq-len 16 --strategy micro=4";
    let run = place.line(&format!("{simulate} --engine embedded --out plan.json"));
    assert_eq!(run.code, 0, "{}", run.stderr);
    let execute = "execute plan.json --device cuda --steps 1 --json";
    let of = |card| place.with("FAKE_CUDA_NAME", card, execute);
    let (same, other, unknown) = (of("NVIDIA H100 80GB HBM3"), of("NVIDIA H200"), of("Fake GPU"));
    for run in [&same, &other, &unknown] {
        assert_eq!(run.code, 0, "{}", run.stderr);
    }
    let warned = |words: &[&str], text: &str| words.iter().all(|word| text.contains(word));
    assert!(!same.stderr.contains("the plan is for"), "{}", same.stderr);
    let words = ["the plan is for h100-sxm", "NVIDIA H200", "--cluster 1x1xh200-sxm"];
    assert!(warned(&words, &other.stderr), "{}", other.stderr);
    let words = ["the plan is for h100-sxm", "Fake GPU", "calibrate --device cuda --base h100-sxm"];
    assert!(warned(&words, &unknown.stderr), "{}", unknown.stderr);
    let predicted = |run: &Run| run.json()["step_time_s"]["predicted"].as_f64().unwrap();
    assert!(predicted(&same) != predicted(&other) && predicted(&same) == predicted(&unknown));
    assert_eq!(other.json()["planned"]["cost_model"], "h100-sxm");
    assert!(same.json()["planned"].is_null());
}

/// Of GPUs of several kinds the first is taken, and it is said which.
#[test]
fn of_several_kinds_the_first_is_taken() {
    let place = Place::with_gpus();
    planned(&place, DENSE, 1, 4, "micro=4");
    let of = |names: &str| {
        let run = place.with("FAKE_CUDA_NAME", names, "execute plan.json --device cuda --steps 1 --json");
        assert_eq!(run.code, 0, "{}", run.stderr);
        run.stderr
    };
    let told = of("NVIDIA H200, NVIDIA L40S");
    assert!(told.contains("cuda:0, NVIDIA H200; NVIDIA L40S is left alone"), "{told}");
    assert!(!of("NVIDIA H200, NVIDIA H200").contains("several kinds"));
}

/// Without a plan, the small model is planned for the GPU that is there.
#[test]
fn without_a_plan_the_small_model_is_planned_for_the_gpu() {
    let place = Place::with_gpus();
    let line = "execute --device cuda --steps 1 --global-batch 2 --seq-len 16 --trace trace.json --json";
    let run = place.with("FAKE_CUDA_NAME", "NVIDIA H200", line);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let trace: Value = serde_json::from_str(&place.read("trace.json")).unwrap();
    assert_eq!(trace["plan"]["cost_model"]["name"], "h200-sxm");
    assert_eq!(trace["plan"]["cluster"]["name"], "1x1xh200-sxm");
    assert_eq!(trace["machine"]["gpu"], "NVIDIA H200");
}

/// `--cost-model` is a GPU's where ranks run on one, of a slice too.
#[test]
fn a_cost_model_of_the_gpu_predicts() {
    let place = Place::with_gpus();
    planned(&place, DENSE, 2, 8, "tp=2,micro=4");
    for name in ["cpu", "h200-sxm"] {
        let file = format!("{}/cost_models/{name}.json", env!("CARGO_MANIFEST_DIR"));
        place.write(&format!("{name}.json"), fs::read_to_string(file).unwrap());
    }
    for flags in ["--share-device", "--slice 1"] {
        let line = format!(
            "execute plan.json --device cuda {flags} --steps 1 --trace trace.json --json --cost-model"
        );
        let run = place.line(&format!("{line} h200-sxm.json"));
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(!run.stderr.contains("the plan is for"), "{}", run.stderr);
        let trace: Value = serde_json::from_str(&place.read("trace.json")).unwrap();
        assert_eq!(trace["plan"]["cost_model"]["name"], "h200-sxm");
        let run = place.line(&format!("{line} cpu.json"));
        let error = &run.json()["error"];
        assert_eq!((run.code, &error["field"], &error["nearest"]), (3, &json!("class"), &json!(["gpu"])));
    }
}
