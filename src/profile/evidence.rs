//! A number together with where it comes from.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a number came about, from the most to the least binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// Measured on such a device, by us or by the named source.
    Measured,
    /// Fitted to published or own runs.
    Fitted,
    /// The vendor's figure.
    Datasheet,
    /// Our judgement, until something better is there.
    Estimate,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Measured => "measured",
            Self::Fitted => "fitted",
            Self::Datasheet => "datasheet",
            Self::Estimate => "estimate",
        })
    }
}

/// A value, its kind of evidence and its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sourced<T> {
    pub value: T,
    pub kind: Evidence,
    /// Who says so: a datasheet, a paper, a run; for estimates, what they rest on.
    pub source: String,
}
