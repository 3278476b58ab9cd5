//! Products by NVIDIA's library and by our own kernels: the same losses, and the trace says whose they were.

use std::path::Path;

use half::bf16;
use meshwright::execute::run::DeviceKind;
use meshwright::strategy::Workload;
use meshwright::units::ElementType;

use crate::strategies::strategy;
use crate::training::Trained;
use crate::{BF16_TOLERANCE, TOLERANCE, models, trained, workload};

/// The first update follows signs of gradients, so that sums of another order show from the third loss on.
const STEPS: u64 = 3;
const CHILD: &str = "products::child";
/// What a child says before its losses, and before who computed its products.
const LOSSES: [&str; 2] = ["losses in fp32: ", "losses in bf16: "];
const WHOSE: [&str; 2] = ["products in fp32: ", "products in bf16: "];

/// Trains in fp32 on one rank and in bf16 on four.
#[test]
#[ignore = "other tests start it as a process of its own"]
fn child() {
    let fp32 = workload(0.0);
    let bf16s = Workload { precision: ElementType::Bf16, ..fp32 };
    let tell = |kind: usize, trained: Trained| {
        println!("{}{}", LOSSES[kind], serde_json::to_string(&trained.losses).unwrap());
        println!("{}{}", WHOSE[kind], serde_json::to_string(&trained.fleet.products()).unwrap());
    };
    let device = DeviceKind::SharedCuda;
    let (model, text) = (models::gpt2(), "tp=1,micro=4");
    let one = strategy(&model, text, 1, &fp32).unwrap();
    tell(0, trained::<f32, f32>(&model, one, fp32, device, STEPS).unwrap());
    let (model, text) = (models::llama(), "tp=2,micro=2,zero=1");
    let four = strategy(&model, text, 4, &bf16s).unwrap();
    tell(1, trained::<bf16, f32>(&model, four, bf16s, device, STEPS).unwrap());
}

/// What a run said.
#[derive(Debug, PartialEq)]
struct Told {
    losses: Vec<f64>,
    library: Option<String>,
    of_library: u64,
    of_kernels: u64,
}

/// The runs of a child under these settings, in fp32 and in bf16.
fn runs(settings: &[(&str, &str)]) -> [Told; 2] {
    let output = crate::child::run(CHILD, settings);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{settings:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    let line = |start: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(start)).unwrap();
        serde_json::from_str::<serde_json::Value>(line).unwrap()
    };
    [0, 1].map(|kind| {
        let whose = line(WHOSE[kind]);
        Told {
            losses: serde_json::from_value(line(LOSSES[kind])).unwrap(),
            library: whose["library"].as_str().map(str::to_owned),
            of_library: whose["of_library"].as_u64().unwrap(),
            of_kernels: whose["of_kernels"].as_u64().unwrap(),
        }
    })
}

#[test]
fn a_machine_without_the_library_trains_the_same() {
    let nothing = tempfile::tempdir().unwrap();
    let nowhere = [("MESHWRIGHT_CUBLASLT", nothing.path().to_str().unwrap())];
    for (kind, (with, without)) in runs(&[]).into_iter().zip(runs(&nowhere)).enumerate() {
        assert!(with.library.as_ref().is_some_and(|name| name.starts_with("cublasLt 1")), "{with:?}");
        assert!(with.of_library > 0, "{with:?}");
        // Rows of bf16 that begin anywhere are none of the library's, on the stand-in.
        assert!(kind == 0 || with.of_kernels > 0, "{with:?}");
        assert_eq!((&without.library, without.of_library), (&None, 0), "{without:?}");
        assert_eq!(without.of_kernels, with.of_library + with.of_kernels, "{without:?}, {with:?}");
        let tolerance = [TOLERANCE, BF16_TOLERANCE][kind];
        for (one, other) in with.losses.iter().zip(&without.losses) {
            assert!((one - other).abs() <= tolerance * other, "{one}, not {other}");
        }
        assert!(kind == 1 || with.losses != without.losses, "sums are of another order: {with:?}");
    }
}

#[test]
fn the_library_computes_the_same_bits_in_every_run() {
    let [first, second] = ["1", "2"].map(|seed| runs(&[("FAKE_CUDA_SEED", seed)]));
    assert_eq!(first, second);
}

/// A release of the library may answer with any status to what it does not know.
#[test]
fn a_product_that_the_library_refuses_is_done_without_it() {
    let whole = runs(&[]);
    for refused in ["cublasLtMatmulAlgoGetHeuristic:1:14", "cublasLtMatmulDescSetAttribute:1:7"] {
        let told = runs(&[("FAKE_CUDA_FAIL", refused)]);
        let lost = |kind: usize| {
            (whole[kind].of_library - told[kind].of_library, told[kind].of_kernels - whole[kind].of_kernels)
        };
        assert_eq!([lost(0), lost(1)], [(1, 1), (0, 0)], "{refused}");
        for (one, other) in told[0].losses.iter().zip(&whole[0].losses) {
            assert!((one - other).abs() <= TOLERANCE * other, "{refused}: {one}, not {other}");
        }
    }
    // Where its memory is full, kernels of ours would not help.
    let output = crate::child::run(CHILD, &[("FAKE_CUDA_FAIL", "cublasLtMatmulAlgoGetHeuristic:1:3")]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("Full"), "{text}");
}

#[test]
fn a_library_that_does_not_work_is_done_without() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(Path::new(folder.path()).join("libcublasLt.so.13"), "no library").unwrap();
    for told in runs(&[("MESHWRIGHT_CUBLASLT", folder.path().to_str().unwrap())]) {
        assert_eq!((told.library, told.of_library), (None, 0));
    }
}
