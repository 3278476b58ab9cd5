//! What is trained on: batch, sequence length, precision, dropout and clipping.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::ElementType;

/// The work of one optimizer step, whatever the strategy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Sequences a step.
    pub global_batch: u64,
    /// Tokens a sequence.
    pub seq_len: u64,
    /// `fp8` multiplies in 8 bits and keeps activations and working parameters in bf16.
    pub precision: ElementType,
    /// Probability that an element is dropped after attention, MLP and softmax; 0 is off.
    pub dropout: f64,
    /// Norm that gradients are clipped to; 0 is off.
    pub clip: f64,
}

impl Workload {
    /// Type of activations and working parameters.
    pub const fn compute_type(&self) -> ElementType {
        match self.precision {
            ElementType::Fp8 => ElementType::Bf16,
            other => other,
        }
    }

    /// Type that optimizer state is kept in: 32 bits, or 64 under fp64.
    pub const fn state_type(&self) -> ElementType {
        match self.precision {
            ElementType::Fp64 => ElementType::Fp64,
            _ => ElementType::Fp32,
        }
    }

    /// Whether master weights are kept beside the working parameters.
    pub const fn has_master_weights(&self) -> bool {
        !matches!(self.precision, ElementType::Fp32 | ElementType::Fp64)
    }

    /// Tokens a step.
    pub const fn tokens(&self) -> u64 {
        self.global_batch * self.seq_len
    }
}
