//! Training on a GPU is what an independent oracle says: autograd and numpy in 64 bits (`tests/oracle/`).

use meshwright::execute::run::DeviceKind;
use meshwright::units::ElementType;

use crate::golden::{Oracle, check};

/// With all 20 steps parameters are compared too: AdamW divides small gradients by their own size, so parameters lie
/// further apart than gradients.
const F32: Oracle = Oracle {
    device: DeviceKind::SharedCuda,
    precision: ElementType::Fp32,
    tolerance: 2e-4,
    last_tolerance: 5e-3,
    steps: 20,
};

/// A few steps, before what was rounded away has an effect of its own.
const BF16: Oracle = Oracle { precision: ElementType::Bf16, tolerance: 3e-2, steps: 4, ..F32 };
const FEW: Oracle = Oracle { steps: 3, ..F32 };

#[test]
fn gpt2_is_what_the_oracle_says() {
    check("gpt2", "tp=1,micro=4", 1, F32);
    check("gpt2", "tp=2,dp=2,micro=2,zero=1", 4, FEW);
}

#[test]
fn gpt2_in_bf16_is_what_the_oracle_says() {
    check("gpt2", "tp=1,micro=4", 1, BF16);
}

#[test]
fn llama_is_what_the_oracle_says() {
    check("llama", "tp=1,micro=4", 1, Oracle { steps: 6, ..F32 });
    check("llama", "cp=2,dp=2,micro=1,zero=3", 4, FEW);
}

/// Which the CPU, whose kernels the other tests compare with, has no part in.
#[test]
fn attention_that_keeps_its_probabilities_is_what_the_oracle_says() {
    check("gpt2", "tp=1,micro=4,attention=materialised", 1, FEW);
    check("llama", "tp=2,micro=2,attention=materialised", 2, FEW);
    check("llama", "tp=1,micro=4,attention=materialised", 1, Oracle { steps: 3, ..BF16 });
}

#[test]
fn llama_in_bf16_is_what_the_oracle_says() {
    check("llama", "tp=1,micro=4", 1, BF16);
}
