//! Launches of activation functions.

use super::runs::{Types, by_row, by_run};
use super::{Launch, Source};

/// Which function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    Gelu,
    GeluTanh,
    Silu,
    Relu,
    Relu2,
}

pub fn source(types: Types, function: Function) -> Source {
    let option = match function {
        Function::Gelu => "-DACTIVATION_GELU",
        Function::GeluTanh => "-DACTIVATION_GELU_TANH",
        Function::Silu => "-DACTIVATION_SILU",
        Function::Relu => "-DACTIVATION_RELU",
        Function::Relu2 => "-DACTIVATION_RELU2",
    };
    types.source("activation/activation.cu", &[option])
}

pub fn forward(rows: u32, width: u32) -> Launch {
    by_run("activation_forward", rows, width)
}

pub fn gradient(rows: u32, width: u32) -> Launch {
    by_run("activation_gradient", rows, width)
}

pub fn gated_forward(rows: u32, width: u32) -> Launch {
    by_run("activation_gated_forward", rows, width)
}

pub fn gated_gradient(rows: u32, width: u32) -> Launch {
    by_run("activation_gated_gradient", rows, width)
}

/// `rows` are the slots of all experts.
pub fn expert_forward(rows: u32, width: u32) -> Launch {
    by_run("activation_expert_forward", rows, width)
}

pub fn expert_gradient(rows: u32, width: u32) -> Launch {
    by_row("activation_expert_gradient", rows, width)
}
