//! Whatever the driver refuses ends a run with a message: no panic, no signal, no hang. On the stand-in alone, which can
//! be told to refuse.

use std::process::Output;

use meshwright::execute::run::DeviceKind;

use crate::child::counts;
use crate::models;
use crate::strategies::strategy;
use crate::{trained, workload};

const CHILD: &str = "faults::child";
/// What the child says when a run ends with an error.
const ENDED: &str = "the run ended: ";

/// Trains a step on two ranks that shard all they can, with half of the optimizer on the host.
#[test]
#[ignore = "other tests start it as a process of its own"]
fn child() {
    let (model, workload) = (models::gpt2(), workload(0.0));
    let text = "tp=1,micro=4,zero=3,offload=optimizer:0.5";
    let strategy = strategy(&model, text, 2, &workload).unwrap();
    match trained::<f32, f32>(&model, strategy, workload, DeviceKind::SharedCuda, 1) {
        Ok(_) => println!("the run was whole"),
        Err(error) => println!("{ENDED}{error}"),
    }
}

/// No memory is left, no reason is known, nothing can be done any more.
const DRIVER_CODES: [u32; 3] = [2, 999, 719];
/// No memory is left, a fault of the library, a fault of the GPU: `cublasStatus_t`.
const LIBRARY_CODES: [u32; 3] = [3, 14, 13];

/// A machine of CUDA 12: driver, NVRTC and cublasLt.
const OF_CUDA_12: [(&str, &str); 3] =
    [("FAKE_CUDA_DRIVER", "12000"), ("FAKE_CUDA_NVRTC_VERSION", "12.0"), ("FAKE_CUDA_CUBLASLT", "120005")];

fn run(settings: &[(&str, &str)]) -> Output {
    crate::child::run(CHILD, &[settings, &[("FAKE_CUDA_CHECK", "off")]].concat())
}

/// What the child's run ended with, if with an error.
fn ending(output: &Output, settings: &[(&str, &str)]) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !told.contains("panicked"), "{settings:?}: {text}{told}");
    text.lines().find_map(|line| Some(line.split_once(ENDED)?.1.to_owned()))
}

fn ends_with(settings: &[(&str, &str)], words: &[&str]) {
    let text = ending(&run(settings), settings).unwrap_or_else(|| panic!("{settings:?} did no harm"));
    assert!(words.iter().all(|word| text.contains(word)), "{settings:?}: {text}");
}

#[test]
fn a_machine_that_cannot_run_it_is_told_why() {
    ends_with(&[("FAKE_CUDA_DEVICES", "0")], &["finds no GPU"]);
    ends_with(&[("FAKE_CUDA_DRIVER", "11080")], &["of version 11.8", "12.0 or newer"]);
    ends_with(&[("FAKE_CUDA_CAPABILITY", "7.5"), ("FAKE_CUDA_NAME", "Old")], &["Old", "7.5", "8.0"]);
    ends_with(&[("FAKE_CUDA_FAIL", "cuInit:1:34")], &["stub", "LD_LIBRARY_PATH"]);
    ends_with(&[("FAKE_CUDA_FAIL", "cuDriverGetVersion:1:34")], &["stub", "LD_LIBRARY_PATH"]);
    // Enough for one arena.
    ends_with(&[("FAKE_CUDA_MEMORY", "30000000")], &["free"]);
}

/// The stand-in has no function that a driver of CUDA 12.0 lacks, but one that it refuses as such a driver.
#[test]
fn the_oldest_driver_will_do() {
    assert_eq!(ending(&run(&OF_CUDA_12), &OF_CUDA_12), None);
}

/// Its libraries of a newer CUDA aren't taken: cublasLt can be done without, the compiler cannot.
#[test]
fn an_older_driver_takes_no_newer_libraries() {
    let [driver, compiler, library] = OF_CUDA_12;
    let nothing_kept = tempfile::tempdir().unwrap();
    let settings = [driver, library, ("MESHWRIGHT_CACHE", nothing_kept.path().to_str().unwrap())];
    let text = ending(&run(&settings), &settings).unwrap_or_default();
    for words in ["it is of CUDA 13, and the driver is of CUDA 12", "pip install nvidia-cuda-nvrtc-cu12`"] {
        assert!(text.contains(words), "no `{words}` in: {text}");
    }
    let multiplies = |settings: &[_]| counts(CHILD, settings).contains_key("cublasLtMatmul");
    let off = ("FAKE_CUDA_CHECK", "off");
    assert!(multiplies(&[driver, compiler, library, off]));
    assert!(!multiplies(&[driver, compiler, off]));
}

/// Under the flag that the context is made with, a thread that waits for a stream sleeps; for an event it spins all the same.
#[test]
fn threads_wait_for_streams_and_not_for_events() {
    let counts = counts(CHILD, &[("FAKE_CUDA_CHECK", "off")]);
    let calls = |name: &str| counts.get(name).copied().unwrap_or_default();
    assert_eq!((calls("cuDevicePrimaryCtxSetFlags_v2"), calls("cuEventSynchronize")), (1, 0), "{counts:?}");
    assert!(calls("cuStreamSynchronize") > 0);
}

#[test]
fn an_entry_point_that_refuses_ends_the_run() {
    let counts = counts(CHILD, &[("FAKE_CUDA_CHECK", "off")]);
    assert!(counts.len() > 20, "{counts:?}");
    // What is undone at the end has nobody to tell, and answers about errors are not asked for without one.
    // A library that does not start is looked for elsewhere, and a product that it refuses is done without it.
    let is_silent = |name: &str| {
        [
            "cublasLtCreate",
            "cublasLtMatmulDesc",
            "cublasLtMatmulPreference",
            "cublasLtMatrixLayout",
            "cublasLtMatmulAlgoGetHeuristic",
            "Destroy",
            "Free",
            "Unregister",
            "Unmap",
            "Release",
            "Unload",
            "GetError",
            "ExportTable",
            "GetParamInfo",
        ]
        .iter()
        .any(|word| name.contains(word))
    };
    let mut unnoticed = Vec::new();
    for (name, count) in counts.iter().filter(|(name, _)| name.starts_with("cu")) {
        let (name, count) = (name.as_str(), *count);
        // The last time that a thread takes the GPU is to give kernels back.
        let last = if name == "cuCtxSetCurrent" { count / 2 } else { count };
        // NVRTC starts CUDA by itself, and does without.
        let last = if name == "cuInit" { 1 } else { last };
        let [full, odd, broken] = if name.starts_with("cublas") { LIBRARY_CODES } else { DRIVER_CODES };
        for (call, code) in [(1, full), (last.div_ceil(2), odd), (last, broken)] {
            let fault = format!("{name}:{call}:{code}");
            let settings = [("FAKE_CUDA_FAIL", fault.as_str())];
            let ended = ending(&run(&settings), &settings);
            if ended.is_none() && !is_silent(name) {
                unnoticed.push(fault);
            }
        }
    }
    assert!(unnoticed.is_empty(), "{unnoticed:?}");
}
