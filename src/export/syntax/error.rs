//! Why a text cannot be read as the syntax that it should have.

use thiserror::Error;

/// What is wrong, and in which line, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SyntaxError {
    #[error("line {line}: {reason}")]
    Malformed { line: usize, reason: String },
    #[error("line {line}: it is nested deeper than {deepest}")]
    TooDeep { line: usize, deepest: usize },
    #[error("line {line}: `{path}` is in line {first} too")]
    Twice { line: usize, path: String, first: usize },
}

impl SyntaxError {
    /// The line at fault.
    pub const fn line(&self) -> usize {
        match self {
            Self::Malformed { line, .. } | Self::TooDeep { line, .. } | Self::Twice { line, .. } => *line,
        }
    }

    /// A mistake at byte `at` of `text`.
    pub(super) fn at(text: &str, at: usize, reason: impl Into<String>) -> Self {
        Self::Malformed { line: super::line_of(text, at), reason: reason.into() }
    }
}
