//! Where a run's gradients by name are, and their norms.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::program::GradientBuffer;
use crate::units::ElementType;

/// The gradient of one weight before the last optimizer step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedGradient {
    /// As in a checkpoint.
    pub name: String,
    pub shape: Vec<u64>,
    pub element_type: ElementType,
    /// Before clipping; null where it is not finite.
    pub norm: Option<f64>,
    /// Where it lies, in the order of ranks.
    pub shards: Vec<ShardRecord>,
}

/// A run of a rank's gradient buffer that holds part of a weight's gradient. Ranges are [first, behind the last], in
/// elements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShardRecord {
    pub rank: u64,
    pub stage: u32,
    /// The unit whose buffer it is, in model order.
    pub unit: u32,
    pub buffer: GradientBuffer,
    /// Within the rank's buffer.
    pub elements: [u64; 2],
    /// Within the unit's flat gradient on this tensor and expert rank, shards padded to equal lengths.
    pub flat: [u64; 2],
    /// The smallest range of the flattened weight that holds its elements: just these where it is as long.
    pub span: [u64; 2],
    /// Another rank before it holds the same elements.
    pub is_copy: bool,
}
