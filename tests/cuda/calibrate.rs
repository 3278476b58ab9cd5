//! `calibrate --device cuda`. What the stand-in's times are is no matter here: which numbers are called measured, on what
//! they rest, and that what is written is a cost model like any other.

use std::time::{Duration, Instant};

use meshwright::calibrate::observe::observe;
use meshwright::calibrate::programs::Small;
use meshwright::calibrate::samples;
use meshwright::execute::contents::Kept;
use meshwright::execute::run::{DeviceKind, Settings};
use meshwright::lower::Stream;
use meshwright::units::ElementType;
use serde_json::Value;

use crate::place::Place;

/// Fits the stand-in's memory.
const SMALL: &str =
    r#"{"model_type":"gpt2","n_embd":256,"n_layer":2,"n_head":4,"vocab_size":1024,"n_positions":64}"#;
/// More than a rough calibration takes: 60 seconds, and what cannot be stopped then.
const PATIENCE: Duration = Duration::from_secs(100);

/// All numbers of a cost model, by path, that have a source.
fn sourced(path: &str, value: &Value, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) if fields.contains_key("kind") => found.push((path.to_owned(), value.clone())),
        Value::Object(fields) => {
            for (name, value) in fields {
                sourced(&format!("{path}.{name}"), value, found);
            }
        }
        _ => {}
    }
}

/// The count before `word` in `text`.
fn count(text: &str, word: &str) -> Option<u64> {
    text.split(", ").find_map(|part| part.split(';').next()?.strip_suffix(word)?.trim().parse().ok())
}

#[test]
fn a_gpu_is_measured_in_shapes_that_it_has_time_for() {
    let place = Place::with_gpus();
    let began = Instant::now();
    let run = place.with("FAKE_CUDA_NAME", "NVIDIA H200", "calibrate --device cuda --quick --out gpu.json");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    assert!(
        run.stdout.contains("gemm.efficiency") && run.stdout.contains("instructions of"),
        "{}",
        run.stdout
    );
    let model: Value = serde_json::from_str(&place.read("gpu.json")).unwrap();
    assert_eq!((&model["name"], &model["class"]), (&"h200-sxm".into(), &"gpu".into()));
    let mut numbers = Vec::new();
    sourced("", &model, &mut numbers);
    let is_own = |number: &Value| number["source"].as_str().unwrap().contains("; NVIDIA H200, CUDA 13.0, ");
    for (path, number) in &numbers {
        let source = number["source"].as_str().unwrap();
        if is_own(number) {
            assert_eq!(number["kind"], "measured", "{path}");
            assert!(number["value"].as_f64().is_some_and(|value| value >= 0.0), "{path}: {number}");
        } else {
            assert!(source.starts_with("built-in h200-sxm: "), "{path}: {source}");
        }
        for word in ["shapes", "instructions"] {
            assert!(!source.contains(word) || count(source, word).is_some_and(|count| count > 0), "{source}");
        }
    }
    let own = |path: &str| numbers.iter().any(|(other, number)| other == path && is_own(number));
    for path in [
        ".memory",
        ".multiprocessors",
        ".gemm.efficiency",
        ".gemm.efficiency_fp32",
        ".attention.forward_efficiency",
        ".attention.backward_efficiency",
        ".memory_bound.efficiency",
        ".kernels.norm.fp32",
        ".kernels.norm.bf16",
        ".kernels.adamw.fp32",
        ".kernels.cross_entropy_backward.bf16",
        ".kernel_time",
        ".host_link.efficiency",
        ".host.optimizer_efficiency",
    ] {
        assert!(own(path), "{path} is not measured: {numbers:#?}");
    }
    // Ranks that share a GPU tell nothing of links.
    assert!(!own(".scale_up.link.bandwidth") && !own(".network.bandwidth") && !own(".peak.bf16"));
    // It stands for a device.
    place.write("small.json", SMALL);
    let planned = "simulate small.json --cluster 1x1x./gpu.json --global-batch 4 --seq-len 64 --strategy micro=4 --json";
    let run = place.line(planned);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let predicted = run.json()["prediction"]["step_time_s"].as_f64().unwrap();
    let built_in = place.line(&planned.replace("./gpu.json", "h200-sxm")).json();
    assert!(predicted > built_in["prediction"]["step_time_s"].as_f64().unwrap(), "the stand-in is slow");
}

/// What is measured is on random numbers: half of the power of products goes into bits that change.
#[test]
fn programs_compute_with_random_numbers() {
    let small = Small { precision: ElementType::Bf16, ..Small::gpt2((64, 1), 32, "micro=4") };
    let settings = Settings { device: DeviceKind::Cuda, cores: 1, ..Settings::default() };
    let seen = observe(small.job().unwrap(), settings, (2, None)).unwrap();
    for kept in [Kept::Parameters, Kept::Gradients, Kept::SecondMoments] {
        let matrices = seen.fleet.read(kept);
        let numbers: Vec<f64> =
            matrices.into_values().filter(|values| values.len() > 1000).flatten().collect();
        let zeros = numbers.iter().filter(|number| **number == 0.0).count();
        assert!(numbers.len() > 100_000 && zeros * 3 < numbers.len(), "{zeros} zeros of {}", numbers.len());
    }
    assert_eq!((seen.seconds.len(), seen.untraced.len()), (2, 2), "steps with tracing and without");
    let times = samples::times(&seen, Stream::Compute);
    assert!(times.len() > 20 && times.iter().flat_map(|(_, times)| times).all(|seconds| *seconds > 0.0));
}

#[test]
fn what_cannot_be_measured_is_said() {
    let place = Place::with_gpus();
    let ends = |setting: (&'static str, &str), flags: &str, (code, field, words): (i32, &str, &str)| {
        let line = format!("calibrate --device cuda --quick --out gpu.json --json {flags}");
        let run = place.with(setting.0, setting.1, &line);
        assert_eq!(run.code, code, "{setting:?}: {}", run.stderr);
        let error = &run.json()["error"];
        assert_eq!(error["field"], field, "{error}");
        assert!(error["message"].as_str().unwrap().contains(words), "{error}");
        assert!(place.names().is_empty(), "nothing is written");
    };
    ends(("FAKE_CUDA_DEVICES", "0"), "", (6, "device", "no GPU"));
    ends(("FAKE_CUDA_DRIVER", "11080"), "", (6, "device", "12.0 or newer"));
    // No built-in device is called so.
    ends(("FAKE_CUDA_NAME", "Fake GPU"), "", (3, "base", "--base"));
    ends(("FAKE_CUDA_NAME", "Fake GPU"), "--base h2000", (3, "device", "h200-sxm"));
    ends(("FAKE_CUDA_FAIL", "cuLaunchKernel:3:719"), "--base l4", (6, "device", "719"));
    ends(
        ("FAKE_CUDA_FAIL", "cuMemAlloc_v2:1:2"),
        "--base l4",
        (4, "memory", "another process may hold the rest"),
    );
}
