//! Bugs that the device could have, planted by the stand-in for the driver: each is found, by the stand-in's checks or by
//! numbers that are not the CPU's. On the stand-in alone.

use std::process::Output;

use crate::child::{counts, run};
use crate::{check, models};

const CHILD: &str = "plants::child";

/// Two steps on two ranks that shard all they can, with half of the optimizer on the host, beside the CPU. All weights of the
/// model count: it has no positions that are not used, and no biases of keys, to which a softmax is blind.
#[test]
#[ignore = "other tests start it as a process of its own"]
fn child() {
    check(&models::llama(), "tp=1,micro=4,zero=3,offload=optimizer:0.5", 2, 0.0);
}

/// Of `samples` calls of `entry`, which is called `count` times, those in which `plant` did no harm.
fn unnoticed(entry: &str, count: u64, samples: u64, plant: &str) -> Vec<String> {
    let calls = (0..samples).map(|sample| 1 + sample * (count - 1) / (samples - 1));
    let plants = calls.map(|call| format!("{entry}:{call}:{plant}"));
    plants.filter(|plant| is_harmless(&run(CHILD, &[("FAKE_CUDA_SPOIL", plant)]), plant)).collect()
}

fn is_harmless(output: &Output, plant: &str) -> bool {
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!told.contains("FAKE_CUDA_SPOIL") && !told.contains("cannot do so wrong"), "{plant}: {told}");
    output.status.success()
}

/// A wait does no harm where it is missing if another stands for it: the checks find its lack under any order of streams.
#[test]
fn a_missing_event_is_found() {
    let count = counts(CHILD, &[])["cuStreamWaitEvent"];
    let unnoticed = unnoticed("cuStreamWaitEvent", count, 12, "ignored");
    assert!(unnoticed.len() <= 8, "{count} waits: {unnoticed:?}");
}

/// Which call has which number depends on the threads of ranks, and a few do no harm. When each was tried (2026-11-27), 2 of
/// 281 copies and 6 of 258 kernels went unnoticed; three of these sum a rank's norm, which clips nothing here.
#[test]
fn a_wrong_offset_is_found() {
    let counts = counts(CHILD, &[]);
    let copies = unnoticed("known_copy", counts["known_copy"], 4, "moved");
    let kernels = unnoticed("cuLaunchKernel", counts["cuLaunchKernel"], 8, "moved-0");
    assert!(copies.len() <= 1 && kernels.len() <= 2, "{counts:?}: {copies:?} {kernels:?}");
}

/// A left factor that lies elsewhere, or with lines further apart than they are.
#[test]
fn a_wrong_factor_of_a_product_is_found() {
    let count = counts(CHILD, &[])["cublasLtMatmul"];
    let unnoticed = ["moved", "more"].map(|plant| unnoticed("cublasLtMatmul", count, 6, plant));
    assert!(unnoticed.iter().all(Vec::is_empty), "{count} products: {unnoticed:?}");
}

/// A count that only ends what blocks do may be larger where the blocks are just enough.
#[test]
fn a_wrong_argument_is_found() {
    let count = counts(CHILD, &[])["cuLaunchKernel"];
    let unnoticed = unnoticed("cuLaunchKernel", count, 12, "more");
    assert!(unnoticed.len() <= 5, "{count} launches: {unnoticed:?}");
}
