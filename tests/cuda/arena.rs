//! Arenas are memory that is mapped to addresses, where the GPU has such memory, and NCCL knows them. On the stand-ins.

use crate::child::counts;
use crate::whole::{CHILD, asked, ending};

/// How often a run of one step under `settings` calls each of `entries`.
fn calls<const N: usize>(ranks: &str, settings: &[(&str, &str)], entries: [&str; N]) -> [u64; N] {
    let counts = counts(CHILD, &[&asked("zero=1,micro=2", ranks, "1")[..], settings].concat());
    entries.map(|entry| counts.get(entry).copied().unwrap_or_default())
}

const MAPPED: [&str; 5] = ["cuMemCreate", "cuMemSetAccess", "cuMemUnmap", "cuMemRelease", "cuMemAddressFree"];

/// A rank's arena, and where it sums what comes from others. All of it is given back.
#[test]
fn arenas_are_mapped_where_the_gpu_maps_memory() {
    assert_eq!(calls("1", &[], MAPPED), [1; 5]);
    assert_eq!(calls("2", &[], MAPPED), [4; 5]);
    assert_eq!(calls("2", &[("FAKE_CUDA_MAPPING", "off")], MAPPED), [0; 5]);
    // It says that it is part of a network of GPUs, which nobody has set up.
    assert_eq!(calls("1", &[("FAKE_CUDA_FABRIC", "on")], MAPPED), [2, 1, 1, 1, 1]);
}

#[test]
fn a_lack_of_memory_is_told_alike() {
    let [mapped, plain] =
        [("cuMemCreate:1:2", "on"), ("cuMemAlloc_v2:1:2", "off")].map(|(fault, mapping)| {
            let settings = [("FAKE_CUDA_FAIL", fault), ("FAKE_CUDA_MAPPING", mapping)];
            let ended = ending("micro=4", "1", &settings);
            ended.split_once(" are free").map(|(asked, _)| asked.to_owned())
        });
    assert!(
        plain.as_ref().is_some_and(|ended| ended.contains("of memory of Fake GPU cannot be had")),
        "{plain:?}"
    );
    assert_eq!(mapped, plain);
}

/// What is taken before a step fails is given back too.
#[test]
fn what_cannot_be_mapped_ends_the_run() {
    for entry in
        ["cuMemGetAllocationGranularity", "cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"]
    {
        let ended = ending("micro=4", "1", &[("FAKE_CUDA_FAIL", &format!("{entry}:1:999"))]);
        assert!(ended.contains("answers 999"), "{entry}: {ended}");
    }
}

const REGISTERED: [&str; 2] = ["ncclCommRegister", "ncclCommDeregister"];

/// Memory of all ranks is registered, or of none.
#[test]
fn nccl_knows_arenas() {
    let [registered, undone] = calls("2", &[], REGISTERED);
    assert!(registered >= 4 && registered == undone, "{registered}, {undone}");
    assert_eq!(calls("2", &[("FAKE_CUDA_MAPPING", "off")], REGISTERED), [0, 0]);
    let refused = format!("ncclCommRegister:{registered}:5");
    assert_eq!(calls("2", &[("FAKE_CUDA_FAIL", &refused)], REGISTERED), [registered, registered - 1]);
}
