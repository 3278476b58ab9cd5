//! What can go wrong between a source and its result, in words.

use std::fmt;

/// An error of compilation, of translation or of a launch. It says where, for a person to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(pub String);

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Fault {}

/// Lets a case that returns `Result<(), String>` use `?`.
impl From<Fault> for String {
    fn from(fault: Fault) -> String {
        fault.0
    }
}

pub(crate) fn fault<T>(text: impl Into<String>) -> Result<T, Fault> {
    Err(Fault(text.into()))
}
