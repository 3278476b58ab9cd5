//! Why nothing can be fitted.

use thiserror::Error;

/// A fit that cannot begin, or that ends in no numbers.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum FitError {
    #[error("{kind} `{name}` is unknown; nearest: {}", nearest.join(", "))]
    Unknown { kind: &'static str, name: String, nearest: Vec<String> },
    #[error("no parameter of {selection} is fitted")]
    NoParameters { selection: String },
    #[error("no run of {selection} can be fitted to")]
    NoRuns { selection: String },
    #[error("parameter `{parameter}`: {reason}")]
    Parameter { parameter: String, reason: String },
    #[error("`{file}` {reason}")]
    File { file: String, reason: String },
    #[error("a prediction at the start is no number")]
    NotANumber,
}
