//! Launch geometry: which kernel runs for given sizes, on how many blocks and threads, compiled with which options.
//!
//! Nothing here depends on the rest of the crate, because the kernels' own test crate (`tests/gpu`) includes this
//! folder by path: a kernel is tested with the geometry that it is shipped with.

pub mod activation;
pub mod adamw;
pub mod attention;
pub mod collectives;
pub mod cross_entropy;
pub mod dropout;
pub mod elementwise;
pub mod embedding;
pub mod gemm;
pub mod gradient_norm;
pub mod norm;
pub mod quantise;
pub mod residual;
pub mod rotary;
pub mod routing;
pub mod runs;

/// A CUDA source file and the options that specialise it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// The path below `src/execute/kernels`, such as `norm/norm.cu`.
    pub file: &'static str,
    /// Options for the compiler, such as `-DSTORAGE_BF16`.
    pub options: Vec<String>,
}

/// One launch of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The name of the `extern "C" __global__` function.
    pub kernel: &'static str,
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
}
