//! One thread of a rank submits all that its GPU does. On the stand-in alone, which counts the threads.

use crate::child::counts;
use crate::{check, models};

const CHILD: &str = "threads::child";

/// Four ranks that work in every stream: two stages, shards, tensors cut in two, half of the optimizer on the host.
#[test]
#[ignore = "other tests start it as a process of its own"]
fn child() {
    check(&models::llama(), "tp=2,pp=2,micro=2,zero=1,offload=optimizer:0.5", 4, 0.0);
}

#[test]
fn one_thread_of_a_rank_submits_to_its_gpu() {
    let counts = counts(CHILD, &[]);
    let threads = |entry: &str| counts[&format!("threads_of_{entry}")];
    for entry in ["cuLaunchKernel", "cuGraphLaunch", "cublasLtMatmul"] {
        assert_eq!(threads(entry), 4, "{entry}: {counts:?}");
    }
    // One more thread begins steps, and the host's streams wait for those of the GPU by streams of their own.
    assert_eq!((threads("cuEventRecord"), threads("cuStreamWaitEvent")), (5, 8), "{counts:?}");
}
