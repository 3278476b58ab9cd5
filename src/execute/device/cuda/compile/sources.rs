//! The CUDA sources that this program carries: all that lie beside the CPU's kernels, by their paths there.

macro_rules! carried {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../kernels/", $name)))),*]
    };
}

/// Files of kernels.
pub const KERNELS: &[(&str, &str)] = carried![
    "activation/activation.cu",
    "adamw/adamw.cu",
    "attention/attention_backward_keys.cu",
    "attention/attention_backward_queries.cu",
    "attention/attention_delta.cu",
    "attention/attention_forward.cu",
    "attention/attention_plain.cu",
    "attention/attention_softmax.cu",
    "collectives/collectives.cu",
    "cross_entropy/cross_entropy.cu",
    "dropout/dropout.cu",
    "elementwise/elementwise.cu",
    "embedding/embedding.cu",
    "gemm/gemm.cu",
    "gemm/gemm_fma.cu",
    "gemm/split_sum.cu",
    "gradient_norm/gradient_norm.cu",
    "linear/bias_gradient.cu",
    "norm/norm.cu",
    "quantise/quantise.cu",
    "residual/residual.cu",
    "rotary/rotary.cu",
    "routing/routing.cu",
];

/// What they include, by the names that they include it by.
pub const HEADERS: &[(&str, &str)] =
    carried!["attention/score.cuh", "cuda/common.cuh", "cuda/dropout.cuh", "cuda/ptx.cuh", "cuda/tile.cuh",];

/// The text of `file`, such as `norm/norm.cu`.
pub fn kernel(file: &str) -> Option<&'static str> {
    KERNELS.iter().find(|(name, _)| *name == file).map(|(_, text)| *text)
}
