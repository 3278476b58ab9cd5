//! The table of cases: every kernel against a reference of its own. One file an operator, listed here.

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
pub mod instructions;
pub mod norm;
pub mod operands;
pub mod primitives;
pub mod quantise;
pub mod residual;
pub mod rotary;
pub mod routing;

use crate::Gpu;

/// One comparison of kernels with a reference. It must download what it compares, because the runner also compares
/// the downloads of several thread orders bit for bit.
pub struct Case {
    pub name: &'static str,
    pub run: fn(&mut Gpu) -> Result<(), String>,
}

/// The cases by operator.
pub fn all() -> Vec<(&'static str, &'static [Case])> {
    vec![
        ("activation", activation::CASES),
        ("adamw", adamw::CASES),
        ("attention", attention::CASES),
        ("collectives", collectives::CASES),
        ("cross_entropy", cross_entropy::CASES),
        ("dropout", dropout::CASES),
        ("elementwise", elementwise::CASES),
        ("embedding", embedding::CASES),
        ("gemm", gemm::CASES),
        ("gradient_norm", gradient_norm::CASES),
        ("instructions", instructions::CASES),
        ("norm", norm::CASES),
        ("primitives", primitives::CASES),
        ("quantise", quantise::CASES),
        ("residual", residual::CASES),
        ("rotary", rotary::CASES),
        ("routing", routing::CASES),
    ]
}
