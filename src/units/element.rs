//! Element types of tensors and what one element takes.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The type of one tensor element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ElementType {
    Fp64,
    Fp32,
    Bf16,
    Fp16,
    Fp8,
}

impl ElementType {
    /// Bytes that one element takes.
    pub const fn size(self) -> u64 {
        match self {
            Self::Fp64 => 8,
            Self::Fp32 => 4,
            Self::Bf16 | Self::Fp16 => 2,
            Self::Fp8 => 1,
        }
    }

    /// The name in strategy texts and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fp64 => "fp64",
            Self::Fp32 => "fp32",
            Self::Bf16 => "bf16",
            Self::Fp16 => "fp16",
            Self::Fp8 => "fp8",
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for ElementType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Fp64, Self::Fp32, Self::Bf16, Self::Fp16, Self::Fp8]
            .into_iter()
            .find(|element| element.name() == text)
            .ok_or_else(|| format!("`{text}` is no element type; fp64, fp32, bf16, fp16 and fp8 are"))
    }
}
