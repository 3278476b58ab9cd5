//! Rows of predicted beside measured: memory by rank, space and category; time by rank and cause.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Seconds};

/// The category of rows that sum a rank's others of the same space.
pub const TOTAL: &str = "total";

/// Where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Space {
    Device,
    Host,
}

impl Space {
    /// The name in reports and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Host => "host",
        }
    }
}

/// Bytes of one category of one rank and space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryRow {
    pub rank: u64,
    pub space: Space,
    /// A category, or `total`.
    pub category: String,
    /// At the instant at which the rank holds most of this space.
    pub predicted_bytes: Bytes,
    pub measured_bytes: Bytes,
    /// The category's own peak.
    pub predicted_own_peak_bytes: Bytes,
    pub measured_own_peak_bytes: Bytes,
}

impl MemoryRow {
    /// Measured less predicted, the larger in size of the two pairs.
    pub const fn difference(&self) -> i64 {
        let peak = self.measured_bytes.0 as i64 - self.predicted_bytes.0 as i64;
        let own = self.measured_own_peak_bytes.0 as i64 - self.predicted_own_peak_bytes.0 as i64;
        if own.abs() > peak.abs() { own } else { peak }
    }
}

/// How far one rank's arena is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtentRow {
    pub rank: u64,
    pub space: Space,
    /// The most that is held at once, in aligned sizes, and the arena that holds it.
    pub live_bytes: Bytes,
    pub extent_bytes: Bytes,
    /// Behind the last byte that state or an instruction writes to, by the program.
    pub predicted_bytes: Bytes,
    /// The same, found in the arena behind a step; none where no step was made.
    pub measured_bytes: Option<Bytes>,
}

/// Memory of the whole process that is no file's; where ranks ran on a GPU, all that its driver says is in use on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resident {
    /// What there was before the arenas were taken, and the arenas; none where it is not known.
    pub predicted: Option<Bytes>,
    /// Behind the last step.
    pub measured: Option<Bytes>,
}

/// Seconds of one cause of one rank's step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimeRow {
    pub rank: u64,
    /// As in a plan's `time_s`.
    pub cause: String,
    pub predicted_s: Seconds,
    /// In the median step; none where no step was made, and in a slice of what depends on communication.
    pub measured_s: Option<Seconds>,
}
